import GatewayCore

/// What one event loop keeps for one route.
///
/// Has what an ordinary request asks of its route, beside what it changes: with a thousand routes in use, each place in
/// memory that a request has to look at is one that has left the cache meanwhile.
final class RouteState {
    let pool: UpstreamPool
    let responseWriter: ResponseWriter
    private var block: InjectedBlock?
    /// ``ServedRoute/number``.
    let number: Int
    /// Each request says whose token it goes with: ``ServedRoute/selection``.
    let isChoosing: Bool
    /// Nothing is injected.
    private let isBare: Bool
    let route: ServedRoute
    /// By their source, where requests choose one, and then only here; thrown away together when there are too many.
    private var chosen: [ObjectIdentifier: InjectedBlock] = [:]
    private static let mostChosen = 256
    private var pending = 0

    init(route: ServedRoute, pool: UpstreamPool) {
        self.route = route
        self.pool = pool
        responseWriter = route.responseWriter
        number = route.number
        isChoosing = route.selection != nil
        isBare = route.source == nil
    }

    /// The block in use, while nobody has to be asked whether it still may be. Not where requests choose their source.
    func offeredBlock(at now: MonotonicTime) -> InjectedBlock? {
        guard let block, block.credential?.isOffered(at: now) ?? isBare else { return nil }
        return block
    }

    /// The block of a credential, built once for each generation; the source is told of the first use, and drops repeats
    /// from other loops.
    func block(for credential: Credential?, by exchange: ActiveExchange) -> InjectedBlock {
        let source = exchange.chosen.map { ObjectIdentifier($0) }
        let known = if let source { chosen[source] } else { block }
        if let known, known.credential === credential { return known }
        let new = InjectedBlock(route: route, credential: credential)
        if let source {
            if chosen.count >= Self.mostChosen { chosen = [:] }
            chosen[source] = new
        } else {
            block = new
        }
        if let credential {
            exchange.source?.note(.injected, generation: credential.generation, by: exchange.demand)
        }
        return new
    }

    // MARK: Waiting requests

    func beginWaiting(limit: Int) -> Bool {
        guard pending < limit else { return false }
        pending += 1
        return true
    }

    func endWaiting() { pending -= 1 }
}
