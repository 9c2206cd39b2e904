import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOSSL

/// One HTTP/2 connection to an upstream: carries many exchanges at one time, each on an ``HTTP2UpstreamStream``.
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
    /// As large as all streams together: streams whose clients take nothing do not stop the others.
    private static let connectionWindow = 100 * streamWindow

    let pool: UpstreamPool
    let id: ConnectionID
    let origin: Origin
    let limits: Limits
    let buffers: SpareBuffers
    let clock: LoopClock
    let timeouts: Timeouts
    let timer: DeadlineTimer
    private(set) var context: ChannelHandlerContext?
    var phase = Phase.opening
    private var ready: Ready?
    // Streams.
    var streams: [HTTP2StreamID: HTTP2UpstreamStream] = [:]
    var nextID = HTTP2StreamID(1)
    private var hasCarried = false
    /// The upstream takes no more streams.
    var isRetired = false
    /// It takes WebSockets (RFC 8441).
    var takesWebSocket = false
    // What is sent.
    /// The initial window of each stream, as the upstream's settings have it.
    var peerStreamWindow = SendWindow.initial
    var maximumFrame = HTTP2Configuration.frameSize
    var sendWindow = SendWindow()
    /// Streams that wait for room on the connection, in turn.
    var waiting: [HTTP2UpstreamStream] = []
    var isWritable = true
    private var isReading = false
    private var needsFlush = false
    /// It is in the worker's queue of those that flush.
    private var isFlushDue = false
    // What is received.
    var receiveWindow = ReceiveWindow(target: connectionWindow, size: SendWindow.initial)
    /// Their clients are flushed at the end of this read.
    private var unflushed: [HTTP2UpstreamStream] = []
    /// A PING was sent, and its answer has not come.
    var isProbing = false
    var meter: HTTP2FrameMeter
    var restsUntil: NIODeadline?
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

    func settle(_ result: Result<HTTP2UpstreamConnection, GatewayProblem>) { ready.take()?(result) }

    /// What the upstream's first settings allow.
    var streamLimit = Int.max

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
        let isClosed = stream.hasArrived && stream.outgoing.isEnded
        if let id = stream.id, streams.removeValue(forKey: id) != nil, let code, phase == .open, !isClosed {
            write(id, .rstStream(code))
            flush()
        }
        if stream.waitsForRoom { waiting.removeAll { $0 === stream } }
        pool.streamEnded(self)
    }

    /// The library knows the stream no more: nothing is sent on it.
    func forget(_ stream: HTTP2UpstreamStream, _ id: HTTP2StreamID) {
        streams[id] = nil
        stream.isClosed = true
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

    /// Not of what the upstream says in HTTP/2.
    private static func isOfConnection(_ error: any Error) -> Bool {
        error is IOError || error is NIOSSLError || error is BoringSSLError || error is ChannelError
    }

    /// The upstream has sent more than it has a use for.
    func broken() {
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
