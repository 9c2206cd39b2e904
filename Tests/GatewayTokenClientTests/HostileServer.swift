import GatewayTesting
import NIOCore
import NIOPosix
import NIOSSL

/// A server on loopback that reads one request whole and then does what its script says.
final class HostileServer: Sendable {
    enum Script: Sendable {
        /// Sends these bytes and leaves the connection open.
        case send(String)
        case sendBytes([UInt8])
        /// Sends these bytes and closes.
        case sendAndClose(String)
        /// Sends one byte of the text every 20 milliseconds.
        case drip(String)
        /// Sends the beginning once, then the piece for ever.
        case endless(String, piece: String)
        /// Reads the request and closes without a word.
        case cut
        /// Accepts the connection and says nothing, not even a TLS handshake.
        case silence
    }

    private let channel: any Channel
    private let received: Received

    var port: Int { channel.localAddress?.port ?? 0 }

    /// Every request so far, as it arrived.
    var requests: [String] { received.requests.value }

    /// Waits for the first request.
    func untilAsked() async throws { try await received.requests.until { !$0.isEmpty } }

    /// - Parameters:
    ///   - isProxy: It answers CONNECT, and then is the server itself.
    ///   - proxyTLS: How it is reached as a proxy; nil for clear text.
    static func start(
        _ script: Script,
        tls: TLSConfiguration? = nil,
        isProxy: Bool = false,
        proxyTLS: TLSConfiguration? = nil
    ) async throws -> HostileServer {
        let received = Received()
        let context = try tls.map { try NIOSSLContext(configuration: $0) }
        let proxyContext = try proxyTLS.map { try NIOSSLContext(configuration: $0) }
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let proxyContext {
                        try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: proxyContext))
                    }
                    if isProxy { try channel.pipeline.syncOperations.addHandler(ConnectAnswer()) }
                    if let context {
                        try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
                    }
                    try channel.pipeline.syncOperations.addHandler(ScriptHandler(script: script, received: received))
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return HostileServer(channel: channel, received: received)
    }

    private init(channel: any Channel, received: Received) {
        self.channel = channel
        self.received = received
    }

    func stop() async { try? await channel.close() }
}

private final class Received: Sendable {
    let requests = Watched<[String]>([])
}

private final class ConnectAnswer: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var text = ""

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        text += String(buffer: unwrapInboundIn(data))
        guard text.hasSuffix("\r\n\r\n") else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: "HTTP/1.1 200 OK\r\n\r\n")), promise: nil)
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let script: HostileServer.Script
    private let received: Received
    private var text = ""
    private var isDone = false

    init(script: HostileServer.Script, received: Received) {
        self.script = script
        self.received = received
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        text += String(buffer: unwrapInboundIn(data))
        guard !isDone, let end = text.firstRange(of: "\r\n\r\n") else { return }
        guard text[end.upperBound...].utf8.count >= contentLength(text[..<end.lowerBound]) else { return }
        isDone = true
        received.requests.update { $0.append(text) }
        run(context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func contentLength(_ head: Substring) -> Int {
        for line in head.lowercased().split(separator: "\r\n") where line.hasPrefix("content-length:") {
            return Int(line.dropFirst("content-length:".count).filter { $0 != " " }) ?? 0
        }
        return 0
    }

    private func run(_ context: ChannelHandlerContext) {
        switch script {
        case .send(let text):
            write(text, context)
        case .sendBytes(let bytes):
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
        case .sendAndClose(let text):
            write(text, context)
            context.close(promise: nil)
        case .drip(let text):
            drip(Array(text.utf8)[...], context)
        case .endless(let beginning, let piece):
            write(beginning, context)
            pour(piece, context)
        case .cut:
            context.close(promise: nil)
        case .silence:
            break
        }
    }

    private func write(_ text: String, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
    }

    private func drip(_ bytes: ArraySlice<UInt8>, _ context: ChannelHandlerContext) {
        guard let first = bytes.first, context.channel.isActive else { return }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: [first])), promise: nil)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: .milliseconds(20)) {
            let (handler, context) = bound.value
            handler.drip(bytes.dropFirst(), context)
        }
    }

    private func pour(_ piece: String, _ context: ChannelHandlerContext) {
        guard context.channel.isActive else { return }
        let promise = context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        promise.futureResult.whenSuccess {
            let (handler, context) = bound.value
            handler.pour(piece, context)
        }
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: piece)), promise: promise)
    }
}
