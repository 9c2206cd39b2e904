import GatewayCore
import NIOCore

/// Stops a peer that floods the connection before the library reads its frames.
///
/// The library reads all that has come in one turn, so other connections of the event loop would wait meanwhile.
final class HTTP2FrameGuard<Connection: MeteredConnection>: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let connection: Connection

    init(of connection: Connection) { self.connection = connection }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if connection.admits(unwrapInboundIn(data)) { context.fireChannelRead(data) }
    }
}

/// A connection that bounds the frames of its peer.
protocol MeteredConnection: AnyObject {
    /// Whether these bytes are read at all.
    func admits(_ bytes: ByteBuffer) -> Bool
}

extension HTTP2UpstreamConnection: MeteredConnection {
    func admits(_ bytes: ByteBuffer) -> Bool {
        guard phase != .closed else { return false }
        let isAdmitted = meter.receive(bytes.readableBytesUInt8Span, at: { MonotonicTime(.now()) })
        if !isAdmitted { broken() }
        return isAdmitted
    }
}

extension HTTP2ClientConnection: MeteredConnection {
    func admits(_ bytes: ByteBuffer) -> Bool {
        guard phase != .lingering, phase != .closed else { return false }
        guard meter.receive(bytes.readableBytesUInt8Span, at: { shared.clock.monotonic() }) else {
            calm()
            return false
        }
        return true
    }
}
