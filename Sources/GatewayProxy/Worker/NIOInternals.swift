import NIOCore

// The only file that goes past NIO's public surface. `NIOInternalsTests` fails when what it relies on changes.

/// The end of a channel's pipeline, reached without passing the handlers in between.
///
/// For a handler that is alone in its pipeline, which would otherwise make about ten calls to get there.
struct ChannelEnd {
    private let core: any ChannelCore

    init(of channel: any Channel) { core = channel._channelCore }

    func write(_ bytes: ByteBuffer) { core.write0(NIOAny(bytes), promise: nil) }
    func flush() { core.flush0() }
    func read() { core.read0() }
}

/// The socket of a channel.
struct ChannelSocket {
    private let core: any NIOTransportAccessibleChannelCore

    /// nil for a channel that has no socket.
    init?(of channel: any Channel) {
        guard let core = channel._channelCore as? any NIOTransportAccessibleChannelCore, Self.isSocket(core) else {
            return nil
        }
        self.core = core
    }

    /// - Returns: What `body` returns; nil where the socket is closed.
    func with<Result>(_ body: (NIOBSDSocket.Handle) -> Result) -> Result? { Self.on(core, body) }

    private static func isSocket<Core: NIOTransportAccessibleChannelCore>(_: Core) -> Bool {
        Core.Transport.self == NIOBSDSocket.Handle.self
    }

    /// Once it is known to be a socket. A cast to the protocol with its `Transport` would say so by itself, but the runtime
    /// remembers no such cast: it was a twentieth of what a connection costs.
    private static func on<Core: NIOTransportAccessibleChannelCore, Result>(
        _ core: Core,
        _ body: (NIOBSDSocket.Handle) -> Result
    ) -> Result? {
        try? core.withUnsafeTransport { transport in
            unsafe body(unsafeBitCast(transport, to: NIOBSDSocket.Handle.self))
        }
    }
}
