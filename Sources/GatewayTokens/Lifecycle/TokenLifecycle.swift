package import GatewayEvents

/// Decides when a token is used, renewed, asked for or given up. Performs nothing and reads no clock.
///
///     calling ──nothing found──▶ empty ──need──▶ calling            (calling: `acquiring` without a live token,
///     (startup, reload)                            │                           `renewing` with one)
///        ┌──────────obtained───────────────────────┤
///        ▼                                         │
///      ready ──due, rejected, expired + need──▶ calling
///                                                  │ failed
///                      ┌── transient ──────────────┴── terminal, login required ──┐
///                      ▼                                                          ▼
///                 backingOff ──pause over──▶ calling          stopped ──refresh, import, retry due──▶ calling
///
/// A suspect answer leads to `backingOff` twice, then to `stopped`.
///
/// Whether a token is live depends on the time as well as on the phase. Each phase except `empty` may hold a live or
/// a dead token. A live token is handed out in any phase. `lock` lies above all phases.
///
/// `Waiter` is what the shell wants back when the wait is over; tests use integers.
package struct TokenLifecycle<Waiter>: ~Copyable {
    /// What the decisions depend on and what never changes.
    package struct Rules: Sendable {
        package var name: String
        /// Whether the next token is had without a person.
        package var isRenewable: Bool
        /// See ``TokenGrant/renewsAhead``.
        package var renewsAhead: Bool
        /// See ``TokenGrant/canAcquireAnew``.
        package var canAcquireAnew: Bool
        /// What a person types to log in; nil where there is no login.
        package var loginCommand: String?
        package var policy: RenewalPolicy
        package var maximumWaiters: Int
        /// More calls than this within an hour are a storm, unless the lifetime of the tokens itself asks for more.
        package var callsPerHour: Int
        /// What the first call is ascribed to: the start of the gateway, a reload that brought the credential, or the request
        /// that named its subject.
        package var begunBy: TokenEvent.Trigger

        package init(
            name: String,
            isRenewable: Bool,
            renewsAhead: Bool = true,
            canAcquireAnew: Bool = false,
            loginCommand: String? = nil,
            policy: RenewalPolicy = RenewalPolicy(),
            maximumWaiters: Int = 10_000,
            callsPerHour: Int = CallBudget.usual,
            begunBy: TokenEvent.Trigger = .startup
        ) {
            self.name = name
            self.isRenewable = isRenewable
            self.renewsAhead = renewsAhead
            self.canAcquireAnew = canAcquireAnew
            self.loginCommand = loginCommand
            self.policy = policy
            self.maximumWaiters = maximumWaiters
            self.callsPerHour = callsPerHour
            self.begunBy = begunBy
        }
    }

    let rules: Rules
    var phase: TokenPhase
    var waiters: [CredentialTicket: Waiter] = [:]
    /// Of the request that has waited longest; named as the cause of a call that begins later.
    var firstDemand: CredentialRequest?
    package internal(set) var isLocked = false
    /// How often a token was taken from those who use it: locked, revoked or cleared, not replaced.
    package internal(set) var withdrawals = 0
    /// The token is being revoked or cleared. Requests wait until that ends.
    var isSuspended = false
    var isStopped = false
    var budget: CallBudget
    /// Failed calls since the last token.
    var failures = 0
    /// Suspect answers, and failures of the configuration, since the last token.
    var suspectAnswers = 0
    var configurationFailures = 0
    /// What has failed since the last token, whatever was tried since.
    var unresolved: UnresolvedFailure?
    var lastCall = TokenCall.firstLook
    /// The highest generation there has been; a cleared token does not give its number back.
    package internal(set) var generation = 0
    /// A refresh token was spent and the answer was lost; shown in the status until a token is obtained.
    package var isRotationUncertain = false

    /// Begins with a call that looks first: the shell reads the store and reports what it found.
    package init(_ rules: Rules) {
        self.rules = rules
        budget = CallBudget(perHour: rules.callsPerHour)
        phase = .calling(nil, TokenCall(id: TokenCall.firstLook, trigger: rules.begunBy, demand: nil))
    }

    mutating func newCall(_ trigger: TokenEvent.Trigger, for demand: CredentialRequest? = nil) -> TokenCall {
        lastCall += 1
        return TokenCall(id: lastCall, trigger: trigger, demand: demand, mayAcquireAnew: mayAcquireAnew)
    }

    /// The answers so far say that the refresh leads nowhere.
    private var mayAcquireAnew: Bool {
        suspectAnswers + 1 >= RetrySchedule.suspectAnswersForDoubt || configurationFailures > 0
    }

    mutating func forgetFailures() {
        (failures, suspectAnswers, configurationFailures) = (0, 0, 0)
        unresolved = nil
    }

    mutating func takeWaiters() -> [Waiter] {
        defer {
            waiters = [:]
            firstDemand = nil
        }
        return Array(waiters.values)
    }

    // MARK: Invariants

    /// What holds after each event.
    func checkInvariants() {
        assert(
            phase.held.map { $0.generation <= generation } ?? true,
            "The held token is newer than the last generation issued."
        )
        assert(waiters.count <= rules.maximumWaiters, "More requests wait than may.")
        assert(waiters.isEmpty || !isLocked, "A request waits for a token that is locked.")
        assert(waiters.isEmpty || !isStopped, "A request waits, and no call will be made any more.")
        assert(waiters.isEmpty || isSuspended || callID != nil, "A request waits, and no call will bring it an answer.")
        assert(suspectAnswers + configurationFailures <= failures, "A failure is not among all failures.")
        assert(callID.map { (TokenCall.firstLook...lastCall).contains($0) } ?? true, "A call has an unknown number.")
    }

    /// The number of the call that is due or under way.
    private var callID: Int? {
        if case .calling(let call) = phase.kind { call.id } else { nil }
    }
}
