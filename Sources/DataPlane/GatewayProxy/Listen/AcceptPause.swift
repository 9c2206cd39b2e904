package import Logging
package import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Pauses accepting when the process is out of file descriptors, or the system out of memory for connections.
///
/// Without the pause the system would report the waiting connections again and again, and the event loop would do
/// nothing else.
package final class AcceptPause: ChannelInboundHandler {
    package typealias InboundIn = any Channel

    static let pause = TimeAmount.milliseconds(100)
    /// Said so seldom while it lasts.
    static let silence = TimeAmount.minutes(1)

    private let logger: Logger
    private var isPaused = false
    private var silentUntil = NIODeadline.uptimeNanoseconds(0)

    private init(_ logger: Logger) { self.logger = logger }

    /// For the channel of a listener.
    package static func add(to channel: any Channel, logger: Logger) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(AcceptPause(logger))
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? IOError, error.meansResourceExhausted {
            pause(context, error)
        }
        context.fireErrorCaught(error)
    }

    private func pause(_ context: ChannelHandlerContext, _ error: IOError) {
        guard !isPaused else { return }
        isPaused = true
        let now = context.eventLoop.now
        if now >= silentUntil {
            silentUntil = now + Self.silence
            logger.error(
                "No connection can be accepted: the system has no more descriptors or memory for this process",
                metadata: ["gateway.error": "\(error.errnoCode)", "gateway.advice": "raise LimitNOFILE (ulimit -n)"]
            )
        }
        let channel = context.channel
        accept(false, channel)
        channel.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { [self] in
            isPaused = false
            accept(true, channel)
        }
    }

    /// Not to read is not enough: after an error the library goes on looking.
    private func accept(_ accepts: Bool, _ channel: any Channel) {
        try? channel.syncOptions?.setOption(.autoRead, value: accepts)
    }
}

extension IOError {
    /// The system has no more descriptors or memory for this process.
    var meansResourceExhausted: Bool { [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errnoCode) }
}
