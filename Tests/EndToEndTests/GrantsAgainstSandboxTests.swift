import Foundation
import GatewayConfiguration
import GatewayHTTP
import GatewaySandbox
import GatewayStrategies
import GatewayTesting
import GatewayTokenClient
import GatewayTokens
import Logging
import Testing

@testable import GatewayApp

/// Grants and the token client against the authorities of the sandbox: what one side writes, the other understands.
@Suite("Grants against the sandbox", .timeLimit(.minutes(5)))
struct GrantsAgainstSandboxTests {
    private func withSandbox(_ body: (Sandbox, Bench) async throws -> Void) async throws {
        let sandbox = try await Sandbox.start(logger: Logger(label: "sandbox") { _ in SwiftLogNoOpLogHandler() })
        let endpoint = OutgoingHTTP(version: "test")
        let outcome: Result<Void, any Error>
        do {
            outcome = .success(try await body(sandbox, Bench(endpoint: endpoint)))
        } catch {
            outcome = .failure(error)
        }
        await sandbox.stop()
        try outcome.get()
    }

    /// Sends what a grant asks for and lets it read the answer.
    private struct Bench {
        let endpoint: OutgoingHTTP
        var now = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 1_772_357_400))

        func grant(
            _ kind: String,
            _ block: FixtureNode,
            secrets: any SecretSource = FixtureSecrets()
        ) throws -> any TokenGrant {
            let fields = ConfigFields.fixture(block, secrets: secrets)
            let strategy = try #require(StrategyCatalog.builtIn.strategy(named: kind)?.init(from: fields))
            #expect(fields.problems == [])
            guard case .token(let grant) = strategy.behavior else { throw Unexpected() }
            return grant
        }

        func renew(_ grant: any TokenGrant, holding token: TokenSet? = nil) async throws -> Result<
            TokenSet, TokenFailure
        > {
            guard case .request(let request) = grant.firstStep(holding: token, at: now) else { throw Unexpected() }
            let reply = try await endpoint.send(request, deadline: .seconds(20)).get()
            return grant.interpret(reply, holding: token, at: now)
        }
    }

    private struct Unexpected: Error {}

    private func box(_ sandbox: Sandbox, id: String, secret: String, subject: FixtureNode) -> FixtureNode {
        [
            "token_url": "\(sandbox.addresses.box)/oauth2/token", "client_id": "\(id)", "client_secret": "\(secret)",
            "subject": subject,
        ]
    }

    @Test(arguments: [
        ("sandbox-box-client", "sandbox-box-secret", "enterprise", "1000001"),
        ("sandbox-box-client", "sandbox-box-secret", "user", "2000001"),
        ("odd-client", "o+d &s=e%cret/é", "enterprise", "1000001"),
    ])
    func boxGivesATokenAndTakesItBack(_ id: String, _ secret: String, _ subject: String, _ subjectID: String)
        async throws
    {
        try await withSandbox { sandbox, bench in
            let grant = try bench.grant(
                "box_ccg",
                box(sandbox, id: id, secret: secret, subject: ["\(subject)": "\(subjectID)"])
            )
            let token = try await bench.renew(grant).get()
            #expect(token.lifetime == .seconds(3600))
            let revocation = try #require(grant.revocation(of: token))
            #expect(try await bench.endpoint.send(revocation, deadline: .seconds(20)).get().status == 200)
        }
    }

    @Test(arguments: [
        ("sandbox-box-client", "wrong", "enterprise", "1000001"),
        ("sandbox-box-client", "sandbox-box-secret", "user", "1"),
        ("sandbox-box-client", "sandbox-box-secret", "enterprise", "1"),
    ])
    func boxRefusesWithAReason(_ id: String, _ secret: String, _ subject: String, _ subjectID: String) async throws {
        try await withSandbox { sandbox, bench in
            let grant = try bench.grant(
                "box_ccg",
                box(sandbox, id: id, secret: secret, subject: ["\(subject)": "\(subjectID)"])
            )
            guard case .failure(let failure) = try await bench.renew(grant) else { throw Unexpected() }
            #expect(failure.class == .terminal)
            #expect(failure.problem.kind == .credentialMisconfigured)
            #expect(failure.problem.cause?.code.map(OAuthErrorCode.known.contains) == true)
        }
    }

    @Test(arguments: ["RS256", "RS384", "RS512"], ["enterprise", "user"])
    func boxTakesAnAssertion(_ algorithm: String, _ subject: String) async throws {
        try await withSandbox { sandbox, bench in
            var bench = bench
            bench.now.wall = UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
            let grant = try bench.grant(
                "box_jwt",
                [
                    "app_settings": ["env": "SANDBOX_BOX_APP_SETTINGS"], "algorithm": "\(algorithm)",
                    "subject": subject == "user" ? ["user": "2000001"] : ["enterprise": "1000001"],
                    "token_url": "\(sandbox.addresses.box)/oauth2/token",
                ],
                secrets: SystemSecretSource(environment: sandbox.environment)
            )
            let token = try await bench.renew(grant).get()
            #expect(token.lifetime == .seconds(3600))
            let revocation = try #require(grant.revocation(of: token))
            #expect(try await bench.endpoint.send(revocation, deadline: .seconds(20)).get().status == 200)
        }
    }

    @Test(
        arguments: ["body", "basic"],
        [
            ("sandbox-oauth-client", "sandbox-oauth-secret"), ("odd-client", "o+d &s=e%cret/é"),
        ]
    )
    func anOAuthServerTakesBothKindsOfClientAuthentication(
        _ clientAuth: String,
        _ client: (id: String, secret: String)
    ) async throws {
        try await withSandbox { sandbox, bench in
            let grant = try bench.grant(
                "oauth2_client_credentials",
                [
                    "token_url": "\(sandbox.addresses.oauth)/oauth/token", "client_id": "\(client.id)",
                    "client_secret": "\(client.secret)", "client_auth": "\(clientAuth)", "scopes": ["read", "write"],
                ]
            )
            #expect(try await bench.renew(grant).get().lifetime == .seconds(3600))
        }
    }

    @Test(arguments: ["2019", "2022"])
    func bothTokensOfTheAuthorizerRotate(_ style: String) async throws {
        try await withSandbox { sandbox, bench in
            func seed(_ name: String) throws -> FixtureNode { "\(try #require(sandbox.environment[name]))" }
            let grant = try bench.grant(
                "duke_session",
                [
                    "base_url": "\(sandbox.addresses.duke)", "client_name": try seed("SANDBOX_DUKE_CLIENT"),
                    "path_style": "\(style)", "access_token": try seed("SANDBOX_DUKE_ACCESS_TOKEN"),
                    "session_token": try seed("SANDBOX_DUKE_SESSION_TOKEN"),
                ]
            )
            let first = try #require(grant.seed(at: bench.now))
            #expect(first.expiresAt != nil)
            let second = try await bench.renew(grant, holding: first).get()
            #expect(second.access != first.access)
            #expect(second.refreshToken != first.refreshToken)
            let third = try await bench.renew(grant, holding: second).get()
            #expect(third.refreshToken != second.refreshToken)

            // The first pair is spent: the authorizer no longer knows it.
            guard case .failure(let failure) = try await bench.renew(grant, holding: first) else { throw Unexpected() }
            #expect(failure.class == .loginRequired)
            #expect(failure.clearsToken)
        }
    }
}
