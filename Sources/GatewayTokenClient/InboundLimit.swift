import NIOCore

/// Ends a connection that sends more than an answer can be: framing and interim answers have no limit elsewhere.
final class InboundLimit: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var remainingBytes: Int

    /// - Parameter bytes: For the whole life of the connection, TLS included.
    init(bytes: Int) { remainingBytes = bytes }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard remainingBytes >= 0 else { return }
        remainingBytes -= unwrapInboundIn(data).readableBytes
        guard remainingBytes >= 0 else {
            context.fireErrorCaught(AnswerCollector.Refusal.tooLarge)
            context.close(promise: nil)
            return
        }
        context.fireChannelRead(data)
    }
}
