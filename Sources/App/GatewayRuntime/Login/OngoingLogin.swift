import GatewayAdmin
import GatewayCore
import GatewayTokenKeeper

/// One login, from its beginning to some time after its end.
struct OngoingLogin {
    let order: LoginOrder
    let keeper: TokenKeeper
    let flow: any LoginFlow
    let attempt: LoginAttempt
    let listener: RedirectListener?
    var deadline: Task<Void, Never>?
    private(set) var progress = LoginProgress.waiting
    /// The answer has come; there is no second one.
    var isAnswered = false
    /// Something came that is no answer to this login; that is said once.
    var hasForeignAnswer = false
    /// The keeper is taking the token: what is commanded now comes too late.
    var isBeingTaken = false

    init(
        order: LoginOrder,
        keeper: TokenKeeper,
        flow: any LoginFlow,
        attempt: LoginAttempt,
        listener: RedirectListener?
    ) {
        self.order = order
        self.keeper = keeper
        self.flow = flow
        self.attempt = attempt
        self.listener = listener
    }

    var canFail: Bool { !progress.isOver && !isBeingTaken }

    mutating func end(with progress: LoginProgress) {
        self.progress = progress
        isAnswered = true
        deadline?.cancel()
    }

    /// Ends what waits for this login.
    func stop() {
        deadline?.cancel()
        if let listener { Task { await listener.close() } }
    }
}

/// The logins that are known, those included that have just ended. The oldest makes room for a new one.
struct OngoingLogins {
    private static let capacity = 32

    private var logins: [String: OngoingLogin] = [:]
    /// In the order in which they began.
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
