import NIOCore
import NIOEmbedded
import NIOSSL
import Testing

@testable import GatewayProxy

/// Between TLS and the socket: calls back within a flush, as a channel does that finds its connection reset.
private final class Interruption: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    var happens: (() -> Void)?

    func flush(context: ChannelHandlerContext) {
        context.flush()
        let happens = happens
        self.happens = nil
        happens?()
    }
}

/// Holds the writer as a handler of the data plane does.
private final class Owner: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    let writer = SocketWriter()

    func handlerAdded(context: ChannelHandlerContext) { writer.open(context, hasDirectSocket: false) }
}

@Suite(.timeLimit(.minutes(5)))
struct SocketWriterTests {
    /// Seen with clients and upstreams that reset connections: a second later the whole process ended.
    @Test func aCloseWithinTheCloseOfTheOutputLeavesNoTimerThatTraps() throws {
        let loop = EmbeddedEventLoop()
        let (interruption, owner) = (Interruption(), Owner())
        let server = EmbeddedChannel(loop: loop)
        let client = EmbeddedChannel(loop: loop)
        try server.pipeline.syncOperations.addHandlers([
            interruption, NIOSSLServerHandler(context: try Self.serverContext()), owner,
        ])
        try client.pipeline.syncOperations.addHandler(
            NIOSSLClientHandler(context: try Self.clientContext(), serverHostname: nil)
        )
        try server.connect(to: SocketAddress(unixDomainSocketPath: "/server")).wait()
        try client.connect(to: SocketAddress(unixDomainSocketPath: "/client")).wait()
        try Self.exchange(client, server)

        interruption.happens = { owner.writer.closeConnection() }
        owner.writer.closeOutput()
        loop.advanceTime(by: .seconds(10))
        #expect(!server.isActive)
    }

    /// Carries bytes to and fro until neither side has any more.
    private static func exchange(_ one: EmbeddedChannel, _ other: EmbeddedChannel) throws {
        var hasMoved = true
        while hasMoved {
            hasMoved = false
            for (from, to) in [(one, other), (other, one)] {
                while let bytes = try from.readOutbound(as: ByteBuffer.self) {
                    try to.writeInbound(bytes)
                    hasMoved = true
                }
            }
        }
    }

    private static func serverContext() throws -> NIOSSLContext {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(TLSListenerTests.certificate.utf8))
        let key = try NIOSSLPrivateKey(bytes: Array(TLSListenerTests.key.utf8), format: .pem)
        return try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: certificates.map { .certificate($0) },
                privateKey: .privateKey(key)
            )
        )
    }

    private static func clientContext() throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        return try NIOSSLContext(configuration: configuration)
    }
}
