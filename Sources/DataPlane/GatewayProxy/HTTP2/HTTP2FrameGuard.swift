import GatewayCore
import NIOCore

/// Stops a client that floods the connection before the library reads its frames.
///
/// The library reads all that has come in one turn, so other connections of the event loop would wait meanwhile.
final class HTTP2FrameGuard: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let connection: HTTP2ClientConnection

    init(of connection: HTTP2ClientConnection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if connection.admits(unwrapInboundIn(data)) { context.fireChannelRead(data) }
    }
}

extension HTTP2ClientConnection {
    /// Whether these bytes are read at all.
    fileprivate func admits(_ bytes: ByteBuffer) -> Bool {
        guard phase != .lingering, phase != .closed else { return false }
        guard meter.receive(bytes.readableBytesUInt8Span, at: { shared.clock.monotonic() }) else {
            calm()
            return false
        }
        return true
    }
}
