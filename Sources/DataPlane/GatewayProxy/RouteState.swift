import GatewayCore

/// What one event loop keeps for one route.
final class RouteState {
    let route: ServedRoute
    let pool: UpstreamPool
    private var block: InjectedBlock?
    /// By their source, where requests choose one; thrown away together when there are too many.
    private var chosen: [ObjectIdentifier: InjectedBlock] = [:]
    private static let mostChosen = 256
    private var pending = 0

    init(route: ServedRoute, pool: UpstreamPool) {
        self.route = route
        self.pool = pool
    }

    /// The block of a credential, built once for each generation; the source is told of the first use, and drops repeats
    /// from other loops.
    func block(for credential: Credential?, by exchange: ActiveExchange, viaLine: [UInt8]) -> InjectedBlock {
        if let block, block.credential === credential { return block }
        let source = exchange.chosen.map { ObjectIdentifier($0) }
        if let source, let block = chosen[source], block.credential === credential {
            self.block = block
            return block
        }
        let block = InjectedBlock(route: route, credential: credential, viaLine: viaLine)
        self.block = block
        if let source {
            if chosen.count >= Self.mostChosen { chosen = [:] }
            chosen[source] = block
        }
        if let credential {
            exchange.source?.note(.injected, generation: credential.generation, by: exchange.demand)
        }
        return block
    }

    // MARK: Waiting requests

    func beginWaiting(limit: Int) -> Bool {
        guard pending < limit else { return false }
        pending += 1
        return true
    }

    func endWaiting() { pending -= 1 }
}
