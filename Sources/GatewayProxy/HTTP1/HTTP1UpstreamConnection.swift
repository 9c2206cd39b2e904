import GatewayHTTP
import NIOCore
import NIOSSL
import NIOTLS

/// One HTTP/1 connection to an upstream: carries one exchange after the other.
///
///                   ┌─────── response is complete ──────┐
///                   ▼                                   │
///     opening ──▶ idle ── begin ──▶ head ────────────▶ body
///                   ▲                │ ├── 101 ──▶ tunnel
///                   │                │ └──▶ inspecting ──▶ body, or held
///                   │                ▼
///                   └── dropped ─── held ── passed on ──▶ body
///
///     any of them ──▶ closed
///
/// ``UpstreamPool`` or a ``PrivateConnection`` owns it while it is idle. In between an ``ExchangeDriver`` has it on lease.
///
/// Lives on one event loop. It reads only while the client takes more.
final class HTTP1UpstreamConnection: ChannelDuplexHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// Not ready for a request: the TLS handshake is in progress, or the channel is not active yet.
        case opening
        case idle
        case head
        case body
        /// The response is held back until enough of its body was received to judge it.
        case inspecting
        /// The response is held back until it is known whether the request can be sent again.
        case held
        case tunnel
        case closed
    }

    /// What happened to the connection while a response was held back. The client learns of it once the response is forwarded.
    private enum EndWhileHeld {
        case none
        case ended
        /// It ended without close_notify, so a body that ends with the connection may be incomplete.
        case cut
    }

    private let pool: UpstreamPool
    private var context: ChannelHandlerContext?
    private let writer = SocketWriter()
    /// TLS is not in the pipeline.
    private let hasDirectSocket: Bool
    private var exchange: ExchangeDriver?
    private var phase = Phase.opening
    private var reader: ResponseReader
    private var heldHead: ByteBuffer
    private var endWhileHeld = EndWhileHeld.none
    /// The form in which the client takes the body.
    private var form = ContentForm.wire
    /// The head, and small parts of the body, which are sent in one write.
    private var staged: ByteBuffer
    /// A request body that arrives without framing is sent in chunks.
    private var sendsChunks = false
    private var hasReceivedBytes = false
    private var hasUnflushedResponse = false
    private var pendingRead = false
    /// With TLS, while a response is being read: the end may have arrived with it, but the TLS handler reports it afterwards.
    private(set) var mayBeEnding = false
    /// The last read filled its buffer, or there was no read since a response was held back.
    private var isBehindInReading = false
    /// With TLS, where another handler reads: whether the last read filled its buffer. nil without TLS.
    let encryptedReadWasFilled: NIOLoopBoundBox<Bool>?
    /// The upstream has closed its output. A connection that is lost ends without this.
    private(set) var inputHasEnded = false
    private var output = TunnelOutput.open
    /// The TLS alert of the upstream. In TLS 1.3, a server that rejects the client certificate sends one instead of a response.
    private var alert: TLSAlert?
    /// The connection has carried a request before, so the upstream may have closed it in the meantime.
    private(set) var isReused = false
    /// The id of this connection in ``pool``; nil while several are being tried for one request and none has won.
    private(set) var id: ConnectionID?
    /// Keeps the connection between requests, instead of ``pool``.
    private var owner: PrivateConnection?
    private var opening: Opening?
    /// Called when the tunnel has ended, if its client has left earlier.
    private var tunnelEnded: (() -> Void)?
    private let clock: LoopClock
    private let timeouts: Timeouts
    private let buffers: SpareBuffers
    /// The upstream can take more: the unsent bytes are below the high-water mark.
    private(set) var isWritable = true
    /// Limits the TLS handshake and the time between two requests.
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

    /// However the connection is lost, ``channelInactive(context:)`` is called and changes the phase.
    var isOpen: Bool { phase == .idle }

    // MARK: Deadlines

    private func setDeadline(_ amount: TimeAmount) { timer.set(clock.now + amount, for: self) }
    private func clearDeadline() { timer.clear() }
    private var responseTimeout: TimeAmount { timeouts.response }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(opening?.origin.description ?? "The upstream") did not finish the TLS handshake in time."
            let problem = GatewayProblem(.upstreamTimeout, detail, hopError: .handshakeTimeout)
            let proxyProblem = ParentHandshake.overdue(on: context?.channel)
            settle(.failure(proxyProblem ?? opening?.target.behindProxy(problem) ?? problem))
            close()
        case .idle: closeIdle()
        case .tunnel: if exchange == nil { writer.reset() }
        case .head, .body, .inspecting, .held, .closed: break
        }
    }

    // MARK: Between requests

    /// Waits for a request, and closes at `end`.
    func rest(until end: NIODeadline) {
        timer.set(end, for: self)
        resumeReading()
    }

    private func becameIdle() {
        phase = .idle
        isReused = true
    }

    /// Whether the end of the connection, or bytes that belong to no request, have arrived and were not read yet.
    var hasInput: Bool { writer.hasInput }

    /// Whether there may be such input after what was read last.
    var mayHaveInput: Bool { isBehindInReading || encryptedReadWasFilled?.value ?? false }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: hasDirectSocket)
        // Set at once, since the end can arrive with the first response: it must be told apart from a lost connection.
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
        // Only a tunnel goes on in the other direction.
        guard phase == .tunnel, let exchange else {
            // With TLS, an earlier close of ours waits for this close_notify, but not only for this.
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
        reader.finishReading(by: buffers)
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
        settle(.failure(opening?.target.behindProxy(Self.lost) ?? Self.lost))
        owner.take()?.connectionEnded(self)
        tunnelEnded.take()?()
        if let id { pool.connectionEnded(id) }
        // If the body ends with the connection, all of it has been received.
        if phase == .inspecting, reader.endsWithConnection, inputHasEnded { return inspectLast() }
        if phase != .held {
            connectionEnded()
        } else if endWhileHeld == .none {
            endWhileHeld = .ended
        }
    }

    private func connectionEnded() {
        let wasClosed = phase == .closed
        let endsContent = phase == .body && reader.endsWithConnection && inputHasEnded && endWhileHeld != .cut
        // Before the output has ended, the client's last bytes may have been lost.
        let endsTunnel = phase == .tunnel && output == .ended
        phase = .closed
        guard let exchange = exchange.take(), !wasClosed else { return }
        if endsContent || endsTunnel {
            exchange.responseEndedWithConnection()
        } else {
            exchange.upstreamLost(hasAnswered: hasReceivedBytes, alert: alert)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let mismatch = error as? PinMismatch { pool.showedWrongKey(mismatch.seen) }
        if let opening {
            // The library says that it rejects the certificate, but not why.
            let certificate = hasDirectSocket ? nil : context.pipeline.syncOperations.upstreamCertificate
            settle(.failure(opening.target.problem(error, certificate: certificate)))
        }
        if UpstreamFailure.isRenegotiation(error), phase == .head || phase == .body || phase == .inspecting {
            fail(UpstreamFailure.renegotiation)
        }
        if !hasDirectSocket { alert = TLSAlert(error) }
        // Without close_notify the connection may have been cut, so a body that ends with it may be incomplete.
        if phase == .tunnel && !inputHasEnded
            || (phase == .body || phase == .inspecting) && reader.endsWithConnection
        {
            phase = .closed
            exchange.take()?.upstreamLost(hasAnswered: true, alert: alert)
        }
        if phase == .held { endWhileHeld = .cut }
        // With TLS, closing would wait for a close_notify that may already have arrived.
        if hasDirectSocket { writer.closeConnection() } else { writer.closeAtOnce() }
    }

    // MARK: Closing

    func closeIdle() {
        if let id { pool.removeIdle(id) }
        close()
    }

    /// With TLS, closes without waiting for the upstream's close_notify: the wait would occupy a place that others may need, and
    /// the upstream could go on sending.
    func close() {
        guard phase != .closed else { return }
        phase = .closed
        writer.closeConnection()
        if !hasDirectSocket { writer.closeAtOnce() }
    }

    /// The tunnel's client has closed its output.
    func closeOutput() {
        guard output == .open else { return }
        output = .ending
        // Closing now would drop what has not been sent yet. If the input has ended as well, closing the output closes the
        // connection.
        writer.afterWrites { [self] in outputEnded() }
    }

    private func outputEnded() {
        output = .ended
        // The phase stays `tunnel`, so that the client is told of a normal end when the connection is closed.
        if inputHasEnded { writer.closeConnection() } else { writer.closeOutput() }
    }
}

/// From the attempt to connect until requests can be sent.
extension HTTP1UpstreamConnection {
    /// The request that waits for the connection to become ready.
    private struct Opening {
        let target: UpstreamTarget
        let done: UpstreamPool.Done

        var origin: Origin { target.origin }
    }

    /// The pool has chosen this connection among those that it tried.
    ///
    /// - Parameter owner: The owner of a private connection; nil for a connection of the pool.
    /// - Returns: Whether the pool will be told when the connection ends; false if it has ended already.
    func begin(as id: ConnectionID, of owner: PrivateConnection?) -> Bool {
        guard context?.channel.isActive ?? false else { return false }
        self.id = id
        self.owner = owner
        return true
    }

    /// Calls `done` once requests can be sent: when the channel is active, or the TLS handshake is complete.
    ///
    /// This is not done when the future of the connection attempt succeeds, because a channel that is closed in that turn becomes
    /// inactive without any event.
    func whenReady(target: UpstreamTarget, _ done: @escaping UpstreamPool.Done) {
        switch phase {
        case .opening:
            opening = Opening(target: target, done: done)
            setDeadline(timeouts.connect)
        case .closed: done(.failure(Self.lost))
        default: done(.success(self))
        }
    }

    func becameReady() {
        phase = .idle
        clearDeadline()
        settle(.success(self))
    }

    private func settle(_ result: Result<any UpstreamStream, GatewayProblem>) { opening.take()?.done(result) }

    static var lost: GatewayProblem {
        GatewayProblem(.upstreamUnreachable, "The upstream closed the connection.", hopError: .connectionTerminated)
    }
}

extension HTTP1UpstreamConnection: UpstreamStream {
    var requestForm: ContentForm { .wire }
    var canRefuse: Bool { false }
    var takesUpgrade: Bool { true }
    var untakenBytes: Int { writer.untakenBytes() }
    var heldBytes: Int { staged.readableBytes + writer.heldBytes }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        assert(self.exchange == nil, "A connection carries two requests.")
        self.exchange = exchange
        hasReceivedBytes = false
        writer.beginMessage()
        clearDeadline()
        phase = .head
        reader.begin(answersHead: answersHead)
        resumeReading()
    }

    // MARK: Request

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: borrowing RequestWriter,
        end: RequestEnd
    ) throws(HeadFault) {
        sendsChunks = if case .chunked = head.framing { writer.content != .collected } else { false }
        if staged.readableBytes == 0 { staged = buffers.take() }
        guard writer.write(head, bytes, end: end, into: &staged) else { throw .unwritable }
    }

    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {
        sendsChunks = isChunked
        staged = unsent
    }

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        switch form {
        case .content where sendsChunks: stageChunk(bytes)
        case .content, .wire: sendWire(bytes)
        }
    }

    private func stageChunk(_ content: ByteBuffer) {
        // An empty chunk would be the last one.
        guard content.readableBytes > 0 else { return }
        if staged.readableBytes == 0 { staged = buffers.take() }
        staged.writeString(String(content.readableBytes, radix: 16) + "\r\n")
        staged.writeImmutableBuffer(content)
        staged.writeString("\r\n")
    }

    /// Up to this size, appending to the staged bytes is cheaper than a write from two buffers.
    private static let maximumJoined = 16_384

    private func sendWire(_ bytes: ByteBuffer) {
        let isJoined = staged.readableBytes > 0 && bytes.readableBytes <= Self.maximumJoined
        guard !isJoined, phase != .closed else {
            staged.writeImmutableBuffer(bytes)
            return
        }
        writer.send(takeStaged(), bytes)
    }

    func sendEnd(trailers: ByteBuffer) {
        guard sendsChunks else { return }
        if staged.readableBytes == 0 { staged = buffers.take() }
        staged.writeString("0\r\n")
        staged.writeImmutableBuffer(trailers)
    }

    func flush() {
        guard staged.readableBytes > 0, phase != .closed else { return }
        let out = takeStaged()
        writer.send(out)
        buffers.giveBack(out)
    }

    func whenSent(_ done: @escaping () -> Void) {
        flush()
        guard phase != .closed, writer.unsent == nil else { return }
        guard !hasDirectSocket || writer.isHoldingBytes() else { return done() }
        writer.afterWrites { [writer] in
            if writer.unsent == nil { done() }
        }
    }

    private func takeStaged() -> ByteBuffer {
        var out = buffers.empty
        swap(&out, &staged)
        return out
    }

    func takeUnsent() -> ByteBuffer? {
        guard var unsent = writer.unsent else { return nil }
        unsent.writeImmutableBuffer(takeStaged())
        return unsent
    }

    // MARK: End

    func release(isReusable: Bool) {
        exchange = nil
        hasUnflushedResponse = false
        guard isReusable, endWhileHeld == .none, reader.isEmpty, reader.head.upstreamKeepsAlive else { return close() }
        returnUnused()
    }

    func returnUnused() {
        guard let id else { return close() }
        becameIdle()
        let keepAliveSeconds = reader.head.keepAliveSeconds
        guard let owner else { return pool.putBack(self, id, keepAliveSeconds: keepAliveSeconds) }
        owner.putBack(self, id, keepAliveSeconds: keepAliveSeconds)
    }

    func abandon(isCut: Bool) {
        exchange = nil
        staged = buffers.empty
        guard phase != .closed else { return }
        // A normal close would wait until the upstream takes the rest.
        if phase == .tunnel ? isCut : writer.untakenBytes() > 0 {
            phase = .closed
            writer.reset()
        } else {
            close()
        }
    }

    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        exchange = nil
        tunnelEnded = whenEnded
        setDeadline(responseTimeout)
        closeOutput()
    }

    // MARK: Response

    private func process() {
        while !reader.isEmpty {
            switch phase {
            case .head: guard readHead() else { return }
            case .body: guard readContent() else { return }
            case .tunnel: pass(reader.count)
            case .inspecting: guard inspect(isLast: false) else { return }
            case .held, .opening: return
            case .idle:
                // Bytes that belong to no request: the last response did not end where its framing said.
                return closeIdle()
            case .closed: reader.dropAll(leaving: buffers.empty)
            }
        }
    }

    private func readHead() -> Bool {
        // The request was not sent, so these bytes do not answer it.
        guard writer.unsent == nil else {
            reader.dropAll(leaving: buffers.empty)
            return false
        }
        hasReceivedBytes = true
        guard let exchange else { return false }
        switch reader.readHead() {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
            return false
        case .head: break
        }
        guard let head = reader.takeHead() else { return false }
        // Compare the number: `isInformational` would copy the whole head.
        let status = reader.head.status
        if status < 200, status != 101 {
            exchange.receiveInformational(reader.head, head)
            hasUnflushedResponse = true
            reader.nextHead()
            return true
        }
        if status == 407, pool.target.absoluteForm != nil, let parent = pool.target.parent {
            refuse(parent.loginProblem)
            return false
        }
        reader.beginContent()
        return follow(exchange.receive(reader.head, head), head, exchange)
    }

    /// The proxy wants another login. What it says of that is between it and the gateway.
    private func refuse(_ problem: GatewayProblem) {
        let exchange = exchange.take()
        close()
        exchange?.proxyRefused(problem)
    }

    /// - Returns: Whether to go on with the bytes that were received.
    private func follow(
        _ decision: ExchangeDriver.ResponseDecision,
        _ head: ByteBuffer,
        _ exchange: ExchangeDriver
    ) -> Bool {
        // Forwarding the head may have revealed that the client has left.
        guard self.exchange === exchange else { return false }
        switch decision {
        case .pass(let form):
            self.form = form
            hasUnflushedResponse = true
            if reader.isComplete { exchange.responseCompleted() } else { phase = .body }
            return true
        case .tunnel:
            phase = .tunnel
            hasUnflushedResponse = true
            exchange.tunnelBegan()
            return true
        case .inspect:
            phase = .inspecting
            heldHead = ByteBuffer(buffer: head)
            flushResponse()
            reader.beginInspection()
            return true
        case .hold:
            phase = .held
            isBehindInReading = true
            // Copied, because a slice would keep the event loop's whole read buffer in memory.
            heldHead = ByteBuffer(buffer: head)
            // An interim response may have arrived with it, and the client may be waiting for that.
            flushResponse()
            exchange.sendAgain()
            return false
        case .over: return false
        }
    }

    private func readContent() -> Bool {
        guard let exchange else { return false }
        // A body that ends with the connection has no framing.
        if case .content = form, !reader.endsWithConnection { return readBareContent(exchange) }
        let part = reader.nextPart(forbidden: exchange.namesKeptFromClient)
        if case .content(let count, _) = part { pass(count) }
        return finish(part, exchange)
    }

    /// Forwards the body without the upstream's framing.
    private func readBareContent(_ exchange: ExchangeDriver) -> Bool {
        var runs: [Range<Int>] = []
        let part = reader.nextPart(forbidden: exchange.namesKeptFromClient, runs: &runs)
        if case .content(let count, _) = part { passRuns(runs, of: count) }
        return finish(part, exchange)
    }

    /// - Parameter part: A part whose content was already forwarded.
    /// - Returns: Whether to go on with the bytes that were received.
    private func finish(_ part: ResponseReader.Part, _ exchange: ExchangeDriver) -> Bool {
        switch part {
        case .content(_, let isLast): if isLast { self.exchange?.responseCompleted() }
        case .trailers(let bytes):
            hasUnflushedResponse = true
            exchange.receive(responseTrailers: bytes)
            exchange.responseCompleted()
        case .needMore: return false
        case .broken:
            fail("It sent a chunked body that is not valid.")
            return false
        case .refusedTrailers(let reason):
            fail("It sent trailers that are not valid: \(reason.rawValue).")
            return false
        }
        return true
    }

    private func pass(_ count: Int) {
        guard let exchange, count > 0 else { return }
        hasUnflushedResponse = true
        guard !reader.stage(count, in: exchange) else { return }
        if let part = reader.take(count) { exchange.receive(content: part) }
    }

    /// Forwards the bytes between the chunk framing.
    private func passRuns(_ runs: [Range<Int>], of count: Int) {
        guard let exchange, let bytes = reader.take(count) else { return }
        hasUnflushedResponse = true
        for run in runs {
            guard var content = bytes.getSlice(at: bytes.readerIndex + run.lowerBound, length: run.count) else {
                continue
            }
            if !exchange.stage(run.count, of: &content) { exchange.receive(content: content) }
        }
    }

    private func fail(_ detail: String) {
        let exchange = exchange.take()
        close()
        exchange?.upstreamBroke(detail)
    }

    private func flushResponse() {
        guard hasUnflushedResponse else { return }
        hasUnflushedResponse = false
        exchange?.flushResponse()
    }

    // MARK: Held responses

    /// - Parameter isLast: No more of the body is waited for.
    /// - Returns: Whether to go on with the bytes that were received.
    private func inspect(isLast: Bool) -> Bool {
        guard phase == .inspecting, let exchange else { return false }
        let content = reader.inspectedContent(isLast: isLast)
        guard let content else { return false }
        let head = heldHead
        heldHead = buffers.empty
        return follow(exchange.receive(reader.head, head, content: content), head, exchange)
    }

    func endInspection() {
        guard inspect(isLast: true) else { return }
        process()
        flushResponse()
    }

    /// The body that is being inspected has ended with the connection.
    private func inspectLast() {
        endWhileHeld = .ended
        endInspection()
        if phase != .held { connectionEnded() }
    }

    func passHeldResponse() {
        guard phase == .held, let exchange else { return }
        let head = heldHead
        heldHead = buffers.empty
        guard follow(exchange.passHeld(reader.head, head), head, exchange) else { return }
        process()
        flushResponse()
        if endWhileHeld == .none { resumeReading() } else { connectionEnded() }
    }

    func dropHeldResponse(requestWasSent: Bool) {
        guard phase == .held else { return }
        heldHead = buffers.empty
        reader.dropContent()
        release(isReusable: reader.isComplete && requestWasSent)
    }
}
