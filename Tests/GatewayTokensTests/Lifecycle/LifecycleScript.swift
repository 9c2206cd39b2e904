import GatewayEvents
import GatewayHTTP

@testable import GatewayTokens

/// A lifecycle and the time, for tests: every step says what it returned in a word or two.
struct LifecycleScript: ~Copyable {
    var machine: TokenLifecycle<Int>
    var now = Moment(monotonic: MonotonicTime(nanoseconds: 1_000_000_000), wall: UnixTime(seconds: 1_772_357_400))
    var call: TokenCall?
    private var tickets: UInt64 = 0

    init(
        isRenewable: Bool = true,
        policy: RenewalPolicy = RenewalPolicy(),
        maximumWaiters: Int = 10_000,
        callsPerHour: Int = 60,
        canAcquireAnew: Bool = false,
        begunBy: TokenEvent.Trigger = .startup
    ) {
        machine = TokenLifecycle(
            .init(
                name: "box-service",
                isRenewable: isRenewable,
                canAcquireAnew: canAcquireAnew,
                policy: policy,
                maximumWaiters: maximumWaiters,
                callsPerHour: callsPerHour,
                begunBy: begunBy
            )
        )
    }

    /// Past the first look into an empty store.
    static func started(
        isRenewable: Bool = true,
        policy: RenewalPolicy = RenewalPolicy(),
        maximumWaiters: Int = 10_000,
        callsPerHour: Int = 60,
        begunBy: TokenEvent.Trigger = .startup
    ) -> LifecycleScript {
        var script = LifecycleScript(
            isRenewable: isRenewable,
            policy: policy,
            maximumWaiters: maximumWaiters,
            callsPerHour: callsPerHour,
            begunBy: begunBy
        )
        _ = script.next()
        script.findNothing()
        return script
    }

    /// With a token of generation 1.
    static func ready(
        lifetime: Duration? = .seconds(3600),
        isRenewable: Bool = true,
        policy: RenewalPolicy = RenewalPolicy(),
        callsPerHour: Int = 60,
        canAcquireAnew: Bool = false
    ) -> LifecycleScript {
        var script = LifecycleScript(
            isRenewable: isRenewable,
            policy: policy,
            callsPerHour: callsPerHour,
            canAcquireAnew: canAcquireAnew
        )
        _ = script.next()
        _ = script.obtain(1, lifetime: lifetime)
        return script
    }

    mutating func pass(_ duration: Duration) { now = now + duration }

    mutating func next() -> String {
        switch machine.next(at: now.monotonic) {
        case .call(let call):
            self.call = call
            return "call \(call.trigger.rawValue)"
        case .storm(let waiters, let problem, _): return "storm \(waiters.sorted()) \(problem.kind.rawValue)"
        case .expiringSoon(let held): return "expiring soon \(held.generation)"
        case .expired(let held): return "expired \(held.generation)"
        case .sleep(let until): return until.map { "sleep \($0 - now.monotonic)" } ?? "sleep"
        }
    }

    mutating func need(_ waiter: Int) -> String {
        tickets += 1
        let demand = CredentialRequest(route: "box", client: nil, requestID: "r\(waiter)")
        let ticket = CredentialTicket(id: tickets)
        switch machine.need(by: waiter, ticket: ticket, for: demand, at: now.monotonic) {
        case .use(let credential): return "use \(credential.generation)"
        case .wait: return "wait"
        case .waitAndCall: return "wait and call"
        case .refuse(let problem): return "refuse \(problem.kind.rawValue)"
        }
    }

    mutating func withdraw(_ ticket: UInt64) -> Int? { machine.withdraw(CredentialTicket(id: ticket)) }

    func answer() -> String {
        switch machine.answer(at: now.monotonic) {
        case .ready(let credential): "use \(credential.generation)"
        case .wait: "wait"
        case .unavailable(let problem): "refuse \(problem.kind.rawValue)"
        }
    }

    func retryAfter() -> Duration? {
        guard case .unavailable(let problem) = machine.answer(at: now.monotonic) else { return nil }
        return problem.retryAfter
    }

    func state() -> TokenStatus.State { machine.state(at: now.monotonic) }

    private func fresh(_ generation: Int, lifetime: Duration?, age: Duration = .zero) -> FreshToken {
        let obtainedAt = now.wall + (.zero - age)
        let token = TokenSet(
            access: Secret("token-\(generation)"),
            obtainedAt: obtainedAt,
            expiresAt: lifetime.map { obtainedAt + $0 }
        )
        let injection = Injection.authorization(scheme: "Bearer", token.access)
        return FreshToken(generation: generation, token: token, injection: injection)
    }

    mutating func obtain(
        _ generation: Int,
        lifetime: Duration? = .seconds(3600),
        age: Duration = .zero,
        isRejected: Bool = false,
        isRenewalDue: Bool = false,
        jitter: Double = 0
    ) -> String {
        guard let call else { return "nobody called" }
        var fresh = fresh(generation, lifetime: lifetime, age: age)
        fresh.isRejected = isRejected
        fresh.isRenewalDue = isRenewalDue
        return describe(machine.obtained(fresh, by: call, at: now, jitter: jitter))
    }

    mutating func obtain(_ generation: Int, until end: UnixTime) -> String {
        guard let call else { return "nobody called" }
        var fresh = fresh(generation, lifetime: nil)
        fresh.token.expiresAt = end
        return describe(machine.obtained(fresh, by: call, at: now, jitter: 0))
    }

    mutating func bring(_ generation: Int, lifetime: Duration? = .seconds(3600)) -> String {
        describe(machine.import(fresh(generation, lifetime: lifetime), at: now, jitter: 0))
    }

    mutating func beginImport(_ generation: Int) -> Bool {
        guard let call = machine.beginImport(generation: generation) else { return false }
        self.call = call
        return true
    }

    /// - Parameters:
    ///   - lifetime: Of the imported token; nil where a refresh token alone was imported.
    ///   - earlier: The generation before the import.
    mutating func failImport(
        _ class: TokenFailure.Class,
        of generation: Int,
        lifetime: Duration? = .seconds(3600),
        replacing earlier: Int?,
        ofAge age: Duration = .zero
    ) -> String {
        guard let call else { return "nobody called" }
        var imported = fresh(generation, lifetime: lifetime)
        imported.isRejected = lifetime == nil
        let outcome = machine.importFailed(
            TokenFailure(`class`, problem: GatewayProblem(.tokenTemporarilyUnavailable, "No.")),
            of: imported,
            replacing: earlier.map { fresh($0, lifetime: .seconds(3600), age: age) },
            by: call,
            at: now,
            jitter: 0
        )
        switch outcome {
        case .postponed(let ended): return "postponed" + describe(ended)
        case .refused(let ended): return "refused" + describe(ended)
        case .ignored: return "ignored"
        }
    }

    private func describe(_ ended: TokenLifecycle<Int>.EndedWaits?) -> String {
        guard let ended else { return "" }
        switch ended.result {
        case .success(let credential): return ", use \(credential.generation) for \(ended.waiters.sorted())"
        case .failure(let problem): return ", refuse \(ended.waiters.sorted()) \(problem.kind.rawValue)"
        }
    }

    private func describe(_ outcome: TokenLifecycle<Int>.OnToken) -> String {
        switch outcome {
        case .use(let credential, let waiters): "use \(credential.generation) for \(waiters.sorted())"
        case .dead: "dead"
        case .ignored: "ignored"
        }
    }

    mutating func findNothing() {
        if let call { machine.foundNothing(by: call) }
    }

    mutating func fail(
        _ class: TokenFailure.Class = .transient(retryAfter: nil),
        clearsToken: Bool = false,
        isRetried: Bool? = nil,
        status: Int? = nil,
        jitter: Double = 0
    ) -> String {
        let kind: ProblemKind =
            switch `class` {
            case .transient, .suspect: .tokenTemporarilyUnavailable
            case .terminal: .credentialMisconfigured
            case .loginLikely, .loginRequired: .loginRequired
            }
        let failure = TokenFailure(
            `class`,
            problem: GatewayProblem(kind, "No."),
            clearsToken: clearsToken,
            isRetried: isRetried
        ).naming(nil, status.map { AuthorityError(status: $0) })
        guard let call, let refused = machine.failed(failure, by: call, at: now.monotonic, jitter: jitter) else {
            return "ignored"
        }
        return "refuse \(refused.waiters.sorted()) \(refused.problem.kind.rawValue)"
    }

    mutating func reject(_ generation: Int) -> String {
        switch machine.rejected(generation: generation) {
        case .late: "late"
        case .known: "known"
        case .dead(let calls): calls ? "dead, call" : "dead"
        }
    }

    mutating func refresh() -> Bool {
        guard let call = machine.refresh() else { return false }
        self.call = call
        return true
    }

    mutating func lock() -> String {
        let (waiters, problem) = machine.lock()
        return "refuse \(waiters.sorted()) \(problem.kind.rawValue)"
    }
}
