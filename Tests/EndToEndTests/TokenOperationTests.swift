import Foundation
import GatewayHTTP
import GatewayProxy
import GatewaySandbox
import NIOHTTP1
import Testing

@testable import GatewayApp

/// What operators do with tokens, through the admin listener and the commands, against the sandbox's authorities.
@Suite("Token operations", .timeLimit(.minutes(5)))
struct TokenOperationTests {
    @Test func aRevokedBoxTokenIsDeadAndTheNextRequestGetsANewOne() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/box/2.0/users/me").status == 200)
                let before = try #require(try await gateway.operate("reveal", "service").json?["access_token"]?.string)
                let answer = try await gateway.operate("revoke", "service")
                #expect(answer.status == 200, "\(answer.text)")
                #expect(answer.json?["token"]?["state"]?.string == "empty")
                #expect(try await bench.me(before) == 401)
                #expect(try await gateway.get("/box/2.0/users/me").status == 200)
                #expect(try await bench.tokenCalls() == 2)
                _ = try await gateway.events(including: "revoked", "revealed")
            }
        }
    }

    @Test func aRevokedDeveloperTokenStaysDeadOverARestartUntilANewOneIsImported() async throws {
        try await Bench.run { (bench: Bench) async throws in
            let configuration = Configurations.developerToken
            try await bench.withGateway(configuration) { (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/dev/2.0/users/me").status == 200)
                #expect(try await gateway.operate("revoke", "devbox").status == 200)
                #expect(try await gateway.get("/dev/2.0/users/me").status == 503)
                // Once more is nothing to do.
                #expect(try await gateway.operate("revoke", "devbox").status == 200)
            }
            try await bench.withGateway(configuration) { (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/dev/2.0/users/me").status == 503)
                let rejected = try await bench.state()["rejected_401"]?["box"]
                #expect(rejected == .number(0), "a token that is known to be dead is not sent")
                let token = try #require(bench.sandbox.environment["SANDBOX_UPSTREAM_TOKEN"])
                let answer = try await gateway.operate("import", "devbox", body: token)
                #expect(answer.status == 200, "\(answer.text)")
                guard case .number(let remaining)? = answer.json?["token"]?["remaining_seconds"] else {
                    Issue.record("a developer token has its hour: \(answer.text)")
                    return
                }
                #expect(remaining.value > 3500)
            }
        }
    }

    @Test func withoutItsAppADeveloperTokenCannotBeRevoked() async throws {
        try await Bench.run { (bench: Bench) async throws in
            let configuration = """
                credentials:
                  devbox: {strategy: box_developer_token, token: {env: SANDBOX_BOX_DEVELOPER_TOKEN}}
                routes:
                  dev: {upstream: "${SANDBOX_BOX_URL}", auth: devbox}
                """
            try await bench.withGateway(configuration) { (gateway: RunningGateway) async throws in
                let answer = try await gateway.operate("revoke", "devbox")
                #expect(answer.status == 400)
                #expect(answer.text.contains("client_id and client_secret"))
                #expect(try await gateway.get("/dev/2.0/users/me").status == 200)
            }
        }
    }

    @Test(arguments: [true, false])
    func aDukeSessionIsOverWhateverTheAuthorizerSays(isUp: Bool) async throws {
        try await Bench.run { (bench: Bench) async throws in
            var configuration = Configurations.campusCredential
            if !isUp { configuration = configuration.replacing("${SANDBOX_DUKE_URL}\n", with: "http://127.0.0.1:1\n") }
            try await bench.withGateway(configuration) { [configuration] (gateway: RunningGateway) async throws in
                if isUp { #expect(try await gateway.get("/campus/api/me").status == 200) }
                let answer = try await gateway.operate("revoke", "campus")
                #expect(answer.status == (isUp ? 200 : 502), "\(configuration) \(answer.text)")
                let shown = try await gateway.admin(.GET, "/api/tokens/campus")
                #expect(shown.json?["state"]?.string == "login_required")
                #expect(try await gateway.get("/campus/api/me").status == 503)
                if isUp {
                    let session = try #require(bench.sandbox.environment["SANDBOX_DUKE_SESSION_TOKEN"])
                    #expect(try await bench.refreshDuke(session) == 400, "the authorizer has forgotten it")
                }
                _ = try await gateway.events(including: isUp ? "revoked" : "revocation_failed")
            }
        }
    }

    @Test func aLockOutlivesTheGatewayAndHoldsForWhoeverSharesTheToken() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/box/2.0/users/me").status == 200)
                #expect(try await gateway.operate("lock", "twin").status == 200)
                #expect(try await gateway.get("/box/2.0/users/me").status == 503)
            }
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                let refused = try await gateway.get("/third/2.0/users/me")
                #expect(refused.status == 503)
                #expect(refused.json?["code"]?.string == "locked")
                #expect(try await gateway.get("/user/2.0/users/me").status == 200, "another subject is another token")
                #expect(try await gateway.operate("unlock", "service").status == 200)
                #expect(try await gateway.get("/third/2.0/users/me").status == 200)
            }
            try await bench.withGateway(Configurations.twoRoutesOneCredential) {
                (gateway: RunningGateway) async throws in
                #expect(try await gateway.get("/box/2.0/users/me").status == 200)
            }
        }
    }

    @Test func clearingTakesTheConfiguredTokensUpAgain() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.developerToken) { (gateway: RunningGateway) async throws in
                let good = try #require(bench.sandbox.environment["SANDBOX_BOX_DEVELOPER_TOKEN"])
                #expect(try await gateway.operate("import", "devbox", body: "no-such-token").status == 200)
                #expect(try await gateway.get("/dev/2.0/users/me").status == 401)
                #expect(try await gateway.operate("clear", "devbox").status == 200)
                #expect(try await gateway.get("/dev/2.0/users/me").status == 200)
                #expect(try await gateway.operate("reveal", "devbox").json?["access_token"]?.string == good)
            }
        }
    }

    @Test func aWrongNameIsToldTheRightOne() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let answer = try await gateway.operate("refresh", "servise")
                #expect(answer.status == 404)
                #expect(answer.text.contains(#"did you mean \"service\"?"#))
                #expect(try await gateway.operate("refresh", "routes.basic").text.contains("is static"))
            }
        }
    }

    @Test func theTokenThatWasShownIsInNoFileOfTheState() async throws {
        try await Bench.run { (bench: Bench) async throws in
            try await bench.withGateway(Configurations.upstream) { (gateway: RunningGateway) async throws in
                let token = try #require(try await gateway.operate("reveal", "service").json?["access_token"]?.string)
                _ = try await gateway.operate(
                    "import",
                    "service",
                    body: #"{"access_token":"CANARY-7d","expires_in":60}"#
                )
                _ = try await gateway.events(including: "revealed", "imported")
                let state = bench.folder.appending(path: "state")
                let files = try FileManager.default.contentsOfDirectory(at: state, includingPropertiesForKeys: nil)
                // The head of the log is written anew, and renamed, at any time.
                for file in files where file.pathExtension != "new" {
                    let content = try Data(contentsOf: file)
                    for secret in [token, "CANARY-7d"] {
                        #expect(content.range(of: Data(secret.utf8)) == nil, "a token is in \(file.lastPathComponent)")
                    }
                }
            }
        }
    }
}

extension RunningGateway {
    func operate(_ verb: String, _ credential: String, body: String? = nil) async throws -> Answer {
        let url = "\(gateway.admin.boundText)/api/tokens/\(credential)/\(verb)"
        return try await send(.POST, url, [("Authorization", "Bearer \(try adminToken)")], body: body)
    }
}

extension Bench {
    fileprivate func me(_ token: String) async throws -> Int {
        try await send(.GET, "\(sandbox.addresses.box)/2.0/users/me", [("Authorization", "Bearer \(token)")]).status
    }

    fileprivate func refreshDuke(_ session: String) async throws -> Int {
        let url = "\(sandbox.addresses.duke)/dukemobile/ios/refresh"
        let access = sandbox.environment["SANDBOX_DUKE_ACCESS_TOKEN"] ?? ""
        return try await send(.POST, url, [("X-Access-Token", access), ("X-Session-Token", session)]).status
    }
}

extension Configurations {
    fileprivate static let developerToken = """
        credentials:
          devbox:
            strategy: box_developer_token
            token: {env: SANDBOX_BOX_DEVELOPER_TOKEN}
            client_id: ${SANDBOX_BOX_CLIENT_ID}
            client_secret: {env: SANDBOX_BOX_CLIENT_SECRET}
            revoke_url: ${SANDBOX_BOX_URL}/oauth2/revoke
        routes:
          dev: {upstream: "${SANDBOX_BOX_URL}", auth: devbox}
        """

    fileprivate static let campusCredential = """
        credentials:
          campus:
            strategy: duke_session
            client_name: ${SANDBOX_DUKE_CLIENT}
            base_url: ${SANDBOX_DUKE_URL}
            access_token: {env: SANDBOX_DUKE_ACCESS_TOKEN}
            session_token: {env: SANDBOX_DUKE_SESSION_TOKEN}
        routes:
          campus: {upstream: "${SANDBOX_DUKE_URL}", auth: campus}
        """
}
