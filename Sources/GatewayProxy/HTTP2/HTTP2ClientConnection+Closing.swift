import GatewayCore
import NIOCore
import NIOHTTP2

/// The ways in which the connection ends.
extension HTTP2ClientConnection {
    // MARK: Withdrawal and reload

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        for stream in Array(streams.values) { stream.endIfWithdrawn(withdrawn) }
        flush()
        // An answer that the engine has not taken yet may hold what was withdrawn.
        guard identity.engine != nil else { return }
        if writer.untakenBytes() > 0 || streams.values.contains(where: { $0.untakenBytes > 0 }) { closeAtOnce() }
    }

    /// What the client has not taken is lost.
    private func closeAtOnce() {
        endStreams()
        phase = .closed
        writer.reset()
    }

    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        for stream in Array(streams.values) { stream.followReload(withdrawal) }
        flush()
    }

    // MARK: Drain

    /// Tells the client to open no more streams. Those that are on their way are served: the answer to a PING comes behind them
    /// (RFC 9113 section 6.8).
    func drain() {
        guard phase == .open || phase == .opening else { return }
        phase = .announcing
        writeAnnouncement()
        write(.ping(HTTP2PingData(), ack: false), on: .rootStream)
        flush()
        deadline.move(to: clock.now + timeouts.linger, for: self)
    }

    /// The client has read the announcement, or had time to.
    func announced() {
        guard phase == .announcing else { return }
        phase = .draining
        deadline.clear()
        sendGoAway(lastStream: lastStream)
        flush()
        if streams.isEmpty { closeAfterWrites() }
    }

    /// The client opens no more streams.
    func clientEnds() {
        guard phase == .open || phase == .opening || phase == .announcing else { return }
        phase = .announcing
        announced()
    }

    private func sendGoAway(lastStream: HTTP2StreamID) {
        write(.goAway(lastStreamID: lastStream, errorCode: .noError, opaqueData: nil), on: .rootStream)
    }

    /// Closing at once would reset the connection while the client sends, and take away what it has not read.
    func closeAfterWrites() {
        guard phase != .lingering, phase != .closed else { return }
        phase = .lingering
        flushNow()
        deadline.set(clock.now + timeouts.linger, for: self)
        writer.closeOutput()
    }

    /// A stream was reset for what the client has done.
    func countFault() {
        guard !faults.spend(at: shared.clock.monotonic()) else { return }
        calm()
    }

    /// The client asks for more work than it has a use for.
    func calm() {
        guard phase != .lingering, phase != .closed else { return }
        write(.goAway(lastStreamID: lastStream, errorCode: .enhanceYourCalm, opaqueData: nil), on: .rootStream)
        broken()
    }

    /// The client was told which rule it broke.
    func broken() {
        guard phase != .lingering, phase != .closed else { return }
        endStreams()
        closeAfterWrites()
    }

    func stop() {
        if phase == .open || phase == .announcing { sendGoAway(lastStream: lastStream) }
        flushNow()
        endStreams()
        closeNow()
    }

    /// The client sends nothing more, so its windows do not open again.
    func clientClosedOutput() {
        guard phase != .closed else { return }
        endStreams()
        closeNow()
    }

    /// The client reads no answers any more.
    func endStreams() {
        let ended = streams.values
        streams = [:]
        flow.waiting = []
        for stream in ended { stream.closed(isCut: true) }
    }

    func closeNow() {
        phase = .closed
        writer.closeConnection()
    }

    // MARK: Deadline

    func deadlinePassed() {
        switch phase {
        case .opening: closeNow()
        case .open:
            guard streams.isEmpty else { return }
            guard !clientTakes(within: timeouts.idle) else { return }
            clientEnds()
        case .announcing: announced()
        case .draining, .closed: break
        case .lingering: if !clientTakes(within: timeouts.response) { closeNow() }
        }
    }

    /// Whether the client has taken some of what was written. It then has `amount` to take more.
    private func clientTakes(within amount: TimeAmount) -> Bool {
        deadline.extend(to: clock.now + amount, for: self, untaken: writer.untakenBytes())
    }
}
