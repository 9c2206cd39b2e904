import GatewayCore
import NIOCore
import NIOSSL
import NIOTLS

/// One connection to an upstream: decodes responses and hands them to the client connection whose exchange it carries.
///
/// Lives on one event loop. Back-pressure: it reads only while the client's connection takes more.
final class UpstreamHandler: ChannelDuplexHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Not ready for a request: the TLS handshake is under way, or the library has not said yet that it is connected.
        case opening
        case idle
        case head
        case body
        case trailers
        /// A rejected token's answer, kept back until it is known whether the request can be sent again.
        case parked
        case tunnel
        case closed
    }

    let pool: UpstreamPool
    private var context: ChannelHandlerContext?
    let outlet = Outlet()
    /// No other handler, TLS that is, is in the pipeline.
    let isAlone: Bool
    var client: DownstreamHandler?
    var phase = Phase.opening
    var decoder: ResponseHeadDecoder
    var buffer: ByteBuffer
    var parkedHead: ByteBuffer
    var body = MessageBody(.none)
    var trailers: TrailerSection
    var answersHead = false
    var hasReceivedBytes = false
    private var pendingRead = false
    /// With TLS, while an answer is read: the end may have come with it, and the TLS handler tells that afterwards.
    private(set) var mayBeEnding = false
    /// The last read filled its buffer, or none was made since an answer was kept back.
    var isBehindInReading = false
    /// The last read filled its buffer, with TLS, where the reads are those of another handler; nil without.
    let encryptedReadWasFilled: NIOLoopBoundBox<Bool>?
    /// The connection ended while an answer was kept back; its client need not know before the answer is passed on.
    var endedWhileParked = false
    private var wasCutWhileParked = false
    /// The upstream has said that it sends no more. A connection that is lost, as a write may find out, ends without.
    private(set) var inputHasEnded = false
    /// The client of a tunnel sends no more: first the last of it is on its way, then that is said, too.
    private var outputIsEnding = false
    private var outputHasEnded = false
    var hasUnflushedResponse = false
    /// It has waited in the pool, so that it may have been closed at the other end meanwhile.
    private(set) var hasBeenIdle = false
    private var restsSince = NIODeadline.distantFuture
    private var isCounted = false
    private var ready: ((Result<UpstreamHandler, GatewayProblem>) -> Void)?
    private var origin: Origin?
    private let clock: LoopClock
    private let timeouts: Timeouts
    let buffers: SpareBuffers
    /// The upstream takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    /// Of the TLS handshake, and of the time without a request.
    private let timer: DeadlineTimer

    init(
        pool: UpstreamPool,
        isAlone: Bool,
        loop: any EventLoop,
        clock: LoopClock,
        limits: Limits,
        timeouts: Timeouts,
        buffers: SpareBuffers
    ) {
        self.pool = pool
        self.isAlone = isAlone
        encryptedReadWasFilled = isAlone ? nil : NIOLoopBoundBox(false, eventLoop: loop)
        timer = DeadlineTimer(queue: pool.deadlines)
        self.clock = clock
        self.timeouts = timeouts
        self.buffers = buffers
        buffer = buffers.empty
        parkedHead = buffers.empty
        decoder = ResponseHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        trailers = TrailerSection(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
    }

    /// Every way to lose the connection leads through ``channelInactive(context:)``, which changes the phase.
    var isOpen: Bool { phase == .idle }

    /// - Returns: Whether the pool will be told when the connection ends; false when it has ended already.
    func count() -> Bool {
        isCounted = context?.channel.isActive ?? false
        return isCounted
    }

    /// Calls `done` once requests can be sent: when the library has said that it is connected, or the TLS handshake is through.
    ///
    /// Not in the turn of the connection attempt's own future: what is closed there becomes inactive without a word.
    func whenReady(origin: Origin, _ done: @escaping (Result<UpstreamHandler, GatewayProblem>) -> Void) {
        self.origin = origin
        switch phase {
        case .opening:
            ready = done
            setDeadline(timeouts.connect)
        case .closed: done(.failure(lost))
        default: done(.success(self))
        }
    }

    private func becameReady() {
        phase = .idle
        timer.clear()
        settle(.success(self))
    }

    // MARK: Deadlines

    private func setDeadline(_ amount: TimeAmount) {
        timer.set(clock.now + amount, for: self)
    }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(origin?.description ?? "The upstream") did not finish the TLS handshake in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail)))
            close()
        case .idle:
            pool.remove(self)
            close()
        case .tunnel: if client == nil { outlet.reset() }
        case .head, .body, .trailers, .parked, .closed: break
        }
    }

    /// The connection waits in the pool, but no longer than `idle_timeout`.
    func becameIdle() {
        phase = .idle
        hasBeenIdle = true
        restsSince = clock.now
        setDeadline(idleTime)
        resumeReading()
    }

    /// Shorter than what the upstream said of its own: whoever closes first must not be the one who does not know.
    private var idleTime: TimeAmount {
        guard let seconds = decoder.head.keepAliveSeconds else { return timeouts.idle }
        return min(timeouts.idle, .milliseconds(Int64(seconds) * 1000 - min(1000, Int64(seconds) * 500)))
    }

    /// Whether it has been idle for longer than that.
    func hasRested(for amount: TimeAmount) -> Bool { clock.now - restsSince > amount }

    /// Its end, or bytes that nobody asked for, have come and were not looked at yet.
    var hasInput: Bool { outlet.hasInput }

    /// Such may stand behind what was read last.
    var mayHaveInput: Bool { isBehindInReading || encryptedReadWasFilled?.value ?? false }

    private var lost: GatewayProblem {
        GatewayProblem(.upstreamUnreachable, "The upstream closed the connection.", hopError: .connectionTerminated)
    }

    private func settle(_ result: Result<UpstreamHandler, GatewayProblem>) {
        guard let done = ready else { return }
        ready = nil
        done(result)
    }

    // MARK: Towards the upstream

    func begin(_ client: DownstreamHandler, answersHead: Bool) {
        self.client = client
        self.answersHead = answersHead
        hasReceivedBytes = false
        outlet.beginMessage()
        timer.clear()
        phase = .head
        decoder.reset()
        resumeReading()
    }

    private func endOfInput() {
        inputHasEnded = true
        // Only in a tunnel the other way goes on.
        guard phase == .tunnel, let client else {
            // With TLS, an end that was said before waits for this one, but not only for this.
            if phase == .closed, !isAlone { outlet.closeAtOnce() } else { outlet.closeConnection() }
            return
        }
        flushClient()
        client.upstreamClosedOutput()
    }

    func send(_ bytes: ByteBuffer) { outlet.send(bytes) }
    func send(_ first: ByteBuffer, _ second: ByteBuffer) { outlet.send(first, second) }
    /// The client of a tunnel sends no more.
    func closeOutput() {
        guard !outputIsEnding else { return }
        outputIsEnding = true
        // Closing both ways would drop what has not left yet, and so would the end of the second.
        outlet.afterWrites { [self] in outputEnded() }
    }

    private func outputEnded() {
        outputHasEnded = true
        // Still a tunnel: when it is closed its client is told that this was its end.
        if inputHasEnded { outlet.closeConnection() } else { outlet.closeOutput() }
    }

    /// Its client is gone, in good order: what it sent is still to be taken.
    func finishTunnel() {
        client = nil
        setDeadline(timeouts.response)
        closeOutput()
    }

    /// The exchange is over before its response was: nothing of this connection can be trusted any more.
    ///
    /// - Parameter isCut: The client's end was none that a tunnel may pass on as an end.
    func abandon(isCut: Bool = false) {
        client = nil
        guard phase != .closed else { return }
        // The end of a connection would wait behind what the upstream does not take.
        if phase == .tunnel ? isCut : outlet.untakenBytes() > 0 {
            phase = .closed
            outlet.reset()
        } else {
            close()
        }
    }

    /// What it has not taken yet of what was sent to it.
    var untakenBytes: Int { outlet.untakenBytes() }

    /// With TLS the upstream's close_notify would be waited for, in a place that others may need, and it could go on sending.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        outlet.closeConnection()
        if !isAlone { outlet.closeAtOnce() }
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        outlet.open(context, isAlone: isAlone)
        // So that an end can be told from a loss; from the beginning, because it can come with the first answer.
        try? context.channel.syncOptions?.setOption(.allowRemoteHalfClosure, value: true)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        outlet.close()
    }

    func channelActive(context: ChannelHandlerContext) {
        if isAlone, phase == .opening { becameReady() }
        context.fireChannelActive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent, phase == .opening { becameReady() }
        if case .inputClosed? = event as? ChannelEvent { endOfInput() }
        context.fireUserInboundEventTriggered(event)
    }

    func read(context: ChannelHandlerContext) {
        if wantsInput { context.read() } else { pendingRead = true }
    }

    private var wantsInput: Bool {
        switch phase {
        case .parked: false
        case .head, .body, .trailers, .tunnel: client?.isWritable ?? true
        case .opening, .idle, .closed: true
        }
    }

    func resumeReading() {
        guard pendingRead, wantsInput else { return }
        pendingRead = false
        outlet.read()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock.begin()
        let bytes = unwrapInboundIn(data)
        isBehindInReading = bytes.writableBytes == 0
        take(bytes)
        mayBeEnding = !isAlone
        process()
        mayBeEnding = false
    }

    private func take(_ bytes: consuming ByteBuffer) { buffer.takeBehindRest(&bytes) }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        flushClient()
        buffers.finishReading(&buffer)
        if wantsInput { outlet.readAhead() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable { client?.upstreamBecameWritable() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        isWritable = false
        clock.end()
        timer.cancel()
        settle(.failure(lost))
        pool.remove(self)
        if isCounted {
            isCounted = false
            pool.connectionEnded()
        }
        if phase == .parked { endedWhileParked = true } else { connectionEnded() }
    }

    func connectionEnded() {
        let wasClosed = phase == .closed
        let endsBody = phase == .body && body.endsWithConnection && inputHasEnded && !wasCutWhileParked
        // Before, what the client still sends would be taken by nobody.
        let endsTunnel = phase == .tunnel && outputHasEnded
        phase = .closed
        guard let client, !wasClosed else { return }
        self.client = nil
        if endsBody || endsTunnel {
            if endsBody, client.knowsChunks { client.stageLastChunk() }
            client.responseEnded()
        } else {
            client.upstreamLost(beforeAnyByte: !hasReceivedBytes, unsent: outlet.unsent)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { pool.showedWrongKey(mismatch.seen) }
        if let origin, ready != nil { settle(.failure(UpstreamFailure.problem(error, origin))) }
        // A TLS close without close_notify may be a cut: what ends with the connection has no trustworthy end.
        if phase == .tunnel && !inputHasEnded || phase == .body && body.endsWithConnection, let client {
            phase = .closed
            self.client = nil
            client.upstreamLost(beforeAnyByte: false, unsent: nil)
        }
        if phase == .parked { wasCutWhileParked = true }
        // With TLS the end would be waited for, which may have come already.
        if isAlone { outlet.closeConnection() } else { outlet.closeAtOnce() }
    }
}
