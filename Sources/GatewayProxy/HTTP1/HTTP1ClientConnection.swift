import GatewayHTTP
import Logging
import NIOCore
import NIOSSL
import NIOTLS

/// One HTTP/1 connection of a client: reads its requests one after the other, and writes the responses.
///
///     new ── TLS ──▶ handshake ──▶ head
///      │        └──▶ refusing ──▶ finishing      there is no place for the connection
///      └── no TLS ──▶ head
///
///      ┌──────── response is complete ────────┐
///      ▼                                      │
///     head ── request ───────────────────▶ exchange ── 101 ──▶ tunnel
///      │ ▲
///      │ └────────── answer ──────────────────┐
///      ├── an engine's request ───────────▶ asking ◀──▶ engineContent
///      ├── CONNECT ──▶ preparing ──▶ another HTTP1ClientConnection takes over, behind TLS
///      │       ├─────▶ peeking ──▶ head          for a route without TLS
///      │       │          ▼
///      │       └─────▶ dialling ──▶ a ConnectTunnel takes over
///      └── ALPN, or the preface of HTTP/2 ──▶ an HTTP2ClientConnection takes over
///
///     any of them ──▶ finishing ──▶ lingering ──▶ closed          the last response is whole
///     any of them ──▶ cutting ──▶ closed                          it is not, which a reset shows the client
///
/// It owns the ``ExchangeDriver`` of the current request, or the ``AuthorizationExchange`` if an engine sent it, and the upstream
/// connection that no other client uses (``PrivateConnection``).
///
/// Handles what concerns the connection: pipelining, pausing, half-close, reuse and closing. It decides nothing about a request. Runs on
/// one event loop.
final class HTTP1ClientConnection: ChannelDuplexHandler, RemovableChannelHandler, DeadlineKeeper, ClientConnection {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Payloads are small, and only rare phases have one that is counted, so that a look costs no retain.
    private enum Phase {
        /// Its channel is not open yet.
        case new
        /// The TLS handshake is under way, and what is written waits for it.
        case handshake
        /// There is no place for the connection. Its client is refused in the version of HTTP that the handshake agrees on.
        indirect case refusing(GatewayProblem)
        /// Between requests, or within a head.
        ///
        /// `isFirst`: no request has come before, apart from the CONNECT to the server that is asked.
        case head(isFirst: Bool)
        /// The ``HTTP1ClientConnection/exchange`` says what is read.
        ///
        /// `sendsChunks`: the content of the response comes without framing, and the client gets it in chunks.
        case exchange(sendsChunks: Bool)
        /// The ``HTTP1ClientConnection/authorization`` answers an engine's request.
        ///
        /// `isComplete`: all of the request was read.
        case asking(isComplete: Bool)
        /// Content of an engine's request is awaited and thrown away, so many bytes so far.
        case engineContent(Int)
        case tunnel
        /// CONNECT was taken: what follows is for TLS, which is made ready.
        case preparing
        /// CONNECT was taken: the first bytes that follow decide.
        case peeking(TunnelPeek)
        /// CONNECT was admitted: the connection to its server is made.
        case dialling
        /// The last response is on its way to the client; what still comes is thrown away.
        case finishing
        /// The last response is written; what still comes is thrown away until the client closes, but no longer than `until`.
        case lingering(until: NIODeadline)
        /// A broken response is on its way to the client; the connection is reset when it is there.
        case cutting(Cutting)
        /// `wasReset`: the client cannot take it for a good end.
        case closed(wasReset: Bool)

        var isCutting: Bool { if case .cutting = self { true } else { false } }
    }

    /// Whether the connection goes on behind the request at hand.
    private enum Reuse {
        case allowed
        /// The request at hand is the last.
        case over
        /// So it is, or the one whose head is coming: the listener has changed, or the gateway stops.
        case ending
    }

    /// How long to wait for a client that goes on sending after its last answer.
    private enum Patience {
        case long
        case short
        /// The connection is closed at once.
        case none
    }

    private(set) var configuration: WorkerConfiguration
    private(set) var connectionContext: ConnectionContext
    /// The certificate of the client, if the listener asks for one. Read when the handshake is over.
    private var peerCertificate: PeerCertificate?
    /// Tells which listener accepted the connection.
    let listenerNumber: Int
    private var context: ChannelHandlerContext?
    private let writer = SocketWriter()
    private let stage: ResponseStage
    /// TLS is not in the pipeline.
    private let hasDirectSocket: Bool
    private let clock: LoopClock
    private let buffers: SpareBuffers
    private var phase = Phase.new
    private var reuse = Reuse.allowed
    private var patience = Patience.long
    private var reader: RequestReader
    /// The request that ``reader`` fills.
    let request: RequestMessage
    /// Begins in the phase of this name. Not in the enum: each look at it would cost a retain.
    private var exchange: ExchangeDriver?
    /// For requests of an engine, one after the other.
    private var authorization: AuthorizationExchange?
    /// For routes with `connection_auth: true`.
    private(set) var privateConnection: PrivateConnection?
    /// The way of the last request to a server without a route, made under ``configuration``.
    private var unroutedRoute: UnroutedRoute?
    /// What the client has proved on this connection, valid under ``shared``.
    private var clientCache = ClientAuthenticationCache()
    private var deadline: ClientDeadline
    private var unfinishedHead = UnfinishedHead()
    private var places = ConnectionPlaces()

    // State that is independent of the phase.

    private var clientHasClosedOutput = false
    /// The client takes more: what is on its way to it is below the high-water mark.
    private(set) var isWritable = true
    /// The channel wants to read, which was put off.
    private var pendingRead = false
    /// ``process()`` is under way, so that a call within it does nothing.
    private var isProcessing = false

    var shared: ProxyShared { configuration.shared }
    var timeouts: Timeouts { configuration.timeouts }

    init(
        configuration: WorkerConfiguration,
        connectionContext: ConnectionContext,
        listenerNumber: Int,
        hasDirectSocket: Bool,
        peerCertificate: PeerCertificate? = nil
    ) {
        self.configuration = configuration
        self.peerCertificate = peerCertificate
        self.hasDirectSocket = hasDirectSocket
        deadline = ClientDeadline(queue: configuration.worker.deadlines)
        clock = configuration.clock
        buffers = configuration.buffers
        self.connectionContext = connectionContext
        self.listenerNumber = listenerNumber
        stage = ResponseStage(writer, buffers: configuration.buffers)
        reader = RequestReader(limits: configuration.shared.limits, empty: configuration.buffers.empty)
        request = reader.message
    }

    // MARK: Reload

    /// Takes the next request under the configuration of the last reload.
    private func takeConfiguration() {
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
        guard case .new = phase else { return }
        phase = hasDirectSocket ? .head(isFirst: true) : .handshake
        configuration.worker.register(self)
        if let problem = places.take(from: shared, for: context?.channel) {
            patience = places.isHeldForRefusal ? .short : .none
            if hasDirectSocket {
                refuse(problem)
            } else if places.isHeldForRefusal {
                phase = .refusing(problem)
            } else {
                return refuseWithoutAnswer(problem)
            }
            return setDeadline(timeouts.linger)
        }
        setDeadline(timeouts.header)
    }

    func channelInactive(context: ChannelHandlerContext) {
        places.giveBack(to: shared)
        releaseHead()
        configuration.worker.unregister(self)
        let exchange = exchange.take()
        // What the client of a tunnel sent last may not have left yet.
        if case .tunnel = phase { _ = exchange?.finishTunnel(reader.bytes) }
        let wasReset = becomeClosed()
        isWritable = false
        clock.end()
        deadline.cancel()
        exchange?.clientLeft(isCut: wasReset)
        authorization.take()?.cancel()
        closePrivateConnection()
        reader.dropAll()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The alert of a client that does not trust the certificate stands in the error's description.
        shared.logger.debug(
            "Client connection failed",
            metadata: ["gateway.error": error is NIOSSLError ? "\(error)" : "\(type(of: error))"]
        )
        // The client may still read its last answer. After a part of one it must not see a regular end.
        switch phase {
        case .finishing, .cutting: if error as? NIOSSLError == .uncleanShutdown { return }
        default: break
        }
        leaveClient(isCut: true)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent {
            identifyPeer()
            agreed(onHTTP2: negotiated == ApplicationProtocol.http2)
        }
        if case .inputClosed? = event as? ChannelEvent { clientClosedOutput() }
        context.fireUserInboundEventTriggered(event)
    }

    private func identifyPeer() {
        let now = shared.clock.now().wall
        guard let peer = peerCertificate.take()?.identity(at: now) else { return }
        connectionContext = connectionContext.identifying(peer)
    }

    /// Requests for a server follow its CONNECT on this connection, in whatever version of HTTP.
    private func beginRequests(inPlaceOf origin: InterceptedOrigin) {
        connectionContext = connectionContext.intercepting(origin)
        clientCache = ClientAuthenticationCache()
        phase = .head(isFirst: true)
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
        case .new, .handshake, .refusing, .head: isWritable
        case .finishing, .lingering, .cutting, .closed: true
        case .peeking: true
        case .preparing, .dialling: false
        case .tunnel: reader.isEmpty && exchange?.intake == .content
        case .exchange: mayReadAhead || wantsInputOfExchange || exchange?.readsAhead ?? false
        case .asking: mayReadAhead
        case .engineContent: mayReadAhead || reader.isEmpty
        }
    }

    private var wantsInputOfExchange: Bool {
        switch exchange?.intake {
        case .content: reader.isEmpty || reader.awaitsTrailers
        // Reading on saves two system calls for each request. At most one read of what comes early waits.
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
    private func process() {
        guard !isProcessing else { return }
        isProcessing = true
        var goesOn = true
        while goesOn, !reader.isEmpty {
            switch phase {
            case .head: goesOn = isWritable && readHead()
            case .exchange: goesOn = readContent()
            case .engineContent(let count): goesOn = dropEngineContent(behind: count)
            case .tunnel: goesOn = readTunnel()
            case .peeking(let peek): goesOn = peekAtOpening(peek)
            case .new, .handshake, .refusing, .asking, .preparing, .dialling: goesOn = false
            case .finishing, .cutting, .closed: reader.dropAll()
            case .lingering(let end):
                reader.dropAll()
                deadline.move(to: min(clock.now + timeouts.linger, end), for: self)
            }
        }
        isProcessing = false
        exchange?.flushRequest()
        if clientHasClosedOutput { inputEnded() }
        resumeReading()
    }
}

/// From the first byte of a head to the exchange of its request.
extension HTTP1ClientConnection {
    /// - Returns: Whether there is more to do with what has come.
    private func readHead() -> Bool {
        let wasWithinHead = request.decoder.isWithinHead
        if configuration.isReplaced, !wasWithinHead { takeConfiguration() }
        switch reader.readHead() {
        case .needMore:
            if request.decoder.isWithinHead { countHead() }
            if clientHasClosedOutput {
                closeAfterWrites(lingering: false)
            } else if request.decoder.isWithinHead, !wasWithinHead {
                setDeadline(timeouts.header)
            }
            return false
        case .refused(.versionNotSupported) where beginsHTTP2():
            becomeHTTP2()
            return false
        case .refused(let reason):
            releaseHead()
            refuse(reason.problem("The request was", under: configuration.limits))
            return false
        case .head:
            releaseHead()
            reader.takeHead()
            deadline.clear()
            // A head is judged by what is served when it is complete, whenever its first bytes came.
            if configuration.isReplaced { takeConfiguration() }
            // The client has left, or has not sent all of the request.
            guard !clientHasClosedOutput || !reader.clientHasLeft() else {
                closeAfterWrites(lingering: false)
                return false
            }
            authorize()
            return true
        }
    }

    private func releaseHead() { unfinishedHead.release(in: configuration.worker) }

    private func countHead() {
        unfinishedHead.count(reader.shrink(), of: self, in: configuration.worker)
        configuration.worker.endOldHeads()
    }

    func refuseForHeadMemory() {
        unfinishedHead.forget()
        refuse(shared.state.headMemory.problem)
    }

    private func authorize() {
        if let engine = connectionContext.engine { return answerEngine(engine) }
        // A pattern, not `==`: that is a call through a table into another module.
        if case .authority = request.decoder.head.form { return connect() }
        decideReuse()
        let id = configuration.nextRequestID()
        switch shared.authorizer.decide(request, on: connectionContext, cache: &clientCache) {
        case .refused(let refusal): refuse(refusal.problem, id: id, refusal)
        case .admitted(let admitted): begin(id, admitted)
        case .unrouted(let unrouted): forward(unrouted, id: id)
        case .preflight(let preflight): answer(preflight, id: id)
        }
    }

    /// Whether the connection goes on behind the request whose head has come.
    private func decideReuse() {
        guard reuse != .ending else { return }
        reuse = request.decoder.head.clientKeepsAlive && !shared.isDraining ? .allowed : .over
    }

    private func endReuse() { if reuse == .allowed { reuse = .over } }

    /// - Parameter route: nil for the one that was matched.
    private func begin(
        _ id: RequestID,
        _ admitted: consuming RequestAuthorizer.Admitted,
        by route: CredentialedRoute? = nil
    ) {
        let now = clock.monotonic()
        let exchange = exchange(id, admitted, by: route, under: configuration, contentIsFramed: true, at: now)
        self.exchange = exchange
        phase = .exchange(sendsChunks: false)
        exchange.begin(at: now)
    }
}

/// The content of a request, and what comes through a tunnel.
extension HTTP1ClientConnection {
    private func readContent() -> Bool {
        guard let exchange, exchange.intake == .content else { return false }
        switch reader.nextPart(forbidden: forbiddenTrailers(exchange)) {
        case .content(let bytes, let length, let isLast): exchange.receive(bytes, length: length, isLast: isLast)
        case .trailers(let bytes): exchange.receive(trailers: bytes)
        case .needMore: return false
        case .broken(let length):
            let problem = GatewayProblem(.requestRefused, "The chunked body is not valid.")
            exchange.requestBroke(problem, behind: length)
        case .refusedTrailers(let reason):
            exchange.requestBroke(reason.problem("The trailers were", under: configuration.limits))
        }
        return true
    }

    private func forbiddenTrailers(_ exchange: ExchangeDriver) -> [[UInt8]] {
        guard reader.awaitsTrailers else { return [] }
        return exchange.namesKeptFromUpstream + request.decoder.head.options.nominatedAsOwned
    }

    private func readTunnel() -> Bool {
        guard let exchange, exchange.intake == .content else { return false }
        exchange.receive(tunnelled: reader.takeAll())
        return true
    }
}

/// Plain requests to servers that no route leads to.
extension HTTP1ClientConnection {
    private func forward(_ unrouted: UnroutedRequest, id: RequestID) {
        do throws(ListenerError) {
            let way = try unroutedRoute(to: unrouted.server)
            begin(id, unrouted.admitted, by: way.route)
        } catch {
            refuse(GatewayProblem(.internalError, error.description), id: id)
        }
    }

    /// The route of the last such request is used again for the same server and client.
    private func unroutedRoute(to server: TunnelDestination) throws(ListenerError) -> UnroutedRoute {
        if let unroutedRoute, unroutedRoute.leads(to: server) { return unroutedRoute }
        let new = try UnroutedRoute(to: server, under: configuration)
        unroutedRoute = new
        return new
    }
}

/// What a reload does to the request at hand.
extension HTTP1ClientConnection {
    func followReload(_ reload: ReloadInProgress) {
        guard let exchange else {
            if engineFollowsReload() { return }
            switch phase {
            case .new, .handshake, .refusing, .head: if !reader.isWithinHead { takeConfiguration() }
            default: break
            }
            return
        }
        guard reload.apply(to: exchange) else { return }
        self.exchange = nil
        takeConfiguration()
        phase = .head(isFirst: false)
        authorize()
        process()
    }
}

/// The deadline: what it is for depends on the phase.
extension HTTP1ClientConnection {
    func setDeadline(_ amount: TimeAmount) {
        deadline.set(clock.now + amount, for: self)
    }

    func clearDeadline() { deadline.clear() }
    private func cancelDeadline() { deadline.cancel() }

    func deadlinePassed() {
        switch phase {
        case .new, .handshake, .refusing, .head:
            if reader.isWithinHead {
                releaseHead()
                refuse(GatewayProblem(.requestTimeout, "The head of the request took too long."))
            } else if isWritable, writer.hasInput {
                // A request has come and waits for its turn.
                setDeadline(timeouts.idle)
            } else if !deadline.clientTakes(within: timeouts.idle, from: writer, by: clock, for: self) {
                closeNow()
            }
        case .exchange, .tunnel: exchange?.deadlinePassed()
        case .asking: authorization?.deadlinePassed()
        case .engineContent:
            endEngineContent(GatewayProblem(.requestTimeout, "The body of the engine's request timed out."))
        // A slow client has as long for the rest of its answer as for any other part of it.
        case .finishing:
            if !deadline.clientTakes(within: timeouts.response, from: writer, by: clock, for: self) { reset() }
        case .cutting(let cutting): resetWhenTaken(cutting)
        case .peeking(let peek): peekIsLate(peek)
        case .preparing, .lingering, .dialling, .closed: closeNow()
        }
    }
}

/// What goes from the exchange to the client: the response, the bytes of a tunnel, and problems in place of both.
extension HTTP1ClientConnection: ClientStream {
    var clientAddress: String? { context?.channel.remoteAddress?.ipAddress }
    var isTLS: Bool { !hasDirectSocket }
    var hasUnreadContent: Bool { !reader.isEmpty }
    var unreadBytes: Int { reader.bytes.readableBytes }
    var untakenBytes: Int { writer.untakenBytes() }

    func resumeRequest() { process() }

    // MARK: Response

    func sendContinue() {
        stage.append { $0.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n") }
        flush()
    }

    func sendInformational(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID
    ) {
        guard InformationalRule.passes(head.status, unflushed: stage.count, isWritable: isWritable) else { return }
        // One that does not fit is dropped: it is only advice.
        _ = stage.append { staged in
            route.responseWriter.write(
                head,
                bytes,
                id: id,
                persistence: .implied,
                knowsChunks: true,
                rules: route.responseFields,
                options: options,
                tokenNote: nil,
                date: nil,
                into: &staged
            )
        }
    }

    func sendHead(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        requestIsComplete: Bool
    ) throws(HeadFault) -> ContentForm {
        // HTTP/1.0 clients know no chunks: they get the content, and the end of the connection as its end.
        let isHTTP10 = request.decoder.head.isHTTP10
        let (isUntilClose, isChunked) =
            switch head.framing {
            case _ where options.changesLength: (true, false)
            case .untilClose: (true, false)
            case .chunked: (false, true)
            default: (false, false)
            }
        let endsWithConnection = isHTTP10 && (isUntilClose || isChunked)
        if endsWithConnection || !requestIsComplete || shared.isDraining { endReuse() }
        let persistence: ResponseWriter.Persistence =
            if head.status == 101 { .upgrade } else if keepsAlive { isHTTP10 ? .keepAlive : .implied } else { .close }
        let dateLine =
            head.hasDate || head.status == 101 ? nil : configuration.worker.dateLine(at: shared.clock.now().wall)
        let outcome = stage.append { staged in
            route.responseWriter.write(
                head,
                bytes,
                id: id,
                persistence: persistence,
                knowsChunks: !isHTTP10,
                rules: route.responseFields,
                options: options,
                tokenNote: tokenNote,
                date: nil,
                dateLine: dateLine,
                into: &staged
            )
        }
        switch outcome {
        case .tooLong: throw .unwritable
        case .written: break
        case .writtenWithoutCookies: warnOfCookies(route.state.route, to: shared)
        }
        let sendsChunks = !isHTTP10 && isUntilClose
        if sendsChunks, case .exchange = phase { phase = .exchange(sendsChunks: true) }
        return sendsChunks || endsWithConnection ? .content : .wire
    }

    private var sendsChunks: Bool { if case .exchange(sendsChunks: true) = phase { true } else { false } }

    func stageContent(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard sendsChunks else { return stage.take(count, of: &buffer) }
        stage.appendChunk(count, of: &buffer)
        return true
    }

    func sendContent(_ bytes: ByteBuffer) { stage.send(bytes) }

    func sendEnd(trailers: ByteBuffer?) {
        if sendsChunks {
            stage.appendLastChunk(trailers)
        } else if let trailers, !request.decoder.head.isHTTP10 {
            stage.send(trailers)
        }
    }

    func flush() { stage.flush() }

    func finish(requestIsComplete: Bool) {
        let isTunnel = if case .tunnel = phase { true } else { false }
        endExchange()
        flush()
        guard isTunnel || !keepsAlive || !requestIsComplete else { return becomeReady() }
        // Requests that were or are still sent ahead: closing on them would reset the connection and take this answer away.
        let sendsMore = !requestIsComplete || !reader.isEmpty || request.decoder.head.clientKeepsAlive
        closeAfterWrites(lingering: sendsMore)
    }

    private var keepsAlive: Bool { reuse == .allowed }

    private func becomeReady() {
        phase = .head(isFirst: false)
        reader.nextRequest()
        setDeadline(timeouts.idle)
        process()
    }

    private func endExchange() { if exchange != nil { exchange = nil } }

    // MARK: Tunnel

    func beginTunnel() {
        endReuse()
        if case .exchange = phase { phase = .tunnel }
        process()
    }

    func closeOutput() {
        // It will be closed when the last bytes of the client are with the upstream.
        guard !clientHasClosedOutput else { return }
        writer.closeOutput()
    }

    // MARK: Problems

    /// Answers a request that no exchange has begun for.
    private func refuse(_ problem: GatewayProblem, id: RequestID? = nil, _ refusal: RequestAuthorizer.Refusal? = nil) {
        let hasHead = request.bytes.readableBytes > 0
        let subject = refused(problem, refusal, id: id, under: configuration)
        respond(with: problem, as: subject, requestIsComplete: hasHead && request.decoder.head.framing == .none)
    }

    func respond(with problem: GatewayProblem, as subject: ProblemSubject, requestIsComplete: Bool) {
        endExchange()
        let hasHead = request.bytes.readableBytes > 0
        let isDubious = problem.kind.leavesConnectionDubious
        let closes = isDubious || !keepsAlive || !requestIsComplete || !hasHead || request.decoder.head.isHTTP10
        send(shared.answer(problem, to: subject, of: request, on: connectionContext), closes: closes)
    }

    /// Answers the browser of a page without an exchange.
    private func answer(_ preflight: Preflight, id: RequestID) {
        let framing = request.decoder.head.framing
        let answer = configuration.answer(preflight, of: request, id: id, isTLS: isTLS)
        send(answer, closes: !keepsAlive || framing != .none || request.decoder.head.isHTTP10)
    }

    private func send(_ answer: ProblemAnswer, closes: Bool) {
        let response = ProblemResponse(answer: answer, closes: closes)
        stage.append { response.write(at: shared.clock.now().wall, into: &$0) }
        flush()
        if closes { closeAfterWrites(lingering: true) } else { becomeReady() }
    }
}

/// A connection on which an engine asks. It has no exchange: nothing goes to an upstream.
extension HTTP1ClientConnection: EngineStream {
    /// An engine has sent a request, and ``request`` has its head.
    ///
    /// - Parameter contentIsRead: All of it.
    private func answerEngine(_ name: String, contentIsRead: Bool = false) {
        decideReuse()
        guard let engine = shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        let isComplete = contentIsRead || request.decoder.head.framing == .none
        phase = .asking(isComplete: isComplete)
        let exchange =
            authorization.flatMap { $0.configuration === configuration ? $0 : nil }
            ?? AuthorizationExchange(engine, on: self, under: configuration)
        authorization = exchange
        guard !isComplete, exchange.isProven else { return exchange.begin() }
        if request.decoder.head.expectsContinue {
            stage.append { $0.writeStaticString("HTTP/1.1 100 Continue\r\n\r\n") }
            flush()
            // Sending finds out that the engine has gone.
            guard case .asking = phase else { return }
        }
        phase = .engineContent(0)
        setDeadline(timeouts.bodyIdle)
    }

    /// Content means nothing here. It is read, so that the connection can go on behind it.
    ///
    /// - Parameter count: The bytes that were thrown away before.
    private func dropEngineContent(behind count: Int) -> Bool {
        switch reader.nextPart(forbidden: []) {
        case .content(_, let length, let isLast):
            let count = count + length
            phase = .engineContent(count)
            guard count <= Self.maximumEngineContent else {
                endEngineContent(
                    GatewayProblem(
                        .contentTooLarge,
                        "The engine's request body is too large; engines do not need to send one."
                    )
                )
                return true
            }
            if isLast { decideBehindContent() }
        case .trailers: decideBehindContent()
        case .needMore: return false
        case .broken, .refusedTrailers:
            endEngineContent(GatewayProblem(.requestRefused, "The body of the engine's request is not valid."))
        }
        return true
    }

    private static let maximumEngineContent = 1_048_576

    private func decideBehindContent() {
        phase = .asking(isComplete: true)
        deadline.clear()
        decideAgain()
    }

    /// Decides about the head again, by the configuration of the moment.
    private func decideAgain() {
        if configuration.isReplaced { takeConfiguration() }
        if let engine = connectionContext.engine { answerEngine(engine, contentIsRead: true) }
    }

    private func endEngineContent(_ problem: GatewayProblem) {
        // Before the answer: its flush can lead back to ``process()``.
        phase = .asking(isComplete: false)
        refuse(problem)
    }

    /// gRPC needs HTTP/2.
    var isCall: Bool { false }
    func send(message: ByteBuffer) { assertionFailure("HTTP/1 carries no calls of gRPC.") }

    private var engineRequestIsComplete: Bool { if case .asking(isComplete: true) = phase { true } else { false } }

    func send(_ write: (inout ByteBuffer) -> Void) {
        let closes = !keepsAlive || !engineRequestIsComplete
        let isHTTP10 = request.decoder.head.isHTTP10
        stage.append { out in
            write(&out)
            if closes {
                out.writeStaticString("Connection: close\r\n\r\n")
            } else if isHTTP10 {
                out.writeStaticString("Connection: keep-alive\r\n\r\n")
            } else {
                out.writeStaticString("\r\n")
            }
        }
        flush()
        if closes { closeAfterWrites(lingering: true) } else { becomeReady() }
    }

    func send(_ problem: ProblemAnswer) {
        send(problem, closes: !keepsAlive || !engineRequestIsComplete || request.decoder.head.isHTTP10)
    }

    /// - Returns: Whether a reload decides about the request anew.
    private func engineFollowsReload() -> Bool {
        guard let authorization, authorization.isWaiting else { return false }
        authorization.cancel()
        decideAgain()
        process()
        return true
    }

    /// An answer that the engine has not taken yet may hold what was withdrawn.
    private func engineLosesWithdrawn() {
        guard connectionContext.engine != nil, writer.untakenBytes() > 0 else { return }
        reset()
    }
}

/// The client speaks HTTP/2: by ALPN, or because it knows that the gateway does (RFC 9113 section 3).
extension HTTP1ClientConnection {
    /// Whether the client's first bytes begin HTTP/2. With TLS it has to be agreed on by ALPN, except behind a CONNECT to an `http`
    /// server: that TLS is the proxy's, and what passes inside is in clear.
    private func beginsHTTP2() -> Bool {
        guard hasDirectSocket || connectionContext.intercepted?.scheme == .http else { return false }
        guard case .head(isFirst: true) = phase else { return false }
        let bytes = reader.bytes
        return HTTP2FrameReader.beginsPreface(bytes.readableBytesUInt8Span)
    }

    /// The TLS handshake is over. Only now it is known in which version of HTTP a client over the connection limit can be refused.
    private func agreed(onHTTP2: Bool) {
        switch phase {
        case .handshake:
            phase = .head(isFirst: true)
            if onHTTP2 { becomeHTTP2() }
        case .refusing(let problem):
            phase = .head(isFirst: true)
            if onHTTP2 { refuseHTTP2(problem) } else { refuse(problem) }
            setDeadline(timeouts.linger)
        // It has ended meanwhile.
        default: break
        }
    }

    /// HTTP/2 has no answer to a connection, so GOAWAY says that none of its requests are looked at.
    private func refuseHTTP2(_ problem: GatewayProblem) {
        observe(problem, under: configuration)
        stage.append { staged in
            unsafe staged.writeWithUnsafeMutableBytes(minimumWritableBytes: 64) { target in
                var frames = unsafe HTTP2FrameWriter(target)
                frames.settings([])
                frames.goAway(last: 0, .enhanceYourCalm)
                return frames.count
            }
        }
        flush()
        closeAfterWrites(lingering: true)
    }

    private func becomeHTTP2() {
        guard case .head = phase, let context else { return }
        releaseHead()
        let rest = reader.takeAll()
        var places = handPlaces(over: context)
        let configuration = configuration.worker.current ?? configuration
        let connection = HTTP2ClientConnection(
            configuration: configuration,
            connectionContext: connectionContext,
            listenerNumber: listenerNumber,
            isTLS: isTLS,
            hasDirectSocket: hasDirectSocket,
            places: places
        )
        guard let swap = try? HandlerSwap(from: context, to: [connection]) else {
            // The connection never had them.
            places.giveBack(to: shared)
            return context.close(promise: nil)
        }
        if reuse == .ending || shared.isDraining { connection.drain() }
        swap.finish(replaying: rest)
    }

    // MARK: Handing over

    /// The places of this connection, which now count for the handler that takes it over.
    private func handOverPlaces() -> ConnectionPlaces {
        defer { places = ConnectionPlaces() }
        return places
    }

    /// Another handler takes the connection from here on.
    private func hand(over context: ChannelHandlerContext) {
        var places = handPlaces(over: context)
        places.giveBack(to: shared)
    }

    /// Another handler takes the connection from here on, with its places.
    private func handPlaces(over context: ChannelHandlerContext) -> ConnectionPlaces {
        configuration.worker.unregister(self)
        becomeClosed()
        clock.end()
        deadline.cancel()
        return handOverPlaces()
    }
}

/// CONNECT: the client asks for a connection to a server, and speaks TLS with the gateway in its place.
extension HTTP1ClientConnection {
    private func connect() {
        // What the client has sent behind it is for another protocol, whatever the answer is.
        endReuse()
        guard reuse != .ending, !shared.isDraining else { return refuse(Self.ending) }
        let bytes = request.bytes
        switch shared.authorizer.decideConnect(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            on: connectionContext
        ) {
        case .refused(let refusal): refuse(refusal.problem, id: nil, refusal)
        case .tunnel(let destination): openTunnel(to: destination)
        case .peek(let origin, let tunnel): peek(for: origin, or: tunnel)
        case .intercept(let origin):
            guard let interception = shared.state.interception, let loop = context?.eventLoop else {
                return refuse(GatewayProblem(.overloaded, "The gateway has no local CA."))
            }
            phase = .preparing
            setDeadline(timeouts.header)
            let wait = NIOLoopBound(self, eventLoop: loop)
            interception.context(for: origin.host, on: loop)
                .whenComplete { wait.value.take($0, inPlaceOf: origin) }
        }
    }

    private func take(_ result: Result<NIOSSLContext, any Error>, inPlaceOf origin: InterceptedOrigin) {
        guard case .preparing = phase else { return }
        switch result {
        case .failure(let error):
            refuse(GatewayProblem(.overloaded, "There is no certificate for \(origin.host): \(error)"))
        case .success where reuse == .ending: refuse(Self.ending)
        case .success(let tls):
            writer.send(Self.established)
            writer.afterWrites { [self] in begin(tls, inPlaceOf: origin) }
        }
    }

    /// What the client has sent behind its CONNECT belongs to TLS.
    private func begin(_ tls: NIOSSLContext, inPlaceOf origin: InterceptedOrigin) {
        guard case .preparing = phase, let context else { return }
        // A reload has replaced the settings that admitted this client.
        guard reuse != .ending else { return closeNow() }
        let rest = reader.takeAll()
        hand(over: context)
        let inner = HTTP1ClientConnection(
            configuration: configuration.worker.current ?? configuration,
            connectionContext: connectionContext.intercepting(origin),
            listenerNumber: listenerNumber,
            hasDirectSocket: false
        )
        guard let swap = try? HandlerSwap(from: context, to: [NIOSSLServerHandler(context: tls), inner]) else {
            return context.close(promise: nil)
        }
        swap.finish(replaying: rest)
    }

    // MARK: Without TLS

    /// The client's first bytes say whether they are a request for the route.
    private func peek(for origin: InterceptedOrigin, or tunnel: TunnelDestination?) {
        phase = .peeking(TunnelPeek(origin: origin, tunnel: tunnel))
        writer.send(Self.established)
        guard case .peeking = phase else { return }
        setDeadline(tunnel == nil ? timeouts.header : min(TimeAmount(TunnelOpening.patience), timeouts.header))
    }

    /// - Returns: Whether there is more to do with what has come.
    private func peekAtOpening(_ peek: TunnelPeek) -> Bool {
        let bytes = reader.bytes
        switch TunnelOpening.judge(bytes.readableBytesUInt8Span) {
        case .unfinished:
            // It has begun to speak, so it does not wait for the server to do so.
            if !peek.hasBegun {
                peek.hasBegun = true
                setDeadline(timeouts.header)
            }
            return false
        case .request:
            // A reload has replaced the settings that admitted this client.
            guard reuse != .ending else {
                closeNow()
                return true
            }
            beginRequests(inPlaceOf: peek.origin)
            reader.nextRequest()
            setDeadline(timeouts.header)
            return true
        case .other:
            openConnectTunnel(peek)
            return true
        }
    }

    /// Its deadline has passed. Bytes that could still become a request of the route must not pass without it.
    private func peekIsLate(_ peek: TunnelPeek) {
        guard reader.isEmpty, peek.tunnel != nil else { return closeNow() }
        openConnectTunnel(peek)
    }

    private func openConnectTunnel(_ peek: TunnelPeek) {
        guard let tunnel = peek.tunnel else { return refuse(TunnelOpening.noRequest(to: peek.origin)) }
        openTunnel(to: tunnel, isEstablished: true)
    }

    private static let ending = GatewayProblem(
        .overloaded,
        "This connection ends, because the listener has changed or the gateway stops. Connect again.",
        retryAfter: .seconds(1)
    )
    private static let established = ByteBuffer(string: "HTTP/1.1 200 Connection Established\r\n\r\n")
}

/// What the client's first bytes after a CONNECT decide between.
private final class TunnelPeek {
    let origin: InterceptedOrigin
    /// nil where bytes may not pass as they are.
    let tunnel: TunnelDestination?
    /// Some bytes have come.
    var hasBegun = false

    init(origin: InterceptedOrigin, tunnel: TunnelDestination?) {
        self.origin = origin
        self.tunnel = tunnel
    }
}

/// CONNECT to a server that no route leads to.
extension HTTP1ClientConnection {
    /// - Parameter isEstablished: The client was told that its CONNECT was taken, and can be told nothing else.
    private func openTunnel(to destination: TunnelDestination, isEstablished: Bool = false) {
        let usage = shared.usage(of: destination.client)
        if let problem = usage?.refusal(at: shared.clock.monotonic()) {
            let refusal = shared.authorizer.refusal(problem, on: connectionContext, client: destination.client)
            return isEstablished ? closeNow() : refuse(problem, refusal)
        }
        phase = .dialling
        // The dialer answers earlier. A proxy may take as long again to open its tunnel.
        setDeadline(timeouts.connect + timeouts.connect + timeouts.linger)
        let tunnel = ConnectTunnel(to: destination, of: self, countedBy: usage, isEstablished: isEstablished)
        TunnelDialer(to: destination, through: tunnel.parent, of: configuration.worker, under: shared)
            .dial { [self] result in
                switch result {
                case .success(let connection): begin(tunnel, on: connection)
                case .failure(let problem): fail(tunnel, with: problem)
                }
            }
    }

    private func fail(_ tunnel: ConnectTunnel, with problem: GatewayProblem) {
        guard case .dialling = phase else { return tunnel.fail(with: nil) }
        let subject = ProblemSubject(
            requestID: tunnel.requestID,
            disclosesNames: shared.authorizer.disclosesNames(to: tunnel.destination.client, on: connectionContext)
        )
        tunnel.fail(with: problem)
        guard !tunnel.isEstablished else { return closeNow() }
        respond(with: problem, as: subject, requestIsComplete: true)
    }

    private func begin(_ tunnel: ConnectTunnel, on connection: TunnelDialer.Connection) {
        guard case .dialling = phase, let context, reuse != .ending, connection.channel.isActive,
            tunnel.mayOpen(to: connection.dialled)
        else {
            connection.end.cut()
            return fail(tunnel, with: Self.ending)
        }
        let client = TunnelEnd(hasDirectSocket: hasDirectSocket)
        guard let swap = try? HandlerSwap(from: context, to: [client]) else {
            connection.end.cut()
            return fail(tunnel, with: Self.ending)
        }
        if !tunnel.isEstablished { writer.send(Self.established) }
        // Sending finds out that a client has gone.
        guard case .dialling = phase, context.channel.isActive else {
            connection.end.cut()
            return tunnel.fail(with: nil)
        }
        let rest = reader.takeAll()
        tunnel.open(between: client, and: connection.end, places: handOverPlaces())
        hand(over: context)
        swap.finish(replaying: rest)
        if clientHasClosedOutput { client.inputEnded() }
        if let first = connection.first, first.readableBytes > 0 { connection.end.pass(first) }
        connection.end.resumeReading()
    }
}

/// When a broken response is cut.
private final class Cutting {
    /// Whatever the client has taken of it by then.
    let limit: NIODeadline
    /// When a client that takes none of it is waited for no longer.
    var takesUntil: NIODeadline
    /// How much of it the client had not taken at the last look.
    var untaken = Int.max

    init(limit: NIODeadline, takesUntil: NIODeadline) {
        self.limit = limit
        self.takesUntil = takesUntil
    }
}

/// The ways to end: the client has closed or is lost, an operator withdraws or stops, the last response is written or broken.
extension HTTP1ClientConnection {
    // MARK: End of the client's input

    /// The client has sent all it will send.
    ///
    /// A client that asked for the connection to be closed may do so and still read; any other has left, and its upstream
    /// must not go on working for it.
    private func clientClosedOutput() {
        clientHasClosedOutput = true
        switch phase {
        // Nothing more can come, so that nothing is waited for: with TLS, a close_notify.
        case .lingering, .closed:
            becomeClosed()
            writer.closeAtOnce()
        // What waits here may be more requests, the last of which says whether the client still reads.
        case .new, .handshake, .refusing, .head, .exchange, .asking, .engineContent, .tunnel, .preparing, .peeking,
            .dialling:
            process()
        case .finishing, .cutting: break
        }
    }

    /// The client sends no more; what it sent may still wait here.
    private func inputEnded() {
        switch phase {
        case .exchange:
            guard let exchange else { return }
            let isComplete = exchange.requestIsComplete
            // After an early answer a client stops sending and reads on (RFC 9112 section 9.5).
            if !isComplete, exchange.responseHasBegun { return }
            let hasLeft = reader.isEmpty ? !isComplete || request.decoder.head.clientKeepsAlive : reader.clientHasLeft()
            if hasLeft { leaveClient(isCut: false) }
        case .tunnel: if reader.isEmpty { exchange?.clientClosedOutput() }
        case .new, .handshake, .refusing, .head: if reader.isEmpty { closeAfterWrites(lingering: false) }
        case .preparing, .peeking: closeNow()
        // It may have sent all that the server is to get.
        case .dialling: break
        case .asking, .engineContent, .finishing, .lingering, .cutting, .closed: break
        }
    }

    // MARK: Withdrawal, drain and stop

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        exchange?.endIfWithdrawn(withdrawn)
        engineLosesWithdrawn()
    }

    func drain() {
        reuse = .ending
        switch phase {
        // The first request is about to come.
        case .new, .handshake, .refusing: setDeadline(timeouts.linger)
        case .head where !reader.isWithinHead && (isWritable || reader.isEmpty):
            if writer.hasInput || !reader.isEmpty {
                // A request, most likely, that is about to come or waits for its turn; or half of an empty line.
                setDeadline(timeouts.linger)
            } else {
                // The last answer may still be on its way to a slow client.
                closeAfterWrites(lingering: false)
            }
        default: break
        }
    }

    /// The gateway ends, whatever is under way. No client may take a part of an answer for the whole.
    func stop() {
        let hasPart = exchange?.responseHasBegun ?? false
        if hasPart || phase.isCutting || writer.isHoldingBytes() { reset() } else { closeNow() }
    }

    // MARK: Closing

    /// Ends the connection of a client that has left, or is broken, and what the upstream does for it. Answers that were written
    /// before may still be read.
    ///
    /// - Parameter isCut: It is broken.
    private func leaveClient(isCut: Bool) {
        let exchange = exchange.take()
        let hasPart = exchange?.responseHasBegun ?? false
        exchange?.clientLeft(isCut: isCut)
        guard hasPart || writer.isHoldingBytes() else { return closeNow() }
        if hasPart { cut(within: nil) } else { closeAfterWrites(lingering: false) }
    }

    /// Closes without an answer: the TLS handshake would have to come first, and there is no room to wait for it.
    private func refuseWithoutAnswer(_ problem: GatewayProblem) {
        observe(problem, under: configuration)
        becomeClosed()
        writer.closeAtOnce()
    }

    func use(_ connection: PrivateConnection) { privateConnection = connection }
    private func closePrivateConnection() { privateConnection.take()?.close() }

    /// Enters the last phase.
    ///
    /// - Parameter byReset: A later call does not take it back.
    /// - Returns: Whether the connection was reset, now or before.
    @discardableResult
    private func becomeClosed(byReset: Bool = false) -> Bool {
        var wasReset = byReset
        if case .closed(wasReset: true) = phase { wasReset = true }
        phase = .closed(wasReset: wasReset)
        return wasReset
    }

    private func closeNow() {
        becomeClosed()
        writer.closeConnection()
        if clientHasClosedOutput { writer.closeAtOnce() }
    }

    /// Ends the connection so that clients see a failure; what they have not taken yet is lost.
    private func reset() {
        becomeClosed(byReset: true)
        cancelDeadline()
        writer.reset()
    }

    /// - Parameter lingering: The client may still be sending: closing at once would reset the connection and take the
    ///   answer away before it is read.
    private func closeAfterWrites(lingering: Bool) {
        guard context != nil else { return }
        closePrivateConnection()
        phase = .finishing
        // The exchange is over, so this is limits.response_timeout, whatever timeouts.idle of the route says.
        setDeadline(timeouts.response)
        writer.afterWrites { [self] in writesDone(lingering: lingering) }
        reader.dropAll()
        resumeReading()
    }

    private func writesDone(lingering: Bool) {
        guard case .finishing = phase else { return }
        phase = .lingering(until: .now() + (patience == .long ? timeouts.lingerInAll : timeouts.linger))
        setDeadline(timeouts.linger)
        if lingering, patience != .none, !clientHasClosedOutput {
            writer.closeOutput()
        } else {
            context?.channel.close(promise: nil)
        }
        if clientHasClosedOutput { writer.closeAtOnce() }
    }

    // MARK: Cutting

    /// Resets the connection, so that a client that reads until the end sees a failure and not an end.
    ///
    /// Not before the client has what was written: an earlier answer that is whole, and what there is of this one.
    func cut(within limit: TimeAmount?) {
        endExchange()
        flush()
        closePrivateConnection()
        if case .closed = phase { return }
        let now = NIODeadline.now()
        let cutting = Cutting(limit: limit.map { now + $0 } ?? .distantFuture, takesUntil: now + timeouts.response)
        phase = .cutting(cutting)
        reader.dropAll()
        resumeReading()
        resetWhenTaken(cutting)
    }

    private func resetWhenTaken(_ cutting: Cutting) {
        let untaken = writer.untakenBytes()
        if untaken < cutting.untaken {
            cutting.takesUntil = .now() + timeouts.response
            cutting.untaken = untaken
        }
        guard untaken > 0, .now() < min(cutting.takesUntil, cutting.limit) else { return reset() }
        // The system does not tell when the last byte has been taken.
        setDeadline(Self.pauseBetweenLooks)
    }

    private static let pauseBetweenLooks = TimeAmount.milliseconds(50)
}
