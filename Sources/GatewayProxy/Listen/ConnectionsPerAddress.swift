import GatewayHTTP
import Synchronization

/// Counts the connections of each client address, over all workers.
///
/// Only addresses with an open connection take memory.
final class ConnectionsPerAddress: Sendable {
    private let counts = Mutex<[PeerAddressKey: Int]>([:])
    private let capacity: Int

    /// - Parameter capacity: The maximum number of addresses. A new address beyond it is refused.
    init(capacity: Int) { self.capacity = capacity }

    /// Counts one more connection, unless the address has `maximum` of them.
    ///
    /// - Returns: Whether it was counted. If so, ``close(_:)`` is called once.
    func open(_ key: PeerAddressKey, maximum: Int) -> Bool {
        counts.withLock { counts in
            let count = counts[key] ?? 0
            guard count < maximum, count > 0 || counts.count < capacity else { return false }
            counts[key] = count + 1
            return true
        }
    }

    func close(_ key: PeerAddressKey) {
        counts.withLock { counts in
            guard let count = counts[key] else { return }
            assert(count > 0, "An address without connections takes memory.")
            counts[key] = count > 1 ? count - 1 : nil
        }
    }

    /// How many addresses have a connection.
    var addresses: Int { counts.withLock { $0.count } }
}
