package import GatewayEvents
package import GatewayHTTP
package import Logging
import ServiceLifecycle
import Synchronization

/// Keeps one token alive: runs what ``TokenLifecycle`` decides.
///
/// Locks are held while deciding and never while calling out. ``work()`` does everything that waits (store, authority,
/// audit log), one thing after the other. A token is therefore never requested twice at a time. Between its turns a keeper
/// has no task: ``run()`` or a supervisor of many calls ``work()`` when it is due or asks for it.
package final class TokenKeeper: CredentialSource, Service {
    typealias Done = @Sendable (Result<Credential, GatewayProblem>) -> Void
    typealias Machine = TokenLifecycle<Done>

    /// How long a call to the authority may take.
    package static let callDeadline: Duration = .seconds(15)
    /// How many commands of operators may wait to be carried out.
    package static let commandLimit = 64

    let context: KeeperContext
    let jitter: @Sendable () -> Double
    /// Tells its runner that it has something to do.
    let signal = KeeperSignal()
    /// Between two turns. Its runner takes one turn at a time.
    let renewer: Mutex<TokenRenewer>
    /// It takes no more commands, and ends with the turn under way.
    let isStopping = Atomic(false)
    let children = Mutex<[Child]>([])
    /// Of the command that is carried out: see ``OperatorCommand/Completion/drops``.
    let drops = Mutex<[OperatorCommand]>([])
    let commands = Mutex<[OperatorCommand]>([])
    /// The generation whose rejection has yet to be stored.
    let rejection = Mutex<Int?>(nil)
    let notes = AuditBuffer()
    /// What somebody else has written to the store and the loop has yet to apply.
    let news = Mutex<RemoteChange?>(nil)

    /// No gateway runs, so nothing is tried again by itself.
    let isAlone = Atomic<Bool>(false)
    /// A reload has dropped the credential.
    let isRetired = Atomic<Bool>(false)

    private let machine: Mutex<Machine>
    /// A copy of what the machine would answer, so that the request path takes no lock that is ever held for long.
    private let published = Mutex<Credential?>(nil)
    private let withdrawals = Atomic(0)
    /// Requests that got no token since the last call that brought one.
    let withheldRequests = Atomic(0)
    /// When the first call failed, as the status said it first.
    let failingSince = Mutex<Moment?>(nil)
    private let lastTicket = Atomic<UInt64>(0)
    package let rejections: RejectionRecord? = RejectionRecord()

    /// - Parameters:
    ///   - parent: Whose token this one is made from; nil for a grant that needs none.
    ///   - callLimit: Shared by the subjects of a credential whose requests name them; nil for any other credential.
    ///   - trigger: `startup`, `reload` for a credential that came with one, `demand` for one that a request named.
    ///   - jitter: 0...1; spreads renewals and repeated calls.
    ///   - nonce: 128 random bits in hexadecimal; see ``GrantAttempt/nonce``.
    package init(
        name: String,
        strategyKind: String,
        grant: any TokenGrant,
        policy: RenewalPolicy,
        key: CredentialKey,
        store: any TokenStore,
        endpoint: any TokenEndpoint,
        programs: any ProgramRunner = NoPrograms(),
        audit: any AuditLog,
        onAuditFailure: AuditPlan.OnFailure,
        clock: any GatewayClock,
        logger: Logger,
        parent: (any ParentCredential)? = nil,
        callLimit: SubjectCallLimit? = nil,
        begunBy trigger: TokenEvent.Trigger = .startup,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) },
        nonce: @escaping @Sendable () -> String = TokenKeeper.randomNonce
    ) {
        context = KeeperContext(
            name: name,
            strategyKind: strategyKind,
            grant: grant,
            policy: policy,
            key: key,
            store: store,
            endpoint: endpoint,
            programs: programs,
            audit: audit,
            onAuditFailure: onAuditFailure,
            clock: clock,
            logger: logger,
            metrics: KeeperMetrics(credential: callLimit?.name ?? name, strategy: strategyKind),
            nonce: nonce,
            parent: parent,
            callLimit: callLimit
        )
        renewer = Mutex(TokenRenewer(context: context))
        self.jitter = jitter
        machine = Mutex(Machine(context.rules(begunBy: trigger)))
    }

    @Sendable package static func randomNonce() -> String {
        Hexadecimal.random(bytes: 16)
    }

    package var name: String { context.name }
    /// The credential whose requests name the subject; nil for one that the configuration names.
    package var perSubjectCredential: String? { context.callLimit?.name }
    package var strategy: String { context.strategyKind }
    /// Which token it keeps.
    package var key: CredentialKey { context.key }
    package var grantKey: CredentialKey? { context.key }
    /// The first server that it asks for tokens; nil where none is named.
    package var authority: Origin? { context.grant.authorityEndpoints.first?.origin }
    package var isRenewable: Bool { context.isRenewable }
    /// Whether a renewal needs the store, because it spends what the next one needs.
    package var rotatesRefreshToken: Bool { context.grant.rotatesRefreshToken }
    /// How a person logs in for this token; nil when no login exists for it.
    package var login: (any LoginFlow)? { context.grant.login }

    /// Decides, and publishes what readers are given from now on.
    func decide<Decision: Sendable>(_ body: (inout Machine) -> Decision) -> Decision {
        machine.withLock { machine in
            let decision = body(&machine)
            let servable = machine.servable
            publish(servable)
            withdrawals.store(machine.withdrawals, ordering: .releasing)
            if machine.unresolvedSince == nil { withheldRequests.store(0, ordering: .relaxed) }
            return decision
        }
    }

    private func publish(_ servable: Credential?) {
        published.withLock { published in
            guard published !== servable else { return }
            published?.withdraw()
            servable?.offer()
            published = servable
        }
    }

    func look<Answer: Sendable>(_ body: (borrowing Machine) -> Answer) -> Answer {
        machine.withLock { body($0) }
    }

    /// No call is under way and no request waits, so the keeper can be dropped.
    package var isIdle: Bool { commands.withLock(\.isEmpty) && look { $0.isIdle } }

    // MARK: CredentialSource

    package var timesWithdrawn: Int { withdrawals.load(ordering: .acquiring) }

    package func current(at now: MonotonicTime) -> CredentialAnswer {
        if let credential = published.withLock({ $0 }), credential.isUsable(at: now) { return .ready(credential) }
        return look { $0.answer(at: now) }
    }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        ask(done) { $0.need(by: done, ticket: $1, for: demand, at: $2) }
    }

    /// Puts the caller among those who wait, or answers at once.
    func ask(
        _ done: @escaping Done,
        _ need: @Sendable (inout Machine, CredentialTicket, MonotonicTime) -> Machine.OnNeed
    ) -> CredentialTicket {
        let ticket = CredentialTicket(id: lastTicket.add(1, ordering: .relaxed).newValue)
        let now = context.clock.now().monotonic
        switch decide({ need(&$0, ticket, now) }) {
        case .use(let credential): done(.success(credential))
        case .refuse(let problem): done(.failure(problem.kind == .draining ? stopProblem(problem) : problem))
        case .waitAndCall: wake(.request)
        case .wait: break
        }
        return ticket
    }

    package func cancel(_ ticket: CredentialTicket) {
        let waiter = decide { $0.withdraw(ticket) }
        waiter?(.failure(GatewayProblem(.requestTimeout, "The request did not wait for the credential \(name).")))
    }

    package func rejected(generation: Int, by demand: CredentialRequest) {
        let outcome = decide { machine in
            let outcome = machine.rejected(generation: generation, by: demand)
            // Before anybody can be given the call that follows from it: see `turn`.
            if case .dead = outcome { rejection.withLock { $0 = generation } }
            return outcome
        }
        guard case .dead(let calls) = outcome else { return }
        if !calls { rejections?.causedNothing(generation) }
        context.metrics.rejected()
        remember(.rejected, generation: generation, by: demand)
        wake()
    }

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        switch event {
        case .injected:
            guard notes.isFirstUse(of: generation, on: demand.route) else { return }
            remember(.injected, generation: generation, by: demand)
        case .handedOut:
            guard notes.isFirstUse(of: generation, on: demand.use) else { return }
            remember(.handedOut, generation: generation, by: demand)
        case .replayed: remember(.replayed, generation: generation, by: demand)
        case .withheld:
            withheldRequests.add(1, ordering: .relaxed)
            // Each request that cannot be served is one.
            guard let unrecorded = spendRefusal(at: context.clock.now().monotonic) else { return }
            let detail = unrecorded > 0 ? ["unrecorded_before": String(unrecorded)] : [:]
            remember(.withheld, generation: generation, by: demand, detail: detail)
        }
    }

    private func spendRefusal(at now: MonotonicTime) -> Int? {
        guard let limit = context.callLimit else { return notes.spendForWithheld(at: now) }
        return limit.spendRefusal(at: now)
    }

    private func remember(
        _ name: TokenEvent.Name,
        generation: Int,
        by demand: CredentialRequest,
        detail: [String: String] = [:]
    ) {
        var event = context.event(name, generation: generation)
        event.demand = demand
        event.detail = detail
        event.detail["engine"] = demand.engine
        guard notes.add(event) else { return context.metrics.noteDropped() }
        signal.send(.notes)
    }
}
