import NIOCore

/// A connection goes from the handler that has served it to the handlers that serve it from now on, within its pipeline.
struct HandlerSwap {
    private let context: ChannelHandlerContext

    /// Puts the new handlers behind the present one. That one stays until ``finish()`` or ``finish(replaying:)``.
    ///
    /// - Parameters:
    ///   - context: The context of the present handler.
    ///   - handlers: The one next to the socket first.
    init(from context: ChannelHandlerContext, to handlers: [any ChannelHandler]) throws {
        self.context = context
        var last = context.handler
        // One by one: added together, the last would come first, and what it writes at once would pass none of the others.
        for handler in handlers {
            try context.pipeline.syncOperations.addHandler(handler, position: .after(last))
            last = handler
        }
    }

    /// The present handler leaves, and has read nothing that is for the new ones.
    func finish() { context.pipeline.syncOperations.removeHandler(context: context, promise: nil) }

    /// The present handler leaves. It has read ahead or has paused, so the new ones get these bytes and read on.
    func finish(replaying rest: ByteBuffer) {
        if rest.readableBytes > 0 {
            context.fireChannelRead(NIOAny(rest))
            context.fireChannelReadComplete()
        }
        let channel = context.channel
        finish()
        channel.read()
    }
}
