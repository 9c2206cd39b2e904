import GatewayTesting
import Testing

@testable import GatewayHTTP
@testable import GatewayProxy

/// Several pools before one upstream, each with a shell that carries out its steps and keeps account.
final class PoolWorld {
    private enum Task {
        case serve
        case grant
        case othersWait
        case spare
    }

    enum Lease: Equatable {
        case opening
        case leased
        case idle
        case kept
        /// The shell has closed it, and its end has not been reported yet.
        case closing
    }

    private struct Waiter {
        let client: String?
        let needsNew: Bool
    }

    private let maximum: Int
    private let isShared: Bool
    private let leases: ClientLeases
    private var pools: [Pool]
    private var budget: PoolTestBudget
    private var tasks: [(pool: Int, task: Task)] = []
    private(set) var now = MonotonicTime(nanoseconds: 0)
    private(set) var complaints: [String] = []
    private(set) var served = 0
    private(set) var refused = 0

    private final class Pool {
        var state: PoolState
        var connections: [ConnectionID: Lease] = [:]
        /// The clients of the connections that are in use.
        var users: [ConnectionID: String?] = [:]
        var waiters: [WaiterTicket: Waiter] = [:]
        /// nil is a request that did not have to wait.
        var dialled: [ConnectionID: WaiterTicket?] = [:]

        init(_ rules: PoolState.Rules, _ leases: ClientLeases) { state = PoolState(rules, leases) }

        func all(_ lease: Lease) -> [ConnectionID] {
            connections.filter { $0.value == lease }.map(\.key).sorted { ($0.slot, $0.number) < ($1.slot, $1.number) }
        }
    }

    init(pools count: Int, maximum: Int, maximumWaiters: Int, isShared: Bool) {
        self.maximum = maximum
        self.isShared = isShared
        let rules = PoolState.Rules(maximumWaiters: maximumWaiters, idleTimeout: .seconds(2))
        leases = ClientLeases(maximum: maximum, clients: ClientNames(isShared ? ["a", "b", "c"] : []))
        pools = (0..<count).map { [leases] _ in Pool(rules, leases) }
        budget = PoolTestBudget(free: maximum)
    }

    var poolIndices: Range<Int> { pools.indices }

    private func complain(_ text: String) { complaints.append(text) }

    private func situation(_ pool: Int) -> PoolSituation {
        PoolSituation(now: now, othersWait: !budget.waiting.isEmpty)
    }

    // MARK: The shell

    private func run(_ first: PoolStep, _ number: Int, for newcomer: Waiter? = nil) {
        let pool = pools[number]
        var step = first
        while step != .nothing {
            perform(step, number, newcomer)
            step =
                switch step {
                case .askForPlace: pool.state.placeAnswered(isGranted: take(number), situation(number))
                case .askForOwnPlace:
                    pool.state.ownPlaceAnswered(isGranted: budget.promiseToItself(number), situation(number))
                case .withdrawRequest: pool.state.requestWithdrawn(inTime: budget.withdraw(number), situation(number))
                case .look(let id):
                    pool.state.looked(isUsable: pool.connections[id] == .leased, at: id, situation(number))
                case .offerIdle:
                    pool.state.offerAnswered(isTaken: budget.promise(number, rests: true), situation(number))
                default: pool.state.next(situation(number))
                }
        }
    }

    private func perform(_ step: PoolStep, _ number: Int, _ newcomer: Waiter?) {
        let pool = pools[number]
        switch step {
        case .nothing, .askForPlace, .askForOwnPlace, .withdrawRequest, .offerIdle: break
        case .dial(let id, let ticket):
            let waiter = ticket.map { pool.waiters.removeValue(forKey: $0) } ?? newcomer
            if waiter == nil { complain("dialled for nobody") }
            pool.users[id] = .some(waiter?.client)
            if pool.connections.updateValue(.opening, forKey: id) != nil { complain("a connection opened twice") }
            pool.dialled[id] = .some(ticket)
        case .wait(let ticket): pool.waiters[ticket] = newcomer
        case .displace(let displaced, let ticket):
            pool.waiters[ticket] = newcomer
            refuse(displaced, pool)
        case .refuseNewcomer: refused += 1
        case .refuse(let ticket, _), .fail(let ticket): refuse(ticket, pool)
        // A third of them have ended unnoticed.
        case .look(let id):
            lease(id, pool, endsUnnoticed: id.number % 3 == 2)
            if pool.connections[id] == .closing { close(id, number) }
        case .lease(let id, let ticket):
            let waiter = pool.waiters.removeValue(forKey: ticket)
            switch waiter?.needsNew {
            case nil: complain("leased to nobody")
            case true?: complain("a used connection for a request that needs a new one")
            case false?: served += 1
            }
            pool.users[id] = .some(waiter?.client)
            if pool.connections[id] != .leased { complain("leased what was not looked at") }
            goOn(with: id, number)
        case .serveLater: tasks.append((number, .serve))
        case .close(let id):
            if pool.connections[id] == .leased { complain("closed what was in use") }
            close(id, number)
        case .spareLater: tasks.append((number, .spare))
        case .giveBackPlace: giveBack(number)
        case .leaveBudget:
            if budget.places[number, default: 0] != 0 { complain("left the budget with connections") }
            budget.members.remove(number)
        }
    }

    /// The end of some connections is reported before the next step.
    private func close(_ id: ConnectionID, _ pool: Int) {
        pools[pool].connections[id] = .closing
        if id.number % 2 == 0 { end(id, pool) }
    }

    /// What a request does that has got a connection, before the next step.
    private func goOn(with id: ConnectionID, _ pool: Int) {
        switch served % 8 {
        case 0: end(id, pool)
        case 1: request(pool, client: "a", isUrgent: true, mayRepeat: true)
        case 2: request(pool, client: "b", isUrgent: false, mayRepeat: true)
        case 3: putBack(id, pool)
        case 4:
            end(id, pool)
            request(pool, client: "c", isUrgent: true, mayRepeat: true)
        default: break
        }
    }

    private func lease(_ id: ConnectionID, _ pool: Pool, endsUnnoticed: Bool) {
        if pool.connections[id] != .idle { complain("leased twice") }
        pool.connections[id] = endsUnnoticed ? .closing : .leased
    }

    private func refuse(_ ticket: WaiterTicket, _ pool: Pool) {
        if pool.waiters.removeValue(forKey: ticket) == nil { complain("refused twice") }
        refused += 1
    }

    private func giveBack(_ pool: Int) {
        if let next = budget.giveBack(pool) { tasks.append((next, .grant)) }
    }

    private func take(_ pool: Int) -> Bool {
        if budget.knowsAsWaiting(pool) { complain("asked twice") }
        guard !budget.take(pool) else { return true }
        if budget.waiting.count == 1 {
            for other in budget.members.sorted() where other != pool { tasks.append((other, .othersWait)) }
        }
        return false
    }

    // MARK: Events

    func request(_ pool: Int, client: String?, isUrgent: Bool, isPrivate: Bool = false, mayRepeat: Bool) {
        if !isUrgent, !isPrivate {
            let number = pools[pool].state.client(client)
            while let id = pools[pool].state.next(for: number) {
                let lease = pools[pool].connections[id]
                if lease != .idle { complain("not idle") }
                let action = pools[pool].state.take(
                    for: number,
                    mayRepeat: mayRepeat,
                    isOpen: true,
                    mayHaveInput: false,
                    busySince: nil,
                    at: now
                )
                pools[pool].connections[id] = action == .lease || action == .look ? .leased : .closing
                if pools[pool].connections[id] == .leased {
                    pools[pool].users[id] = .some(client)
                    served += 1
                    return
                }
            }
        }
        let situation = situation(pool)
        run(
            pools[pool].state.connect(client: client, isUrgent: isUrgent, isPrivate: isPrivate, situation),
            pool,
            for: Waiter(client: client, needsNew: isUrgent || isPrivate)
        )
    }

    func putBack(_ pool: Int, random: inout SplitMix) {
        guard let id = pools[pool].all(.leased).randomElement(using: &random) else { return }
        putBack(id, pool)
    }

    private func putBack(_ id: ConnectionID, _ pool: Int) {
        var answer = pools[pool].state.putBack(id, situation(pool))
        if answer == .offer {
            if budget.promise(pool, rests: false) {
                answer = .close
            } else {
                answer = pools[pool].state.putBack(id, wasOffered: true, situation(pool))
            }
        }
        rest(id, pool, as: .idle, answer)
    }

    /// A connection of which its client has the next use.
    func keep(_ pool: Int, random: inout SplitMix) {
        guard let id = pools[pool].all(.leased).randomElement(using: &random) else { return }
        rest(id, pool, as: .kept, pools[pool].state.keepPrivate(id, situation(pool)))
    }

    func takeKept(_ pool: Int, random: inout SplitMix) {
        guard let id = pools[pool].all(.kept).randomElement(using: &random) else { return }
        pools[pool].state.takePrivate(id)
        pools[pool].connections[id] = .leased
        served += 1
    }

    private func rest(_ id: ConnectionID, _ pool: Int, as lease: Lease, _ answer: PoolReturn) {
        switch answer {
        case .rest(_, let servesLater):
            pools[pool].connections[id] = lease
            if lease == .idle { pools[pool].users[id] = nil }
            if servesLater { tasks.append((pool, .serve)) }
        case .close: pools[pool].connections[id] = .closing
        case .offer: complain("offered twice")
        case .goOn: complain("a connection without streams goes on")
        }
    }

    func finishDial(_ pool: Int, random: inout SplitMix) {
        guard let id = pools[pool].all(.opening).randomElement(using: &random) else { return }
        pools[pool].dialled[id] = nil
        guard Int.random(in: 0..<5, using: &random) > 0 else { return end(id, pool) }
        pools[pool].connections[id] = .leased
        pools[pool].state.opened(id, jitter: random.next(), at: now)
        served += 1
    }

    func endOne(_ pool: Int, _ lease: Lease, random: inout SplitMix) {
        guard let id = pools[pool].all(lease).randomElement(using: &random) else { return }
        end(id, pool)
    }

    private func end(_ id: ConnectionID, _ pool: Int) {
        pools[pool].connections[id] = nil
        pools[pool].users[id] = nil
        run(pools[pool].state.ended(id, situation(pool)), pool)
        // Once more: without effect.
        if pools[pool].state.ended(id, situation(pool)) != .nothing { complain("ended twice") }
    }

    func leave(_ pool: Int, timesOut: Bool, random: inout SplitMix) {
        let tickets = pools[pool].waiters.keys.sorted { $0.number < $1.number }
        guard let ticket = tickets.randomElement(using: &random) else { return }
        if timesOut { return run(pools[pool].state.timedOut(ticket), pool) }
        pools[pool].waiters[ticket] = nil
        run(pools[pool].state.leave(ticket, situation(pool)), pool)
    }

    func wait(_ duration: Duration) {
        now = now + duration
        for pool in pools {
            for id in pool.all(.idle) + pool.all(.kept) where Int(id.number) % 2 == 0 && duration > .seconds(1) {
                if pool.state.removeIdle(id) { pool.connections[id] = .closing }
            }
        }
    }

    func retire(_ pool: Int) {
        pools[pool].state.retire()
        while let id = pools[pool].state.nextToClose() {
            if pools[pool].connections[id] == .leased { complain("closed what was in use") }
            pools[pool].connections[id] = .closing
        }
    }

    func runTask() {
        guard !tasks.isEmpty else { return }
        let (pool, task) = tasks.removeFirst()
        let state: PoolStep =
            switch task {
            case .serve: pools[pool].state.serve(situation(pool))
            case .grant: pools[pool].state.placeGranted(situation(pool))
            case .othersWait: pools[pool].state.othersBeganToWait(situation(pool))
            case .spare: pools[pool].state.spareTimePassed(situation(pool))
            }
        run(state, pool)
    }

    /// All turns that are about to come; those that only look again do not end as long as others wait.
    func settle() {
        for _ in 0..<200 where !tasks.isEmpty { runTask() }
    }

    private var isEmpty: Bool {
        tasks.isEmpty && pools.allSatisfy { $0.connections.isEmpty && $0.waiters.isEmpty }
    }

    /// Everything that is under way comes to its end.
    func finish(random: inout SplitMix) {
        for pool in pools.indices { retire(pool) }
        for _ in 0..<2000 where !isEmpty {
            for pool in pools.indices {
                finishDial(pool, random: &random)
                putBack(pool, random: &random)
                endOne(pool, .closing, random: &random)
            }
            now = now + .milliseconds(20)
            settle()
        }
    }

    // MARK: What must hold

    func check(isSettled: Bool) {
        let granted = tasks.count { $0.task == .grant }
        for (number, pool) in pools.enumerated() {
            let state = (
                places: pool.state.placeCount, idle: pool.state.idleCount, waiters: pool.state.waiterCount
            )
            if state.waiters != pool.waiters.count { complain("a waiter was lost") }
            if state.idle != pool.all(.idle).count { complain("an idle connection was lost") }
            if pool.state.kept.count != pool.all(.kept).count { complain("a private connection was lost") }
            if state.places != pool.connections.count { complain("\(state.places) places, \(pool.connections.count)") }
            if isSettled, state.waiters > 0 { checkWaiters(number) }
        }
        checkShares()
        let places = budget.places.values.reduce(0, +)
        if places + budget.free != maximum { complain("\(places) places and \(budget.free) of \(maximum)") }
        let open = pools.map(\.connections.count).reduce(0, +)
        if open + granted != places { complain("\(open) connections and \(granted) grants for \(places) places") }
    }

    private func held(by client: String?) -> Int {
        pools.map { $0.users.count { $0.value == client } }.reduce(0, +)
    }

    private func checkShares() {
        for client in ["a", "b", "c", nil] {
            let held = held(by: client)
            let counted = leases.count(leases.client(client))
            if counted != (isShared ? held : 0) { complain("\(counted) counted for \(client ?? "nil") with \(held)") }
            // Of three places or fewer the share is all of them.
            if isShared, maximum > 3, held >= maximum { complain("\(client ?? "nil") has all") }
        }
    }

    private func checkWaiters(_ number: Int) {
        let pool = pools[number]
        let free = maximum - pools.map(\.users.count).reduce(0, +)
        let waiters = pool.waiters.values.filter { waiter in
            // The next place that becomes free is for who has two or fewer.
            !isShared || held(by: waiter.client) / 3 < max(free, 1)
        }
        guard !waiters.isEmpty else {
            // What happens on other loops is noticed when the place comes.
            guard pools.count == 1 else { return }
            if budget.waiting.contains(number) { complain("asks for a place that no waiter may have") }
            if !tasks.contains(where: { $0.pool == number && $0.task == .spare }) { complain("never looks again") }
            return
        }
        let isComing = tasks.contains { $0.pool == number && $0.task == .grant }
        if !budget.knowsAsWaiting(number) && !isComing { complain("waits for nothing") }
        if budget.free > 0 { complain("waits beside a free place") }
        // One that needs a new connection takes the place of an idle one when its turn comes.
        let idle = budget.promised.contains(number) ? 0 : pool.state.idleCount
        if idle > 0, !waiters.contains(where: \.needsNew) { complain("waits beside an idle connection") }
    }

    func checkThatNothingIsLeft() {
        for pool in pools {
            if pool.state.waiterCount > 0 || !pool.waiters.isEmpty { complain("a waiter was never served") }
            if pool.state.placeCount > 0 || !pool.connections.isEmpty { complain("a connection is left") }
        }
        if budget.free != maximum || !budget.members.isEmpty { complain("the budget is not as it was: \(budget)") }
    }
}
