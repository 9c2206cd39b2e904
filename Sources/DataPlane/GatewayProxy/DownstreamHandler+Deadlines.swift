import GatewayCore
import NIOCore

/// What was seen of a slow transfer when its deadline had passed, to tell later whether it moves.
struct ProgressLook {
    /// The deadline that was set after the look: if it is the next to pass, nothing else has moved it.
    var next = NIODeadline.distantFuture
    /// By the client.
    var untaken = 0
    var untakenUpstream = 0
    var sent = 0
}

extension DownstreamHandler {
    func deadlinePassed() {
        switch phase {
        case .head:
            if decoder.isWithinHead {
                refuse(GatewayProblem(.requestTimeout, "The head of the request took too long."))
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
        case .tunnel: if !clientTakes(within: timeouts.response), !upstreamTakes(within: timeouts.response) { reset() }
        case .lingering, .closed: closeNow()
        }
    }

    private func forwardingTimedOut() {
        guard !answerMoves() else { return }
        // Nothing is read from the client while the upstream takes nothing.
        guard exchange?.upstream?.isWritable ?? true else {
            guard !upstreamTakes(within: timeouts.bodyIdle) else { return }
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
        upstreamTimedOut()
    }

    private func upstreamTimedOut() {
        let detail = "The upstream did not answer within \(ConfigUnits.text(limits.responseTimeout))."
        refuse(GatewayProblem(.upstreamTimeout, detail))
    }

    /// An answer that comes while the body is missing is an answer all the same (RFC 9110 §10.1.1).
    private func answerMoves() -> Bool {
        guard let exchange, exchange.responseHasBegun else { return false }
        guard timer.passed != lastLook.next || exchange.bytesSent > lastLook.sent else { return false }
        lookAgain(after: timeouts.response)
        lastLook.sent = exchange.bytesSent
        return true
    }

    /// Whether the client takes what was written, however slowly; then it has `amount` to take more.
    private func clientTakes(within amount: TimeAmount) -> Bool {
        takes(outlet.untakenBytes(), than: lastLook.untaken, within: amount) { $0.untaken = $1 }
    }

    /// The same of the upstream and what it was sent of the request, or of the tunnel.
    private func upstreamTakes(within amount: TimeAmount) -> Bool {
        let untaken = exchange?.upstream?.untakenBytes ?? 0
        return takes(untaken, than: lastLook.untakenUpstream, within: amount) { $0.untakenUpstream = $1 }
    }

    private func takes(
        _ untaken: Int,
        than before: Int,
        within amount: TimeAmount,
        _ note: (inout ProgressLook, Int) -> Void
    ) -> Bool {
        guard untaken > 0, timer.passed != lastLook.next || untaken < before else { return false }
        lookAgain(after: amount)
        note(&lastLook, untaken)
        return true
    }

    private func lookAgain(after amount: TimeAmount) {
        setDeadline(amount)
        lastLook.next = timer.deadline
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
