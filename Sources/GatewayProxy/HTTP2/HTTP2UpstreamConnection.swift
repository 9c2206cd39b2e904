import GatewayHTTP
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOSSL

/// One HTTP/2 connection to an upstream: carries many exchanges at one time, each on an ``HTTP2UpstreamStream``.
///
///     opening ── SETTINGS ──▶ open ── GOAWAY ──▶ open, and retired: no more streams ──▶ closed
///                              └── idle, silent, or a rule was broken ─────────────────────▲
///
///     UpstreamPool ──▶ HTTP2UpstreamConnection ──▶ HTTP2UpstreamStream ◀── ExchangeDriver
///                 owns                        owns                    leases
///
/// Stands behind `NIOHTTP2Handler`, which knows frames, HPACK and the states of streams. Flow control is done here: without a
/// channel for each stream the library sends no WINDOW_UPDATE, and would hold what exceeds the window without a limit.
final class HTTP2UpstreamConnection: ChannelInboundHandler, DeadlineKeeper, Flushable {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    typealias Ready = (Result<HTTP2UpstreamConnection, GatewayProblem>) -> Void

    enum Phase {
        /// The upstream's settings have not come.
        case opening
        case open
        case closed
    }

    /// Maximum content of one response that may wait for its client.
    static let streamWindow = 262_144
    /// The window of a connection, as large as those of all its streams together: streams whose clients take nothing do not stop
    /// the others.
    private static let connectionWindow = 100 * streamWindow

    let pool: UpstreamPool
    let id: ConnectionID
    private let origin: Origin
    let limits: Limits
    let buffers: SpareBuffers
    let clock: LoopClock
    let timeouts: Timeouts
    private let timer: DeadlineTimer
    private var context: ChannelHandlerContext?
    private(set) var phase = Phase.opening
    private var ready: Ready?
    // Streams.
    private var streams: [HTTP2StreamID: HTTP2UpstreamStream] = [:]
    private var nextID = HTTP2StreamID(1)
    private var hasCarried = false
    /// The upstream takes no more streams.
    private var isRetired = false
    /// Whether the upstream takes WebSockets (RFC 8441).
    private(set) var takesWebSocket = false
    // What is sent.
    /// The initial window of each stream, as the upstream's settings have it.
    private(set) var peerStreamWindow = SendWindow.initial
    private(set) var maximumFrame = HTTP2Configuration.frameSize
    private var sendWindow = SendWindow()
    /// Streams that wait for room on the connection, in turn.
    private var waiting: [HTTP2UpstreamStream] = []
    private var isWritable = true
    private var isReading = false
    private var needsFlush = false
    /// It is in the worker's queue of those that flush.
    private var isFlushDue = false
    // What is received.
    private var receiveWindow = ReceiveWindow(target: connectionWindow, size: SendWindow.initial)
    /// Their clients are flushed at the end of this read.
    private var unflushed: [HTTP2UpstreamStream] = []
    /// A PING was sent, and its answer has not come.
    private var isProbing = false
    private var meter: HTTP2FrameMeter
    private var restsUntil: NIODeadline?
    /// A server that refuses the client certificate says so after the handshake, in place of its settings (TLS 1.3).
    private(set) var alert: TLSAlert?

    init(
        pool: UpstreamPool,
        id: ConnectionID,
        origin: Origin,
        limits: Limits,
        worker: (clock: LoopClock, buffers: SpareBuffers),
        timeouts: Timeouts,
        _ ready: @escaping Ready
    ) {
        self.pool = pool
        self.id = id
        self.origin = origin
        self.limits = limits
        clock = worker.clock
        buffers = worker.buffers
        self.timeouts = timeouts
        self.ready = ready
        timer = DeadlineTimer(queue: pool.deadlines)
        meter = HTTP2FrameMeter(at: MonotonicTime(.now()), isOfClient: false)
    }

    var isOpen: Bool { phase == .open && !isRetired }
    var scheme: Origin.Scheme { origin.scheme }

    // MARK: Opening

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        isWritable = context.channel.isWritable
        setDeadline(timeouts.connect)
        if let increment = receiveWindow.credit() {
            write(.rootStream, .windowUpdate(windowSizeIncrement: increment))
            context.flush()
        }
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    private func settle(_ result: Result<HTTP2UpstreamConnection, GatewayProblem>) { ready.take()?(result) }

    /// What the upstream's first settings allow.
    private(set) var streamLimit = Int.max

    // MARK: Streams

    /// For a request that the pool has given a stream to.
    func makeStream() -> HTTP2UpstreamStream {
        restsUntil = nil
        if !isProbing { timer.clear() }
        defer { hasCarried = true }
        return HTTP2UpstreamStream(on: self, isReused: hasCarried)
    }

    /// The stream's exchange is over, or goes on elsewhere.
    ///
    /// - Parameter code: Tells the upstream that the stream is over before its time.
    func end(_ stream: HTTP2UpstreamStream, _ code: HTTP2ErrorCode?) {
        guard stream.phase != .over else { return }
        credit(stream.receiveWindow.held)
        stream.drop()
        let isComplete = stream.isComplete
        if let id = stream.id, streams.removeValue(forKey: id) != nil, let code, phase == .open, !isComplete {
            write(id, .rstStream(code))
            flush()
        }
        if stream.waitsForRoom { waiting.removeAll { $0 === stream } }
        pool.streamEnded(self)
    }

    /// The library knows the stream no more: nothing is sent on it.
    private func forget(_ stream: HTTP2UpstreamStream, _ id: HTTP2StreamID) {
        streams[id] = nil
        stream.forgotten()
    }

    // MARK: Channel events

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock.begin()
        isReading = true
        if isProbing { upstreamLives() }
        let frame = unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let fields):
            streams[frame.streamID]?.receive(.fields(fields.headers, isLast: fields.endStream))
        case .data(let data): receive(data, on: frame.streamID)
        case .rstStream(let code): receiveReset(code, on: frame.streamID)
        case .settings(.settings(let settings)): receive(settings)
        case .windowUpdate(let increment): grow(frame.streamID, by: increment)
        case .goAway(let last, let code, _): receiveGoAway(last, code)
        default: break
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case let event as NIOHTTP2WindowUpdatedEvent where event.streamID == .rootStream:
            // The library also counts what it has not passed on.
            if let size = event.inboundWindowSize { receiveWindow.change(to: size) }
        case let event as StreamClosedEvent where event.reason != nil:
            // Not reset by the upstream, which was dealt with before, nor by us: the library has found a fault.
            guard let stream = streams[event.streamID], !stream.hasArrived else { break }
            forget(stream, event.streamID)
            stream.fail(Self.brokenRule)
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        isReading = false
        let streams = unflushed
        unflushed.removeAll(keepingCapacity: true)
        for stream in streams { stream.flushResponse() }
        if needsFlush { flushNow() }
    }

    /// The client gets what was sent to it when this read is dealt with.
    func flushLater(_ stream: HTTP2UpstreamStream) {
        guard isReading, unflushed.last !== stream else { return }
        unflushed.append(stream)
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable { serveWaiting() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        clock.end()
        phase = .closed
        timer.cancel()
        settle(.failure(lost))
        pool.connectionEnded(id)
        let streams = Array(streams.values)
        self.streams = [:]
        waiting = []
        for stream in streams { stream.lose(isRefused: false) }
    }

    private var lost: GatewayProblem {
        let detail = "\(origin) closed the connection before it spoke HTTP/2."
        return GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // Its stream is dealt with when it is closed.
        guard !(error is NIOHTTP2Errors.StreamError) else { return }
        alert = TLSAlert(error)
        if let alert {
            settle(.failure(UpstreamFailure.problem(alert, origin)))
        } else if !Self.isOfConnection(error) {
            let isHeadTooLarge = error is NIOHTTP2Errors.ExcessivelyLargeHeaderBlock
            broken(isHeadTooLarge ? Self.headTooLarge : Self.brokenRule)
        } else if UpstreamFailure.isRenegotiation(error), phase != .opening {
            failStreams(UpstreamFailure.renegotiation)
        } else {
            settle(.failure(lost))
        }
        close()
    }

    /// Whether an error is one of the connection, and not of what the upstream says in HTTP/2.
    private static func isOfConnection(_ error: any Error) -> Bool {
        error is IOError || error is NIOSSLError || error is BoringSSLError || error is ChannelError
    }

    /// The upstream has sent more than it has a use for.
    private func broken() {
        broken(Self.brokenRule)
        close()
    }

    private func broken(_ detail: String) {
        if phase == .opening { settle(.failure(.speaksNoHTTP2(origin))) } else { failStreams(detail) }
    }

    private static let brokenRule = "It broke a rule of HTTP/2."
    /// The library refuses such a head before it is decoded, and the connection with it. In the words for one that was decoded.
    private static let headTooLarge = "It sent a response that is not valid HTTP: \(HeadRefusal.headTooLarge.rawValue)."

    private func failStreams(_ detail: String) {
        for stream in Array(streams.values) where !stream.hasArrived {
            if let id = stream.id { forget(stream, id) }
            stream.fail(detail)
        }
    }

    // MARK: Writing

    func write(_ id: HTTP2StreamID, _ payload: HTTP2Frame.FramePayload) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
    }

    /// What was written leaves at the end of the read at hand, or when all that the loop has read is dealt with.
    func flush() {
        needsFlush = true
        guard !isReading, !isFlushDue else { return }
        isFlushDue = true
        pool.flushes.add(self)
    }

    func flushNow() {
        isFlushDue = false
        guard needsFlush else { return }
        needsFlush = false
        context?.flush()
    }
}

/// What the upstream says.
extension HTTP2UpstreamConnection {
    // MARK: Settings

    private func receive(_ settings: HTTP2Settings) {
        var streamLimit: Int?
        for setting in settings {
            switch setting.parameter {
            case .maxConcurrentStreams: streamLimit = setting.value
            case .maxFrameSize: maximumFrame = setting.value
            case .enableConnectProtocol: takesWebSocket = setting.value == 1
            case .initialWindowSize: changeStreamWindow(to: setting.value)
            default: break
            }
        }
        guard phase == .opening else {
            if let streamLimit { pool.streamLimitChanged(id, to: streamLimit) }
            return
        }
        self.streamLimit = streamLimit ?? .max
        phase = .open
        pool.learned(takesWebSocket: takesWebSocket)
        timer.clear()
        settle(.success(self))
    }

    private func changeStreamWindow(to size: Int) {
        let delta = size - peerStreamWindow
        peerStreamWindow = size
        // The library refuses settings that are too large.
        for stream in streams.values { stream.windowGrew(by: delta) }
        guard delta > 0 else { return }
        for stream in Array(streams.values) { stream.sendContent() }
        flush()
    }

    // MARK: Streams

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on id: HTTP2StreamID) {
        guard let stream = streams[id], case .byteBuffer(let bytes) = data.data else { return }
        let size = bytes.readableBytes + (data.paddingBytes.map { $0 + 1 } ?? 0)
        _ = receiveWindow.receive(size)
        stream.receive(bytes, size: size, isLast: data.endStream)
    }

    private func receiveReset(_ code: HTTP2ErrorCode, on id: HTTP2StreamID) {
        guard let stream = streams[id] else { return }
        forget(stream, id)
        guard code != .noError || !stream.endsWithoutRest() else { return }
        guard code != .http11Required || stream.phase != .head else {
            return stream.wantsHTTP1()
        }
        stream.lose(isRefused: code == .refusedStream)
    }

    private func receiveGoAway(_ last: HTTP2StreamID, _ code: HTTP2ErrorCode) {
        retire()
        for (id, stream) in streams where id > last {
            forget(stream, id)
            if code == .http11Required { stream.wantsHTTP1() } else { stream.lose(isRefused: true) }
        }
    }
}

/// Never more content than the upstream allows, and never more from it than clients take.
extension HTTP2UpstreamConnection {
    // MARK: Sending

    /// Maximum content that a stream sends before the next one that waits.
    private static let maximumTurn = 65_536

    /// Sends what the stream has, as far as there is room for it.
    func send(_ stream: HTTP2UpstreamStream) {
        if let head = stream.takeHead() {
            // The connection was lost, or retired, between the lease and this moment.
            guard isOpen else { return stream.lose(isRefused: true) }
            begin(stream, head)
        }
        guard phase == .open else { return }
        stream.sendContent()
        flush()
    }

    private func begin(_ stream: HTTP2UpstreamStream, _ head: HPACKHeaders) {
        let id = nextID
        nextID = id.advanced(by: 2)
        assert(streams[id] == nil && stream.id == nil, "A stream begins twice.")
        let isLast = stream.begin(as: id, window: peerStreamWindow)
        streams[id] = stream
        meter.sentRequest()
        write(id, .headers(.init(headers: head, endStream: isLast)))
    }

    /// Content that can be sent now.
    var room: Int { isWritable ? sendWindow.available : 0 }

    func send(_ bytes: ByteBuffer, isLast: Bool, on id: HTTP2StreamID) {
        sendWindow.spend(bytes.readableBytes)
        meter.sent(bytes.readableBytes)
        write(id, .data(.init(data: .byteBuffer(bytes), endStream: isLast)))
    }

    /// The stream has more to send than there is room for.
    func wait(_ stream: HTTP2UpstreamStream) { waiting.append(stream) }

    /// There is room on the connection: each stream that waits has its turn.
    private func serveWaiting() {
        guard phase == .open, !waiting.isEmpty else { return }
        while room > 0, !waiting.isEmpty {
            waiting.removeFirst().takeTurn(maximum: Self.maximumTurn)
        }
        flush()
    }

    /// The upstream takes more. The library refuses an increment that is too large.
    private func grow(_ id: HTTP2StreamID, by increment: Int) {
        guard id != .rootStream else {
            _ = sendWindow.grow(by: increment)
            return serveWaiting()
        }
        guard let stream = streams[id] else { return }
        stream.windowGrew(by: increment)
        stream.sendContent()
        flush()
    }

    // MARK: Receiving

    /// Lets the upstream send as many bytes again on the connection.
    func credit(_ size: Int) {
        receiveWindow.take(size)
        guard phase == .open, let increment = receiveWindow.credit() else { return }
        write(.rootStream, .windowUpdate(windowSizeIncrement: increment))
        flush()
    }
}

/// How a connection rests, is asked whether it lives, and ends.
extension HTTP2UpstreamConnection {
    // MARK: Rest

    /// The connection has no streams, and is closed at `end`.
    func rest(until end: NIODeadline) {
        restsUntil = end
        if !isProbing { timer.set(end, for: self) }
    }

    /// Sends PING, because the upstream was silent for long. Without an answer, the connection is closed.
    func probe() {
        guard phase == .open, !isProbing else { return }
        isProbing = true
        write(.rootStream, .ping(HTTP2PingData(withInteger: 0), ack: false))
        flush()
        setDeadline(timeouts.connect)
    }

    private func setDeadline(_ amount: TimeAmount) { timer.set(clock.now + amount, for: self) }

    private func upstreamLives() {
        isProbing = false
        if let restsUntil { timer.set(restsUntil, for: self) } else { timer.clear() }
    }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(origin) did not begin HTTP/2 in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)))
            close()
        case .open where isProbing: close()
        case .open:
            pool.removeIdle(id)
            close()
        case .closed: break
        }
    }

    // MARK: Closing

    /// No other stream begins.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        pool.retire(self)
    }

    /// With TLS the upstream's close_notify would be waited for, in a place that others may need.
    func close() {
        guard phase != .closed else { return }
        let wasOpen = phase == .open
        // First: what is written can fail, and leads back to here.
        phase = .closed
        retire()
        if wasOpen { write(.rootStream, .goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil)) }
        context?.flush()
        guard let channel = context?.channel else { return }
        let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
        if let tls { tls.close(promise: nil) } else { channel.close(promise: nil) }
    }
}

extension HTTP2UpstreamConnection: MeteredConnection {
    func admits(_ bytes: ByteBuffer) -> Bool {
        guard phase != .closed else { return false }
        let isAdmitted = meter.receive(bytes.readableBytesUInt8Span, at: { MonotonicTime(.now()) })
        if !isAdmitted { broken() }
        return isAdmitted
    }
}

extension GatewayProblem {
    /// The route says `http2`, and the upstream does something else.
    static func speaksNoHTTP2(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) does not speak HTTP/2. Set protocol of the route to auto or http1."
        return GatewayProblem(.upstreamUnreachable, detail, hopError: .protocolError)
    }
}
