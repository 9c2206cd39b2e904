import GatewayHTTP
import Testing

@testable import GatewayTokens

@Suite("Assertions that others issue", .timeLimit(.minutes(5)))
struct AssertionSourceTests {
    private static let file = AssertionSource.file("/run/token")

    private static func service(_ base: String = "https://runner.example/id?api-version=2.0") throws -> AssertionSource
    {
        .service(
            try AssertionService(
                key: "runner",
                base: base,
                audience: "api://Exchange",
                token: Secret("runner-canary"),
                advice: "the job may have ended"
            )
        )
    }

    @Test func theValuesFollowTheParametersOfTheForm() throws {
        let url = try AuthorityURL("https://id.example.com/token")
        var request = TokenRequest(url: url, body: .form([TokenRequest.Parameter("client_id", "app")]))
        request.issuedParameters = [
            TokenRequest.IssuedParameter("client_assertion", from: Self.file),
            TokenRequest.IssuedParameter("subject_token", from: Self.file),
        ]
        let filled = request.filled(with: [Secret("a"), Secret("b")])
        let expected = [
            TokenRequest.Parameter("client_id", "app"), TokenRequest.Parameter("client_assertion", "a"),
            TokenRequest.Parameter("subject_token", "b"),
        ]
        #expect(filled.body == .form(expected))
        #expect(filled.issuedParameters == [])
    }

    @Test(arguments: ["a.b.c", "a.b.c\n", "a.b.c\r\n"])
    func aLineBreakAtTheEndBelongsToTheFile(_ content: String) throws {
        #expect(try Self.file.assertion(in: Array(content.utf8)) == Secret("a.b.c"))
    }

    @Test(arguments: ["", "\n", "two words", "a\nb", "\u{E9}"])
    func aFileHoldsOneToken(_ content: String) {
        let missing = #expect(throws: MissingAssertion.self) { try Self.file.assertion(in: Array(content.utf8)) }
        #expect(missing == Self.file.missing("it does not contain exactly one token in visible ASCII"))
        #expect(missing?.place == "/run/token")
    }

    @Test(arguments: [
        ("https://runner.example/id?api-version=2.0", "https://runner.example/id?api-version=2.0&"),
        ("https://runner.example/id", "https://runner.example/id?"),
    ])
    func theRunnerIsAskedForAnAudience(_ base: String, _ url: String) throws {
        guard case .service(let service) = try Self.service(base) else { return }
        #expect(service.request.method == .get)
        #expect(service.request.url.text == "\(url)audience=api%3A%2F%2FExchange")
        let fields = service.request.fields.map { field in "\(field.name): \(field.value.withValue(\.self))" }
        #expect(fields == ["Accept: application/json", "Authorization: Bearer runner-canary"])
    }

    @Test(arguments: ["http://runner.example/id", "runner", "https://u:p@runner.example/"])
    func theRunnerIsAskedOverTLS(_ base: String) {
        #expect(throws: AuthorityURL.Refusal.self) { try Self.service(base) }
    }

    @Test func theAnswerHasTheAssertion() throws {
        let reply = TokenReply(status: 200, body: Array(#"{"count":1,"value":"a.b.c"}"#.utf8))
        #expect(try Self.service().assertion(in: reply) == Secret("a.b.c"))
    }

    @Test(
        arguments: [
            (401, "{}", "it responded with status 401; the job may have ended"),
            (302, #"{"value":"a.b.c"}"#, "it responded with status 302"),
            (200, "no JSON", "its response has no token in \"value\""),
            (200, #"{"value":""}"#, "its response has no token in \"value\""),
            (200, #"{"value":"canary two"}"#, "its response has no token in \"value\""),
        ]
    )
    func anyOtherAnswerIsExplainedAndNotRepeated(_ status: Int, _ body: String, _ reason: String) throws {
        let source = try Self.service()
        let missing = #expect(throws: MissingAssertion.self) {
            try source.assertion(in: TokenReply(status: status, body: Array(body.utf8)))
        }
        #expect(missing?.reason == reason)
        #expect(missing?.place == "https://runner.example/id")
    }
}
