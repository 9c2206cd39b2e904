import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Testing

@testable import GatewayApp

@Suite("Assertions are read for each token request", .timeLimit(.minutes(5)))
struct AssertionEndpointTests {
    private static func request(_ sources: AssertionSource...) throws -> TokenRequest {
        var request = TokenRequest(url: try AuthorityURL("https://id.example.com/token"), body: .form([]))
        request.issuedParameters = sources.map { TokenRequest.IssuedParameter("assertion", from: $0) }
        return request
    }

    private static func gitHub() throws -> AssertionSource {
        .service(
            try AssertionService(
                key: "runner",
                base: "https://runner.example/id",
                audience: "a",
                token: Secret("runner"),
                advice: "the job may have ended"
            )
        )
    }

    @Test func theRunnerIsAskedBeforeTheAuthority() async throws {
        let authority = ScriptedTokenEndpoint([.json(#"{"value":"a.b.c"}"#), .token("one")])
        let endpoint = AssertionEndpoint(endpoint: authority)
        let answer = await endpoint.send(try Self.request(Self.gitHub()), deadline: .seconds(10))
        #expect(try answer.get().status == 200)
        #expect(
            authority.requests.map(\.url.text) == [
                "https://runner.example/id?audience=a", "https://id.example.com/token",
            ]
        )
        #expect(authority.requests.last?.body == .form([TokenRequest.Parameter("assertion", "a.b.c")]))
        // Both share one deadline.
        #expect(authority.deadlines.allSatisfy { $0 <= .seconds(10) })
    }

    @Test func withoutAnAssertionTheAuthorityIsNotAsked() async throws {
        let authority = ScriptedTokenEndpoint([.failure(TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: true))])
        let endpoint = AssertionEndpoint(endpoint: authority)
        let source = try Self.gitHub()
        let answer = await endpoint.send(try Self.request(source), deadline: .seconds(10))
        #expect(answer == .failure(TokenTransportFailure(source.missing("no answer came (tls_failed)"))))
        #expect(authority.requests.count == 1)
    }

    @Test func aFileThatIsNotThereIsNamed() async throws {
        let authority = ScriptedTokenEndpoint([.token("one")])
        let endpoint = AssertionEndpoint(endpoint: authority)
        let source = AssertionSource.file("/nowhere/token")
        let answer = await endpoint.send(try Self.request(source), deadline: .seconds(10))
        guard case .failure(let failure) = answer else { return #expect(Bool(false)) }
        #expect(failure.reason == .missingAssertion)
        #expect(!failure.mayHaveBeenProcessed)
        #expect(failure.missingAssertion == source.missing("no such file"))
        #expect(authority.requests.isEmpty)
    }
}
