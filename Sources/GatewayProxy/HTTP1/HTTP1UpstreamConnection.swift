import GatewayCore
import NIOCore
import NIOSSL
import NIOTLS

/// One HTTP/1 connection to an upstream: carries one exchange after the other.
///
/// Lives on one event loop. It reads only while the client takes more.
final class HTTP1UpstreamConnection: ChannelDuplexHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Not ready for a request: the TLS handshake is under way, or the library has not said yet that it is connected.
        case opening
        case idle
        case head
        case body
        /// The response is held back until so much of its body has come as its exchange wants to see.
        case inspecting
        /// The response is held back until it is known whether the request can be sent again.
        case held
        case tunnel
        case closed
    }

    /// What became of the connection while a response was held back. The client need not know before the response is passed on.
    enum EndWhileHeld {
        case none
        case ended
        /// Without a close_notify: content that ends with the connection has no end to trust.
        case cut
    }

    let pool: UpstreamPool
    private(set) var context: ChannelHandlerContext?
    let writer = SocketWriter()
    /// TLS is not in the pipeline.
    let hasDirectSocket: Bool
    var exchange: ExchangeDriver?
    var phase = Phase.opening
    var reader: ResponseReader
    var heldHead: ByteBuffer
    var endWhileHeld = EndWhileHeld.none
    /// How the client wants the content.
    var form = ContentForm.wire
    /// A head or small content on its way upstream, so that both leave in one write.
    var staged: ByteBuffer
    /// Content of the request that comes without framing leaves in chunks.
    var sendsChunks = false
    var hasReceivedBytes = false
    var hasUnflushedResponse = false
    private var pendingRead = false
    /// With TLS, while a response is read: the end may have come with it, and the TLS handler tells that afterwards.
    private(set) var mayBeEnding = false
    /// The last read filled its buffer, or none was made since a response was held back.
    var isBehindInReading = false
    /// The last read filled its buffer, with TLS, where the reads are those of another handler; nil without.
    let encryptedReadWasFilled: NIOLoopBoundBox<Bool>?
    /// The upstream has said that it sends no more. A lost connection ends without this.
    private(set) var inputHasEnded = false
    /// The client of a tunnel sends no more: first the last of it is on its way, then that is said, too.
    private var outputIsEnding = false
    private var outputHasEnded = false
    /// A server that refuses the client certificate says so after the handshake, in place of a response (TLS 1.3).
    private var alert: TLSAlert?
    /// It has waited in the pool, so that it may have been closed at the other end meanwhile.
    private(set) var isReused = false
    /// In ``pool``. nil until it is known that this connection is the one, where several are tried for one request.
    var id: ConnectionID?
    /// Where the connection is between requests, if it is not in ``pool``.
    var owner: PrivateConnection?
    var opening: Opening?
    /// Of a tunnel whose client has left before.
    var tunnelEnded: (() -> Void)?
    private let clock: LoopClock
    let timeouts: Timeouts
    let buffers: SpareBuffers
    /// The upstream takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    /// Of the TLS handshake, and of the time without a request.
    private let timer: DeadlineTimer

    init(
        pool: UpstreamPool,
        hasDirectSocket: Bool,
        loop: any EventLoop,
        clock: LoopClock,
        limits: Limits,
        timeouts: Timeouts,
        buffers: SpareBuffers
    ) {
        self.pool = pool
        self.hasDirectSocket = hasDirectSocket
        encryptedReadWasFilled = hasDirectSocket ? nil : NIOLoopBoundBox(false, eventLoop: loop)
        timer = DeadlineTimer(queue: pool.deadlines)
        self.clock = clock
        self.timeouts = timeouts
        self.buffers = buffers
        heldHead = buffers.empty
        staged = buffers.empty
        reader = ResponseReader(limits: limits, empty: buffers.empty)
    }

    /// Every way to lose the connection leads through ``channelInactive(context:)``, which changes the phase.
    var isOpen: Bool { phase == .idle }

    // MARK: Deadlines

    func setDeadline(_ amount: TimeAmount) { timer.set(clock.now + amount, for: self) }
    func clearDeadline() { timer.clear() }
    var responseTimeout: TimeAmount { timeouts.response }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(opening?.origin.description ?? "The upstream") did not finish the TLS handshake in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail, hopError: .handshakeTimeout)))
            close()
        case .idle: closeIdle()
        case .tunnel: if exchange == nil { writer.reset() }
        case .head, .body, .inspecting, .held, .closed: break
        }
    }

    // MARK: Rest

    /// It waits for a request, and is closed at `end`.
    func rest(until end: NIODeadline) {
        timer.set(end, for: self)
        resumeReading()
    }

    func becameIdle() {
        phase = .idle
        isReused = true
    }

    /// The end of the connection, or bytes without a request, have arrived and were not read yet.
    var hasInput: Bool { writer.hasInput }

    /// Such may stand behind what was read last.
    var mayHaveInput: Bool { isBehindInReading || encryptedReadWasFilled?.value ?? false }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: hasDirectSocket)
        // So that an end can be told from a loss; from the beginning, because it can come with the first response.
        try? context.channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    func channelActive(context: ChannelHandlerContext) {
        if hasDirectSocket, phase == .opening { becameReady() }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent, phase == .opening { becameReady() }
        if case .inputClosed? = event as? ChannelEvent { endOfInput() }
        context.fireUserInboundEventTriggered(event)
    }

    private func endOfInput() {
        inputHasEnded = true
        // Only in a tunnel the other direction goes on.
        guard phase == .tunnel, let exchange else {
            // With TLS, an end that was said before waits for this one, but not only for this.
            if phase == .closed, !hasDirectSocket { writer.closeAtOnce() } else { writer.closeConnection() }
            return
        }
        hasUnflushedResponse = false
        exchange.upstreamClosedOutput()
    }

    func read(context: ChannelHandlerContext) {
        if wantsInput { context.read() } else { pendingRead = true }
    }

    private var wantsInput: Bool {
        switch phase {
        case .held: false
        case .head, .body, .tunnel: exchange?.clientIsWritable ?? true
        case .opening, .idle, .inspecting, .closed: true
        }
    }

    func resumeReading() {
        guard pendingRead, wantsInput else { return }
        pendingRead = false
        writer.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock.begin()
        let bytes = unwrapInboundIn(data)
        isBehindInReading = bytes.writableBytes == 0
        reader.append(bytes)
        mayBeEnding = !hasDirectSocket
        process()
        mayBeEnding = false
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        flushResponse()
        buffers.finishReading(&reader.bytes)
        if wantsInput { writer.readAhead() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable { exchange?.upstreamBecameWritable() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isWritable = false
        clock.end()
        timer.cancel()
        settle(.failure(Self.lost))
        owner.take()?.connectionEnded(self)
        tunnelEnded.take()?()
        if let id { pool.connectionEnded(id) }
        // The content may end with the connection: then all of it has come.
        if phase == .inspecting, reader.endsWithConnection, inputHasEnded { return inspectLast() }
        if phase != .held {
            connectionEnded()
        } else if endWhileHeld == .none {
            endWhileHeld = .ended
        }
    }

    func connectionEnded() {
        let wasClosed = phase == .closed
        let endsContent = phase == .body && reader.endsWithConnection && inputHasEnded && endWhileHeld != .cut
        // Earlier, the last bytes of the client would be lost.
        let endsTunnel = phase == .tunnel && outputHasEnded
        phase = .closed
        guard let exchange = exchange.take(), !wasClosed else { return }
        if endsContent || endsTunnel {
            exchange.responseEndedWithConnection()
        } else {
            exchange.upstreamLost(hasAnswered: hasReceivedBytes, alert: alert)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { pool.dialer.showedWrongKey(mismatch.seen) }
        if let opening {
            // The library says that it refuses a certificate, and not why.
            let certificate = hasDirectSocket ? nil : try? context.pipeline.syncOperations.nioSSL_peerCertificate()
            settle(.failure(UpstreamFailure.problem(error, opening.origin, certificate: certificate)))
        }
        if TLSFailure.isRenegotiation(error), phase == .head || phase == .body || phase == .inspecting {
            fail(TLSFailure.renegotiation)
        }
        if !hasDirectSocket { alert = TLSAlert(error) }
        // A TLS close without close_notify may be a cut: what ends with the connection has no end to trust.
        if phase == .tunnel && !inputHasEnded
            || (phase == .body || phase == .inspecting) && reader.endsWithConnection
        {
            phase = .closed
            exchange.take()?.upstreamLost(hasAnswered: true, alert: alert)
        }
        if phase == .held { endWhileHeld = .cut }
        // With TLS the end would be waited for, which may have come already.
        if hasDirectSocket { writer.closeConnection() } else { writer.closeAtOnce() }
    }

    // MARK: Closing

    func closeIdle() {
        if let id { pool.removeIdle(id) }
        close()
    }

    /// With TLS the upstream's close_notify would be waited for, in a place that others may need, and it could go on sending.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        writer.closeConnection()
        if !hasDirectSocket { writer.closeAtOnce() }
    }

    /// The client of a tunnel sends no more.
    func closeOutput() {
        guard !outputIsEnding else { return }
        outputIsEnding = true
        // Closing both ways would drop what has not left yet, and so would the end of the second.
        writer.afterWrites { [self] in outputEnded() }
    }

    private func outputEnded() {
        outputHasEnded = true
        // Still a tunnel: when it is closed its client is told that this was its end.
        if inputHasEnded { writer.closeConnection() } else { writer.closeOutput() }
    }
}
