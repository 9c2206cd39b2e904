import GatewayCore
import NIOCore

/// A request that needs a connection and has found none.
final class ConnectionRequest: DeadlineKeeper {
    private let pool: UpstreamPool
    private let timer: DeadlineTimer
    private let done: UpstreamPool.Done
    /// Of the connection, if it is to be a private one.
    let owner: PrivateConnection?
    /// While it waits for its turn.
    private(set) var ticket: WaiterTicket?

    init(_ pool: UpstreamPool, for owner: PrivateConnection?, _ done: @escaping UpstreamPool.Done) {
        self.pool = pool
        self.owner = owner
        self.done = done
        timer = DeadlineTimer(queue: pool.deadlines)
    }

    func wait(_ ticket: WaiterTicket, until deadline: NIODeadline) {
        self.ticket = ticket
        timer.set(deadline, for: self)
    }

    func stopWaiting() {
        ticket = nil
        timer.cancel()
    }

    func deadlinePassed() {
        if let ticket { pool.timedOut(ticket) }
    }

    func finish(_ result: Result<any UpstreamStream, GatewayProblem>) { done(result) }
}

extension PoolRefusal {
    func problem(_ origin: Origin, connectTimeout: Duration) -> GatewayProblem {
        let detail =
            switch self {
            case .full: "\(origin) has as many connections and waiting requests as limits allows."
            case .displaced:
                "\(origin) has as many connections and waiting requests as limits allows, and other clients wait, too."
            case .timedOut: "No connection to \(origin) became free within \(ConfigUnits.text(connectTimeout))."
            }
        return GatewayProblem(kind, detail, retryAfter: .seconds(1))
    }
}
