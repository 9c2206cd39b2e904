import NIOCore

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
