import GatewayCore

/// What one worker keeps for one route, whatever the generation of its credential.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    /// The same upstream in HTTP/1.1. It is ``pool`` where `protocol` of the route is `http1`.
    let http1Pool: UpstreamPool
    /// Requests that wait for a credential, by client.
    private var waiting: [String?: Int] = [:]
    private var waitingCount = 0
    var http1Demand = HTTP1Demand()

    init(route: CompiledRoute, pool: UpstreamPool, http1Pool: UpstreamPool) {
        self.route = route
        self.pool = pool
        self.http1Pool = http1Pool
    }

    // MARK: Waiting

    /// - Parameters:
    ///   - limit: `limits.pending_per_route`, this worker's part.
    ///   - isShared: Clients are told apart, and one must not take all places.
    func beginWaiting(_ client: String?, limit: Int, isShared: Bool) -> Bool {
        let own = waiting[client] ?? 0
        guard FairShare.allows(own: own, total: waitingCount, limit: limit, isShared: isShared) else { return false }
        waiting[client] = own + 1
        waitingCount += 1
        return true
    }

    func endWaiting(_ client: String?) {
        waitingCount -= 1
        let own = waiting[client] ?? 0
        waiting[client] = own > 1 ? own - 1 : nil
    }
}
