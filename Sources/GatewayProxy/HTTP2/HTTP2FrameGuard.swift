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

/// Joins the frames that are flushed together, so that few pieces go to TLS and to the socket.
///
/// Stands between the socket and the library's handler of frames, which writes the head and the content of each frame apart.
final class HTTP2FrameJoiner: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// A longer piece is written as it is: to copy it would cost more than a piece saves.
    static let largestCopy = 4096
    /// Length at which a piece is written: that of a record of TLS.
    static let capacity = 16_384

    private let buffers: SpareBuffers
    private var joined: ByteBuffer

    init(_ buffers: SpareBuffers) {
        self.buffers = buffers
        joined = buffers.empty
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard case .byteBuffer(let bytes) = unwrapOutboundIn(data), (1...Self.largestCopy).contains(bytes.readableBytes)
        else {
            writeJoined(context, nil)
            return context.write(data, promise: promise)
        }
        if joined.readableBytes == 0 { joined = buffers.take() }
        joined.writeImmutableBuffer(bytes)
        if promise != nil || joined.readableBytes >= Self.capacity { writeJoined(context, promise) }
    }

    func flush(context: ChannelHandlerContext) {
        let last = writeJoined(context, nil)
        context.flush()
        if let last { buffers.giveBack(last) }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        writeJoined(context, nil)
        context.close(mode: mode, promise: promise)
    }

    /// - Returns: What was written.
    @discardableResult
    private func writeJoined(_ context: ChannelHandlerContext, _ promise: EventLoopPromise<Void>?) -> ByteBuffer? {
        guard joined.readableBytes > 0 else { return nil }
        let bytes = joined
        joined = buffers.empty
        context.write(wrapOutboundOut(.byteBuffer(bytes)), promise: promise)
        return bytes
    }
}
