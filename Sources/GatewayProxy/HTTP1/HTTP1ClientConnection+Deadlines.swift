import GatewayCore
import NIOCore

extension HTTP1ClientConnection {
    func setDeadline(_ amount: TimeAmount) {
        closing.watch.reset()
        timer.set(clock.now + amount, for: self)
    }

    func clearDeadline() { timer.clear() }
    func cancelDeadline() { timer.cancel() }

    func deadlinePassed() {
        switch phase {
        case .head:
            if reader.isWithinHead {
                releaseHead()
                refuse(GatewayProblem(.requestTimeout, "The head of the request took too long."))
            } else if isWritable, writer.hasInput {
                // A request has come and waits for its turn.
                setDeadline(timeouts.idle)
            } else if !clientTakes(within: timeouts.idle) {
                closeNow()
            }
        case .exchange, .tunnel:
            exchange?.deadlinePassed()
            engineIsLate()
        // A slow client has as long for the rest of its answer as for any other part of it.
        case .finishing: if !clientTakes(within: timeouts.response) { reset() }
        case .cutting: resetWhenTaken()
        case .peeking: peekIsLate()
        case .preparing, .lingering, .dialling, .closed: closeNow()
        }
    }

    /// Whether the client takes what was written, however slowly; then it has `amount` to take more.
    private func clientTakes(within amount: TimeAmount) -> Bool {
        let now = TransferProgress(untakenByClient: writer.untakenBytes(), untakenByUpstream: 0, responseSent: nil)
        guard closing.watch.hasMoved(now, by: { last, now in now.clientTakes(since: last) }) else { return false }
        timer.set(clock.now + amount, for: self)
        return true
    }
}
