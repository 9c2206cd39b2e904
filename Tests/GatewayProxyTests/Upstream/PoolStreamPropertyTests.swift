import GatewayTesting
import Testing

@testable import GatewayHTTP
@testable import GatewayProxy

/// Random events of an upstream that speaks HTTP/2, and what must hold whatever their order.
@Suite("Pool: properties of streams", .timeLimit(.minutes(5)))
struct PoolStreamPropertyTests {
    @Test(arguments: 0..<40, [[], ["a", "b"]])
    func everyWaiterAndEveryPlaceHasOneEnd(seed: Int, clients: [String]) {
        var random = SplitMix(seed: UInt64(seed))
        var shell = StreamShell(places: 3, clients: clients)
        for _ in 0..<400 { shell.step(Int.random(in: 0..<13, using: &random), &random) }
        shell.endAll(&random)
        #expect(shell.complaints == [], "seed \(seed)")
        #expect(shell.asked == shell.served + shell.refused)
        #expect(shell.pool.placeCount == 0 && shell.free == 3)
        for client in [nil, "a", "b"] { #expect(shell.counted(for: client) == 0) }
    }
}

/// A pool's shell that keeps account.
private struct StreamShell: ~Copyable {
    struct Connection {
        /// The client of each.
        var streams: [String?] = []
        let client: String?
        /// nil while it is being opened.
        var limit: Int?
        var isRetired = false
    }

    var pool: PoolState
    private(set) var complaints: [String] = []
    private(set) var (asked, served, refused, free) = (0, 0, 0, 0)
    private var connections: [ConnectionID: Connection] = [:]
    private var waiters: [WaiterTicket: String?] = [:]
    /// Streams of connections that have ended, whose requests are not over.
    private var lost: [(id: ConnectionID, client: String?)] = []
    private let leases: ClientLeases
    private let clients: [String]
    private var newcomer: String?
    private var (turns, looks) = (0, 0)
    private var wantsPlace = false
    private var now = MonotonicTime(nanoseconds: 0)

    init(places: Int, clients: [String]) {
        var rules = PoolState.Rules(maximumWaiters: 8, idleTimeout: .seconds(2))
        rules.opensOneAtATime = true
        self.clients = clients
        leases = ClientLeases(maximum: places, clients: ClientNames(clients))
        pool = PoolState(rules, leases)
        free = places
    }

    private var situation: PoolSituation { PoolSituation(now: now, othersWait: false) }

    private func ids(where holds: (Connection) -> Bool) -> [ConnectionID] {
        connections.filter { holds($0.value) }.map(\.key).sorted { ($0.slot, $0.number) < ($1.slot, $1.number) }
    }

    func counted(for client: String?) -> Int {
        let client = leases.client(client)
        return leases.count(client) + leases.count(client, .stream)
    }

    /// Each client has as many streams as count for it; a connection that is being opened is one.
    private mutating func checkCounts() {
        guard !clients.isEmpty else { return }
        for client in clients + [nil] {
            let streams = connections.values.map { connection in connection.streams.count { $0 == client } }
            let opening = connections.values.count { $0.limit == nil && $0.client == client }
            let held = streams.reduce(opening, +) + lost.count { $0.client == client }
            if counted(for: client) != held { complaints.append("\(counted(for: client)) counted, \(held) held") }
        }
    }

    mutating func step(_ event: Int, _ random: inout SplitMix) {
        switch event {
        case 0...3: request(clients.isEmpty ? nil : (clients + [nil]).randomElement(using: &random) ?? nil)
        case 4, 5: opened(limit: Int.random(in: 0...3, using: &random), &random)
        case 6: if let id = ids(where: { $0.limit == nil }).randomElement(using: &random) { end(id) }
        case 7, 8: if let id = ids(where: { !$0.streams.isEmpty }).randomElement(using: &random) { streamEnded(id) }
        case 9: if let id = ids(where: { $0.limit != nil }).randomElement(using: &random) { end(id) }
        case 10: change(&random)
        case 11: turn()
        default:
            now = now + .seconds(Int.random(in: 0...200, using: &random))
            if let ticket = waiters.keys.sorted(by: { $0.number < $1.number }).randomElement(using: &random) {
                waiters[ticket] = nil
                refused += 1
                run(pool.leave(ticket, situation))
            }
            lostStreamEnded()
        }
        checkCounts()
    }

    // MARK: Events

    private mutating func request(_ client: String?) {
        asked += 1
        if let id = pool.takeStream(for: leases.client(client), at: now) { return lease(id, client) }
        newcomer = client
        run(pool.connect(client: client, isUrgent: false, situation))
    }

    private mutating func opened(limit: Int, _ random: inout SplitMix) {
        guard let id = ids(where: { $0.limit == nil }).randomElement(using: &random) else { return }
        let client = connections[id]?.client ?? nil
        connections[id]?.limit = limit
        connections[id]?.streams = [client]
        served += 1
        run(pool.openedShared(id, streamLimit: limit, jitter: 0, situation))
    }

    private mutating func change(_ random: inout SplitMix) {
        guard let id = ids(where: { $0.limit != nil }).randomElement(using: &random) else { return }
        guard Bool.random(using: &random) else {
            connections[id]?.isRetired = true
            if pool.retireConnection(id) { end(id) }
            return
        }
        let limit = Int.random(in: 0...4, using: &random)
        connections[id]?.limit = limit
        run(pool.streamLimitChanged(id, to: limit, situation))
    }

    private mutating func streamEnded(_ id: ConnectionID) {
        guard let client = connections[id]?.streams.popLast() else { return }
        switch pool.streamEnded(id, of: leases.client(client), situation) {
        case .goOn(let servesLater), .rest(_, let servesLater): if servesLater { turns += 1 }
        case .close:
            if connections[id]?.streams.isEmpty == false { complaints.append("closed with streams") }
            end(id)
        case .offer: complaints.append("offered, and nobody waits")
        }
    }

    private mutating func lostStreamEnded() {
        guard let (id, client) = lost.popLast() else { return }
        if pool.streamEnded(id, of: leases.client(client), situation) != .close {
            complaints.append("a connection goes on after its end")
        }
    }

    private mutating func end(_ id: ConnectionID) {
        guard let ended = connections.removeValue(forKey: id) else { return complaints.append("ended twice") }
        if ended.limit == nil { refused += 1 }
        lost += ended.streams.map { (id, $0) }
        run(pool.ended(id, situation))
    }

    private mutating func turn() {
        if turns > 0 {
            turns -= 1
            run(pool.serve(situation))
        }
        if looks > 0 {
            looks -= 1
            run(pool.spareTimePassed(situation))
        }
        if wantsPlace, free > 0 {
            wantsPlace = false
            free -= 1
            run(pool.placeGranted(situation))
        }
    }

    mutating func endAll(_ random: inout SplitMix) {
        for _ in 0..<2000
        where !connections.isEmpty || !waiters.isEmpty || turns > 0 || looks > 0 || wantsPlace || !lost.isEmpty {
            opened(limit: 3, &random)
            if let id = ids(where: { !$0.streams.isEmpty }).first { streamEnded(id) }
            lostStreamEnded()
            turn()
            if waiters.isEmpty, let id = ids(where: { $0.streams.isEmpty && $0.limit != nil }).first { idleEnds(id) }
            checkCounts()
        }
        if !connections.isEmpty || !waiters.isEmpty { complaints.append("stuck: \(waiters.count) wait") }
    }

    private mutating func idleEnds(_ id: ConnectionID) {
        pool.removeIdle(id)
        end(id)
    }

    // MARK: Steps

    private mutating func lease(_ id: ConnectionID, _ client: String?) {
        served += 1
        guard let connection = connections[id], let limit = connection.limit else {
            return complaints.append("leased what is not open")
        }
        if connection.streams.count >= limit { complaints.append("more streams than allowed") }
        if connection.isRetired { complaints.append("leased what takes no more") }
        connections[id]?.streams.append(client)
    }

    private mutating func run(_ first: PoolStep) {
        var step = first
        while step != .nothing { step = perform(step) }
    }

    private mutating func perform(_ step: PoolStep) -> PoolStep {
        switch step {
        case .nothing: return .nothing
        case .askForPlace:
            let isGranted = free > 0
            if isGranted { free -= 1 } else { wantsPlace = true }
            return pool.placeAnswered(isGranted: isGranted, situation)
        case .askForOwnPlace: return pool.ownPlaceAnswered(isGranted: wantsPlace, situation)
        case .withdrawRequest:
            let inTime = wantsPlace
            wantsPlace = false
            return pool.requestWithdrawn(inTime: inTime, situation)
        case .look(let id): return pool.looked(isUsable: true, at: id, situation)
        case .offerIdle: return pool.offerAnswered(isTaken: false, situation)
        case .dial(let id, let ticket):
            if connections.values.contains(where: { $0.limit == nil }) { complaints.append("opened two at a time") }
            let client = ticket.map { waiters.removeValue(forKey: $0) ?? nil } ?? newcomer
            connections[id] = Connection(client: client)
        case .wait(let ticket): waiters[ticket] = .some(newcomer)
        case .displace(let displaced, let ticket):
            waiters[ticket] = .some(newcomer)
            refuse(displaced)
        case .refuseNewcomer: refused += 1
        case .refuse(let ticket, _), .fail(let ticket): refuse(ticket)
        case .lease(let id, let ticket):
            guard let client = waiters.removeValue(forKey: ticket) else {
                complaints.append("leased to nobody")
                break
            }
            lease(id, client)
        case .serveLater: turns += 1
        case .spareLater: looks += 1
        case .close(let id): end(id)
        case .giveBackPlace: free += 1
        case .leaveBudget: break
        }
        return pool.next(situation)
    }

    private mutating func refuse(_ ticket: WaiterTicket) {
        if waiters.removeValue(forKey: ticket) == nil { complaints.append("refused twice") }
        refused += 1
    }
}
