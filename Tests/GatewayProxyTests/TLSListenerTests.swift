import Foundation
import GatewayConfiguration
import GatewayHTTP
import NIOCore
import NIOPosix
import NIOSSL
import Testing

@testable import GatewayProxy

/// Tells whether a connection ended with an error, which a client can see, or in good order.
private final class EndWatcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let isCut: EventLoopPromise<Bool>
    private var hasFailed = false

    init(_ isCut: EventLoopPromise<Bool>) { self.isCut = isCut }

    func channelActive(context: ChannelHandlerContext) {
        let request = ByteBuffer(string: "GET /api HTTP/1.0\r\nHost: localhost\r\n\r\n")
        context.writeAndFlush(NIOAny(request), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        hasFailed = true
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) { isCut.succeed(hasFailed) }
}

@Suite(.timeLimit(.minutes(5)))
struct TLSListenerTests {
    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", true),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false),
    ])
    func aBodyThatIsCutDoesNotEndInGoodOrder(_ answer: String, _ isCut: Bool) async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.read(through: "\r\n\r\n")
            connection.send(answer)
            connection.close()
        }
        let folder = FileManager.default.temporaryDirectory.appending(path: "tls-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "certificate.pem").path
        try Self.certificate.write(toFile: file, atomically: true, encoding: .utf8)

        let proxy = try await ProxyFixture(upstreamPort: origin.port)
        let plan = ListenerPlan(
            address: .tcp(host: "127.0.0.1", port: 0),
            tls: ListenerPlan.TLS(certificatePath: file, privateKey: Secret(Self.key), clientCAPath: nil),
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
        let port = try await proxy.server.bind([plan])[0].port ?? 0
        proxy.server.start()
        #expect(try await Self.endsInAnError(port: port) == isCut)
        await proxy.stop()
        origin.stop()
    }

    private static func endsInAnError(port: Int) async throws -> Bool {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        let context = try NIOSSLContext(configuration: configuration)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let isCut = loop.makePromise(of: Bool.self)
        _ = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try NIOSSLClientHandler(context: context, serverHostname: nil)
                    try channel.pipeline.syncOperations.addHandlers([tls, EndWatcher(isCut)])
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return try await isCut.futureResult.get()
    }

    /// For the address 127.0.0.1, valid until 2120; worth nothing outside these tests.
    static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBhjCCASygAwIBAgIBATAKBggqhkjOPQQDAjApMScwJQYDVQQDDB5BdXRoR2F0
        ZXdheSB0b2tlbiBjbGllbnQgdGVzdHMwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAx
        MDEwMDAwMDBaMCkxJzAlBgNVBAMMHkF1dGhHYXRld2F5IHRva2VuIGNsaWVudCB0
        ZXN0czBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJ3n/TEAfYBjopL6Wq4eh0VH
        09VJE/NkIG+yEGZmEKMPye3HEvSKadijLk3fAegYmBo9C5xiQXp66KcqIFq86nGj
        QzBBMA8GA1UdEwEB/wQFMAMBAf8wDwYDVR0RBAgwBocEfwAAATAdBgNVHQ4EFgQU
        /BRI6iM2evca5PpwzMRud/V56/owCgYIKoZIzj0EAwIDSAAwRQIgMFEU3QSq4glQ
        rbrjyyCVncteX0UHm7Wc42HoUtl+9OoCIQCeD9+32h6W7GFhq9VoZT8JbC/jaFed
        BT5z6eTXwpjPnQ==
        -----END CERTIFICATE-----
        """

    static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgp2+xEdc+8x0UhQBr
        4HLF/5UfRg3UeDN8tmOdg527sKqhRANCAASd5/0xAH2AY6KS+lquHodFR9PVSRPz
        ZCBvshBmZhCjD8ntxxL0imnYoy5N3wHoGJgaPQucYkF6euinKiBavOpx
        -----END PRIVATE KEY-----
        """
}
