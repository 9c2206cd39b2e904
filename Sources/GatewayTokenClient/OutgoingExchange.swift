import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOPosix
import NIOSSL
import NIOTLS

/// One request and its answer, on a connection of its own.
///
///     connecting ──▶ securingProxy ──▶ tunnelling ──▶ securing ──▶ sent ──▶ over
///          │  └────────────────────────────▲   │         ▲  ▲       ▲
///          └───────────────────────────────────┼─────────┘  │       │
///                                              └────────────┴───────┘
///
/// What is not needed is left out: a proxy, and TLS with it or with the server. Each phase may end in `over`. The request is sent once, and
/// not before the certificate of the server has named it.
final class OutgoingExchange: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart
    typealias Outcome = Result<OutgoingHTTP.Answer, TokenTransportFailure>

    private enum Phase {
        case connecting
        case securingProxy
        case tunnelling
        case securing
        case sent
        case over
    }

    private let request: OutgoingRequest
    private let head: HTTPRequestHead
    private let tls: OutgoingTLS
    private let loop: any EventLoop
    private var phase = Phase.connecting
    private var context: ChannelHandlerContext?
    private var timers: [Scheduled<Void>] = []
    private var answer = AnswerCollector(limitBytes: OutgoingHTTP.answerLimitBytes)
    private var certificateEnd: UnixTime?
    private var done: ((Outcome) -> Void)?
    /// How it ended before it was started.
    private var outcome: Outcome?

    init(_ request: OutgoingRequest, _ head: HTTPRequestHead, _ tls: OutgoingTLS, on loop: any EventLoop) {
        (self.request, self.head, self.tls, self.loop) = (request, head, tls, loop)
    }

    /// - Parameters:
    ///   - connecting: For all that comes before the request.
    ///   - limit: For all of it.
    ///   - done: Called once.
    func start(connectingWithin connecting: TimeAmount, within limit: TimeAmount, _ done: @escaping (Outcome) -> Void) {
        if let outcome { return done(outcome) }
        self.done = done
        let bound = NIOLoopBound(self, eventLoop: loop)
        timers = [
            loop.scheduleTask(in: connecting) { if bound.value.phase != .sent { bound.value.fail(Overdue()) } },
            loop.scheduleTask(in: limit) { bound.value.fail(Overdue()) },
        ]
        let place = request.proxy?.origin ?? request.origin
        ClientBootstrap(group: loop)
            .connectTimeout(connecting)
            .connect(host: place.lookupName, port: place.port)
            .assumeIsolated()
            .whenComplete { [self] result in
                switch result {
                case .success(let channel): connected(channel)
                case .failure(let error): fail(error)
                }
            }
    }

    /// The caller no longer waits for the answer.
    func cancel() { fail(Overdue()) }

    // MARK: Before the request

    private func connected(_ channel: any Channel) {
        guard phase == .connecting else { return channel.close(promise: nil) }
        do {
            let pipeline = channel.pipeline.syncOperations
            // Everything that the connection may bring, framing and TLS included.
            try pipeline.addHandler(InboundLimit(bytes: 2 * OutgoingHTTP.answerLimitBytes))
            try pipeline.addHandler(self)
            guard let proxy = request.proxy else { return try secure() }
            guard let context = tls.proxy else { return try openTunnel(proxy) }
            phase = .securingProxy
            try speakTLS(context, with: proxy.origin)
        } catch {
            fail(error)
            channel.close(promise: nil)
        }
    }

    private func openTunnel(_ proxy: ParentProxy) throws {
        phase = .tunnelling
        let tunnel = ProxyTunnel(proxy, to: request.origin) { [weak self] in
            guard let self, phase == .tunnelling else { return }
            try secure()
        }
        try add(tunnel)
    }

    private func secure() throws {
        guard let context = tls.server else { return try send() }
        phase = .securing
        try speakTLS(context, with: request.origin)
    }

    private func speakTLS(_ context: NIOSSLContext, with server: Origin) throws {
        let name = PeerName(server.host)
        let handler = try NIOSSLClientHandler._makeSSLClientHandler(
            context: context,
            serverHostname: server.isAddress ? nil : server.host
        ) { certificate, channel in
            channel.eventLoop.makeCompletedFuture { try name.check(certificate) }
        }
        try add(handler)
    }

    private func send() throws {
        let tls = tls.server == nil ? nil : try context?.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self)
        certificateEnd = tls?.peerCertificate.map { UnixTime(seconds: Int64($0.notValidAfter)) }
        try add(
            HTTPRequestEncoder(),
            ByteToMessageHandler(HTTPResponseDecoder(leftOverBytesStrategy: .dropBytes)),
            ContentCodingNames(),
            NIOHTTPResponseDecompressor(limit: .size(OutgoingHTTP.answerLimitBytes)),
            TrailingDataFilter()
        )
        guard let context else { return }
        phase = .sent
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body = request.body, !body.isEmpty {
            context.write(
                wrapOutboundOut(.body(.byteBuffer(context.channel.allocator.buffer(bytes: body)))),
                promise: nil
            )
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    /// Before this handler, which stays the last of the pipeline.
    private func add(_ handlers: any ChannelHandler...) throws {
        guard let context else { throw ChannelError.ioOnClosedChannel }
        try context.pipeline.syncOperations.addHandlers(handlers, position: .before(self))
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        guard case .handshakeCompleted? = event as? TLSUserEvent else {
            return context.fireUserInboundEventTriggered(event)
        }
        do {
            if phase == .securing { return try send() }
            if phase == .securingProxy, let proxy = request.proxy { try openTunnel(proxy) }
        } catch {
            fail(error)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard phase == .sent else { return }
        do {
            switch unwrapInboundIn(data) {
            case .head(let head): try answer.receive(head)
            case .body(let bytes): try answer.receive(bytes)
            case .end: end(.success((try answer.reply, certificateEnd)))
            }
        } catch {
            fail(error)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The decoder knows whether the response is complete, if that states its length.
        if phase == .sent, error as? NIOSSLError == .uncleanShutdown, answer.saysItsLength { return }
        fail(error)
    }

    func channelInactive(context: ChannelHandlerContext) {
        fail(ChannelError.eof)
        context.fireChannelInactive()
    }

    // MARK: The end

    /// A deadline has passed.
    struct Overdue: Error {}

    private func fail(_ error: any Error) {
        switch phase {
        case .connecting:
            end(.failure(TransportErrors.whileConnecting(error, request.proxy)))
        case .securingProxy, .tunnelling:
            end(.failure(TransportErrors.failure(for: error, at: request.proxy)))
        case .securing: failBehindProxy(TransportErrors.whileSecuring(error))
        case .sent: failBehindProxy(TransportErrors.afterSending(error, codings: answer.codings))
        case .over: break
        }
    }

    /// A proxy that answers in the place of a server, or looks into its TLS, is the first thing to suspect.
    private func failBehindProxy(_ failure: TokenTransportFailure) {
        var failure = failure
        failure.proxy = request.proxy?.description
        end(.failure(failure))
    }

    private func end(_ outcome: Outcome) {
        phase = .over
        for timer in timers { timer.cancel() }
        timers = []
        context?.close(promise: nil)
        if let done = done.take() { done(outcome) } else { self.outcome = outcome }
    }
}

/// Asks a proxy to open a tunnel, and then removes itself from the pipeline.
private final class ProxyTunnel: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let proxy: ParentProxy
    private let server: Origin
    /// nil once the tunnel is open, or never will be.
    private var opened: (() throws -> Void)?
    private var answer = ConnectAnswer()

    /// - Parameter opened: Called once the handlers behind this one may speak with the server.
    init(_ proxy: ParentProxy, to server: Origin, _ opened: @escaping () throws -> Void) {
        (self.proxy, self.server, self.opened) = (proxy, server, opened)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        let head = context.channel.allocator.buffer(bytes: proxy.connectHead(to: server))
        context.writeAndFlush(wrapOutboundOut(head), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard let opened else { return context.fireChannelRead(data) }
        let state = answer.receive(unwrapInboundIn(data).readableBytesView)
        if let problem = proxy.problem(of: state, to: server) {
            self.opened = nil
            return context.fireErrorCaught(problem)
        }
        guard case .open(let rest) = state else { return }
        self.opened = nil
        do {
            try opened()
            if !rest.isEmpty { context.fireChannelRead(wrapInboundOut(context.channel.allocator.buffer(bytes: rest))) }
            if context.channel.isActive {
                context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
            }
        } catch {
            context.fireErrorCaught(error)
        }
    }
}
