import GatewayCore
import Testing

@Suite("Parameters from files", .timeLimit(.minutes(5)))
struct FileParameterTests {
    private typealias Unreadable = TokenTransportFailure.UnreadableFile

    private static func request() throws -> TokenRequest {
        let url = try AuthorityURL("https://id.example.com/token")
        var request = TokenRequest(url: url, body: .form([TokenRequest.Parameter("client_id", "app")]))
        request.fileParameters = [TokenRequest.FileParameter("client_assertion", path: "/run/token")]
        return request
    }

    @Test(arguments: ["a.b.c", "a.b.c\n", "a.b.c\r\n"])
    func theValueIsAddedToTheForm(_ content: String) throws {
        let filled = try Self.request().filled { path in
            #expect(path == "/run/token")
            return .success(Array(content.utf8))
        }
        let expected = [
            TokenRequest.Parameter("client_id", "app"), TokenRequest.Parameter("client_assertion", "a.b.c"),
        ]
        #expect(filled.body == .form(expected))
        #expect(filled.fileParameters == [])
    }

    @Test(arguments: ["", "\n", "two words", "a\nb", "\u{E9}"])
    func whatIsNoTokenIsRefused(_ content: String) throws {
        let failure = #expect(throws: TokenTransportFailure.self) {
            try Self.request().filled { _ in .success(Array(content.utf8)) }
        }
        #expect(failure?.reason == .unreadableFile)
        #expect(failure?.mayHaveBeenProcessed == false)
        #expect(failure?.file == "/run/token: it does not hold one token in visible ASCII")
    }

    @Test func aFileThatCannotBeReadIsNamed() throws {
        let failure = #expect(throws: TokenTransportFailure.self) {
            try Self.request().filled { _ in .failure(Unreadable("no such file")) }
        }
        #expect(failure?.file == "/run/token: no such file")
    }
}
