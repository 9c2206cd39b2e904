import GatewayCore
import NIOCore

/// What one worker keeps for one route, whatever the generation of its credential.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    /// The same upstream in HTTP/1.1. It is ``pool`` where `protocol` of the route is `http1`.
    let http1Pool: UpstreamPool
    /// Requests that wait for a credential, by client (`limits.pending_per_route`, this worker's part).
    var waiting = ClientPlaces()
    var http1Demand = HTTP1Fallback()
    /// From the end of a request to the head of its response.
    let responseTimeout: TimeAmount
    /// Within a response or a tunnel.
    let responsePause: TimeAmount

    init(route: CompiledRoute, pool: UpstreamPool, http1Pool: UpstreamPool, limits: Limits) {
        self.route = route
        responseTimeout = TimeAmount(limits.responseTimeout(of: route.plan.timeouts))
        responsePause = TimeAmount(limits.responsePause(of: route.plan.timeouts))
        self.pool = pool
        self.http1Pool = http1Pool
    }
}
