import AsyncHTTPClient
import Foundation
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
import Testing

@testable import GatewayApp
@testable import GatewayTokens

@Suite("Login desk", .timeLimit(.minutes(5)))
struct LoginDeskTests {
    private static let granted = ScriptedTokenEndpoint.Answer.reply(TokenReply(status: 200))

    /// A desk with one credential that can be logged in for, and one that cannot.
    private struct Bench {
        let clock = ManualClock()
        let audit = RecordingAuditLog()
        let endpoint: ScriptedTokenEndpoint
        let keeper: TokenKeeper
        let desk: LoginDesk
        private let served: Served
        private let grant: SampleGrant

        /// Who keeps the token at the moment: a reload may change that.
        private final class Served: Sendable {
            let keeper: Mutex<TokenKeeper>
            init(_ keeper: TokenKeeper) { self.keeper = Mutex(keeper) }
        }

        init(_ answers: [ScriptedTokenEndpoint.Answer], redirect: LoginRedirect, scopes: [String]? = nil) {
            endpoint = ScriptedTokenEndpoint(answers)
            var grant = SampleGrant(rotatesRefreshToken: true)
            grant.login = SampleLogin(redirect: redirect, scopes: scopes)
            grant.deviceLogin = SampleDeviceLogin()
            let plain = Self.keeper("service", SampleGrant(), endpoint, audit, clock)
            let brought = Self.keeper("brought", SampleGrant(isRenewable: false), endpoint, audit, clock)
            let keeper = Self.keeper("box", grant, endpoint, audit, clock)
            let served = Served(keeper)
            (self.keeper, self.served, self.grant) = (keeper, served, grant)
            desk = LoginDesk(
                parts: LoginDesk.Parts(
                    keeper: { name in
                        switch name {
                        case "box": .success(served.keeper.withLock(\.self))
                        case "service": .success(plain)
                        case "brought": .success(brought)
                        default: .failure(GatewayProblem(.noRoute, "There is no such credential."))
                        }
                    },
                    audit: audit,
                    onAuditFailure: .block,
                    clock: clock,
                    logger: Self.logger
                )
            )
        }

        private static var logger: Logger {
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            return logger
        }

        private static func keeper(
            _ name: String,
            _ grant: SampleGrant,
            _ endpoint: ScriptedTokenEndpoint,
            _ audit: RecordingAuditLog,
            _ clock: ManualClock,
            key: String? = nil
        ) -> TokenKeeper {
            TokenKeeper(
                KeeperContext(
                    name: name,
                    strategyKind: "sample",
                    grant: grant,
                    policy: RenewalPolicy(),
                    key: CredentialKey(digest: key ?? name),
                    store: RecordingTokenStore(),
                    endpoint: endpoint,
                    audit: audit,
                    onAuditFailure: .block,
                    clock: clock,
                    logger: logger
                )
            )
        }

        /// As a reload does it.
        ///
        /// - Parameter key: Another one for another token.
        func replaceKeeper(key: String = "box") -> TokenKeeper {
            let successor = Self.keeper("box", grant, endpoint, audit, clock, key: key)
            served.keeper.withLock { $0 = successor }
            keeper.retire()
            return successor
        }

        func end(of id: String) async throws -> LoginProgress {
            for _ in 0..<100_000 {
                if let progress = await desk.progress(id), progress.isOver { return progress }
                await Task.yield()
            }
            throw ConformanceFailure("the login did not end")
        }
    }

    private func running(
        _ answers: [ScriptedTokenEndpoint.Answer] = [],
        redirect: LoginRedirect = .ephemeral,
        scopes: [String]? = nil,
        _ body: @escaping @Sendable (Bench) async throws -> Void
    ) async throws {
        let bench = Bench(answers, redirect: redirect, scopes: scopes)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await bench.keeper.run() }
            defer { group.cancelAll() }
            try await body(bench)
            await bench.desk.close()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    /// What a browser sees; nil when nobody listens.
    private func open(_ address: String, host: String? = nil) async -> (status: Int, text: String)? {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.retryConnectionEstablishment = false
        let client = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
        var request = HTTPClientRequest(url: address)
        if let host { request.headers.replaceOrAdd(name: "Host", value: host) }
        let response = try? await client.execute(request, timeout: .seconds(10))
        let body = try? await response?.body.collect(upTo: 1 << 20)
        try? await client.shutdown()
        return response.map { (Int($0.status.code), body.map { String(buffer: $0) } ?? "") }
    }

    @Test func aRedirectEndsTheLoginAndTheListener() async throws {
        try await running([Self.granted]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            #expect(!invitation.isManual)
            let page = await open(invitation.redirect + "?code")
            #expect(page?.status == 200)
            #expect(page?.text.contains("Logged in") == true)
            let end = try await bench.end(of: invitation.id)
            #expect(end.token?.state == .valid)
            #expect(bench.audit.count(of: .loginStarted) == 1)
            #expect(bench.audit.count(of: .loginCompleted) == 1)
            #expect(await open(invitation.redirect + "?code") == nil)
            #expect(bench.endpoint.requests.count == 1)
        }
    }

    @Test func theStartAddressLeadsToThePageOnce() async throws {
        try await running { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            let start = try #require(invitation.start)
            #expect(!start.contains("state"))
            #expect(await open(start)?.status == 302)
            #expect(await open(start)?.status == 404)
        }
    }

    @Test func otherRequestsDoNotEndTheLogin() async throws {
        try await running([Self.granted]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            let root = String(invitation.redirect.dropLast("/callback".count))
            #expect(await open(root + "/favicon.ico")?.status == 404)
            #expect(await open(invitation.redirect)?.status == 404)
            #expect(await open(invitation.redirect + "/x?code")?.status == 404)
            #expect(await open(invitation.redirect + "?code", host: "evil.example")?.status == 421)
            #expect(await bench.desk.progress(invitation.id)?.isOver == false)
            #expect(await open(invitation.redirect + "?code")?.status == 200)
        }
    }

    /// Any page that the person has open can send the browser here.
    @Test func theAnswerOfAnotherLoginLeavesThisOneWaiting() async throws {
        try await running([Self.granted]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            for _ in 0..<3 {
                let page = await open(invitation.redirect + "?forged")
                #expect(page?.status == 400)
                #expect(page?.text.contains("wrong state") == true)
                #expect(page?.text.contains("still waits") == true)
            }
            #expect(await bench.desk.progress(invitation.id) == .waiting)
            #expect(bench.endpoint.requests.isEmpty)
            #expect(await open(invitation.redirect + "?code")?.status == 200)
            #expect(try await bench.end(of: invitation.id).token?.state == .valid)
            #expect(bench.audit.count(of: .loginFailed) == 0)
        }
    }

    @Test func answersOfOthersDoNotEndTheLoginWhateverTheirNumber() async throws {
        try await running([Self.granted]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            for _ in 0..<150 { #expect(await open(invitation.redirect + "?forged")?.status == 400) }
            #expect(await open(invitation.redirect + "?code")?.status == 200)
            #expect(try await bench.end(of: invitation.id).token?.state == .valid)
            #expect(bench.audit.count(of: .loginFailed) == 0)
        }
    }

    @Test func aPasteOfAnotherLoginEndsThisOneAndNothingIsAsked() async throws {
        try await running { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            #expect(
                await bench.desk.answer(invitation.id, with: "forged")?.problem?.contains("begin a new login") == true
            )
            #expect(try await bench.end(of: invitation.id).problem?.contains("wrong state") == true)
            #expect(bench.endpoint.requests.isEmpty)
            try await bench.audit.untilRecorded(.loginFailed)
            #expect(bench.audit.last(.loginFailed)?.detail["reason"] == "wrong_state")
            #expect(bench.keeper.status(at: bench.clock.now()).state != .valid)
        }
    }

    @Test func aPasteCountsOnce() async throws {
        try await running([Self.granted]) { bench in
            let order = LoginOrder(credential: "box", way: .paste)
            let invitation = try await bench.desk.begin(order).get()
            #expect(invitation.isManual && invitation.start == nil)
            #expect(await bench.desk.answer(invitation.id, with: "  code\n")?.token?.state == .valid)
            // Sent again, as by the reload of a page: the same end, and nothing is asked.
            #expect(await bench.desk.answer(invitation.id, with: "forged")?.token?.state == .valid)
            #expect(bench.endpoint.requests.count == 1)
            #expect(await bench.desk.answer("nothing", with: "code") == nil)
        }
    }

    @Test func aBrowserThatLeavesDuringTheExchangeLeavesNoListener() async throws {
        try await running([.held]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            let address = try #require(URLComponents(string: invitation.redirect))
            let port = try #require(address.port)
            let browser = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: "127.0.0.1", port: port).get()
            let request = "GET \(address.path)?code HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\n\r\n"
            try await browser.writeAndFlush(ByteBuffer(string: request))
            try await bench.endpoint.untilHeld()
            // Killed: the connection ends with a reset.
            let options = try #require(browser as? any SocketOptionProvider)
            try await options.setSoLinger(linger(l_onoff: 1, l_linger: 0)).get()
            try await browser.close()
            #expect(await open(invitation.redirect)?.status == 404)
            bench.endpoint.release(Self.granted)
            #expect(try await bench.end(of: invitation.id).token?.state == .valid)
            var tries = 0
            while tries < 1000, await open(invitation.redirect) != nil { tries += 1 }
            #expect(await open(invitation.redirect) == nil)
        }
    }

    @Test func whatIsCancelledDuringTheExchangeBringsNoToken() async throws {
        try await running([.held]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            async let page = open(invitation.redirect + "?code")
            try await bench.endpoint.untilHeld()
            await bench.desk.cancel(invitation.id)
            #expect(await open(invitation.redirect + "?code") == nil)
            bench.endpoint.release(Self.granted)
            #expect(await page?.status == 400)
            #expect(await bench.desk.progress(invitation.id)?.problem == "The login was cancelled.")
            #expect(bench.audit.count(of: .loginCompleted) == 0)
        }
    }

    /// The keeper's command waits behind a renewal: the token will be taken, so the login is not cancelled any more.
    @Test func whatIsCancelledWhileTheTokenIsTakenCounts() async throws {
        let answers = [Self.granted, .held, Self.granted]
        try await running(answers) { bench in
            let first = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            #expect(await bench.desk.answer(first.id, with: "code")?.token?.state == .valid)
            async let renewal = bench.keeper.perform(.refresh)
            try await bench.endpoint.untilHeld()
            let second = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            async let answer = bench.desk.answer(second.id, with: "code")
            try await waitUntil("the command waits") { bench.keeper.hasCommands }
            await bench.desk.cancel(second.id)
            #expect(await bench.desk.progress(second.id)?.isOver == false)
            bench.endpoint.release(.token("renewed", expiresIn: 3600))
            _ = await renewal
            #expect(await answer?.token?.state == .valid)
            #expect(bench.audit.count(of: .loginCompleted) == 2)
            #expect(bench.audit.count(of: .loginFailed) == 0)
        }
    }

    @Test func aReloadDuringTheLoginDoesNotLoseTheToken() async throws {
        try await running([Self.granted]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            let successor = bench.replaceKeeper()
            async let running: Void = successor.run()
            #expect(await bench.desk.answer(invitation.id, with: "code")?.token?.state == .valid)
            #expect(successor.status(at: bench.clock.now()).state == .valid)
            successor.retire()
            try await running
        }
    }

    @Test func aReloadThatMakesItAnotherTokenEndsTheLogin() async throws {
        try await running([Self.granted]) { bench in
            let first = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            let successor = bench.replaceKeeper(key: "other")
            async let running: Void = successor.run()
            #expect(await open(first.redirect + "?code")?.text.contains("was changed during the login") == true)
            #expect(bench.audit.count(of: .loginCompleted) == 0)
            successor.retire()
            try await running
        }
    }

    @Test func aRefusedCodeIsSaid() async throws {
        try await running([.reply(TokenReply(status: 400))]) { bench in
            let invitation = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            #expect(await bench.desk.answer(invitation.id, with: "code")?.problem == "The code was refused.")
            try await bench.audit.untilRecorded(.loginFailed)
            #expect(bench.audit.last(.loginFailed)?.httpStatus == 400)
        }
    }

    @Test func nobodyComesBackInTime() async throws {
        try await running { bench in
            let order = LoginOrder(credential: "box", timeout: .seconds(60))
            let invitation = try await bench.desk.begin(order).get()
            try await bench.clock.untilAsleep(atMost: .seconds(60))
            bench.clock.advance(by: .seconds(60))
            #expect(try await bench.end(of: invitation.id).problem?.contains("was the window closed?") == true)
            #expect(await open(invitation.redirect + "?code") == nil)
            try await bench.audit.untilRecorded(.loginFailed)
            #expect(bench.audit.last(.loginFailed)?.detail["reason"] == "timeout")
        }
    }

    private func listener() async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton).bind(host: "127.0.0.1", port: 0).get()
    }

    @Test(arguments: [false, true]) func aNewerLoginTakesThePortOfTheOlder(isReloaded: Bool) async throws {
        let probe = try await listener()
        let port = try #require(probe.localAddress?.port)
        try await probe.close()
        let redirect = LoginRedirect.loopback(LoopbackRedirect(host: "127.0.0.1", port: port, path: "/cb"))
        try await running([Self.granted], redirect: redirect) { bench in
            let first = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            if isReloaded { _ = bench.replaceKeeper(key: "other") }
            let second = try await bench.desk.begin(LoginOrder(credential: "box")).get()
            #expect(first.redirect == second.redirect)
            #expect(await bench.desk.progress(first.id)?.problem?.contains("newer login") == true)
            guard !isReloaded else { return }
            #expect(await open(second.redirect + "?code")?.status == 200)
        }
    }

    @Test func aPortThatIsTakenIsSaidWithTheWayAround() async throws {
        let taken = try await listener()
        let port = try #require(taken.localAddress?.port)
        let redirect = LoopbackRedirect(host: "127.0.0.1", port: port, path: "/cb")
        try await running(redirect: .loopback(redirect)) { bench in
            guard case .failure(let problem) = await bench.desk.begin(LoginOrder(credential: "box")) else {
                Issue.record("begun on a port that is taken")
                return
            }
            #expect(problem.kind == .loginFailed)
            #expect(problem.command == "authgateway login --manual box")
            #expect(problem.detail.contains("127.0.0.1:\(port)"))
        }
        try await taken.close()
    }

    @Test func aLoginThatCannotBeRecordedDoesNotBegin() async throws {
        try await running { bench in
            bench.audit.fail { _ in true }
            guard case .failure(let problem) = await bench.desk.begin(LoginOrder(credential: "box")) else {
                Issue.record("a person would have logged in for nothing")
                return
            }
            #expect(problem.kind == .auditUnavailable)
            #expect(problem.detail.contains("no space left on device"))
        }
    }

    @Test func whatCannotBegin() async throws {
        try await running { bench in
            func problem(_ order: LoginOrder) async -> GatewayProblem? {
                guard case .failure(let problem) = await bench.desk.begin(order) else { return nil }
                return problem
            }
            #expect(await problem(LoginOrder(credential: "service"))?.detail.contains("by itself") == true)
            let brought = await problem(LoginOrder(credential: "brought"))?.detail
            #expect(brought == "brought has no login. Get a token, then run: authgateway token import brought")
            #expect(await problem(LoginOrder(credential: "nobody"))?.kind == .noRoute)
            #expect(await problem(LoginOrder(credential: "box", timeout: .seconds(7200)))?.kind == .requestRefused)
        }
    }

    @Test func scopesGrowWithEachLoginThatNamesOne() async throws {
        try await running([Self.granted, Self.granted, Self.granted], scopes: ["read"]) { bench in
            let steps: [(scopes: [String], page: String, kept: [String]?)] = [
                ([], "&scope=read", nil), (["write"], "&scope=read&scope=write", ["write"]),
                (["admin"], "&scope=read&scope=write&scope=admin", ["write", "admin"]),
            ]
            for step in steps {
                let order = LoginOrder(credential: "box", way: .paste, scopes: step.scopes)
                let invitation = try await bench.desk.begin(order).get()
                #expect(invitation.page.hasSuffix(step.page))
                #expect(await bench.desk.answer(invitation.id, with: "code")?.token?.addedScopes == step.kept)
            }
            let last = try await bench.desk.begin(LoginOrder(credential: "box", way: .paste)).get()
            #expect(last.page.hasSuffix("&scope=read&scope=write&scope=admin"))
        }
    }

    @Test(arguments: [
        ["a b"], ["a\"b"], [""], ["\u{E9}"], [String(repeating: "a", count: 257)], (0..<65).map(String.init),
    ])
    func whatIsNoScopeIsRefused(_ scopes: [String]) async throws {
        try await running(scopes: []) { bench in
            guard case .failure(let problem) = await bench.desk.begin(LoginOrder(credential: "box", scopes: scopes))
            else { return #expect(Bool(false)) }
            #expect(problem.kind == .requestRefused && problem.detail.contains("not scopes"))
        }
    }

    @Test func aLoginWithoutScopesTakesNone() async throws {
        try await running { bench in
            guard case .failure(let problem) = await bench.desk.begin(LoginOrder(credential: "box", scopes: ["a"]))
            else { return #expect(Bool(false)) }
            #expect(problem.detail == "A login for box asks for no scopes.")
        }
    }

    // MARK: On another device

    private static let onDevice = LoginOrder(credential: "box", way: .device)

    private static func lost(_ reason: TokenTransportFailure.Reason) -> ScriptedTokenEndpoint.Answer {
        .failure(TokenTransportFailure(reason, mayHaveBeenProcessed: false))
    }

    @Test func aPersonEntersTheCodeOnAnotherDevice() async throws {
        let pending = ScriptedTokenEndpoint.Answer.reply(TokenReply(status: 400))
        try await running([Self.granted, pending, Self.granted]) { bench in
            let invitation = try await bench.desk.begin(Self.onDevice).get()
            #expect(invitation.code == "AB-12" && invitation.timeoutSeconds == 60 && !invitation.isManual)
            for _ in 0..<2 {
                try await bench.clock.untilAsleep(atMost: .seconds(5))
                // A paste is no answer to this login.
                #expect(await bench.desk.answer(invitation.id, with: "code") == .waiting)
                let asked = bench.endpoint.requests.count
                bench.clock.advance(by: .seconds(5))
                try await bench.endpoint.untilAsked(asked + 1)
            }
            #expect(try await bench.end(of: invitation.id).token != nil)
        }
    }

    @Test func anAuthorityThatCannotBeReachedIsNamedAtTheDeadline() async throws {
        try await running([Self.granted, Self.lost(.connectionRefused)]) { bench in
            let invitation = try await bench.desk.begin(Self.onDevice).get()
            try await bench.clock.untilAsleep(atMost: .seconds(5))
            bench.clock.advance(by: .seconds(5))
            try await bench.clock.untilAsleep(moreThan: .seconds(5), atMost: .seconds(10))
            bench.clock.advance(by: .seconds(60))
            let words = try await bench.end(of: invitation.id).problem ?? ""
            #expect(words.contains("box) refuses connections. The code has expired"), "\(words)")
            try await bench.audit.untilRecorded(.loginFailed)
            let event = bench.audit.last(.loginFailed)
            #expect(event?.detail["reason"] == "no_answer" && event?.errorCode == "connection_refused")
        }
    }

    @Test func aRequestThatCannotBeSentEndsTheLoginAtOnce() async throws {
        try await running([Self.granted, Self.lost(.unsendable)]) { bench in
            let invitation = try await bench.desk.begin(Self.onDevice).get()
            try await bench.clock.untilAsleep(atMost: .seconds(5))
            bench.clock.advance(by: .seconds(5))
            #expect(try await bench.end(of: invitation.id).problem?.contains("cannot be written as HTTP") == true)
            try await bench.audit.untilRecorded(.loginFailed)
            #expect(bench.audit.last(.loginFailed)?.detail["reason"] == "not_asked")
        }
    }

    // MARK: Bounds

    @Test func theOldestLoginIsForgottenFirst() {
        let keeper = Bench([], redirect: .ephemeral).keeper
        let code = DeviceCode(
            deviceCode: Secret("D"),
            userCode: "A",
            page: "https://id.example.com/",
            lifetime: .seconds(60),
            interval: .seconds(5)
        )
        func login(_ number: Int) -> OngoingLogin {
            OngoingLogin(
                order: LoginOrder(credential: "box\(number)", way: .device, timeout: .seconds(60)),
                keeper: keeper,
                kind: .device(DevicePolling(code, until: MonotonicTime(nanoseconds: 0)))
            )
        }
        var logins = OngoingLogins()
        for number in 1...OngoingLogins.capacity {
            let left = logins.add(login(number), as: "\(number)")
            #expect(left == nil)
        }
        let left = logins.add(login(0), as: "one more")
        #expect(left?.order.credential == "box1")
        #expect(logins.ids.count == OngoingLogins.capacity)
        #expect(logins["1"] == nil && logins["2"] != nil && logins["one more"] != nil)
    }
}
