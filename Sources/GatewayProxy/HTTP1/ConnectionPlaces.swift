import GatewayHTTP
import NIOCore

/// The places that a client's connection takes among `limits.connections` and `limits.connections_per_address`.
///
/// One that is refused is counted apart, until its client has left: clients that stay after they were refused would keep everybody out.
struct ConnectionPlaces {
    private enum Place {
        case none
        case admitted
        case refused
    }

    private var place = Place.none
    private var address: PeerAddressKey?

    /// The connection is refused, and there is room for its client to read why.
    var isHeldForRefusal: Bool { place == .refused }

    /// - Returns: Why the connection is refused.
    mutating func take(from shared: ProxyShared, for channel: (any Channel)?) -> GatewayProblem? {
        assert(place == .none && address == nil, "A connection is counted twice.")
        if let channel, shared.descriptors.reserveHas(channel) {
            return Self.full("There are too few file descriptors for another connection (ulimit -n).")
        }
        let problem = admit(by: shared, channel?.remoteAddress)
        if problem != nil, shared.state.refusalBegan(most: shared.descriptors.refused) { place = .refused }
        return problem
    }

    private mutating func admit(by shared: ProxyShared, _ peer: SocketAddress?) -> GatewayProblem? {
        if let maximum = shared.limits.connectionsPerAddress, let key = peer?.ipBytes.flatMap(PeerAddressKey.init) {
            guard shared.state.addresses.open(key, maximum: maximum) else {
                return Self.full("Too many connections from this address (limits.connections_per_address).")
            }
            address = key
        }
        guard shared.connectionOpened() else { return Self.full("Too many connections (limits.connections).") }
        place = .admitted
        return nil
    }

    mutating func giveBack(to shared: ProxyShared) {
        switch place {
        case .admitted: shared.connectionClosed()
        case .refused: shared.state.refusalEnded()
        case .none: break
        }
        place = .none
        if let address = address.take() { shared.state.addresses.close(address) }
    }

    private static func full(_ detail: String) -> GatewayProblem {
        GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
    }
}
