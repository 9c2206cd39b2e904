import GatewayCore
import NIOCore

/// The places that a client's connection takes among `limits.connections` and `limits.connections_per_address`.
struct ConnectionPlaces {
    private var isCounted = false
    private var address: PeerAddressKey?

    /// - Returns: Why the connection is refused.
    mutating func take(from shared: ProxyShared, for peer: SocketAddress?) -> GatewayProblem? {
        assert(!isCounted && address == nil, "A connection is counted twice.")
        if let maximum = shared.limits.connectionsPerAddress, let key = peer?.ipBytes.flatMap(PeerAddressKey.init) {
            guard shared.state.addresses.open(key, maximum: maximum) else {
                return Self.full("Too many connections from this address (limits.connections_per_address).")
            }
            address = key
        }
        isCounted = shared.connectionOpened()
        return isCounted ? nil : Self.full("Too many connections.")
    }

    mutating func giveBack(to shared: ProxyShared) {
        if isCounted {
            isCounted = false
            shared.connectionClosed()
        }
        if let address = address.take() { shared.state.addresses.close(address) }
    }

    private static func full(_ detail: String) -> GatewayProblem {
        GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
    }
}
