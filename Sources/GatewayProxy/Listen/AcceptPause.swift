import GatewayFiles
package import Logging
package import NIOCore
import NIOPosix
import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Pauses accepting when the process is out of file descriptors or has only those of the reserve left, or the system is out of memory
/// for connections.
///
/// Without the pause the system would report the waiting connections again and again, and the event loop would do
/// nothing else. Clients wait meanwhile until they are accepted.
package final class AcceptPause: ChannelInboundHandler {
    package typealias InboundIn = any Channel

    static let pause = TimeAmount.milliseconds(100)
    /// The time between two log lines while the pause lasts.
    static let silence = TimeAmount.minutes(1)

    private let logger: Logger
    /// ``DescriptorShares/ceiling``
    private let ceiling: Int
    private let freeIdle: @Sendable () -> Void
    private let reserve = ReserveUse()
    private var isPaused = false
    private var silentUntil = NIODeadline.uptimeNanoseconds(0)

    private init(_ logger: Logger, ceiling: Int, freeIdle: @escaping @Sendable () -> Void) {
        self.logger = logger
        self.ceiling = ceiling
        self.freeIdle = freeIdle
    }

    /// For the channel of a listener.
    ///
    /// - Parameters:
    ///   - ceiling: The first descriptor of the reserve; none for a listener that may use it.
    ///   - freeIdle: Closes idle upstream connections. Called every ``pause`` while descriptors are short: otherwise, connections
    ///     that clients left behind would block new clients until `limits.idle_timeout`.
    package static func add(
        to channel: any Channel,
        logger: Logger,
        ceiling: Int = .max,
        freeIdle: @escaping @Sendable () -> Void = {}
    ) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture {
            let pause = AcceptPause(logger, ceiling: ceiling, freeIdle: freeIdle)
            try channel.pipeline.syncOperations.addHandler(pause)
        }
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let error = error as? IOError, error.meansResourceExhausted {
            let reason = "no file descriptors or memory are left for this process"
            pause(context, because: reason, code: error.errnoCode)
        }
        context.fireErrorCaught(error)
    }

    /// A connection that would take from the reserve is refused where it is served; here, no other one is accepted behind it.
    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let connection = unwrapInboundIn(data)
        if ceiling != .max, DescriptorShares.reserve(from: ceiling, has: connection) {
            reserve.add(connection)
            let reason = "the remaining file descriptors are reserved for operators, stores and programs"
            pause(context, because: reason, code: EMFILE)
        }
        context.fireChannelRead(data)
    }

    private func pause(_ context: ChannelHandlerContext, because reason: String, code: CInt) {
        guard !isPaused else { return }
        isPaused = true
        let now = context.eventLoop.now
        if now >= silentUntil {
            silentUntil = now + Self.silence
            logger.error(
                "No connection can be accepted: \(reason)",
                metadata: ["gateway.error": "\(code)", "gateway.advice": "raise LimitNOFILE (ulimit -n)"]
            )
        }
        let channel = context.channel
        accept(false, channel)
        resumeLater(channel)
    }

    /// Once a descriptor below the reserve is free and the connections that took from it are closed. Event loops that are busy close
    /// them late, and the next ones would take the rest.
    private func resumeLater(_ channel: any Channel) {
        channel.eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { [self] in
            if channel.isActive, ceiling != .max, reserve.isUsed || Descriptor.next.map({ Int($0) >= ceiling }) ?? true
            {
                freeIdle()
                return resumeLater(channel)
            }
            isPaused = false
            accept(true, channel)
        }
    }

    /// Not to read is not enough: after an error the library goes on looking.
    private func accept(_ accepts: Bool, _ channel: any Channel) {
        try? channel.syncOptions?.setOption(.autoRead, value: accepts)
    }
}

/// The connections of a listener that took from the reserve and are not closed yet.
private final class ReserveUse: Sendable {
    private let connections = Atomic<Int>(0)

    var isUsed: Bool { connections.load(ordering: .relaxed) > 0 }

    func add(_ connection: any Channel) {
        connections.add(1, ordering: .relaxed)
        connection.closeFuture.whenComplete { _ in self.connections.subtract(1, ordering: .relaxed) }
    }
}

/// Whether a connection takes descriptors from the reserve.
extension DescriptorShares {
    /// Whether the connection takes from the reserve.
    func reserveHas(_ channel: any Channel) -> Bool { Self.reserve(from: ceiling, has: channel) }

    fileprivate static func reserve(from ceiling: Int, has channel: any Channel) -> Bool {
        guard ceiling != .max, let descriptor = ChannelSocket(of: channel)?.with(\.self) else { return false }
        return Int(descriptor) >= ceiling
    }

    /// Closes idle upstream connections if there is no room, so that the next attempt can succeed.
    ///
    /// - Throws: What the system throws for a connection to a server when there are no descriptors.
    func requireRoom(for channel: any Channel, freeIdle: () -> Void) throws {
        guard reserveHas(channel) else { return }
        freeIdle()
        throw IOError(errnoCode: EMFILE, reason: "connect")
    }
}

extension IOError {
    /// The system has no more descriptors or memory for this process.
    var meansResourceExhausted: Bool { [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errnoCode) }
}
