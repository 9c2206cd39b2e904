import GatewayCore

/// What one event loop keeps for one route, whatever the generation of its credential.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    private var pending = 0

    init(route: CompiledRoute, pool: UpstreamPool) {
        self.route = route
        self.pool = pool
    }

    func beginWaiting(limit: Int) -> Bool {
        guard pending < limit else { return false }
        pending += 1
        return true
    }

    func endWaiting() { pending -= 1 }
}
