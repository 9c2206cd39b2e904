import GatewayCore
import GatewayTokenKeeper

/// Logins on another device (RFC 8628): nothing comes back here, so the desk asks the authority until the person is done.
extension LoginDesk {
    func beginOnDevice(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ browser: any LoginFlow
    ) async -> Result<LoginInvitation, GatewayProblem> {
        guard let flow = keeper.grant.deviceLogin else {
            let detail = "\(keeper.name) has no login on another device: device_authorization_url is missing."
            return .failure(GatewayProblem(.noRoute, detail))
        }
        await endOthers(of: keeper)
        if let problem = await events.started(of: keeper, by: "device") { return .failure(problem) }
        switch await code(of: flow, keeper) {
        case .success(let code): return .success(await invite(order, keeper, browser, flow, code))
        case .failure(let problem):
            await events.failed(of: keeper, reason: "no_code", code: problem.cause?.code, said: nil)
            return .failure(problem)
        }
    }

    private func code(
        of flow: any DeviceLoginFlow,
        _ keeper: TokenKeeper
    ) async -> Result<DeviceCode, GatewayProblem> {
        switch flow.begin(nonce: Self.randomID(), at: parts.clock.now()) {
        case .failure(let problem): return .failure(problem)
        case .success(let request):
            switch await parts.endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return flow.code(in: reply, at: parts.clock.now())
            case .failure(let failure):
                return .failure(TokenFailure(explaining: failure, of: request, credential: keeper.name).problem)
            }
        }
    }

    private func invite(
        _ order: LoginOrder,
        _ keeper: TokenKeeper,
        _ browser: any LoginFlow,
        _ flow: any DeviceLoginFlow,
        _ code: DeviceCode
    ) async -> LoginInvitation {
        let id = Self.randomID()
        let timeout = min(order.timeout, code.lifetime)
        var random = SystemRandomNumberGenerator()
        let attempt = LoginAttempt(redirectURI: "", random: &random)
        var login = OngoingLogin(order: order, keeper: keeper, flow: browser, attempt: attempt, listener: nil)
        // No answer comes here, neither from a browser nor as a paste.
        login.isAnswered = true
        let end = parts.clock.now().monotonic + timeout
        login.deadline = Task { await self.poll(flow, code, for: id, until: end) }
        logins.add(login, as: id)?.stop()
        return LoginInvitation(
            id: id,
            credential: keeper.name,
            page: code.page,
            start: nil,
            redirect: "",
            isManual: false,
            code: code.userCode,
            timeoutSeconds: Int(timeout.wholeMilliseconds / 1000)
        )
    }

    private func poll(
        _ flow: any DeviceLoginFlow,
        _ code: DeviceCode,
        for id: String,
        until end: MonotonicTime
    ) async {
        var pause = DevicePollPause(code)
        while true {
            // Cancelled when the login is over before.
            guard (try? await parts.clock.sleep(for: pause.interval)) != nil else { return }
            guard let login = logins[id], !login.progress.isOver else { return }
            guard parts.clock.now().monotonic < end else {
                let words = "The code was not typed in time. Nothing was changed; begin a new login."
                return await fail(id, words, reason: "timeout")
            }
            let step = await ask(flow, code, of: login)
            switch step {
            case .pending, .slowDown, .unclear: pause.follow(step)
            case .token(let token): return await finish(id, with: token)
            case .refused(let problem, let reason):
                return await fail(id, problem.words, reason: reason, code: problem.cause?.code)
            }
        }
    }

    private func ask(_ flow: any DeviceLoginFlow, _ code: DeviceCode, of login: OngoingLogin) async -> DeviceLoginStep {
        switch flow.poll(code, nonce: Self.randomID(), at: parts.clock.now()) {
        case .failure(let problem): return .refused(problem, reason: "not_asked")
        case .success(let request):
            switch await parts.endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return flow.interpret(reply, at: parts.clock.now())
            case .failure: return .unclear
            }
        }
    }
}
