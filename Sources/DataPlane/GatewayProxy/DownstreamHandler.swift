import GatewayCore
import Logging
import NIOCore
import NIOSSL
import NIOTLS

/// One client connection: reads requests, has them admitted and authorized, forwards them, writes the responses back.
///
/// Jobs: keep the bytes until they are due, pause reading while nobody takes them, hold what a replay needs, watch the
/// deadlines, and say what happened. The rules are the core's: head decoding, admission, body framing, token rejection.
/// Lives on one event loop.
final class DownstreamHandler: ChannelDuplexHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Between requests, or within a head.
        case head
        /// Waiting for a credential or a connection; nothing is read meanwhile.
        case waiting
        /// The upstream has the head; the body follows.
        case forwarding
        /// The request is complete; the response is not.
        case responding
        case tunnel
        /// The last response is on its way to the client; what still comes is thrown away.
        case finishing
        /// The last response is written; what still comes is thrown away until the client closes.
        case lingering
        /// A broken response is on its way to the client; the connection is reset when it is there.
        case cutting
        case closed
    }

    private(set) var lane: Lane
    let listener: ListenerIdentity
    /// Tells which listener accepted the connection.
    let listenerNumber: Int
    var context: ChannelHandlerContext?
    let outlet = Outlet()
    /// No other handler, TLS that is, is in the pipeline.
    let isAlone: Bool
    /// The TLS handshake is under way, and what is written waits for it.
    private(set) var isOpening: Bool
    private let clock: LoopClock
    let buffers: SpareBuffers
    var phase = Phase.head
    var decoder: RequestHeadDecoder
    var inbound: ByteBuffer
    var exchange: ActiveExchange?
    var trailers: TrailerSection
    /// Under ``shared``.
    var clientCache = ClientAuthenticationCache()
    let timer: DeadlineTimer
    /// A head or small body on its way upstream, so that both leave in one write.
    var requestOut: ByteBuffer
    /// The same towards the client.
    var responseOut: ByteBuffer
    var keepsAlive = true
    /// The request at hand, or the one whose head is coming, is the last.
    var isEnding = false
    var clientHasClosedOutput = false
    /// The client, which sends no more, has left; found out once, because what it has sent stays the same.
    var isGone: Bool?
    /// The connection did not end as the client wanted it to.
    var wasCut = false
    /// Tells a late answer of a wait or a connection attempt from the current one, also from one of an earlier exchange.
    var step: UInt64 = 0
    /// The client takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    /// There is room to wait for a client that goes on sending behind its last answer.
    private(set) var mayLingerOn = true
    /// When a client that goes on sending behind its last answer is waited for no longer.
    var lingersUntil = NIODeadline.distantFuture
    /// At how much a slow client had taken when a deadline had passed.
    var lastLook = ProgressLook()
    /// When a broken response is cut, whatever the client has taken of it by then.
    var cutsAt = NIODeadline.distantFuture
    private var pendingRead = false
    private var isProcessing = false
    private var hasOpened = false
    /// Among ``Limits/connections``.
    private var isCounted = false

    var shared: ProxyShared { lane.shared }
    var limits: Limits { lane.limits }
    var timeouts: Timeouts { lane.timeouts }

    init(lane: Lane, listener: ListenerIdentity, listenerNumber: Int, isAlone: Bool) {
        self.lane = lane
        self.isAlone = isAlone
        isOpening = !isAlone
        timer = DeadlineTimer(queue: lane.slot.deadlines)
        clock = lane.clock
        buffers = lane.buffers
        self.listener = listener
        self.listenerNumber = listenerNumber
        inbound = buffers.empty
        requestOut = buffers.empty
        responseOut = buffers.empty
        let limits = lane.shared.limits
        decoder = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        trailers = TrailerSection(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
    }

    // MARK: Reload

    /// Takes the next request under the configuration of the last reload.
    func followReload() {
        guard let current = lane.slot.current else { return }
        let (old, new) = (limits, current.shared.limits)
        lane = current
        clientCache = ClientAuthenticationCache()
        guard old.headerBytes != new.headerBytes || old.headerFields != new.headerFields else { return }
        decoder = RequestHeadDecoder(maxBytes: new.headerBytes, maxFields: new.headerFields)
        trailers = TrailerSection(maxBytes: new.headerBytes, maxFields: new.headerFields)
    }

    func followReloadIfIdle() {
        if phase == .head, !decoder.isWithinHead { followReload() }
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        outlet.open(context, isAlone: isAlone)
        if context.channel.isActive { opened() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        outlet.close()
    }

    func channelActive(context: ChannelHandlerContext) {
        opened()
        context.fireChannelActive()
    }

    private func opened() {
        guard !hasOpened else { return }
        hasOpened = true
        lane.register(self)
        isCounted = shared.connectionOpened()
        guard isCounted else {
            mayLingerOn = false
            refuse(GatewayProblem(.overloaded, "Too many connections.", retryAfter: .seconds(1)))
            setDeadline(timeouts.linger)
            return
        }
        setDeadline(timeouts.header)
    }

    func channelInactive(context: ChannelHandlerContext) {
        if isCounted {
            isCounted = false
            shared.connectionClosed()
        }
        lane.unregister(self)
        passOnRest()
        phase = .closed
        isWritable = false
        clock.end()
        timer.cancel()
        clientLeft()
        inbound = buffers.empty
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        shared.logger.debug("Client connection failed", metadata: ["gateway.error": "\(type(of: error))"])
        // Without a close_notify it may still read its last answer; behind a part of one it must get none either.
        if phase == .finishing || phase == .cutting, error as? NIOSSLError == .uncleanShutdown { return }
        wasCut = true
        leaveClient()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted? = event as? TLSUserEvent { isOpening = false }
        if case .inputClosed? = event as? ChannelEvent { clientClosedOutput() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock.begin()
        take(unwrapInboundIn(data))
        process()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        // A buffer that nobody holds is used for the next read.
        if inbound.readableBytes == 0 { inbound = buffers.empty }
        if wantsInput { outlet.readAhead() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable {
            exchange?.upstream?.resumeReading()
            process()
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: Reading

    func read(context: ChannelHandlerContext) {
        if wantsInput { context.read() } else { pendingRead = true }
    }

    private var wantsInput: Bool {
        switch phase {
        // A client that sends requests but reads no answers would fill the memory with them.
        case .head: isWritable
        case .finishing, .lingering, .cutting, .closed: true
        case .waiting: mayReadAhead
        // Not pausing saves two system calls for each request; what comes early waits, one read of it at the most.
        case .responding: inbound.readableBytes == 0 || mayReadAhead
        case .forwarding, .tunnel:
            mayReadAhead
                || (inbound.readableBytes == 0 || exchange?.body.awaitsTrailers ?? false)
                    && exchange?.upstream?.isWritable ?? false
        }
    }

    /// With TLS only what is read tells that the client has ended its side: the connection may stay open behind a close_notify.
    private var mayReadAhead: Bool { !isAlone && phase != .tunnel && inbound.readableBytes < Self.mostReadAhead }
    private static let mostReadAhead = 16_384

    func resumeReading() {
        guard pendingRead, wantsInput else { return }
        pendingRead = false
        outlet.read()
    }

    private func take(_ bytes: consuming ByteBuffer) { inbound.takeBehindRest(&bytes) }

    /// Takes from ``inbound`` what the phase allows; called whenever either has changed.
    func process() {
        guard !isProcessing else { return }
        isProcessing = true
        var goesOn = true
        while goesOn, inbound.readableBytes > 0 {
            switch phase {
            case .head: goesOn = isWritable && readHead()
            case .forwarding: goesOn = readBody()
            case .tunnel: goesOn = readTunnel()
            case .waiting, .responding: goesOn = false
            case .finishing, .cutting, .closed: inbound = buffers.empty
            case .lingering:
                inbound = buffers.empty
                timer.set(min(clock.now + timeouts.linger, lingersUntil), for: self)
            }
        }
        isProcessing = false
        flushRequest()
        if clientHasClosedOutput { allInputCame() }
        resumeReading()
    }

    func upstreamBecameWritable() { process() }

    private func readTunnel() -> Bool {
        guard let upstream = exchange?.upstream, upstream.isWritable else { return false }
        guard maySendOn() else {
            reset()
            return false
        }
        setDeadline(timeouts.response)
        exchange?.record.bytesReceived += inbound.readableBytes
        upstream.send(inbound)
        inbound = buffers.empty
        return true
    }

    // MARK: Deadlines

    func setDeadline(_ amount: TimeAmount) {
        timer.set(clock.now + amount, for: self)
    }
}
