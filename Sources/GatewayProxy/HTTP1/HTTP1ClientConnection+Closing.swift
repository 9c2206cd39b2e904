import GatewayCore
import NIOCore

/// What a connection that ends has to remember.
struct ClosingState {
    enum Patience {
        case long
        case short
        /// The connection is closed at once.
        case none
    }

    /// There is no place for the connection. Its client is told so in the version of HTTP that the handshake agrees on.
    var refusal: GatewayProblem?
    /// With a client that goes on sending behind its last answer.
    var patience = Patience.long
    /// When such a client is waited for no longer.
    var lingersUntil = NIODeadline.distantFuture
    /// When a broken response is cut, whatever the client has taken of it by then.
    var cutsAt = NIODeadline.distantFuture
    /// When a client that takes none of a broken response is waited for no longer.
    var takesUntil = NIODeadline.distantFuture
    /// At the last look, of a broken response.
    var untaken = Int.max
    var watch = TransferWatch()
}

extension HTTP1ClientConnection {
    // MARK: End of the client's input

    /// The client has sent all it will send.
    ///
    /// A client that asked for the connection to be closed may do so and still read; any other has left, and its upstream
    /// must not go on working for it.
    func clientClosedOutput() {
        clientHasClosedOutput = true
        switch phase {
        // Nothing more can come, so that nothing is waited for: with TLS, a close_notify.
        case .lingering, .closed:
            phase = .closed
            writer.closeAtOnce()
        // What waits here may be more requests, the last of which says whether the client still reads.
        case .head, .exchange, .tunnel, .preparing, .peeking, .dialling: process()
        case .finishing, .cutting: break
        }
    }

    /// The client sends no more; what it sent may still wait here.
    func inputEnded() {
        switch phase {
        case .exchange:
            guard let exchange else { return }
            let isComplete = exchange.requestIsComplete
            // After an early answer a client stops sending and reads on (RFC 9112 section 9.5).
            if !isComplete, exchange.responseHasBegun { return }
            let hasLeft = reader.isEmpty ? !isComplete || request.decoder.head.clientKeepsAlive : reader.clientHasLeft()
            if hasLeft { leaveClient() }
        case .tunnel: if reader.isEmpty { exchange?.clientClosedOutput() }
        case .head: if reader.isEmpty { closeAfterWrites(lingering: false) }
        case .preparing, .peeking: closeNow()
        // It may have sent all that the server is to get.
        case .dialling: break
        case .finishing, .lingering, .cutting, .closed: break
        }
    }

    // MARK: Withdrawal, drain and stop

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        exchange?.endIfWithdrawn(withdrawn)
        engineLosesWithdrawn()
    }

    func drain() {
        isEnding = true
        keepsAlive = false
        guard phase == .head, !reader.isWithinHead, isWritable || reader.isEmpty else { return }
        if isOpening || writer.hasInput || !reader.isEmpty {
            // A request, most likely, that is about to come or waits for its turn; or half of an empty line.
            setDeadline(timeouts.linger)
        } else {
            // The last answer may still be on its way to a slow client.
            closeAfterWrites(lingering: false)
        }
    }

    /// The gateway ends, whatever is under way. No client may take a part of an answer for the whole.
    func stop() {
        let hasPart = exchange?.responseHasBegun ?? false
        if hasPart || phase == .cutting || writer.isHoldingBytes() { reset() } else { closeNow() }
    }

    // MARK: Closing

    /// Ends the connection of a client that has left, or is broken, and what the upstream does for it. Answers that were written
    /// before may still be read.
    func leaveClient() {
        let exchange = exchange.take()
        let hasPart = exchange?.responseHasBegun ?? false
        exchange?.clientLeft(isCut: wasCut)
        guard hasPart || writer.isHoldingBytes() else { return closeNow() }
        if hasPart { cut(within: nil) } else { closeAfterWrites(lingering: false) }
    }

    /// Closes without an answer: the TLS handshake would have to come first, and there is no room to wait for it.
    func refuseUnsaid(_ problem: GatewayProblem) {
        configuration.observe(problem, nil, of: request, id: configuration.nextRequestID(), from: peer, isTLS: isTLS)
        phase = .closed
        writer.closeAtOnce()
    }

    func closePrivateConnection() { privateConnection.take()?.close() }

    func closeNow() {
        phase = .closed
        writer.closeConnection()
        if clientHasClosedOutput { writer.closeAtOnce() }
    }

    /// Ends the connection in a way that no client takes for a good end; what it has not taken yet is lost.
    func reset() {
        phase = .closed
        wasCut = true
        cancelDeadline()
        writer.reset()
    }

    /// - Parameter lingering: The client may still be sending: closing at once would reset the connection and take the
    ///   answer away before it is read.
    func closeAfterWrites(lingering: Bool) {
        guard context != nil else { return }
        closePrivateConnection()
        phase = .finishing
        // The exchange is over, so this is limits.response_timeout, whatever timeouts.idle of the route says.
        setDeadline(timeouts.response)
        writer.afterWrites { [self] in writesDone(lingering: lingering) }
        reader.dropAll()
        resumeReading()
    }

    private func writesDone(lingering: Bool) {
        guard phase == .finishing else { return }
        phase = .lingering
        closing.lingersUntil = .now() + (closing.patience == .long ? timeouts.lingerInAll : timeouts.linger)
        setDeadline(timeouts.linger)
        if lingering, closing.patience != .none, !clientHasClosedOutput {
            writer.closeOutput()
        } else {
            context?.channel.close(promise: nil)
        }
        if clientHasClosedOutput { writer.closeAtOnce() }
    }

    // MARK: Cutting

    /// Resets the connection, so that a client that reads until the end sees a failure and not an end.
    ///
    /// Not before the client has what was written: an earlier answer that is whole, and what there is of this one.
    func cut(within limit: TimeAmount?) {
        endExchange()
        flush()
        closePrivateConnection()
        guard phase != .closed else { return }
        phase = .cutting
        closing.takesUntil = .now() + timeouts.response
        if let limit { closing.cutsAt = .now() + limit }
        reader.dropAll()
        resumeReading()
        resetWhenTaken()
    }

    func resetWhenTaken() {
        let untaken = writer.untakenBytes()
        if untaken < closing.untaken {
            closing.takesUntil = .now() + timeouts.response
            closing.untaken = untaken
        }
        guard untaken > 0, .now() < min(closing.takesUntil, closing.cutsAt) else { return reset() }
        // The system does not tell when the last byte has been taken.
        setDeadline(Self.pauseBetweenLooks)
    }

    private static let pauseBetweenLooks = TimeAmount.milliseconds(50)
}
