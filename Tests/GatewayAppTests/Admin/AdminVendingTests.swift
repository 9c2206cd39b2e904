import GatewayHTTP
import NIOHTTP1
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayTokens

@Suite("Tokens for clients on the admin listener", .timeLimit(.minutes(5)))
struct AdminVendingTests {
    private static let adminToken = "d0c0ffee"
    private let vending = ScriptedVending()

    @Test(arguments: [
        ("Authorization", "Bearer widget-token"), ("Authorization", "bearer widget-token"),
        ("Authorization", "Basic dTp3aWRnZXQtdG9rZW4="), ("Proxy-Authorization", "Basic dTp3aWRnZXQtdG9rZW4="),
        ("Authorization", "widget-token"),
    ])
    func aClientProvesItselfAsOnTheDataPlane(_ field: (String, String)) async throws {
        try await serving { port in
            let answer = try await ask("/tokens/box-service", port, [field])
            #expect(answer.status == .ok)
            #expect(vending.asked == ["box-service: widget-token"])
        }
    }

    @Test func theAnswerIsThatOfATokenEndpoint() async throws {
        try await serving { port in
            let answer = try await ask("/tokens/box-service", port, [("Authorization", "Bearer widget-token")])
            let body = try #require(JSONValue(Array(answer.text.utf8)))
            #expect(body["access_token"]?.string == "vended-token")
            #expect(body["token_type"]?.string == "Bearer")
            #expect(body["expires_in"] == .number(3599))
            #expect(body["expires_at"]?.string == "2026-01-02T03:04:05.000Z")
            #expect(answer.fields["Cache-Control"] == ["no-store"])
            #expect(answer.fields["Pragma"] == ["no-cache"])
        }
    }

    @Test func theFieldsThatNameASubjectAreHandedOn() async throws {
        try await serving { port in
            let fields = [("Authorization", "Bearer widget-token"), ("x-box-user", "ada"), ("X-Box-User", "bob")]
            let answer = try await ask("/tokens/app-user", port, fields)
            #expect(answer.status == .ok)
            #expect(vending.asked == ["app-user: widget-token for ada for bob"])
        }
    }

    @Test func whoIsNobodyIsAskedForAClientToken() async throws {
        try await serving { port in
            let nobody = try await ask("/tokens/box-service", port, [])
            #expect(nobody.status == .unauthorized)
            #expect(nobody.fields["WWW-Authenticate"] == ["Bearer realm=\"authgateway\""])
            #expect(nobody.fields["Content-Type"] == ["application/problem+json"])
            let wrong = try await ask("/tokens/box-service", port, [("Authorization", "Bearer wrong")])
            #expect(wrong.status == .unauthorized)
            #expect(wrong.fields["WWW-Authenticate"] == ["Bearer realm=\"authgateway\", error=\"invalid_token\""])
        }
    }

    @Test func theAdminTokenIsNoClients() async throws {
        vending.accept(Self.adminToken)
        try await serving { port in
            for name in ["Authorization", "Proxy-Authorization"] {
                let answer = try await ask("/tokens/box-service", port, [(name, "Bearer \(Self.adminToken)")])
                #expect(answer.status == .unauthorized)
            }
            #expect(vending.asked == [])
        }
    }

    @Test func aLinkAndAnotherSiteGetNothing() async throws {
        try await serving { port in
            let client = ("Authorization", "Bearer widget-token")
            #expect(try await ask("/tokens/box-service", port, [client], method: .GET).status == .notFound)
            for field in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")] {
                #expect(try await ask("/tokens/box-service", port, [client, field]).status == .forbidden)
            }
            let rebound = try await ask("/tokens/box-service", port, [client, ("Host", "evil.example")])
            #expect(rebound.status == .misdirectedRequest)
            #expect(vending.asked == [])
        }
    }

    // MARK: The listener

    private func serving(_ body: (Int) async throws -> Void) async throws {
        let options = AdminOptions(
            control: ScriptedControl(),
            vending: vending,
            token: Secret(Self.adminToken),
            metrics: { "" },
            now: { UnixTime(seconds: 0) }
        )
        try await withAdminServer(options, body)
    }

    private func ask(
        _ path: String,
        _ port: Int,
        _ fields: [(String, String)],
        method: HTTPMethod = .POST
    ) async throws -> AdminAnswer {
        try await askAdmin(method, path, port, fields: fields)
    }
}

/// Knows the tokens of a test, and remembers who asked for what.
private final class ScriptedVending: VendingControl {
    private struct State {
        var known: Set<String> = ["widget-token"]
        var asked: [String] = []
    }

    private let state = Mutex(State())

    var asked: [String] { state.withLock { $0.asked } }

    func accept(_ token: String) { state.withLock { _ = $0.known.insert(token) } }

    func vend(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: @Sendable (_ field: String) -> [String]
    ) async -> Result<VendedToken, GatewayProblem> {
        let texts = tokens.map { String(decoding: $0, as: UTF8.self) }
        let token = state.withLock { state -> String? in
            let token = texts.first(where: state.known.contains)
            let named = subjects("X-Box-User").map { " for \($0)" }.joined()
            if let token { state.asked.append("\(credential): \(token)\(named)") }
            return token
        }
        guard token != nil else {
            let cause = texts.isEmpty ? nil : GatewayProblem.Cause(code: "invalid_token")
            return .failure(GatewayProblem(.clientAuthRequired, "Who are you?", cause: cause))
        }
        return .success(
            VendedToken(
                access: Secret("vended-token"),
                type: "Bearer",
                expiresIn: 3599,
                expiresAt: UnixTime(rfc3339: "2026-01-02T03:04:05Z")
            )
        )
    }
}
