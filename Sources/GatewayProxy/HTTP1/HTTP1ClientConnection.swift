import GatewayCore
import Logging
import NIOCore
import NIOSSL
import NIOTLS

/// One HTTP/1 connection of a client: reads its requests one after the other, and writes the responses.
///
/// Has what belongs to a connection: pipelining, pausing, half-close, reuse and the ways to end. Decides nothing about a request.
/// Lives on one event loop.
final class HTTP1ClientConnection: ChannelDuplexHandler, RemovableChannelHandler, DeadlineKeeper, ClientConnection {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    enum Phase {
        /// Between requests, or within a head.
        case head
        /// The exchange says what is read.
        case exchange
        case tunnel
        /// CONNECT was taken: what follows is for TLS, which is made ready.
        case preparing
        /// CONNECT was taken: the first bytes that follow decide (``tunnelPeek``).
        case peeking
        /// CONNECT was admitted: the connection to its server is made.
        case dialling
        /// The last response is on its way to the client; what still comes is thrown away.
        case finishing
        /// The last response is written; what still comes is thrown away until the client closes.
        case lingering
        /// A broken response is on its way to the client; the connection is reset when it is there.
        case cutting
        case closed
    }

    private(set) var configuration: WorkerConfiguration
    private(set) var identity: ConnectionContext
    /// Of a client that is asked for one. Read when the handshake is over.
    var peerCertificate: PeerCertificate?
    /// Tells which listener accepted the connection.
    let listenerNumber: Int
    var context: ChannelHandlerContext?
    let writer = SocketWriter()
    let stage: ResponseStage
    /// TLS is not in the pipeline.
    let hasDirectSocket: Bool
    /// The TLS handshake is under way, and what is written waits for it.
    private(set) var isOpening: Bool
    let clock: LoopClock
    let buffers: SpareBuffers
    var phase = Phase.head
    var reader: RequestReader
    /// That of ``reader``.
    let request: RequestMessage
    var exchange: ExchangeDriver?
    /// For requests of an engine.
    var authorization: AuthorizationExchange?
    /// Content of an engine's request that was thrown away so far; nil unless it is awaited.
    var engineContent: Int?
    var engineRequestIsComplete = true
    /// Of a CONNECT to a server that a plain route leads to, until the client's first bytes have come.
    var tunnelPeek: TunnelPeek?
    /// For routes with `connection_auth: true`.
    var privateConnection: PrivateConnection?
    /// Of the last request for a server that no route leads to, under ``configuration``.
    var unroutedRoute: UnroutedRoute?
    /// Under ``shared``.
    var clientCache = ClientAuthenticationCache()
    let timer: DeadlineTimer
    var keepsAlive = true
    /// The content of the response comes without framing, and the client gets it in chunks.
    var sendsChunks = false
    /// No request has come before, apart from the CONNECT to the server that is asked.
    var isFirst = true
    /// The request at hand, or the one whose head is coming, is the last.
    var isEnding = false
    var clientHasClosedOutput = false
    /// The connection did not end as the client wanted it to.
    var wasCut = false
    /// The client takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    var closing = ClosingState()
    var unfinishedHead = UnfinishedHead()
    private var pendingRead = false
    private var isProcessing = false
    private var hasOpened = false
    var places = ConnectionPlaces()

    var shared: ProxyShared { configuration.shared }
    var timeouts: Timeouts { configuration.timeouts }

    init(configuration: WorkerConfiguration, listener: ConnectionContext, listenerNumber: Int, hasDirectSocket: Bool) {
        self.configuration = configuration
        self.hasDirectSocket = hasDirectSocket
        isOpening = !hasDirectSocket
        timer = DeadlineTimer(queue: configuration.worker.deadlines)
        clock = configuration.clock
        buffers = configuration.buffers
        identity = listener
        self.listenerNumber = listenerNumber
        stage = ResponseStage(writer, buffers: configuration.buffers)
        reader = RequestReader(limits: configuration.shared.limits, empty: configuration.buffers.empty)
        request = reader.message
    }

    // MARK: Reload

    /// Takes the next request under the configuration of the last reload.
    func takeConfiguration() {
        guard let current = configuration.worker.current else { return }
        closePrivateConnection()
        unroutedRoute = nil
        configuration = current
        clientCache = ClientAuthenticationCache()
        reader.change(to: current.limits)
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: hasDirectSocket)
        if context.channel.isActive { opened() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    func channelActive(context: ChannelHandlerContext) {
        opened()
        context.fireChannelActive()
    }

    private func opened() {
        guard !hasOpened else { return }
        hasOpened = true
        configuration.register(self)
        if let problem = places.take(from: shared, for: context?.channel) {
            closing.patience = places.isHeldForRefusal ? .short : .none
            if !isOpening {
                refuse(problem)
            } else if places.isHeldForRefusal {
                closing.refusal = problem
            } else {
                return refuseUnsaid(problem)
            }
            return setDeadline(timeouts.linger)
        }
        setDeadline(timeouts.header)
    }

    func channelInactive(context: ChannelHandlerContext) {
        places.giveBack(to: shared)
        releaseHead()
        configuration.unregister(self)
        let exchange = exchange.take()
        // What the client of a tunnel sent last may not have left yet.
        let isFinished = phase == .tunnel && !wasCut && exchange?.finishTunnel(reader.bytes) ?? false
        phase = .closed
        isWritable = false
        clock.end()
        timer.cancel()
        exchange?.clientLeft(isCut: wasCut && !isFinished)
        authorization.take()?.cancel()
        closePrivateConnection()
        reader.dropAll()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        shared.logger.debug("Client connection failed", metadata: ["gateway.error": "\(type(of: error))"])
        // The client may still read its last answer. After a part of one it must not see a regular end.
        if phase == .finishing || phase == .cutting, error as? NIOSSLError == .uncleanShutdown { return }
        wasCut = true
        leaveClient()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
            isOpening = false
            identifyPeer()
            agreed(onHTTP2: negotiated == ApplicationProtocol.http2)
        }
        if case .inputClosed? = event as? ChannelEvent { clientClosedOutput() }
        context.fireUserInboundEventTriggered(event)
    }

    private func identifyPeer() {
        let now = shared.clock.now().wall
        guard let peer = peerCertificate.take()?.identity(at: now) else { return }
        identity = identity.identifying(peer)
    }

    /// Requests for a server follow its CONNECT on this connection, in whatever version of HTTP.
    func beginRequests(inPlaceOf origin: InterceptedOrigin) {
        identity = identity.intercepting(origin)
        clientCache = ClientAuthenticationCache()
        isFirst = true
        phase = .head
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock.begin()
        reader.append(unwrapInboundIn(data))
        process()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        reader.releaseIfEmpty()
        if wantsInput { writer.readAhead() }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable {
            exchange?.clientBecameWritable()
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
        case .peeking: true
        case .preparing, .dialling: false
        case .tunnel: reader.isEmpty && exchange?.intake == .content
        case .exchange:
            mayReadAhead || wantsInputOfExchange || engineContent != nil && reader.isEmpty
                || exchange?.readsAhead ?? false
        }
    }

    private var wantsInputOfExchange: Bool {
        switch exchange?.intake {
        case .content: reader.isEmpty || reader.awaitsTrailers
        // Not pausing saves two system calls for each request; what comes early waits, one read of it at the most.
        case .complete: reader.isEmpty
        case .nothing, nil: false
        }
    }

    /// With TLS only what is read tells that the client has ended its side: the connection may stay open behind a close_notify.
    private var mayReadAhead: Bool { !hasDirectSocket && reader.bytes.readableBytes < Self.maximumReadAhead }
    private static let maximumReadAhead = 16_384

    func resumeReading() {
        guard pendingRead, wantsInput else { return }
        pendingRead = false
        writer.read()
    }

    /// Takes from ``reader`` what the phase allows; called whenever either has changed.
    func process() {
        guard !isProcessing else { return }
        isProcessing = true
        var goesOn = true
        while goesOn, !reader.isEmpty {
            switch phase {
            case .head: goesOn = isWritable && readHead()
            case .exchange: goesOn = engineContent == nil ? readContent() : dropEngineContent()
            case .tunnel: goesOn = readTunnel()
            case .peeking: goesOn = peekAtOpening()
            case .preparing, .dialling: goesOn = false
            case .finishing, .cutting, .closed: reader.dropAll()
            case .lingering:
                reader.dropAll()
                timer.set(min(clock.now + timeouts.linger, closing.lingersUntil), for: self)
            }
        }
        isProcessing = false
        exchange?.flushRequest()
        if clientHasClosedOutput { inputEnded() }
        resumeReading()
    }
}
