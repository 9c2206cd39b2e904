import NIOCore

/// The way from a handler to its socket.
///
/// A handler that is alone in its pipeline has nobody to pass an operation on to: it calls the channel's core, which is what
/// the head of the pipeline would do after some ten calls. With TLS in between, the pipeline is the way.
struct Outlet {
    private var context: ChannelHandlerContext?
    private var core: (any ChannelCore)?

    /// Nowhere: before a handler is added, and after it is removed.
    init() {}

    init(_ context: ChannelHandlerContext, isAlone: Bool) {
        self.context = context
        core = isAlone ? context.channel._channelCore : nil
    }

    @inline(__always)
    func write(_ bytes: ByteBuffer) {
        if let core { core.write0(NIOAny(bytes), promise: nil) } else { context?.write(NIOAny(bytes), promise: nil) }
    }

    @inline(__always)
    func flush() {
        if let core { core.flush0() } else { context?.flush() }
    }

    @inline(__always)
    func read() {
        if let core { core.read0() } else { context?.read() }
    }

    /// Asks for the next bytes before the channel does, which would take the way through the pipeline.
    @inline(__always)
    func readAhead() { core?.read0() }
}
