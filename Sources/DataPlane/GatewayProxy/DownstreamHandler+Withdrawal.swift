import GatewayCore
import NIOCore

/// An operator has taken a credential away: no byte of a request or a tunnel leaves with it any more.
extension DownstreamHandler {
    /// - Parameter sources: Those whose credential was taken away.
    func endIfWithdrawn(_ sources: Set<ObjectIdentifier>) {
        guard let exchange, let source = exchange.source, sources.contains(ObjectIdentifier(source)),
            // One that has the credential that came afterwards goes on.
            let credential = exchange.credential, !credential.isOffered(at: shared.clock.monotonic())
        else { return }
        switch exchange.rules.handle(.withdrawn) {
        case .reauthorize:
            reauthorize(exchange)
            process()
        case .respond, .cut:
            let hasBegun = exchange.rules.responseHasBegun
            refuse(Self.withdrawn(exchange))
            if hasBegun { cutSoon() }
        default: break
        }
    }

    /// Gives up the place in the queue for a connection, and asks the source again.
    func reauthorize(_ exchange: ActiveExchange) {
        if let place = exchange.place.take() { exchange.prepared.pool.leave(place) }
        // A connection that comes for the earlier try is given back.
        step &+= 1
        authorize(exchange, at: shared.clock.monotonic())
    }

    private static func withdrawn(_ exchange: ActiveExchange) -> GatewayProblem {
        let name = exchange.source?.name ?? "The credential"
        return GatewayProblem(
            .locked,
            "\(name) was taken away while this request was under way.",
            retryAfter: .seconds(1)
        )
    }
}
