import Testing

@testable import GatewayFiles

@Suite("Text of a database server", .timeLimit(.minutes(1)))
struct ServerTextTests {
    @Test func itIsOneLineWithoutTheSecret() {
        #expect(ServerText.clean(" a\n\tb\u{1B}[2J hunter2x ", hiding: "hunter2") == "a b [2J ‹hidden›x")
    }

    @Test func itIsCut() {
        let longest = String(repeating: "w ", count: ServerText.limit / 2 - 1) + "ww"
        #expect(ServerText.clean(longest, hiding: nil) == longest)
        #expect(ServerText.clean(longest + "w", hiding: nil) == longest)
        #expect(ServerText.clean(String(repeating: "w", count: 1000), hiding: nil).count == ServerText.limit)
    }

    /// Half of a secret would not be recognized.
    @Test func aSecretThatWouldBeCutIsHidden() {
        let text = String(repeating: "w", count: ServerText.limit - 3) + "hunter2"
        #expect(!ServerText.clean(text, hiding: "hunter2").contains("hun"))
    }
}
