import Crypto
import Foundation
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayApp
@testable import GatewayTokens

@Suite("Captured logins at the desk", .timeLimit(.minutes(5)))
struct CaptureDeskTests {
    private struct Bench {
        let clock = ManualClock()
        let audit = RecordingAuditLog()
        let endpoint: ScriptedTokenEndpoint
        let keeper: TokenKeeper
        let folder: String
        let store: CaptureStore
        let desk: CaptureDesk
        let credential = CapturedCredential(name: "me", key: CredentialKey(digest: "k"))

        init(_ answer: @escaping @Sendable (TokenRequest, Int) -> ScriptedTokenEndpoint.Answer) throws {
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            self.folder = folder.path
            endpoint = ScriptedTokenEndpoint(always: answer)
            var grant = SampleGrant(rotatesRefreshToken: true)
            grant.login = SampleLogin()
            grant.capture = try SampleCapture()
            let keeper = TokenKeeper(
                KeeperContext(
                    name: "me",
                    strategyKind: "sample",
                    grant: grant,
                    policy: RenewalPolicy(),
                    key: credential.key,
                    store: RecordingTokenStore(),
                    endpoint: endpoint,
                    audit: audit,
                    onAuditFailure: .block,
                    clock: clock,
                    logger: Self.logger
                )
            )
            self.keeper = keeper
            store = CaptureStore(in: folder.path, logger: Self.logger)
            desk = CaptureDesk(
                parts: CaptureDesk.Parts(
                    keeper: { _ in .success(keeper) },
                    store: store,
                    digest: { Array(SHA256.hash(data: [7] + $0)) },
                    audit: audit,
                    onAuditFailure: .block,
                    clock: clock,
                    logger: Self.logger
                )
            )
        }

        static var logger: Logger {
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            return logger
        }

        func ask(
            _ form: String,
            at endpoint: CapturedRequest.Endpoint = .token,
            as client: String? = "a"
        ) async -> (status: Int, body: JSONValue?) {
            let message = CapturedMessage(
                to: credential,
                at: endpoint,
                body: SecretBytes(Array("client_id=sample&\(form)".utf8)),
                authorization: nil,
                demand: CredentialRequest(route: "login", client: client, requestID: "1")
            )
            let answer = await withCheckedContinuation { done in
                desk.answer(message) { done.resume(returning: $0) }
            }
            return (answer.status, JSONValue(answer.body.withValue { Array($0.utf8) }))
        }

        /// - Returns: The phantoms.
        func logIn(as client: String? = "a") async throws -> (access: String, refresh: String) {
            let answer = await ask("grant_type=authorization_code&code=c", as: client)
            guard let access = answer.body?["access_token"]?.string, let refresh = answer.body?["refresh_token"]?.string
            else { throw ConformanceFailure("no login: \(answer.status) \(String(describing: answer.body?["error"]))") }
            return (access, refresh)
        }

        func admits(_ access: String, _ client: String? = "a") -> Bool {
            desk.admits(Array(access.utf8), of: client, to: credential)
        }
    }

    private static func reply(_ json: String, status: Int = 200) -> ScriptedTokenEndpoint.Answer {
        .reply(TokenReply(status: status, body: Array(json.utf8)))
    }

    private static func login(_ subject: String? = nil) -> String {
        let token =
            subject.map { ",\"id_token\":\"h.\(Base64.encodeURL("{\"iss\":\"i\",\"sub\":\"\($0)\"}".utf8)).s\"" } ?? ""
        return
            "{\"access_token\":\"access-of-login\",\"refresh_token\":\"renewal-of-login\",\"expires_in\":3600\(token)}"
    }

    private static func sends(_ value: String, _ request: TokenRequest) -> Bool {
        guard case .form(let form) = request.body else { return false }
        return form.contains { $0.name == "grant_type" && $0.value == Secret(value) }
    }

    private func running(
        _ answer: @escaping @Sendable (TokenRequest, Int) -> ScriptedTokenEndpoint.Answer,
        _ body: @escaping @Sendable (Bench) async throws -> Void
    ) async throws {
        let bench = try Bench(answer)
        defer { try? FileManager.default.removeItem(atPath: bench.folder) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await bench.keeper.run() }
            defer { group.cancelAll() }
            try await body(bench)
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    @Test func aCodeIsExchangedAndTheTokensStay() async throws {
        try await running({ _, _ in Self.reply(Self.login()) }) { bench in
            let phantom = try await bench.logIn()
            #expect(Phantom.isAccess(Array(phantom.access.utf8)) && Phantom.isRefresh(Secret(phantom.refresh)))
            let form: [TokenRequest.Parameter] = [
                .init("grant_type", "authorization_code"), .init("code", "c"),
                .init("client_secret", "of the gateway"),
            ]
            #expect(bench.endpoint.requests.map(\.body) == [.form(form)])
            guard case .ready(let credential) = bench.keeper.current(at: bench.clock.now().monotonic) else {
                Issue.record("no token")
                return
            }
            #expect(credential.injection == .authorization(scheme: "Bearer", Secret("access-of-login")))
            #expect(
                bench.admits(phantom.access) && !bench.admits(phantom.access, "b") && !bench.admits(phantom.refresh)
            )
            for name in [TokenEvent.Name.loginStarted, .phantomsIssued] {
                let event = try #require(bench.audit.last(name))
                #expect(event.strategy == "sample" && event.trigger == .demand && event.demand?.route == "login")
            }
            #expect(bench.audit.last(.loginStarted)?.detail == ["by": "capture"])
            // A start after a kill knows them, by their digests.
            let path = CaptureStore.path(in: bench.folder)
            let text = try String(contentsOfFile: path, encoding: .utf8)
            #expect(!text.contains("agp_") && !text.contains("-of-login"))
            let later = CaptureStore(in: bench.folder, logger: Bench.logger)
            let digest = Array(SHA256.hash(data: Array(phantom.access.utf8)))
            let isKnown = later.read { $0.admits(digest, of: "a", to: bench.credential.key) }
            #expect(isKnown)
        }
    }

    @Test func refreshesAtOnceAreOneRenewal() async throws {
        let answer = { @Sendable (request: TokenRequest, _: Int) in
            Self.sends("refresh_token", request)
                ? Self.reply(#"{"access_token":"second","refresh_token":"next","expires_in":3600}"#)
                : Self.reply(Self.login())
        }
        try await running(answer) { bench in
            let phantom = try await bench.logIn()
            bench.clock.advance(by: .seconds(3590))
            let answers = await withTaskGroup(of: JSONValue?.self) { group in
                for _ in 0..<5 {
                    group.addTask { await bench.ask("grant_type=refresh_token&refresh_token=\(phantom.refresh)").body }
                }
                var all: [JSONValue?] = []
                for await answer in group { all.append(answer) }
                return all
            }
            #expect(answers.allSatisfy { $0?["access_token"]?.string == phantom.access })
            #expect(answers.allSatisfy { $0?["refresh_token"]?.string == phantom.refresh })
            #expect(bench.endpoint.requests.count { Self.sends("refresh_token", $0) } == 1)
        }
    }

    @Test func whatIsNoPhantomIsNotForwarded() async throws {
        try await running({ _, _ in Self.reply(Self.login()) }) { bench in
            let phantom = try await bench.logIn()
            for token in ["real", phantom.access, "agp_r_" + String(repeating: "0", count: 64)] {
                let answer = await bench.ask("grant_type=refresh_token&refresh_token=\(token)")
                #expect(answer.status == 400 && answer.body?["error"]?.string == "invalid_grant")
            }
            let other = await bench.ask("grant_type=refresh_token&refresh_token=\(phantom.refresh)", as: "b")
            #expect(other.body?["error"]?.string == "invalid_grant")
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func anotherAccountIsRefused() async throws {
        let answer = { @Sendable (_: TokenRequest, count: Int) in Self.reply(Self.login(count == 1 ? "ada" : "eve")) }
        try await running(answer) { bench in
            let phantom = try await bench.logIn()
            let generation = bench.keeper.status(at: bench.clock.now()).generation
            let refused = await bench.ask("grant_type=authorization_code&code=d", as: "b")
            #expect(refused.body?["error"]?.string == "invalid_grant")
            #expect(bench.keeper.status(at: bench.clock.now()).generation == generation)
            #expect(bench.audit.last(.loginFailed)?.detail["reason"] == "other_account")
            #expect(bench.admits(phantom.access))
        }
    }

    @Test func theServersRefusalIsTheClients() async throws {
        let reply = #"{"error":"invalid_grant","error_description":"It was used before."}"#
        try await running({ _, _ in Self.reply(reply, status: 400) }) { bench in
            let answer = await bench.ask("grant_type=authorization_code&code=old")
            #expect(answer.status == 400 && answer.body?["error"]?.string == "invalid_grant")
            let failed = try #require(bench.audit.last(.loginFailed))
            #expect(failed.errorCode == "invalid_grant" && failed.httpStatus == 400 && failed.strategy == "sample")
            #expect(failed.trigger == .demand && failed.demand?.client == "a")
            let detail = [
                "by": "capture", "reason": "exchange_refused", "authority_code": "invalid_grant",
                "authority_description": "It was used before.", "authority_format": "oauth",
            ]
            #expect(failed.detail == detail)
            // The next one may be exchanged.
            let again = await bench.ask("grant_type=authorization_code&code=old", as: "b")
            #expect(again.body?["error"]?.string == "invalid_grant")
        }
    }

    @Test func revokingAndEndingTakeThePhantoms() async throws {
        try await running({ _, _ in Self.reply(Self.login("ada")) }) { bench in
            let (first, second) = (try await bench.logIn(), try await bench.logIn(as: "b"))
            let foreign = await bench.ask("token=\(first.refresh)", at: .revocation, as: "b")
            #expect(foreign.status == 200 && bench.admits(first.access))
            _ = await bench.ask("token=\(first.refresh)", at: .revocation)
            #expect(!bench.admits(first.access) && bench.admits(second.access, "b"))
            #expect(bench.audit.count(of: .phantomsRevoked) == 1)
            await bench.store.end([bench.credential.key])
            #expect(!bench.admits(second.access, "b"))
            let refused = await bench.ask("grant_type=refresh_token&refresh_token=\(second.refresh)", as: "b")
            #expect(refused.body?["error"]?.string == "invalid_grant")
        }
    }

    @Test func whatCannotBeRecordedIsNotExchanged() async throws {
        try await running({ _, _ in Self.reply(Self.login()) }) { bench in
            bench.audit.fail { $0.name == .loginStarted }
            let answer = await bench.ask("grant_type=authorization_code&code=c")
            #expect(answer.status == 503 && answer.body?["error"]?.string == "temporarily_unavailable")
            #expect(bench.endpoint.requests.isEmpty)
        }
    }

    @Test func aClientThatSendsTooManyCodesIsToldSo() async throws {
        try await running({ _, _ in Self.reply(#"{"error":"invalid_grant"}"#, status: 400) }) { bench in
            for _ in 0..<VendingLimits.burst { _ = await bench.ask("grant_type=authorization_code&code=x") }
            let answer = await bench.ask("grant_type=authorization_code&code=x")
            #expect(answer.body?["error"]?.string == "temporarily_unavailable")
            #expect(answer.body?["error_description"]?.string?.contains("too many authorization codes") == true)
            #expect(bench.endpoint.requests.count == VendingLimits.burst)
        }
    }

    @Test func loginsOfAnotherConfigurationAreForgotten() async throws {
        try await running({ _, _ in Self.reply(Self.login()) }) { bench in
            let phantom = try await bench.logIn()
            await bench.store.prune(keeping: [bench.credential.key])
            #expect(bench.admits(phantom.access))
            await bench.store.prune(keeping: [])
            #expect(!bench.admits(phantom.access))
            let isEmpty = CaptureStore(in: bench.folder, logger: Bench.logger).read { $0.captures.isEmpty }
            #expect(isEmpty)
        }
    }

    @Test func anEndDuringTheExchangeIsNotOvertaken() async throws {
        try await running({ _, _ in .held }) { bench in
            let generation = bench.keeper.status(at: bench.clock.now()).generation
            async let asked = bench.ask("grant_type=authorization_code&code=c")
            try await bench.endpoint.untilHeld()
            await bench.store.end([bench.credential.key])
            bench.endpoint.release(Self.reply(Self.login("ada")))
            let answer = await asked
            #expect(answer.status == 400 && answer.body?["error"]?.string == "invalid_grant")
            #expect(bench.audit.last(.loginFailed)?.detail["reason"] == "ended")
            #expect(bench.audit.count(of: .phantomsIssued) == 0)
            #expect(bench.keeper.status(at: bench.clock.now()).generation == generation)
        }
    }

    /// A name that is too long stands in for a full disk: no file can be created there, but the old one can be removed.
    @Test func whatHasEndedDoesNotComeBackIfTheFileCannotBeReplaced() async throws {
        var folder = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString)").path
        let (root, length) = (folder, Int(PATH_MAX) - 40)
        while folder.utf8.count < length {
            folder += "/" + String(repeating: "d", count: max(1, min(200, length - folder.utf8.count - 1)))
        }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: root) }
        let digest = String(repeating: "0a", count: 32)
        let text = #"{"captures":{"k":{"logins":[{"client":"a","access":"\#(digest)","refresh":"\#(digest)"}]}}}"#
        try text.write(toFile: CaptureStore.path(in: folder), atomically: false, encoding: .utf8)
        let ended = await CaptureStore(in: folder, logger: Bench.logger).end([CredentialKey(digest: "k")])
        #expect(ended == [CredentialKey(digest: "k")])
        let isEmpty = CaptureStore(in: folder, logger: Bench.logger).read { $0.captures.isEmpty }
        #expect(isEmpty)
    }

    @Test func aDamagedFileHoldsNoPhantoms() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("capture-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for text in ["", "[]", #"{"captures":{"k":{"logins":[{"access":"00","refresh":"00"}]}}}"#] {
            try text.write(toFile: CaptureStore.path(in: folder.path), atomically: true, encoding: .utf8)
            let store = CaptureStore(in: folder.path, logger: Bench.logger)
            let isEmpty = store.read { $0.captures.isEmpty }
            #expect(isEmpty)
        }
    }
}
