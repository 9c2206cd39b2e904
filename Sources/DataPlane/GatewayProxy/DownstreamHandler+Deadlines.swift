import GatewayCore
import NIOCore

/// What was seen of a slow transfer when its deadline had passed, to tell later whether it moves.
struct ProgressLook {
    /// The deadline that was set after the look: if it is the next to pass, nothing else has moved it.
    var next = NIODeadline.distantFuture
    var progress = TransferProgress.unknown
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
        case .forwarding, .responding: exchangeTimedOut()
        // A slow client has as long for the rest of its answer as for any other part of it.
        case .finishing: if !clientTakes(within: timeouts.response) { reset() }
        case .cutting: resetWhenTaken()
        // Nobody has said that this was all.
        case .tunnel: if !tunnelMoves() { reset() }
        case .lingering, .closed: closeNow()
        }
    }

    /// Neither end has moved the deadline of the exchange.
    private func exchangeTimedOut() {
        guard let exchange else { return closeNow() }
        let policy = StallPolicy(
            requestIsComplete: exchange.rules.requestIsComplete,
            awaitsContinue: awaitsContinue,
            clientIsWritable: isWritable,
            upstreamIsWritable: exchange.upstream?.isWritable ?? true
        )
        let isAnswered = exchange.rules.responseHasBegun || phase == .responding
        var stall: Stall?
        let moves = moves(within: isAnswered ? timeouts.response : timeouts.bodyIdle) { last, now in
            stall = policy.stall(from: last, to: now)
            return stall == nil
        }
        guard !moves, let stall else { return }
        end(with: .stalled(stall), problem(stall))
        if stall == .clientStoppedReading { reset() }
    }

    private func problem(_ stall: Stall) -> GatewayProblem {
        switch stall {
        case .requestStopped: GatewayProblem(.requestTimeout, "The body of the request stopped coming.")
        case .clientStoppedReading: GatewayProblem(.requestTimeout, "The client stopped taking the response.")
        case .upstreamStoppedReading:
            GatewayProblem(.upstreamTimeout, "The upstream stopped taking the body of the request.")
        case .upstreamSilent:
            GatewayProblem(
                .upstreamTimeout,
                "The upstream did not answer within \(ConfigUnits.text(limits.responseTimeout))."
            )
        }
    }

    /// Whether the client takes what was written, however slowly; then it has `amount` to take more.
    private func clientTakes(within amount: TimeAmount) -> Bool {
        moves(within: amount) { last, now in now.clientTakes(since: last) }
    }

    /// Whether either end takes what was written to it. One that has taken the last of it has moved, too.
    private func tunnelMoves() -> Bool {
        moves(within: timeouts.response) { last, now in now.tunnelMoves(since: last) }
    }

    /// Looks again after `amount` if something has moved.
    ///
    /// - Parameter hasMoved: Given the last look, which knows of nothing when anything else has set the deadline since, and this one.
    private func moves(within amount: TimeAmount, _ hasMoved: (TransferProgress, TransferProgress) -> Bool) -> Bool {
        let last = timer.passed == lastLook.next ? lastLook.progress : .unknown
        let now = TransferProgress(
            untakenByClient: outlet.untakenBytes(),
            untakenByUpstream: exchange?.upstream?.untakenBytes ?? 0,
            responseSent: exchange.flatMap { $0.rules.responseHasBegun ? $0.record.bytesSent : nil }
        )
        guard hasMoved(last, now) else { return false }
        setDeadline(amount)
        lastLook = ProgressLook(next: timer.deadline, progress: now)
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
        lastLook = ProgressLook(next: .now() + timeouts.response)
        inbound = buffers.empty
        resumeReading()
        resetWhenTaken()
    }

    /// What the client has not taken within a second is lost.
    func cutSoon() {
        guard phase == .cutting else { return }
        cutsAt = min(cutsAt, .now() + Self.withdrawalLimit)
        resetWhenTaken()
    }

    private static let withdrawalLimit = TimeAmount.milliseconds(900)

    private func resetWhenTaken() {
        let untaken = outlet.untakenBytes()
        if untaken < lastLook.progress.untakenByClient {
            lastLook.next = .now() + timeouts.response
            lastLook.progress.untakenByClient = untaken
        }
        guard untaken > 0, .now() < min(lastLook.next, cutsAt) else { return reset() }
        // The system tells nobody when the last byte has been taken.
        setDeadline(Self.pauseBetweenLooks)
    }

    private static let pauseBetweenLooks = TimeAmount.milliseconds(50)
}
