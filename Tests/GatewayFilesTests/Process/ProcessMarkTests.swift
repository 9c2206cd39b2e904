import GatewayFiles
import Testing

@Suite("Which process runs", .timeLimit(.minutes(1)))
struct ProcessMarkTests {
    @Test func thisProcessIsAlive() throws {
        let own = try #require(ProcessMark.current)
        #expect(own.isAlive && own == ProcessMark(own.number))
        #expect(!ProcessMark(number: own.number, started: own.started &+ 1).isAlive, "the number was given again")
        #expect(ProcessMark(0) == nil && ProcessMark(-1) == nil && ProcessMark(.max) == nil)
    }

    /// As Linux writes it: proc_pid_stat(5).
    @Test(
        arguments: [
            ("7 (sh) S 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 10", 4242),
            ("7 (a) b) 1 (c) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 10", 4242),
            ("7 (sh) Z 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4242 9 10", nil),
            ("7 (sh) S 1 7 7", nil), ("7 sh S", nil), ("", nil), (")", nil),
        ] as [(String, UInt64?)]
    )
    func theStartIsRead(_ text: String, _ started: UInt64?) {
        #expect(ProcessMark.start(in: Array(text.utf8)) == started)
    }
}
