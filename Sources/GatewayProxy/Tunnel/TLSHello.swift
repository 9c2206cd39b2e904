import NIOCore
import NIOSSL
import NIOTLS

/// Waits for the name that a client asks for in its TLS hello, and has the gateway answer in place of that server
/// (`tls: {ca: local}`).
///
/// Counts as a connection, and gives its place to the one that serves.
final class TLSHello: ChannelInboundHandler, RemovableChannelHandler, DeadlineKeeper {
    typealias InboundIn = ByteBuffer

    private let configuration: WorkerConfiguration
    private let connectionContext: ConnectionContext
    let listenerNumber: Int
    private var context: ChannelHandlerContext?
    private var places = ConnectionPlaces()
    private let timer: DeadlineTimer

    private init(_ configuration: WorkerConfiguration, _ connectionContext: ConnectionContext, listenerNumber: Int) {
        self.configuration = configuration
        self.connectionContext = connectionContext
        self.listenerNumber = listenerNumber
        timer = DeadlineTimer(queue: configuration.worker.deadlines)
    }

    static func add(
        to channel: any Channel,
        _ configuration: WorkerConfiguration,
        _ connectionContext: ConnectionContext,
        listenerNumber: Int
    ) throws {
        let hello = TLSHello(configuration, connectionContext, listenerNumber: listenerNumber)
        let bound = NIOLoopBound(hello, eventLoop: channel.eventLoop)
        let reader = ByteToMessageHandler(SNIHandler { bound.value.serve($0, on: channel) })
        try channel.pipeline.syncOperations.addHandlers([HelloJoiner(), reader, hello])
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        if context.channel.isActive { opened() }
    }

    func channelActive(context: ChannelHandlerContext) {
        opened()
        context.fireChannelActive()
    }

    private func opened() {
        let worker = configuration.worker
        guard let context, !worker.isRegistered(self) else { return }
        // There is no way to say why before the handshake.
        guard places.take(from: configuration.shared, for: context.channel) == nil else { return close() }
        worker.register(self)
        timer.set(configuration.clock.now + configuration.timeouts.header, for: self)
    }

    func handlerRemoved(context: ChannelHandlerContext) { leave() }
    func channelInactive(context: ChannelHandlerContext) {
        leave()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { close() }

    /// Nothing is served before the name is known.
    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

    func deadlinePassed() { close() }

    func close() { context?.channel.close(promise: nil) }

    private func leave() {
        context = nil
        timer.cancel()
        places.giveBack(to: configuration.shared)
        configuration.worker.unregister(self)
    }

    // MARK: Name

    private func serve(_ name: SNIResult, on channel: any Channel) -> EventLoopFuture<Void> {
        let loop = channel.eventLoop
        guard context != nil, let shared = configuration.worker.current?.shared, !shared.isDraining,
            let interception = shared.state.interception
        else {
            close()
            return loop.makeSucceededVoidFuture()
        }
        guard case .hostname(let host) = name, let origin = shared.authorizer.origin(named: host, on: connectionContext)
        else {
            channel.writeAndFlush(ByteBuffer(bytes: Self.unrecognizedName), promise: nil)
            close()
            return loop.makeSucceededVoidFuture()
        }
        let bound = NIOLoopBound(self, eventLoop: loop)
        return interception.context(for: origin.host, on: loop)
            .map { bound.value.begin($0, inPlaceOf: origin) }
            .flatMapErrorWithEventLoop { _, loop in
                bound.value.close()
                return loop.makeSucceededVoidFuture()
            }
    }

    private func begin(_ tls: NIOSSLContext, inPlaceOf origin: InterceptedOrigin) {
        guard let context, let current = configuration.worker.current else { return close() }
        let connection = HTTP1ClientConnection(
            configuration: current,
            connectionContext: connectionContext.intercepting(origin),
            listenerNumber: listenerNumber,
            hasDirectSocket: false
        )
        places.giveBack(to: configuration.shared)
        guard let swap = try? HandlerSwap(from: context, to: [NIOSSLServerHandler(context: tls), connection]) else {
            return close()
        }
        swap.finish()
    }

    /// A fatal alert (RFC 8446 section 6): the record, then the level and the number of the alert.
    private static let unrecognizedName: [UInt8] = [21, 3, 3, 0, 2, 2, 112]
}

/// Hands the hello on once it is whole, in one record (``TLSHelloRecords``).
private final class HelloJoiner: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private var received = ByteBuffer()
    private var records = TLSHelloRecords()

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        received.writeBuffer(&bytes)
        // A span must not outlive the access to a property.
        let whole = received
        switch records.join(whole.readableBytesUInt8Span) {
        case .unfinished: return
        case .joined(let bytes): received = ByteBuffer(bytes: bytes)
        case .unchanged: break
        }
        context.fireChannelRead(wrapInboundOut(received))
        received = ByteBuffer()
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
}
