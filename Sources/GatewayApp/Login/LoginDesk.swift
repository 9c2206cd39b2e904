package import GatewayEvents
import GatewayFiles
package import GatewayHTTP
package import GatewayTokens
package import Logging
import NIOCore
import NIOPosix

/// Carries logins out: makes the attempt, waits for the browser, exchanges the code, hands the token to the keeper.
///
/// State and verifier of an attempt live here, in memory, until its one answer or its deadline. For a login on another device
/// the desk asks the authority until then (RFC 8628).
package actor LoginDesk: LoginControl {
    package struct Parts: Sendable {
        /// The keeper of the credential's token; the problem says why there is none.
        let keeper: @Sendable (_ credential: String) -> Result<TokenKeeper, GatewayProblem>
        let audit: any AuditLog
        let onAuditFailure: AuditPlan.OnFailure
        let clock: any GatewayClock
        let logger: Logger

        package init(
            keeper: @escaping @Sendable (_ credential: String) -> Result<TokenKeeper, GatewayProblem>,
            audit: any AuditLog,
            onAuditFailure: AuditPlan.OnFailure,
            clock: any GatewayClock,
            logger: Logger
        ) {
            self.keeper = keeper
            self.audit = audit
            self.onAuditFailure = onAuditFailure
            self.clock = clock
            self.logger = logger
        }
    }

    private let parts: Parts
    private let events: LoginEvents
    private var logins = OngoingLogins()

    package init(parts: Parts) {
        self.parts = parts
        events = LoginEvents(
            audit: parts.audit,
            onAuditFailure: parts.onAuditFailure,
            clock: parts.clock,
            logger: parts.logger
        )
    }

    // MARK: Beginning

    package func begin(_ order: LoginOrder) async -> Result<LoginInvitation, GatewayProblem> {
        guard LoginOrder.timeouts.contains(order.timeout) else {
            let limits = LoginOrder.timeouts
            let (low, high) = (ConfigUnits.text(limits.lowerBound), ConfigUnits.text(limits.upperBound))
            return .failure(GatewayProblem(.requestRefused, "A login lasts between \(low) and \(high)."))
        }
        let keeper: TokenKeeper
        switch parts.keeper(order.credential) {
        case .success(let found): keeper = found
        case .failure(let problem): return .failure(problem)
        }
        guard let flow = keeper.login else {
            let detail = Self.withoutLogin(keeper)
            return .failure(GatewayProblem(.noRoute, detail))
        }
        if let problem = Self.problem(with: order.scopes, flow, keeper) { return .failure(problem) }
        let added = await keeper.addedScopes().addingNew(order.scopes)
        switch order.way {
        case .browser, .paste: return await beginInBrowser(order, keeper, flow.asking(alsoFor: added))
        case .device: return await beginOnDevice(order, keeper, added)
        }
    }

    private static func problem(
        with scopes: [String],
        _ flow: any LoginFlow,
        _ keeper: TokenKeeper
    ) -> GatewayProblem? {
        guard !scopes.isEmpty else { return nil }
        guard flow.requestedScopes != nil else {
            return GatewayProblem(.requestRefused, "A login for \(keeper.name) asks for no scopes.")
        }
        guard scopes.count <= ScopeToken.maximumCount, scopes.allSatisfy(ScopeToken.isValid) else {
            let limits = "at most \(ScopeToken.maximumCount), each of at most \(ScopeToken.maximumBytes) bytes"
            return GatewayProblem(.requestRefused, "These are not scopes: visible ASCII without quotes, \(limits).")
        }
        return nil
    }

    private static func withoutLogin(_ keeper: TokenKeeper) -> String {
        keeper.isRenewable
            ? "\(keeper.name) needs no login: \(keeper.strategy) gets its tokens by itself."
            : "\(keeper.name) has no login. Get a token\(keeper.tokenPlace.map { " in \($0)" } ?? ""), then run: "
                + GatewayCommand.line("token", "import", keeper.name)
    }

    private func beginInBrowser(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ flow: any LoginFlow
    ) async -> Result<LoginInvitation, GatewayProblem> {
        await endOthers(of: keeper)
        let isManual = RedirectListener.awaited(for: order, flow.redirect) == nil
        if let problem = await events.started(of: keeper, by: isManual ? "paste" : "redirect") {
            return .failure(problem)
        }
        let id = Self.randomID()
        let deliver = { @Sendable [weak self] (address: String) async in
            await self?.receive(.redirect(address), for: id) ?? .waiting
        }
        switch await RedirectListener.bound(for: order, flow.redirect, logger: parts.logger, deliver: deliver) {
        case .success(let (listener, port)):
            return .success(await invite(order, keeper, flow, listener, port, id))
        case .failure(let problem):
            await events.failed(of: keeper, reason: "no_listener", code: nil, said: nil)
            return .failure(problem)
        }
    }

    private func invite(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ flow: any LoginFlow,
        _ listener: RedirectListener?,
        _ port: Int,
        _ id: String
    ) async -> LoginInvitation {
        let attempt = Self.attempt(redirectingTo: flow.redirect.uri(port: port))
        let page = flow.page(of: attempt)
        var login = OngoingLogin(order: order, keeper: keeper, kind: .browser(flow, attempt, listener))
        login.waiter = Task { [clock = parts.clock] in
            // Cancelled when the login is over before.
            guard (try? await clock.sleep(for: order.timeout)) != nil else { return }
            await self.expire(id)
        }
        logins.add(login, as: id)?.stop()
        if let listener { Task { await listener.run() } }
        return LoginInvitation(
            id: id,
            credential: keeper.name,
            page: page,
            start: await listener?.offer(page, as: Self.randomID()),
            redirect: attempt.redirectURI,
            isManual: listener == nil,
            timeoutSeconds: Int(order.timeout.wholeMilliseconds / 1000)
        )
    }

    private func beginOnDevice(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ addedScopes: [String]
    ) async -> Result<LoginInvitation, GatewayProblem> {
        guard let flow = keeper.grant.deviceLogin?.asking(alsoFor: addedScopes) else {
            let detail = "\(keeper.name) has no device_authorization_url, which a login on another device needs."
            return .failure(GatewayProblem(.noRoute, detail))
        }
        await endOthers(of: keeper)
        if let problem = await events.started(of: keeper, by: order.way.rawValue) { return .failure(problem) }
        let client = DeviceLoginClient(
            flow: flow,
            credential: keeper.name,
            endpoint: keeper.endpoint,
            clock: parts.clock
        )
        switch await client.code() {
        case .success(let code): return .success(invite(order, keeper, client, code))
        case .failure(let problem):
            await events.failed(of: keeper, reason: "no_code", code: problem.cause?.code, said: nil)
            return .failure(problem)
        }
    }

    private func invite(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ client: DeviceLoginClient,
        _ code: DeviceCode
    ) -> LoginInvitation {
        let id = Self.randomID()
        let timeout = min(order.timeout, code.lifetime)
        let polling = DevicePolling(code, until: parts.clock.now().monotonic + timeout)
        var login = OngoingLogin(order: order, keeper: keeper, kind: .device(polling))
        login.waiter = Task { await self.poll(client, code, for: id) }
        logins.add(login, as: id)?.stop()
        return LoginInvitation(id: id, credential: keeper.name, code: code, timeout: timeout)
    }

    private func poll(_ client: DeviceLoginClient, _ code: DeviceCode, for id: String) async {
        var event = DevicePolling.Event.started
        while let step = logins[id]?.next(event, at: parts.clock.now().monotonic) {
            switch step {
            case .wait(let pause):
                // Cancelled when the login is over before.
                guard (try? await parts.clock.sleep(for: pause)) != nil else { return }
                event = .waited
            case .ask: event = await client.token(for: code)
            case .take(let token): return await finish(id, with: token)
            case .end(let end): return await fail(id, end.problem.words, reason: end.reason, code: end.code)
            }
        }
    }

    /// Two logins for one token would end in whichever comes last, and may want the same port.
    private func endOthers(of keeper: TokenKeeper) async {
        for id in logins.ids {
            // By name, too: a reload may have put another keeper in the old one's place.
            guard let other = logins[id]?.keeper, other.key == keeper.key || other.name == keeper.name else { continue }
            await fail(id, "A newer login replaced this one.", reason: "replaced")
        }
    }

    // MARK: The answer

    package func answer(_ id: String, with text: String) async -> LoginProgress? {
        guard logins[id] != nil else { return nil }
        let isWhite = { (character: Character) in character.isWhitespace }
        let trimmed = String(text.drop(while: isWhite).reversed().drop(while: isWhite).reversed())
        let progress = await receive(.pasted(trimmed), for: id)
        await logins[id]?.listener?.close()
        return progress
    }

    private func receive(_ answer: LoginAnswer, for id: String) async -> LoginProgress? {
        guard let login = logins[id] else { return nil }
        // An answer counts once. A repetition, such as the reload of a page, is told how the login ended.
        guard login.isWaiting, case .browser(let flow, let attempt, _) = login.kind else { return login.progress }
        let step = flow.read(answer, of: attempt, at: parts.clock.now())
        if case .foreign(let refusal) = step, case .redirect = answer {
            return ignore(refusal, for: id)
        }
        logins[id]?.answered()
        switch step {
        case .foreign(let refusal):
            await fail(id, refusal.problem.words, reason: refusal.reason)
        case .refused(let problem, let reason):
            let said = AuthorityError(answer, hiding: [attempt.state, attempt.verifier])
            await fail(id, problem.words, reason: reason, code: problem.cause?.code, said: said)
        case .token(let token):
            await finish(id, with: token)
        case .exchange(let request):
            await exchange(request, of: flow, for: id)
        }
        return logins[id]?.progress
    }

    /// Any page in the person's browser can send such a request here, and often. It must not end the login.
    private func ignore(_ refusal: LoginRefusal, for id: String) -> LoginProgress {
        if let keeper = logins[id]?.keeper, logins[id]?.notesForeignAnswer() == true {
            parts.logger.warning(
                "Answer to another login ignored",
                metadata: [
                    "gateway.credential": "\(keeper.name)", "gateway.reason": "\(refusal.reason)",
                ]
            )
        }
        let words = "\(refusal.words) The login that was begun last still waits for its own answer."
        return LoginProgress(isOver: false, problem: words)
    }

    private func exchange(_ request: TokenRequest, of flow: any LoginFlow, for id: String) async {
        guard let login = logins[id] else { return }
        switch await login.keeper.exchange(request, of: flow, clock: parts.clock) {
        case .success(let (token, _)): await finish(id, with: token)
        case .failure(let failed):
            await fail(id, failed.problem.words, reason: failed.reason, code: failed.code, said: failed.said)
        }
    }

    // MARK: The end

    private func finish(_ id: String, with token: TokenSet) async {
        // Cancelled or replaced during the exchange: its end has been told already.
        guard let login = logins[id], !login.progress.isOver else { return }
        // A reload may have put another keeper in its place, or another token.
        guard case .success(let keeper) = parts.keeper(login.order.credential), keeper.key == login.keeper.key else {
            let words = "The configuration of \(login.keeper.name) was changed during the login. Start a new one."
            return await fail(id, words, reason: "credential_changed")
        }
        logins[id]?.taking()
        switch await keeper.logIn(with: token) {
        case .success(let status): logins[id]?.end(with: LoginProgress(isOver: true, token: status))
        case .failure(let problem):
            logins[id]?.answered()
            await fail(id, problem.words, reason: "not_taken")
        }
    }

    package func progress(_ id: String) async -> LoginProgress? { logins[id]?.progress }

    /// A login whose token is being taken at this moment goes on to its end.
    package func cancel(_ id: String) async {
        await fail(id, "The login was cancelled.", reason: "cancelled")
        await logins[id]?.listener?.close()
    }

    private func expire(_ id: String) async {
        guard let login = logins[id], login.isWaiting else { return }
        let words =
            "The login was not finished within \(ConfigUnits.text(login.order.timeout)): was the window closed?"
            + " Nothing was changed; begin a new login."
        await fail(id, words, reason: "timeout")
        await login.listener?.close()
    }

    private func fail(
        _ id: String,
        _ words: String,
        reason: String,
        code: String? = nil,
        said: AuthorityError? = nil
    ) async {
        guard let login = logins[id], login.canFail else { return }
        let quote = said?.description.map { " The authorization server said: \($0)" } ?? ""
        logins[id]?.end(with: LoginProgress(isOver: true, problem: words + quote, code: code))
        await login.listener?.close()
        await events.failed(of: login.keeper, reason: reason, code: code, said: said)
    }

    /// Ends what is under way; the gateway stops.
    package func close() async {
        for id in logins.ids {
            await fail(id, "The gateway stopped before the login finished.", reason: "stopped")
            await logins[id]?.listener?.close()
        }
    }

    /// A function of its own: the thread sanitizer crashes on a variable of zero size in an async function.
    private static func attempt(redirectingTo uri: String) -> LoginAttempt {
        var random = SystemRandomNumberGenerator()
        return LoginAttempt(redirectURI: uri, random: &random)
    }

    private static func randomID() -> String { Hexadecimal.random(bytes: 16) }
}

extension GatewayProblem {
    /// With the command that helps, for a person who reads it in a terminal or a browser.
    var words: String { command.map { "\(detail) Run: \($0)" } ?? detail }
}

/// Whether a login waits for the browser on a listener of its own.
extension RedirectListener {
    /// Where the browser comes back to; nil where the answer is pasted.
    static func awaited(for order: LoginOrder, _ place: LoginRedirect) -> LoopbackRedirect? {
        guard order.way == .browser, case .loopback(let redirect) = place else { return nil }
        return redirect
    }

    /// The listener that waits for the browser. nil where none is wanted, or none can be reached; no program listens on the
    /// port then.
    ///
    /// - Parameter deliver: See ``init(group:redirect:logger:deliver:)``.
    static func bound(
        for order: LoginOrder,
        _ place: LoginRedirect,
        logger: Logger,
        deliver: @escaping @Sendable (_ address: String) async -> LoginProgress
    ) async -> Result<(RedirectListener?, port: Int), GatewayProblem> {
        guard let redirect = awaited(for: order, place) else {
            return .success((nil, Int.random(in: 49_152...65_535)))
        }
        let listener = RedirectListener(
            group: MultiThreadedEventLoopGroup.singleton,
            redirect: redirect,
            logger: logger,
            deliver: deliver
        )
        do {
            return .success((listener, try await listener.bind()))
        } catch {
            let address = redirect.authority(port: redirect.port ?? 0)
            let reason = (error as? IOError).map { SystemError.text($0.errnoCode) } ?? "no such address"
            let detail =
                "Cannot wait for the browser on \(address), where redirect_uri leads: \(reason). Free the port, or paste"
                + " the answer."
            let command = GatewayCommand.line("login", "--manual", order.credential)
            return .failure(GatewayProblem(.loginFailed, detail, command: command))
        }
    }
}
