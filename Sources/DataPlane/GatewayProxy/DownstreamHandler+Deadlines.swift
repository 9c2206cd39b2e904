import GatewayCore
import NIOCore

/// What was seen of a slow transfer when its deadline had passed, to tell later whether it moves.
struct ProgressLook {
    /// The deadline that was set after the look: if it is the next to pass, nothing else has moved it.
    var next = NIODeadline.distantFuture
    /// By the client.
    var untaken = Int.max
    var untakenUpstream = Int.max
    /// Of the answer; -1 before it has begun.
    var sent = -1
}

extension DownstreamHandler {
    func deadlinePassed() {
        switch phase {
        case .head:
            if decoder.isWithinHead {
                refuse(GatewayProblem(.requestTimeout, "The head of the request took too long."))
            } else if isWritable, outlet.hasInput {
                // A request has come and waits for its turn.
                setDeadline(timeouts.idle)
            } else if !clientTakes(within: timeouts.idle) {
                closeNow()
            }
        case .waiting: credentialTimedOut()
        case .forwarding: forwardingTimedOut()
        case .responding: respondingTimedOut()
        // A slow client has as long for the rest of its answer as for any other part of it.
        case .finishing: if !clientTakes(within: timeouts.response) { reset() }
        case .cutting: resetWhenTaken()
        // Nobody has said that this was all.
        case .tunnel: if !tunnelMoves() { reset() }
        case .lingering, .closed: closeNow()
        }
    }

    private func forwardingTimedOut() {
        // An answer that comes while the body is missing is an answer all the same (RFC 9110 §10.1.1).
        let hasAnswer = exchange?.responseHasBegun ?? false
        // Nothing is read from the client while the upstream takes nothing.
        let isBlocked = !(exchange?.upstream?.isWritable ?? true)
        let hasMoved = moves(within: hasAnswer ? timeouts.response : timeouts.bodyIdle) { last, now in
            hasAnswer && (now.sent > last.sent || !isWritable && now.untaken > 0 && now.untaken < last.untaken)
                || isBlocked && now.untakenUpstream > 0 && now.untakenUpstream < last.untakenUpstream
        }
        guard !hasMoved else { return }
        guard !isBlocked else {
            return refuse(GatewayProblem(.upstreamTimeout, "The upstream stopped taking the body of the request."))
        }
        guard !awaitsContinue else { return upstreamTimedOut() }
        refuse(GatewayProblem(.requestTimeout, "The body of the request stopped coming."))
    }

    private func respondingTimedOut() {
        guard isWritable else {
            guard !clientTakes(within: timeouts.response) else { return }
            refuse(GatewayProblem(.requestTimeout, "The client stopped taking the response."))
            return reset()
        }
        let isTaken = moves(within: timeouts.response) { last, now in
            now.sent < 0 && now.untakenUpstream > 0 && now.untakenUpstream < last.untakenUpstream
        }
        if !isTaken { upstreamTimedOut() }
    }

    private func upstreamTimedOut() {
        let detail = "The upstream did not answer within \(ConfigUnits.text(limits.responseTimeout))."
        refuse(GatewayProblem(.upstreamTimeout, detail))
    }

    /// Whether the client takes what was written, however slowly; then it has `amount` to take more.
    private func clientTakes(within amount: TimeAmount) -> Bool {
        moves(within: amount) { last, now in now.untaken > 0 && now.untaken < last.untaken }
    }

    /// Whether either end takes what was written to it. One that has taken the last of it has moved, too.
    private func tunnelMoves() -> Bool {
        moves(within: timeouts.response) { last, now in
            guard last.untaken < .max else { return now.untaken > 0 || now.untakenUpstream > 0 }
            return now.untaken < last.untaken || now.untakenUpstream < last.untakenUpstream
        }
    }

    /// Looks again after `amount` if something has moved.
    ///
    /// - Parameter hasMoved: Given the last look, which knows of nothing when anything else has set the deadline since, and this one.
    private func moves(within amount: TimeAmount, _ hasMoved: (ProgressLook, ProgressLook) -> Bool) -> Bool {
        let last = timer.passed == lastLook.next ? lastLook : ProgressLook()
        var now = ProgressLook()
        now.untaken = outlet.untakenBytes()
        now.untakenUpstream = exchange?.upstream?.untakenBytes ?? 0
        if let exchange, exchange.responseHasBegun { now.sent = exchange.record.bytesSent }
        guard hasMoved(last, now) else { return false }
        setDeadline(amount)
        now.next = timer.deadline
        lastLook = now
        return true
    }

    // MARK: Cutting

    /// Resets the connection, so that a client that reads until the end sees a failure and not an end.
    ///
    /// Not before the client has what was written: an earlier answer that is whole, and what there is of this one.
    func cut() {
        flushResponse()
        guard phase != .closed else { return }
        phase = .cutting
        lastLook = ProgressLook(next: .now() + timeouts.response, untaken: .max)
        inbound = buffers.empty
        resumeReading()
        resetWhenTaken()
    }

    private func resetWhenTaken() {
        let untaken = outlet.untakenBytes()
        if untaken < lastLook.untaken { lastLook = ProgressLook(next: .now() + timeouts.response, untaken: untaken) }
        guard untaken > 0, .now() < lastLook.next else { return reset() }
        // The system tells nobody when the last byte has been taken.
        setDeadline(Self.pauseBetweenLooks)
    }

    private static let pauseBetweenLooks = TimeAmount.milliseconds(50)
}
