import Synchronization

/// Names a client in the account of ``ClientLeases``.
struct PoolClient: Hashable, Sendable {
    /// Clients have no names, so there is nothing to count.
    static let uncounted = PoolClient(index: -1)
    /// Requests without a client's name are one client.
    static let unnamed = PoolClient(index: 0)

    fileprivate let index: Int

    fileprivate init(index: Int) { self.index = index }
}

/// Counts the connections to one upstream that each client has in use, over all event loops.
///
/// Two loops that look at the same moment can give a client one connection more than its share.
final class ClientLeases: Sendable {
    private final class Count: Sendable {
        let value = Atomic<Int>(0)
    }

    let maximum: Int
    private let clients: [String: PoolClient]
    private let names: [String?]
    private let counts: [Count]
    private let total = Atomic<Int>(0)

    /// - Parameters:
    ///   - maximum: Connections of all clients.
    ///   - clients: The names; nothing is counted when there are none.
    init(maximum: Int, clients: [String]) {
        self.maximum = maximum
        names = clients.isEmpty ? [] : [nil] + clients
        counts = names.map { _ in Count() }
        self.clients = Dictionary(
            clients.enumerated().map { ($0.element, PoolClient(index: $0.offset + 1)) },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// Clients have names.
    @inline(__always)
    var isShared: Bool { !counts.isEmpty }

    func client(_ name: String?) -> PoolClient {
        guard isShared else { return .uncounted }
        return name.flatMap { clients[$0] } ?? .unnamed
    }

    func name(of client: PoolClient) -> String? { client == .uncounted ? nil : names[client.index] }

    func count(_ client: PoolClient) -> Int {
        client == .uncounted ? 0 : counts[client.index].value.load(ordering: .relaxed)
    }

    /// Whether the client is within its share with one more connection. When all are in use, the next one that is not counts:
    /// the client may ask for it.
    func allowsOneMore(_ client: PoolClient) -> Bool {
        guard client != .uncounted else { return true }
        let free = maximum - total.load(ordering: .relaxed)
        return FairShare.allows(own: count(client), free: max(free, 1))
    }

    func add(_ client: PoolClient) {
        guard client != .uncounted else { return }
        counts[client.index].value.add(1, ordering: .relaxed)
        total.add(1, ordering: .relaxed)
    }

    func remove(_ client: PoolClient) {
        guard client != .uncounted else { return }
        // Own ones are among them, whatever other threads do meanwhile.
        assert(count(client) > 0, "A client gives back a connection that it does not have in use.")
        assert(total.load(ordering: .relaxed) > 0, "More connections are given back than were in use.")
        counts[client.index].value.subtract(1, ordering: .relaxed)
        total.subtract(1, ordering: .relaxed)
    }
}
