import GatewayCore
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One HTTP/2 connection of a client: its streams, the windows of the connection and the ways to end.
///
/// Stands behind an `NIOHTTP2Handler` without a multiplexer, and lives on one event loop. Decides nothing about a request: each
/// ``HTTP2ClientStream`` has an exchange of its own.
final class HTTP2ClientConnection: ChannelDuplexHandler, DeadlineKeeper, Flushable, ClientConnection {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    enum Phase {
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
    var context: ChannelHandlerContext?
    let writer = SocketWriter()
    let clock: LoopClock
    var deadline: ClientDeadline
    let failures: HTTP2FailureWatch
    /// What the client was told: a reload does not change that.
    let maximumStreams: Int
    /// The payload of a frame, as the client's settings have it.
    var maximumFrame = HTTP2Configuration.frameSize
    var phase = Phase.opening
    /// The client is to open another connection then.
    private let endsAt: MonotonicTime
    var streams: [HTTP2StreamID: HTTP2ClientStream] = [:]
    var lastStream = HTTP2StreamID.rootStream
    var flow: HTTP2ConnectionFlow
    var faults = FaultBudget()
    var meter: HTTP2FrameMeter
    /// Of the configuration in ``shared``.
    var clientCache = ClientAuthenticationCache()
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
    var isOld: Bool { MonotonicTime(clock.now) >= endsAt }

    /// - Parameter places: What the connection takes of the limits; it has begun as one of HTTP/1.
    init(
        configuration: WorkerConfiguration,
        listener: ConnectionContext,
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
        identity = listener
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

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: false)
        // More than what waits for a flush: few and large writes cost less.
        let high = HTTP2ConnectionFlow.maximumUnflushed + 65_536
        let marks = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: high)
        try? context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: marks)
        configuration.register(self)
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
        configuration.unregister(self)
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
    func writeAnnouncement() {
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
