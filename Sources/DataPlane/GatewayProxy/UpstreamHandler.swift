import GatewayCore
import NIOCore
import NIOSSL
import NIOTLS

/// One connection to an upstream: decodes responses and hands them to the client connection whose exchange it carries.
///
/// Lives on one event loop. Back-pressure: it reads only while the client's connection takes more.
final class UpstreamHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// TLS handshake under way.
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

    private let pool: UpstreamPool
    private var context: ChannelHandlerContext?
    private let outlet = Outlet()
    /// No other handler, TLS that is, is in the pipeline.
    private let isAlone: Bool
    private var client: DownstreamHandler?
    private var phase = Phase.opening
    private var decoder: ResponseHeadDecoder
    private var buffer: ByteBuffer
    private var parkedHead: ByteBuffer
    private var body = MessageBody(.none)
    private var trailers: TrailerSection
    private var answersHead = false
    private var hasReceivedBytes = false
    private var pendingRead = false
    /// The connection ended while an answer was kept back; its client need not know before the answer is passed on.
    private var endedWhileParked = false
    private var wasCutWhileParked = false
    private var hasUnflushedResponse = false
    /// It has waited in the pool, so that it may have been closed at the other end meanwhile.
    private(set) var hasBeenIdle = false
    private var isCounted = false
    private var ready: ((Result<UpstreamHandler, GatewayProblem>) -> Void)?
    private var origin: Origin?
    private let loop: any EventLoop
    private let clock: LoopClock
    private let timeouts: Timeouts
    private let buffers: SpareBuffers
    /// The upstream takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    /// Of the TLS handshake, and of the time without a request.
    private var timer = DeadlineTimer()

    init(
        pool: UpstreamPool,
        isAlone: Bool,
        clock: LoopClock,
        limits: Limits,
        timeouts: Timeouts,
        buffers: SpareBuffers
    ) {
        self.pool = pool
        self.isAlone = isAlone
        loop = pool.loop
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

    /// Calls `done` once requests can be sent: at once, or when the TLS handshake is through.
    func whenReady(
        isTLS: Bool,
        origin: Origin,
        _ done: @escaping (Result<UpstreamHandler, GatewayProblem>) -> Void
    ) {
        self.origin = origin
        if phase == .opening, isTLS {
            ready = done
            setDeadline(timeouts.connect)
        } else if phase == .closed {
            done(.failure(lost))
        } else {
            phase = .idle
            done(.success(self))
        }
    }

    // MARK: Deadlines

    private func setDeadline(_ amount: TimeAmount) {
        timer.set(clock.now + amount, on: loop, onFire: timerFired)
    }

    private func timerFired() {
        guard timer.fired(on: loop, onFire: timerFired) else { return }
        switch phase {
        case .opening:
            let detail = "\(origin?.description ?? "The upstream") did not finish the TLS handshake in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail)))
            close()
        case .idle:
            pool.remove(self)
            close()
        case .head, .body, .trailers, .parked, .tunnel, .closed: break
        }
    }

    /// The connection waits in the pool, but no longer than `idle_timeout`.
    func becameIdle() {
        phase = .idle
        hasBeenIdle = true
        setDeadline(idleTime)
        resumeReading()
    }

    /// Shorter than what the upstream said of its own: whoever closes first must not be the one who does not know.
    private var idleTime: TimeAmount {
        guard let seconds = decoder.head.keepAliveSeconds else { return timeouts.idle }
        return min(timeouts.idle, .milliseconds(Int64(seconds) * 1000 - min(1000, Int64(seconds) * 500)))
    }

    /// Its end, or bytes that nobody asked for, have come and were not looked at yet.
    var hasInput: Bool { outlet.hasInput }

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
        timer.clear()
        phase = .head
        decoder.reset()
        resumeReading()
    }

    func send(_ bytes: ByteBuffer) { outlet.send(bytes) }
    func send(_ first: ByteBuffer, _ second: ByteBuffer) { outlet.send(first, second) }
    func closeOutput() { context?.close(mode: .output, promise: nil) }

    /// The exchange is over before its response was: nothing of this connection can be trusted any more.
    func abandon() {
        client = nil
        close()
    }

    func close() {
        guard phase != .closed else { return }
        phase = .closed
        context?.close(promise: nil)
    }

    // MARK: Rejected answers

    /// Sends the answer that was kept back on to the client after all.
    func resumeParked() {
        guard phase == .parked, let client else { return }
        let head = parkedHead
        parkedHead = buffers.empty
        guard client.forwardHead(decoder.head, head) else { return fail("Its head could not be rewritten.") }
        afterHead(client)
        process()
        flushClient()
        if endedWhileParked { connectionEnded() } else { resumeReading() }
    }

    /// Drops the answer that was kept back; the connection is used again if nothing of it is still to come.
    func discardParked() {
        guard phase == .parked else { return }
        // What is still missing of the first request's body would be taken out of the next request.
        let isSentWhole = client?.requestIsComplete ?? false
        client = nil
        parkedHead = buffers.empty
        if !body.isComplete, buffer.readableBytes > 0 {
            let bytes = buffer
            switch body.receive(bytes.readableBytesUInt8Span) {
            case .last(let count): buffer.moveReaderIndex(forwardBy: count)
            case .forward, .trailers, .broken: break
            }
        }
        release(canReuse: body.isComplete && isSentWhole)
    }

    private func release(canReuse: Bool) {
        if canReuse, !endedWhileParked, buffer.readableBytes == 0, decoder.head.upstreamKeepsAlive {
            becameIdle()
            pool.putBack(self)
        } else {
            close()
        }
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        outlet.open(context, isAlone: isAlone)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        outlet.close()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent, phase == .opening {
            phase = .idle
            timer.clear()
            settle(.success(self))
        }
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
        var bytes = unwrapInboundIn(data)
        if buffer.readableBytes == 0 { buffer = bytes } else { buffer.writeBuffer(&bytes) }
        process()
    }

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

    private func connectionEnded() {
        let wasClosed = phase == .closed
        let endsBody = phase == .body && body.endsWithConnection && !wasCutWhileParked
        let wasTunnel = phase == .tunnel
        phase = .closed
        guard let client, !wasClosed else { return }
        self.client = nil
        if endsBody || wasTunnel {
            client.responseEnded()
        } else {
            client.upstreamLost(beforeAnyByte: !hasReceivedBytes)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { pool.showedWrongKey(mismatch.seen) }
        if let origin, ready != nil { settle(.failure(UpstreamFailure.problem(error, origin))) }
        // A TLS close without close_notify may be a cut: such a body has no trustworthy end.
        if phase == .body, body.endsWithConnection, let client {
            phase = .closed
            self.client = nil
            client.upstreamLost(beforeAnyByte: false)
        }
        if phase == .parked { wasCutWhileParked = true }
        context.close(promise: nil)
    }

    // MARK: Responses

    private func process() {
        while buffer.readableBytes > 0 {
            switch phase {
            case .head: guard readHead() else { return }
            case .body: guard readBody() else { return }
            case .trailers: guard readTrailers() else { return }
            case .tunnel:
                guard let client else { return }
                pass(buffer.readableBytes, to: client, isDone: false)
            case .parked, .opening: return
            case .idle:
                // Bytes nobody asked for: the end of the last response was not where we thought, or it was a lie.
                pool.remove(self)
                close()
                return
            case .closed:
                buffer = buffers.empty
                return
            }
        }
    }

    private func readHead() -> Bool {
        hasReceivedBytes = true
        guard let client else { return false }
        let bytes = buffer
        switch decoder.decode(bytes.readableBytesUInt8Span, answersHead: answersHead) {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
            return false
        case .head: break
        }
        guard let head = buffer.readSlice(length: decoder.head.end) else { return false }
        if decoder.head.isInformational, decoder.head.status != 101 {
            client.forwardInformational(decoder.head, head)
            hasUnflushedResponse = true
            decoder.reset()
            return true
        }
        body = MessageBody(decoder.head.framing)
        switch client.respond(decoder.head, head) {
        case .forward:
            guard client.forwardHead(decoder.head, head) else {
                fail("Its head could not be rewritten.")
                return false
            }
            afterHead(client)
            return true
        case .tunnel:
            guard client.forwardHead(decoder.head, head) else {
                fail("Its head could not be rewritten.")
                return false
            }
            phase = .tunnel
            hasUnflushedResponse = true
            client.beginTunnel()
            return true
        case .park:
            phase = .parked
            // A copy: a slice would keep the whole of the buffer that the event loop reads into.
            parkedHead = ByteBuffer(buffer: head)
            // An informational response that came with it; the client may wait for it.
            flushClient()
            client.replay()
            return false
        case .refuse(let detail):
            fail(detail)
            return false
        }
    }

    private func afterHead(_ client: DownstreamHandler) {
        hasUnflushedResponse = true
        if body.isComplete { finish() } else { phase = .body }
    }

    private func readBody() -> Bool {
        guard let client else { return false }
        let removesChunking = client.removesChunking
        var runs: [Range<Int>] = []
        let progress: MessageBody.Progress
        if removesChunking {
            let bytes = buffer
            progress = body.receive(bytes.readableBytesUInt8Span) { runs.append($0) }
            for run in runs {
                if let slice = buffer.getSlice(at: buffer.readerIndex + run.lowerBound, length: run.count) {
                    client.forward(slice)
                }
            }
        } else {
            let bytes = buffer
            progress = body.receive(bytes.readableBytesUInt8Span)
        }
        switch progress {
        case .forward(let count):
            pass(count, to: client, isDone: removesChunking)
        case .last(let count):
            pass(count, to: client, isDone: removesChunking)
            finish()
        case .trailers(let count):
            phase = .trailers
            trailers.reset()
            pass(count, to: client, isDone: removesChunking)
        case .broken:
            fail("It sent a chunked body that is not valid.")
            return false
        }
        return true
    }

    private func pass(_ count: Int, to client: DownstreamHandler, isDone: Bool) {
        hasUnflushedResponse = true
        if isDone {
            buffer.moveReaderIndex(forwardBy: count)
        } else if !client.stage(count, of: &buffer), let part = buffer.readSlice(length: count) {
            // Taken out: sending can lead back to here, with more in the buffer.
            client.forward(part)
        }
    }

    private func readTrailers() -> Bool {
        guard let client else { return false }
        let bytes = buffer
        switch trailers.read(bytes.readableBytesUInt8Span, forbidden: decoder.head.options.nominatedAsOwned) {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent trailers that are not valid: \(reason.rawValue).")
            return false
        case .complete(let output, let consumed):
            buffer.moveReaderIndex(forwardBy: consumed)
            if !client.removesChunking { client.forward(ByteBuffer(bytes: output)) }
            hasUnflushedResponse = true
            body.trailersReceived()
            finish()
            return true
        }
    }

    private func finish() {
        guard let client else { return }
        self.client = nil
        release(canReuse: client.requestIsComplete)
        hasUnflushedResponse = false
        client.responseEnded()
    }

    private func fail(_ detail: String) {
        let client = client
        self.client = nil
        close()
        client?.upstreamBroke(detail)
    }

    private func flushClient() {
        guard hasUnflushedResponse else { return }
        hasUnflushedResponse = false
        client?.flushResponse()
    }
}
