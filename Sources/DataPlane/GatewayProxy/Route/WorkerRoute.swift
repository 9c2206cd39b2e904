import GatewayCore
import NIOCore

/// What one worker keeps for one route, whatever the generation of its credential.
final class WorkerRoute {
    let route: CompiledRoute
    let pool: UpstreamPool
    /// The same upstream in HTTP/1.1; the same pool where the route is spoken to in nothing else.
    let http1Pool: UpstreamPool
    /// Requests that wait for a credential, by client.
    private var waiting: [String?: Int] = [:]
    private var waitingCount = 0
    private var http1Until: NIODeadline?
    /// So long after it has wanted HTTP/1.1, the upstream is not asked again whether it takes HTTP/2.
    private static let http1Lifetime = TimeAmount.minutes(10)

    init(route: CompiledRoute, pool: UpstreamPool, http1Pool: UpstreamPool) {
        self.route = route
        self.pool = pool
        self.http1Pool = http1Pool
    }

    // MARK: Versions of HTTP

    func wantedHTTP1(at now: NIODeadline) { http1Until = now + Self.http1Lifetime }
    func wantsHTTP1(at now: NIODeadline) -> Bool { http1Until.map { now < $0 } ?? false }

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
