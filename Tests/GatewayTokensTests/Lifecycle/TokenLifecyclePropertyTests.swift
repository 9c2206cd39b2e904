import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Testing

@testable import GatewayTokens

/// Whatever happens in whatever order, some things hold.
@Suite("Token lifecycle: always", .timeLimit(.minutes(5)))
struct TokenLifecyclePropertyTests {
    /// What an observer who believes nothing has seen so far.
    struct Observer {
        var waiting: Set<Int> = []
        var rejected: Set<Int> = []
        var ends: [Int: MonotonicTime] = [:]
        var isLocked = false
        var callUnderWay: TokenCall?
        /// Refreshed by the call under way.
        var imported: FreshToken?
        var generations: Set<Int> = []
        var complaints: [String] = []

        mutating func check(_ holds: Bool, _ sentence: @autoclosure () -> String) {
            if !holds { complaints.append(sentence()) }
        }

        mutating func released(_ waiters: [Int]) {
            for waiter in waiters {
                check(waiting.remove(waiter) != nil, "waiter \(waiter) was answered twice, or never asked")
            }
        }

        mutating func used(_ credential: Credential, at now: MonotonicTime) {
            let generation = credential.generation
            check(!isLocked, "generation \(generation) was handed out while locked")
            check(!rejected.contains(generation), "generation \(generation) was handed out after its rejection")
            if let end = ends[generation] { check(now < end, "generation \(generation) was handed out after its end") }
            check(generation != imported?.generation, "generation \(generation) was handed out before its refresh")
        }

        /// A token that was never there before.
        mutating func new(_ generation: Int, at now: Moment, for lifetime: Duration) -> FreshToken {
            check(generations.insert(generation).inserted, "generation \(generation) was given twice")
            ends[generation] = now.monotonic + lifetime
            let token = TokenSet(access: Secret("t"), obtainedAt: now.wall, expiresAt: now.wall + lifetime)
            return FreshToken(generation: generation, token: token, injection: Injection())
        }

        mutating func callEnded() {
            callUnderWay = nil
            imported = nil
        }
    }

    @Test(arguments: 0..<200)
    func noOrderOfEventsBreaksAPromise(seed: UInt64) {
        var dice = SplitMix(seed: seed)
        var observer = Observer()
        var machine = TokenLifecycle<Int>(
            .init(name: "box-service", isRenewable: seed % 5 != 0, maximumWaiters: 8, callsPerHour: 1000)
        )
        var now = Moment(monotonic: MonotonicTime(nanoseconds: 0), wall: UnixTime(seconds: 1_772_357_400))
        var ticket: UInt64 = 0
        for step in 0..<400 {
            now = now + .milliseconds(Int64.random(in: 0...30_000, using: &dice))
            if Int.random(in: 0..<20, using: &dice) == 0 { now.wall = now.wall + .seconds(3600) }
            switch Int.random(in: 0..<15, using: &dice) {
            case 0...3:
                ticket += 1
                need(step, ticket, &machine, &observer, at: now.monotonic)
            case 4...6:
                next(&machine, &observer, at: now.monotonic)
            case 7, 8:
                settle(&machine, &observer, at: now, &dice)
            case 9:
                let generation = Int.random(in: 0...(machine.generation + 1), using: &dice)
                if case .dead = machine.rejected(generation: generation) { observer.rejected.insert(generation) }
            case 10:
                if ticket > 0, let left = machine.withdraw(CredentialTicket(id: .random(in: 1...ticket, using: &dice)))
                {
                    observer.released([left])
                }
            case 11:
                observer.isLocked.toggle()
                if observer.isLocked { observer.released(machine.lock().waiters) } else { machine.unlock() }
            case 12:
                guard let call = machine.refresh() else { break }
                observer.check(observer.callUnderWay == nil, "refresh called beside a call under way")
                observer.callUnderWay = call
            case 13:
                beginImport(&machine, &observer, at: now, &dice)
            default:
                guard Int.random(in: 0..<4, using: &dice) == 0 else { break }
                machine.clear()
                observer.callEnded()
            }
            if let servable = machine.servable, servable.isUsable(at: now.monotonic) {
                observer.used(servable, at: now.monotonic)
            }
        }
        observer.released(machine.stop().waiters)
        let forgotten = observer.waiting
        observer.check(forgotten.isEmpty, "\(forgotten) were never answered")
        #expect(observer.complaints == [])
    }

    private func need(
        _ waiter: Int,
        _ ticket: UInt64,
        _ machine: inout TokenLifecycle<Int>,
        _ observer: inout Observer,
        at now: MonotonicTime
    ) {
        let demand = CredentialRequest(route: "box", client: nil, requestID: "r")
        switch machine.need(by: waiter, ticket: CredentialTicket(id: ticket), for: demand, at: now) {
        case .use(let credential): observer.used(credential, at: now)
        case .wait, .waitAndCall: observer.waiting.insert(waiter)
        case .refuse: break
        }
    }

    private func next(_ machine: inout TokenLifecycle<Int>, _ observer: inout Observer, at now: MonotonicTime) {
        switch machine.next(at: now) {
        case .call(let call):
            observer.check(observer.callUnderWay == nil, "two calls at a time")
            observer.check(!observer.isLocked, "a call while locked")
            observer.callUnderWay = call
        case .storm(let waiters, _, _): observer.released(waiters)
        case .expired(let held): observer.check(!held.isLive(at: now), "a live token expired")
        case .expiringSoon: break
        case .sleep(let until): if let until { observer.check(until > now, "a sleep that is over: a hot loop") }
        }
    }

    private func settle(
        _ machine: inout TokenLifecycle<Int>,
        _ observer: inout Observer,
        at now: Moment,
        _ dice: inout SplitMix
    ) {
        guard let call = observer.callUnderWay else { return }
        let imported = observer.imported
        observer.callEnded()
        switch Int.random(in: 0..<8, using: &dice) {
        case 0...3:
            let lifetime = Duration.seconds(Int64.random(in: 1...600, using: &dice))
            let fresh = observer.new(machine.generation + 1, at: now, for: lifetime)
            let jitter = Double.random(in: 0...1, using: &dice)
            switch machine.obtained(fresh, by: call, at: now, jitter: jitter) {
            case .use(_, let waiters): observer.released(waiters)
            case .dead: observer.check(false, "a fresh token is live")
            case .ignored: observer.check(false, "the call under way is awaited")
            }
        case 4...5:
            fail(.transient(retryAfter: nil), call, importing: imported, &machine, &observer, at: now)
        case 6:
            let drawn: [TokenFailure.Class] = [.loginRequired, .suspect]
            fail(drawn[Int.random(in: 0..<2, using: &dice)], call, importing: imported, &machine, &observer, at: now)
        default:
            machine.foundNothing(by: call)
        }
    }

    private func fail(
        _ class: TokenFailure.Class,
        _ call: TokenCall,
        importing imported: FreshToken?,
        _ machine: inout TokenLifecycle<Int>,
        _ observer: inout Observer,
        at now: Moment
    ) {
        let failure = TokenFailure(`class`, problem: GatewayProblem(.tokenTemporarilyUnavailable, "No."))
        if let imported { return failImport(failure, of: imported, by: call, &machine, &observer, at: now) }
        let refused = machine.failed(failure, by: call, at: now.monotonic, jitter: 0.5)
        observer.check(refused != nil, "the call under way is awaited")
        observer.released(refused?.waiters ?? [])
    }

    private func beginImport(
        _ machine: inout TokenLifecycle<Int>,
        _ observer: inout Observer,
        at now: Moment,
        _ dice: inout SplitMix
    ) {
        guard observer.callUnderWay == nil, !observer.isLocked else {
            let hasBegun = machine.beginImport(generation: machine.generation + 1) != nil
            return observer.check(!hasBegun, "an import while locked or beside a call under way")
        }
        let lifetime = Duration.seconds(Int64.random(in: 1...600, using: &dice))
        let imported = observer.new(machine.generation + 1, at: now, for: lifetime)
        observer.callUnderWay = machine.beginImport(generation: imported.generation)
        observer.check(observer.callUnderWay != nil, "no import although nothing is in its way")
        observer.imported = imported
    }

    private func failImport(
        _ failure: TokenFailure,
        of imported: FreshToken,
        by call: TokenCall,
        _ machine: inout TokenLifecycle<Int>,
        _ observer: inout Observer,
        at now: Moment
    ) {
        // As the store has it: it knows of no rejection during the call.
        let earlier = machine.held.map { held in
            FreshToken(generation: held.generation, token: held.token, injection: Injection())
        }
        let outcome = machine.importFailed(failure, of: imported, replacing: earlier, by: call, at: now, jitter: 0.5)
        switch outcome {
        case .postponed(let ended):
            observer.check(machine.held?.generation == imported.generation, "a passing failure loses the import")
            observer.released(ended?.waiters ?? [])
        case .refused(let ended):
            observer.check(machine.held?.generation == earlier?.generation, "a refused import changes the token")
            observer.released(ended?.waiters ?? [])
        case .ignored: observer.check(false, "the call under way is awaited")
        }
    }
}
