import GatewayCore
import NIOCore

/// A request that needs a connection and has found none.
final class ConnectionRequest: DeadlineKeeper {
    private let pool: UpstreamPool
    private let timer: DeadlineTimer
    private let done: UpstreamPool.Done
    /// While it waits for its turn.
    private(set) var ticket: WaiterTicket?

    init(_ pool: UpstreamPool, _ done: @escaping UpstreamPool.Done) {
        self.pool = pool
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
