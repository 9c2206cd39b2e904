/// Names a client in the account of a pool; ``PoolState/client(_:)`` has it.
package struct PoolClient: Hashable, Sendable {
    /// Clients have no names, so there is nothing to count.
    static let uncounted = PoolClient(number: -1)

    fileprivate let number: Int32

    fileprivate init(number: Int32) { self.number = number }
}

/// Counts the connections that each client has in use.
///
/// An entry stays when its count is 0: the configuration names the clients, so there are few.
struct ClientLeases: Sendable {
    private var clients: [String?: PoolClient] = [:]
    private var names: [String?] = []
    private var counts: [Int] = []

    mutating func client(_ name: String?) -> PoolClient {
        if let client = clients[name] { return client }
        let client = PoolClient(number: Int32(truncatingIfNeeded: counts.count))
        clients[name] = client
        names.append(name)
        counts.append(0)
        return client
    }

    func name(of client: PoolClient) -> String? {
        client == .uncounted ? nil : names[Int(client.number)]
    }

    func count(_ client: PoolClient) -> Int {
        client == .uncounted ? 0 : counts[Int(client.number)]
    }

    @inline(__always)
    mutating func add(_ number: Int, to client: PoolClient) {
        guard client != .uncounted else { return }
        counts[Int(client.number)] += number
    }
}
