import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

/// What a proxy that runs says of described requests.
@Suite("Judged requests", .timeLimit(.minutes(5)))
struct RequestJudgeTests {
    private static let credential = CapturedCredential(name: "me", key: CredentialKey(digest: "k"))
    private static let phantom = "agp_a_" + String(repeating: "0a", count: 32)

    private final class Captures: CaptureControl {
        func admits(_ phantom: [UInt8], of client: String?, to credential: CapturedCredential) -> Bool {
            phantom.elementsEqual(RequestJudgeTests.phantom.utf8)
        }

        func answer(_ message: CapturedMessage, _ done: @escaping @Sendable (OAuthAnswer) -> Void) {
            Issue.record("An explanation exchanges nothing.")
            done(CaptureRefusal.busy.answer)
        }
    }

    /// - Parameter arguments: Of curl, before the URL.
    private func explain(
        _ arguments: String,
        _ path: String,
        source: (any CredentialSource)? = nil,
        route: (inout RoutePlan) -> Void = { _ in },
        adjust: (inout ProxyConfiguration) -> Void = { _ in }
    ) async throws -> Explanation {
        let proxy = try await ProxyFixture(upstreamPort: 9, source: source, route: route, adjust: adjust)
        var judgement: RequestJudgement?
        if case .request(let request) = try ExplainInput("curl \(arguments) http://localhost:\(proxy.port)\(path)") {
            judgement = await proxy.server.judge(request, as: nil)
        }
        await proxy.stop()
        let found = try #require(judgement)
        return Explanation(found, status: nil, source: .gateway, at: UnixTime(seconds: 1_800_000_000))
    }

    @Test(arguments: [
        (
            "/api/o/token",
            "Would be answered by the gateway in place of the authorization server (credential me, capture)."
        ),
        ("/api/o/other", "Would be forwarded to http://127.0.0.1:9/o/other without a credential."),
    ])
    func aCapturedLoginIsNotForwarded(_ path: String, _ verdict: String) async throws {
        let endpoint = AuthorityEndpoint(try AuthorityURL("http://127.0.0.1/o/token"))
        let point = CapturePoint(credential: Self.credential, kind: .token, endpoint: endpoint)
        let explanation = try await explain(
            "-d code=c",
            path,
            adjust: { configuration in
                configuration.captures = Captures()
                configuration.routes[0].capturePoints = [point]
            }
        )
        #expect(explanation.verdict == verdict)
        #expect((explanation.outcome == .answered) == (explanation.departure == nil))
    }

    @Test(arguments: [
        (
            "-H 'Authorization: Bearer \(phantom)'",
            "Would be forwarded to http://127.0.0.1:9/x with credential scripted."
        ),
        ("", "Would be refused: 401 client-auth-required: "),
        ("-H 'X-Token: \(phantom)' -H 'Authorization: Bearer \(phantom)'", "Would be refused: 403 route-forbidden: "),
    ])
    func aPhantomOpensItsRouteAlone(_ arguments: String, _ verdict: String) async throws {
        let explanation = try await explain(
            arguments,
            "/api/x",
            source: ScriptedSource(),
            adjust: { configuration in
                configuration.captures = Captures()
                configuration.routes[0].captured = Self.credential
            }
        )
        #expect(explanation.verdict.hasPrefix(verdict), "\(explanation.verdict)")
        #expect(!explanation.text().contains(Self.phantom))
    }

    @Test(arguments: [("search", Explanation.Outcome.forwarded), ("delete", .refused)])
    func aCallInTheBodyIsJudged(_ tool: String, _ outcome: Explanation.Outcome) async throws {
        let call = #"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\#(tool)"}}"#
        let pattern = try #require(ToolRule.NamePattern("search"))
        let rule = RoutePlan.Allow(methods: [], path: PathPattern.all, tools: ToolRule(tools: [pattern]))
        let arguments = "-H 'Content-Type: application/json' -d '\(call)'"
        let explanation = try await explain(arguments, "/api/mcp", route: { $0.allow = [rule] })
        #expect(explanation.outcome == outcome, "\(explanation.verdict)")
        #expect(explanation.verdict.contains("does not allow the tool \"\(tool)\"") == (outcome == .refused))
        #expect(explanation.steps.contains { !$0.passes } == (outcome == .refused))
    }
}
