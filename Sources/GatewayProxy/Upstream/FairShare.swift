import Synchronization

/// Decides whether a client may take one more of a number of places that clients share.
///
/// A client may take a place while it holds fewer than three times as many as are free. One client alone takes three
/// quarters of the places, and two clients take three sevenths each. A client that holds none gets one as long as a
/// place is free. No clients have to be counted, and no place is set aside for a client that does not come. Switches
/// divide their packet memory among ports by this rule (Choudhury and Hahne, "Dynamic queue length thresholds").
enum FairShare {
    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - total: Places that all clients hold, its own included.
    ///   - isShared: There are clients with names. Otherwise there are no other clients to leave places for, and each
    ///     request may take any place.
    static func allows(own: Int, total: Int, limit: Int, isShared: Bool = true) -> Bool {
        guard total < limit else { return false }
        return !isShared || allows(own: own, free: limit - total)
    }

    /// - Parameters:
    ///   - own: Places that the client holds.
    ///   - free: Places that no client holds.
    static func allows(own: Int, free: Int) -> Bool {
        // Three times what is free might be too large a number.
        own / 3 < free
    }
}

/// Places that clients share as ``FairShare`` allows, and how many each client holds.
struct ClientPlaces: Sendable {
    private var held: [String?: Int] = [:]
    private var total = 0

    init() {}

    /// - Parameters:
    ///   - client: nil for those without a name. They are one client.
    ///   - limit: Places of all clients.
    ///   - isShared: There are clients with names.
    /// - Returns: Whether the client has one more place now.
    mutating func take(for client: String?, limit: Int, isShared: Bool) -> Bool {
        let own = held[client] ?? 0
        guard FairShare.allows(own: own, total: total, limit: limit, isShared: isShared) else { return false }
        held[client] = own + 1
        total += 1
        assert(total <= limit, "Clients hold more places than there are.")
        checkInvariants()
        return true
    }

    mutating func giveBack(of client: String?) {
        guard let own = held[client] else { return }
        total -= 1
        held[client] = own > 1 ? own - 1 : nil
        checkInvariants()
    }

    private func checkInvariants() {
        assert(total >= held.count && held.isEmpty == (total == 0), "The places of all clients are not the total.")
        assert(
            held.count > 16 || held.values.reduce(0, +) == total,
            "The places of each client do not add up to the total."
        )
    }
}

/// Names a client in the account of ``ClientLeases``.
package struct PoolClient: Hashable, Sendable {
    /// Clients have no names, so there is nothing to count.
    static let uncounted = PoolClient(index: -1)
    /// Requests without a client's name are one client.
    static let unnamed = PoolClient(index: 0)

    fileprivate let index: Int

    fileprivate init(index: Int) { self.index = index }
}

/// The names of the clients of a configuration. All upstreams share one copy.
package struct ClientNames: Sendable {
    private let clients: [String: PoolClient]
    fileprivate let names: [String?]

    package init(_ clients: [String]) {
        names = clients.isEmpty ? [] : [nil] + clients
        self.clients = Dictionary(
            clients.enumerated().map { ($0.element, PoolClient(index: $0.offset + 1)) },
            uniquingKeysWith: { first, _ in first }
        )
    }

    fileprivate func client(_ name: String) -> PoolClient? { clients[name] }
}

/// Counts the connections to one upstream that each client has in use, over all event loops, and the streams of its HTTP/2
/// connections.
///
/// Shares are shares of streams: each connection that there may be has room for as many as the upstream allows, and one that a client
/// has for itself counts as all of them. Where the upstream speaks HTTP/1 only, these are shares of connections.
///
/// Two loops that look at the same moment can give a client one more than its share.
package final class ClientLeases: Sendable {
    /// What a request has in use. One count holds the numbers of both: connections in the upper half, streams in the lower.
    enum Lease: Int {
        case stream = 1
        case connection = 0x1_0000_0000
    }

    package let maximum: Int
    package let clients: ClientNames
    private let counts: SparseCounts
    private let total = Atomic<Int>(0)
    private let streamsOfConnection = Atomic<Int>(1)

    /// - Parameters:
    ///   - maximum: Connections of all clients.
    ///   - clients: Nothing is counted when there are none.
    package init(maximum: Int, clients: ClientNames) {
        self.maximum = maximum
        self.clients = clients
        counts = SparseCounts(limit: clients.names.count)
    }

    /// Clients have names.
    @inline(__always)
    var isShared: Bool { counts.limit > 0 }

    func client(_ name: String?) -> PoolClient {
        guard isShared else { return .uncounted }
        return name.flatMap { clients.client($0) } ?? .unnamed
    }

    func name(of client: PoolClient) -> String? { client == .uncounted ? nil : clients.names[client.index] }

    func count(_ client: PoolClient) -> Int { count(client, .connection) }

    func count(_ client: PoolClient, _ lease: Lease) -> Int {
        client == .uncounted ? 0 : Self.number(of: lease, in: counts[client.index])
    }

    private static func number(of lease: Lease, in count: Int) -> Int {
        lease == .connection ? count >> 32 : count & 0xFFFF_FFFF
    }

    /// Whether the client would be within its share with one more. When all are in use, it is judged as if one were free, so that it
    /// may wait for the next one.
    func allowsOneMore(_ client: PoolClient, _ lease: Lease = .connection) -> Bool {
        guard client != .uncounted else { return true }
        let streams = streamsOfConnection.load(ordering: .relaxed)
        let own = Self.size(counts[client.index], streamsOfConnection: streams)
        let all = Self.size(total.load(ordering: .relaxed), streamsOfConnection: streams)
        return FairShare.allows(own: own, free: max(maximum &* streams &- all, lease == .connection ? streams : 1))
    }

    func add(_ client: PoolClient, _ lease: Lease = .connection) {
        guard client != .uncounted else { return }
        counts.add(lease.rawValue, at: client.index)
        total.add(lease.rawValue, ordering: .relaxed)
    }

    func remove(_ client: PoolClient, _ lease: Lease = .connection) {
        guard client != .uncounted else { return }
        // Own ones are among them, whatever other threads do meanwhile.
        assert(count(client, lease) > 0, "A client gives back a \(lease) that it does not have in use.")
        assert(total.load(ordering: .relaxed) >= lease.rawValue, "More is given back than was in use.")
        counts.add(-lease.rawValue, at: client.index)
        total.subtract(lease.rawValue, ordering: .relaxed)
    }

    // MARK: Streams

    /// The upstream allows this number of streams on an HTTP/2 connection. It is expected to allow as many on others.
    func learned(streamsOfConnection streams: Int) {
        guard isShared else { return }
        streamsOfConnection.store(max(streams, 1), ordering: .relaxed)
    }

    /// A connection that is still open takes no more streams, so no client can use the ones that are left on it.
    func addUnusable(streams: Int) {
        if isShared { total.add(streams, ordering: .relaxed) }
    }

    func removeUnusable(streams: Int) {
        if isShared { total.subtract(streams, ordering: .relaxed) }
    }

    /// The streams that are in use, with those of whole connections.
    @inline(__always)
    private static func size(_ count: Int, streamsOfConnection: Int) -> Int {
        number(of: .connection, in: count) &* streamsOfConnection &+ number(of: .stream, in: count)
    }

    /// Counts that there is memory for.
    var capacity: Int { counts.capacity }
}
