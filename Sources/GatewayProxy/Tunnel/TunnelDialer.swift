import GatewayCore
import NIOCore
import NIOPosix

/// Opens the connection of a ``ConnectTunnel``: at addresses that may be dialled, which are those that the name has now.
struct TunnelDialer: Sendable {
    struct Connection {
        let end: TunnelEnd
        let channel: any Channel
        let dialled: TunnelDestination.Dialled
    }

    private let destination: TunnelDestination
    private let loop: any EventLoop
    private let shared: ProxyShared
    private let freeIdle: @Sendable () -> Void

    init(to destination: TunnelDestination, of worker: Worker, under shared: ProxyShared) {
        self.destination = destination
        loop = worker.loop
        freeIdle = worker.freeIdle
        self.shared = shared
    }

    /// - Parameter done: Called on the event loop, on a later turn.
    func dial(_ done: @escaping (Result<Connection, GatewayProblem>) -> Void) {
        let (destination, loop, shared, freeIdle) = (destination, loop, shared, freeIdle)
        UnroutedResolver.make(for: destination, on: loop)
            .flatMap { resolver in
                ClientBootstrap(group: loop)
                    .resolver(resolver)
                    .connectTimeout(shared.timeouts.connect)
                    .channelOption(.allowRemoteHalfClosure, value: true)
                    .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
                    .channelInitializer { channel in
                        channel.eventLoop.makeCompletedFuture {
                            try shared.descriptors.requireRoom(for: channel, freeIdle: freeIdle)
                            try shared.timeouts.keepAlive.set(on: channel)
                            try channel.pipeline.syncOperations.addHandler(TunnelEnd(hasDirectSocket: true))
                        }
                    }
                    .connect(host: destination.lookupName, port: destination.port)
                    .map { ($0, resolver) }
            }
            .assumeIsolated()
            .whenComplete { result in
                let origin = Origin(scheme: .https, host: destination.host, port: destination.port)
                done(result.flatMapError { .failure(UnroutedResolver.problem($0, origin)) }.flatMap(connection))
            }
    }

    private func connection(_ channel: any Channel, _ resolver: UnroutedResolver) -> Result<Connection, GatewayProblem>
    {
        guard let dialled = resolver.dialled(on: channel),
            let end = try? channel.pipeline.syncOperations.handler(type: TunnelEnd.self)
        else {
            channel.close(promise: nil)
            let origin = Origin(scheme: .https, host: destination.host, port: destination.port)
            return .failure(UpstreamFailure.problem(ChannelError.ioOnClosedChannel, origin))
        }
        return .success(Connection(end: end, channel: channel, dialled: dialled))
    }
}
