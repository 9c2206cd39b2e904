import GatewayHTTP
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One HTTP/2 connection of a client: its streams, the windows of the connection and the ways to end.
///
///     opening ──▶ open ──▶ announcing ──▶ draining ──▶ lingering ──▶ closed
///     SETTINGS ───┘        │              │            │             │
///     drain, or its age ───┘              │            │             │
///     PING was answered, or client ends ──┘            │             │
///     no stream is left, or a rule was broken ─────────┘             │
///     client is gone, or a deadline has passed ──────────────────────┘
///
///     HTTP2ClientConnection ──▶ HTTP2ClientStream ──▶ ExchangeDriver, or AuthorizationExchange for an engine
///                          owns                  owns
///
/// Stands behind an `NIOHTTP2Handler` without a multiplexer, and lives on one event loop. Decides nothing about a request: each
/// ``HTTP2ClientStream`` has an exchange of its own.
final class HTTP2ClientConnection: ChannelDuplexHandler, DeadlineKeeper, Flushable, ClientConnection {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private enum Phase {
        /// The client's SETTINGS have not come.
        case opening
        case open
        /// A GOAWAY has left. Streams that the client opened before it has read that are served.
        case announcing
        /// No more streams are served.
        case draining
        /// All is sent; what still comes is thrown away until the client closes.
        case lingering
        case closed
    }

    private(set) var configuration: WorkerConfiguration
    let identity: ConnectionContext
    let listenerNumber: Int
    let isTLS: Bool
    private(set) var context: ChannelHandlerContext?
    private let writer = SocketWriter()
    let clock: LoopClock
    private var deadline: ClientDeadline
    private let failures: HTTP2FailureWatch
    /// What the client was told: a reload does not change that.
    private let maximumStreams: Int
    /// The payload of a frame, as the client's settings have it.
    private(set) var maximumFrame = HTTP2Configuration.frameSize
    private var phase = Phase.opening
    /// The client is to open another connection then.
    private let endsAt: MonotonicTime
    private var streams: [HTTP2StreamID: HTTP2ClientStream] = [:]
    private var lastStream = HTTP2StreamID.rootStream
    private var flow: HTTP2ConnectionFlow
    private var faults = FaultBudget()
    private var meter: HTTP2FrameMeter
    /// What the client has proved on this connection, valid under ``shared``.
    private var clientCache = ClientAuthenticationCache()
    private var places: ConnectionPlaces
    private var isReading = false
    private var hasUnflushed = false
    /// It is in the worker's queue of those that flush.
    private var isFlushDue = false
    private var pendingRead = false
    /// Streams that have given their exchange something in this read.
    private var touched: [HTTP2ClientStream] = []

    var shared: ProxyShared { configuration.shared }
    var timeouts: Timeouts { configuration.timeouts }
    private var isOld: Bool { MonotonicTime(clock.now) >= endsAt }

    /// - Parameter places: What the connection takes of the limits; it has begun as one of HTTP/1.
    init(
        configuration: WorkerConfiguration,
        identity: ConnectionContext,
        listenerNumber: Int,
        isTLS: Bool,
        places: ConnectionPlaces,
        failures: HTTP2FailureWatch
    ) {
        self.configuration = configuration
        self.isTLS = isTLS
        self.listenerNumber = listenerNumber
        self.places = places
        self.failures = failures
        self.identity = identity
        maximumStreams = configuration.limits.streamsPerConnection
        clock = configuration.clock
        meter = HTTP2FrameMeter(at: configuration.shared.clock.monotonic())
        deadline = ClientDeadline(queue: configuration.worker.deadlines)
        let now = MonotonicTime(clock.now)
        endsAt = ConnectionAge.end(configuration.limits.connectionMaxAge, jitter: .random(in: 0 ... .max), from: now)
        flow = HTTP2ConnectionFlow(receiving: HTTP2Configuration.connectionWindow(configuration.limits))
    }

    /// Takes the next request under the configuration of the last reload.
    func takeConfiguration() {
        guard configuration.isReplaced, let current = configuration.worker.current else { return }
        configuration = current
        clientCache = ClientAuthenticationCache()
    }

    func decide(on request: RequestMessage) -> RequestAuthorizer.Decision {
        shared.authorizer.decide(request, on: identity, cache: &clientCache)
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: false)
        // More than what waits for a flush: few and large writes cost less.
        let high = HTTP2ConnectionFlow.maximumUnflushed + 65_536
        let marks = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: high)
        try? context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: marks)
        configuration.worker.register(self)
        deadline.move(to: clock.now + timeouts.header, for: self)
        write(.settings(.settings(HTTP2Configuration.settings(configuration.limits))), on: .rootStream)
        creditConnection()
        flush()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        places.giveBack(to: shared)
        configuration.worker.unregister(self)
        clock.end()
        deadline.cancel()
        endStreams()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        shared.logger.debug("HTTP/2 client connection failed", metadata: ["gateway.error": "\(type(of: error))"])
        if error is any NIOHTTP2Error {
            // The library has reset the stream where only that was broken.
            if failures.hasFailed { broken() }
        } else if phase != .lingering {
            endStreams()
            closeNow()
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case let event as NIOHTTP2WindowUpdatedEvent:
            if event.streamID == .rootStream, let size = event.inboundWindowSize { flow.receiving.change(to: size) }
        case let event as StreamClosedEvent: streamClosed(event.streamID, isCut: event.reason != nil)
        case let event as NIOHTTP2BulkStreamWindowChangeEvent: windowsChanged(by: event.delta)
        case is NIOHTTP2StreamCreatedEvent: break
        default:
            if case .inputClosed? = event as? ChannelEvent { clientClosedOutput() }
            context.fireUserInboundEventTriggered(event)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isReading {
            isReading = true
            clock.begin()
        }
        guard phase != .lingering, phase != .closed else { return }
        receive(unwrapInboundIn(data))
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        let touched = touched
        self.touched.removeAll(keepingCapacity: true)
        for stream in touched { stream.flushRequest() }
        creditConnection()
        isReading = false
        if hasUnflushed { flushNow() }
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable {
            sendWaiting()
            resumeReading()
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: Pace

    /// A client that sends requests but reads no answers would fill the memory with them.
    func read(context: ChannelHandlerContext) {
        if context.channel.isWritable { context.read() } else { pendingRead = true }
    }

    private func resumeReading() {
        guard pendingRead else { return }
        pendingRead = false
        context?.read()
    }

    /// The exchange of the stream has got something.
    func touch(_ stream: HTTP2ClientStream) {
        guard !isReading else { return touched.append(stream) }
        stream.flushRequest()
        creditConnection()
        flush()
    }

    // MARK: Writing

    func write(_ payload: HTTP2Frame.FramePayload, on stream: HTTP2StreamID, promise: EventLoopPromise<Void>? = nil) {
        guard let context, phase != .closed else {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        hasUnflushed = true
        context.write(wrapOutboundOut(HTTP2Frame(streamID: stream, payload: payload)), promise: promise)
    }

    /// A GOAWAY that refuses no stream yet. Past the library: without an open stream, that would take the connection for ended, and
    /// refuse requests that are on their way.
    private func writeAnnouncement() {
        guard let frames = try? context?.pipeline.syncOperations.context(handlerType: NIOHTTP2Handler.self) else {
            return
        }
        hasUnflushed = true
        // The last stream is the largest that there can be, the reason NO_ERROR.
        let goAway: [UInt8] = [0, 0, 8, 7, 0, 0, 0, 0, 0] + [0x7F, 0xFF, 0xFF, 0xFF] + [0, 0, 0, 0]
        frames.write(NIOAny(IOData.byteBuffer(ByteBuffer(bytes: goAway))), promise: nil)
    }

    /// What was written leaves at the end of the read at hand, or when all that the loop has read is dealt with.
    func flush() {
        guard !isReading, hasUnflushed, !isFlushDue else { return }
        isFlushDue = true
        configuration.worker.flushes.add(self)
    }

    func flushNow() {
        isFlushDue = false
        guard hasUnflushed else { return }
        hasUnflushed = false
        flow.unflushed = 0
        context?.flush()
    }
}

/// What the client sends.
extension HTTP2ClientConnection {
    private func receive(_ frame: HTTP2Frame) {
        switch frame.payload {
        case .headers(let headers): receive(headers.headers, isLast: headers.endStream, on: frame.streamID)
        case .data(let data): receive(data, on: frame.streamID)
        case .windowUpdate(let increment): windowGrew(by: increment, of: frame.streamID)
        case .settings(.settings(let settings)): receive(settings)
        case .ping(_, let isAnswer): if isAnswer { announced() }
        case .goAway: clientEnds()
        // The library answers, or tells of a stream that is closed.
        case .settings(.ack), .rstStream, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    // MARK: Streams

    private func receive(_ fields: HPACKHeaders, isLast: Bool, on id: HTTP2StreamID) {
        if let stream = streams[id] { return stream.receive(trailers: fields, isLast: isLast) }
        lastStream = max(lastStream, id)
        guard phase == .open || phase == .announcing else { return write(.rstStream(.refusedStream), on: id) }
        guard streams.count < maximumStreams else {
            write(.rstStream(.refusedStream), on: id)
            return countFault()
        }
        takeConfiguration()
        deadline.clear()
        let stream = HTTP2ClientStream(id, on: self)
        streams[id] = stream
        assert(streams.count <= maximumStreams, "The connection has more streams than it may.")
        stream.begin(fields, hasContent: !isLast)
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on id: HTTP2StreamID) {
        guard case .byteBuffer(let bytes) = data.data else { return }
        // Flow control counts the padding and the byte with its length (RFC 9113 section 6.1).
        let padding = data.paddingBytes.map { $0 + 1 } ?? 0
        _ = flow.receiving.receive(bytes.readableBytes + padding)
        flow.receiving.take(padding)
        guard let stream = streams[id] else { return flow.receiving.take(bytes.readableBytes) }
        stream.receive(bytes, padding: padding, isLast: data.endStream)
    }

    func streamClosed(_ id: HTTP2StreamID, isCut: Bool) {
        guard let stream = streams.removeValue(forKey: id) else { return }
        stream.closed(isCut: isCut)
        creditConnection()
        flush()
        if phase == .open, isOld { return drain() }
        guard streams.isEmpty else { return }
        switch phase {
        case .open: deadline.move(to: clock.now + timeouts.idle, for: self)
        case .draining: closeAfterWrites()
        case .opening, .announcing, .lingering, .closed: break
        }
    }

    // MARK: Windows

    private func receive(_ settings: HTTP2Settings) {
        if phase == .opening {
            phase = .open
            if streams.isEmpty { deadline.move(to: clock.now + timeouts.idle, for: self) }
        }
        if let setting = settings.last(where: { $0.parameter == .maxFrameSize }) { maximumFrame = setting.value }
        guard let setting = settings.last(where: { $0.parameter == .initialWindowSize }) else { return }
        let delta = setting.value - flow.initialSending
        flow.initialSending = setting.value
        for stream in Array(streams.values) { stream.windowGrew(by: delta) }
        flush()
    }

    private func windowGrew(by increment: Int, of id: HTTP2StreamID) {
        guard id == .rootStream else {
            streams[id]?.windowGrew(by: increment)
            return flush()
        }
        _ = flow.sending.grow(by: increment)
        sendWaiting()
    }

    /// The client has taken note of our settings.
    private func windowsChanged(by delta: Int) {
        flow.initialReceiving += delta
        for stream in streams.values { stream.receiveWindowChanged(by: delta) }
    }

    /// The windows of a new stream.
    var initialWindows: (sending: Int, receiving: Int) { (flow.initialSending, flow.initialReceiving) }

    /// An exchange has taken this many bytes, or they were thrown away.
    func took(_ count: Int) { flow.receiving.take(count) }

    /// Lets the client send more where enough of what it has sent is taken.
    private func creditConnection() {
        guard phase != .lingering, phase != .closed, let increment = flow.receiving.credit() else { return }
        write(.windowUpdate(windowSizeIncrement: increment), on: .rootStream)
    }

    // MARK: Turns

    /// Content that the client takes now.
    var room: Int { flow.sending.available }

    /// The stream sends when its turn comes.
    func wait(_ stream: HTTP2ClientStream) { flow.waiting.append(stream) }

    /// Whether a stream can send content now. Otherwise it waits for its turn.
    func maySend() -> Bool {
        room > 0 && flow.waiting.isEmpty && context?.channel.isWritable ?? false
    }

    func spend(_ count: Int) {
        flow.sending.spend(count)
        meter.sent(count)
        flow.unflushed += count
        if flow.unflushed >= HTTP2ConnectionFlow.maximumUnflushed { flushNow() }
    }

    /// Gives each stream that waits one frame after the other.
    private func sendWaiting() {
        var waiting = flow.waiting[...]
        flow.waiting = []
        while let stream = waiting.first, maySend() {
            waiting.removeFirst()
            stream.takeTurn()
            waiting += flow.waiting
            flow.waiting = []
        }
        flow.waiting = Array(waiting) + flow.waiting
        flush()
    }
}

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
    private func announced() {
        guard phase == .announcing else { return }
        phase = .draining
        deadline.clear()
        sendGoAway(lastStream: lastStream)
        flush()
        if streams.isEmpty { closeAfterWrites() }
    }

    /// The client opens no more streams.
    private func clientEnds() {
        guard phase == .open || phase == .opening || phase == .announcing else { return }
        phase = .announcing
        announced()
    }

    private func sendGoAway(lastStream: HTTP2StreamID) {
        write(.goAway(lastStreamID: lastStream, errorCode: .noError, opaqueData: nil), on: .rootStream)
    }

    /// Closing at once would reset the connection while the client sends, and take away what it has not read.
    private func closeAfterWrites() {
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
    private func calm() {
        guard phase != .lingering, phase != .closed else { return }
        write(.goAway(lastStreamID: lastStream, errorCode: .enhanceYourCalm, opaqueData: nil), on: .rootStream)
        broken()
    }

    /// The client was told which rule it broke.
    private func broken() {
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
    private func clientClosedOutput() {
        guard phase != .closed else { return }
        endStreams()
        closeNow()
    }

    /// The client reads no answers any more.
    private func endStreams() {
        let ended = streams.values
        streams = [:]
        flow.waiting = []
        for stream in ended { stream.closed(isCut: true) }
    }

    private func closeNow() {
        phase = .closed
        writer.closeConnection()
    }

    // MARK: Deadline

    func deadlinePassed() {
        switch phase {
        case .opening: closeNow()
        case .open:
            guard streams.isEmpty else { return }
            guard !deadline.clientTakes(within: timeouts.idle, from: writer, by: clock, for: self) else { return }
            clientEnds()
        case .announcing: announced()
        case .draining, .closed: break
        case .lingering:
            if !deadline.clientTakes(within: timeouts.response, from: writer, by: clock, for: self) { closeNow() }
        }
    }
}

extension HTTP2ClientConnection: MeteredConnection {
    func admits(_ bytes: ByteBuffer) -> Bool {
        guard phase != .lingering, phase != .closed else { return false }
        guard meter.receive(bytes.readableBytesUInt8Span, at: { shared.clock.monotonic() }) else {
            calm()
            return false
        }
        return true
    }
}

/// The windows of an HTTP/2 connection, and the streams that wait for the one to send in.
private struct HTTP2ConnectionFlow {
    var sending = SendWindow()
    var receiving: ReceiveWindow
    /// The send window of a new stream, as the client's settings say.
    var initialSending = SendWindow.initial
    /// The receive window of a new stream, as our settings say once the client has acknowledged them.
    var initialReceiving = SendWindow.initial
    /// Streams that wait for the connection's window, in the order of their turns.
    var waiting: [HTTP2ClientStream] = []
    /// Content that was written and not flushed.
    var unflushed = 0

    /// The library holds content until it is flushed, and sees no bound for it.
    static let maximumUnflushed = 196_608

    init(receiving target: Int) { receiving = ReceiveWindow(target: target, size: SendWindow.initial) }
}
