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

/// Has the library take long request heads from the first request on.
///
/// Until its SETTINGS are acknowledged, the library ends the connection for a head of more than 16 KiB, and a client sends its first
/// request before it has read them. So the library's first SETTINGS, which only name the limit of heads, do not leave. They are
/// acknowledged here, behind those of the client. The client gets the second ones (``HTTP2Configuration/settings(_:)``).
final class HTTP2FirstSettings: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let acknowledgement: [UInt8] = [0, 0, 0, 4, 1, 0, 0, 0, 0]
    private static let frameHead = 9

    private var hasKeptSettings = false
    /// What the client begins with, until its SETTINGS are whole. At most their frame and what came with its end.
    private var opening = ByteBuffer()

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !hasKeptSettings else { return context.write(data, promise: promise) }
        hasKeptSettings = true
        promise?.succeed()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        opening.writeBuffer(&bytes)
        switch Self.settings(in: opening.readableBytesView) {
        case .unfinished: return
        case .none: break
        case .end(let end):
            guard let settings = opening.readSlice(length: end) else { break }
            context.fireChannelRead(wrapInboundOut(settings))
            context.fireChannelRead(wrapInboundOut(ByteBuffer(bytes: Self.acknowledgement)))
        }
        if opening.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(opening)) }
        opening = ByteBuffer()
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }

    private enum Settings {
        case unfinished
        /// The library says what is wrong.
        case none
        case end(Int)
    }

    private static func settings(in bytes: ByteBufferView) -> Settings {
        let start = preface.count
        guard bytes.prefix(start).elementsEqual(preface.prefix(bytes.count)) else { return .none }
        let head = Array(bytes.dropFirst(start).prefix(frameHead))
        guard head.count == frameHead else { return .unfinished }
        let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        guard head[3] == 4, head[4] & 1 == 0, length <= HTTP2Configuration.frameSize else { return .none }
        let end = start + frameHead + length
        return bytes.count < end ? .unfinished : .end(end)
    }
}
