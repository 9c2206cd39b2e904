import GatewayHTTP
import GatewayTokens

/// One login, from its beginning to some time after its end.
struct OngoingLogin {
    enum Kind {
        /// A browser comes back with the answer, to the listener if there is one, else by a paste.
        case browser(any LoginFlow, LoginAttempt, RedirectListener?)
        /// No answer comes here: the gateway asks for the token until the person has entered the code.
        case device(DevicePolling)
    }

    private enum Phase {
        case waiting
        /// The answer has come; a second one is not read.
        case answered
        /// The keeper is taking the token: what is commanded now comes too late.
        case taking
        case over(LoginProgress)
    }

    let order: LoginOrder
    let keeper: TokenKeeper
    private(set) var kind: Kind
    /// Ends the login at its deadline, or asks for its token until then.
    var waiter: Task<Void, Never>?
    private var phase = Phase.waiting
    private var hasForeignAnswer = false

    init(order: LoginOrder, keeper: TokenKeeper, kind: Kind) {
        self.order = order
        self.keeper = keeper
        self.kind = kind
    }

    var listener: RedirectListener? {
        if case .browser(_, _, let listener) = kind { listener } else { nil }
    }

    var progress: LoginProgress {
        if case .over(let progress) = phase { progress } else { .waiting }
    }

    var isWaiting: Bool {
        if case .waiting = phase { true } else { false }
    }

    var canFail: Bool {
        switch phase {
        case .waiting, .answered: true
        case .taking, .over: false
        }
    }

    mutating func answered() { phase = .answered }
    mutating func taking() { phase = .taking }

    mutating func end(with progress: LoginProgress) {
        phase = .over(progress)
        waiter?.cancel()
    }

    /// - Returns: Whether this is the first answer that belongs to another login: only that one is logged.
    mutating func notesForeignAnswer() -> Bool {
        defer { hasForeignAnswer = true }
        return !hasForeignAnswer
    }

    /// nil for a login that has ended, or that is not one on another device.
    mutating func next(_ event: DevicePolling.Event, at now: MonotonicTime) -> DevicePolling.Step? {
        guard case .device(var polling) = kind, isWaiting else { return nil }
        let step = polling.next(event, at: now)
        kind = .device(polling)
        return step
    }

    /// Ends what waits for this login.
    func stop() {
        waiter?.cancel()
        if let listener { Task { await listener.close() } }
    }
}

/// The logins that are known, those included that have just ended. The oldest makes room for a new one.
struct OngoingLogins {
    static let capacity = 32

    private var logins: [String: OngoingLogin] = [:]
    /// The identifiers in the order in which the logins began.
    private(set) var ids: [String] = []

    subscript(id: String) -> OngoingLogin? {
        get { logins[id] }
        set { logins[id] = newValue }
    }

    /// - Returns: The login that made room.
    mutating func add(_ login: OngoingLogin, as id: String) -> OngoingLogin? {
        logins[id] = login
        ids.append(id)
        guard ids.count > Self.capacity else { return nil }
        return logins.removeValue(forKey: ids.removeFirst())
    }
}

/// Asks an authority for what a login on another device needs (RFC 8628).
struct DeviceLoginClient: Sendable {
    let flow: any DeviceLoginFlow
    let credential: String
    let endpoint: any TokenEndpoint
    let clock: any GatewayClock

    func code() async -> Result<DeviceCode, GatewayProblem> {
        switch flow.begin(nonce: Self.nonce(), at: clock.now()) {
        case .failure(let problem): return .failure(problem)
        case .success(let request):
            switch await endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return flow.code(in: reply, at: clock.now())
            case .failure(let failure):
                return .failure(TokenFailure(explaining: failure, of: request, credential: credential).problem)
            }
        }
    }

    func token(for code: DeviceCode) async -> DevicePolling.Event {
        switch flow.poll(code, nonce: Self.nonce(), at: clock.now()) {
        case .failure(let problem): return .answered(.refused(problem, reason: "not_asked"))
        case .success(let request):
            switch await endpoint.send(request, deadline: TokenKeeper.callDeadline) {
            case .success(let reply): return .answered(flow.interpret(reply, at: clock.now()))
            case .failure(let failure):
                let explained = TokenFailure(explaining: failure, of: request, credential: credential)
                return .unanswered(explained, because: failure.reason)
            }
        }
    }

    private static func nonce() -> String {
        Hexadecimal.random(bytes: 16)
    }
}

extension LoginInvitation {
    init(id: String, credential: String, code: DeviceCode, timeout: Duration) {
        self.init(
            id: id,
            credential: credential,
            page: code.page,
            start: nil,
            redirect: "",
            isManual: false,
            code: code.userCode,
            timeoutSeconds: Int(timeout.wholeMilliseconds / 1000)
        )
    }
}
