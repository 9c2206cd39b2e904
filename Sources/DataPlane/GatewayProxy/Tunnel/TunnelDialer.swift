import GatewayCore
import NIOCore
import NIOPosix
import Synchronization

/// Opens the connection of a ``BlindTunnel``: at addresses that may be dialled, which are those that the name has now.
struct TunnelDialer: Sendable {
    struct Connection {
        let end: TunnelEnd
        let channel: any Channel
        let dialled: TunnelDestination.Dialled
    }

    private let destination: TunnelDestination
    private let loop: any EventLoop
    private let timeout: TimeAmount

    init(to destination: TunnelDestination, on loop: any EventLoop, within timeout: TimeAmount) {
        self.destination = destination
        self.loop = loop
        self.timeout = timeout
    }

    /// - Parameter done: Called on the event loop, on a later turn.
    func dial(_ done: @escaping (Result<Connection, GatewayProblem>) -> Void) {
        let isAddress = IPAddress(destination.host) != nil
        let lookup = isAddress ? nil : TunnelLookup.begin(for: destination.client)
        guard isAddress || lookup != nil else {
            let detail = "Too many names of other connections are being looked up."
            let problem = GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
            return loop.assumeIsolated().execute { done(.failure(problem)) }
        }
        let (destination, loop, timeout) = (destination, loop, timeout)
        OwnAddresses.all(on: loop)
            .flatMap { own in
                ClientBootstrap(group: loop)
                    .resolver(TunnelResolver(destination, own: own, lookup: lookup, loop: loop))
                    .connectTimeout(timeout)
                    .channelOption(.allowRemoteHalfClosure, value: true)
                    .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
                    .channelInitializer { channel in
                        channel.eventLoop.makeCompletedFuture {
                            try channel.pipeline.syncOperations.addHandler(TunnelEnd(hasDirectSocket: true))
                        }
                    }
                    .connect(host: destination.host, port: destination.port)
                    .map { ($0, own) }
            }
            .assumeIsolated()
            .whenComplete { result in done(result.flatMapError { .failure(problem($0)) }.flatMap(connection)) }
    }

    private func connection(_ channel: any Channel, _ own: Set<IPAddress>) -> Result<Connection, GatewayProblem> {
        guard let address = channel.remoteAddress?.ipBytes.flatMap({ IPAddress($0) }),
            let end = try? channel.pipeline.syncOperations.handler(type: TunnelEnd.self)
        else {
            channel.close(promise: nil)
            return .failure(UpstreamFailure.problem(ChannelError.ioOnClosedChannel, origin))
        }
        let dialled = TunnelDestination.Dialled(address: address, isOwn: own.contains(address))
        return .success(Connection(end: end, channel: channel, dialled: dialled))
    }

    private var origin: Origin { Origin(scheme: .https, host: destination.host, port: destination.port) }

    private func problem(_ error: any Error) -> GatewayProblem {
        let problem = UpstreamFailure.problem(error, origin)
        return problem.kind == .destinationProhibited ? ConnectPlan.prohibited(destination.host) : problem
    }
}

/// Counts the lookups of tunnels: names that a slow name server answers for must not keep those of routes waiting.
private final class TunnelLookup: Sendable {
    /// With two questions each, fewer than ``NameLookup`` answers at a time.
    private static let maximum = 48
    /// Of one client, so that others can open tunnels beside it. Those without a name are one client.
    private static let maximumPerClient = 12
    /// By client.
    private static let running = Mutex<[String?: Int]>([:])

    private let client: String?

    private init(for client: String?) { self.client = client }

    /// - Returns: nil where too many run.
    static func begin(for client: String?) -> TunnelLookup? {
        let isAdmitted = running.withLock { running in
            let own = running[client, default: 0]
            guard own < maximumPerClient, running.values.reduce(0, +) < maximum else { return false }
            running[client] = own + 1
            return true
        }
        return isAdmitted ? TunnelLookup(for: client) : nil
    }

    deinit {
        Self.running.withLock { running in
            let rest = running[client, default: 1] - 1
            running[client] = rest > 0 ? rest : nil
        }
    }
}

/// Leaves out the addresses that must not be dialled.
private final class TunnelResolver: Resolver, Sendable {
    private let destination: TunnelDestination
    private let own: Set<IPAddress>
    private let resolver: UpstreamResolver
    /// Until both kinds of addresses are asked for.
    private let lookup: NIOLoopBoundBox<(lookup: TunnelLookup, isAskedOnce: Bool)?>

    /// - Parameter lookup: nil for an address, which needs no lookup.
    init(_ destination: TunnelDestination, own: Set<IPAddress>, lookup: TunnelLookup?, loop: any EventLoop) {
        self.destination = destination
        self.own = own
        resolver = UpstreamResolver(loop: loop)
        self.lookup = NIOLoopBoundBox(lookup.map { ($0, false) }, eventLoop: loop)
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        admitted(resolver.initiateAQuery(host: host, port: port))
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        admitted(resolver.initiateAAAAQuery(host: host, port: port))
    }

    func cancelQueries() {}

    private func admitted(_ answer: EventLoopFuture<[SocketAddress]>) -> EventLoopFuture<[SocketAddress]> {
        // It counts as long as an answer is waited for.
        let lookup = lookup.value?.lookup
        self.lookup.value = self.lookup.value.flatMap { $0.isAskedOnce ? nil : ($0.lookup, true) }
        let (destination, own) = (destination, own)
        return answer.flatMapThrowing { [lookup] addresses in
            _ = lookup
            let admitted = addresses.filter { address in
                guard let address = address.ipBytes.flatMap({ IPAddress($0) }) else { return false }
                return destination.admits(address, isOwn: own.contains(address))
            }
            guard !admitted.isEmpty || addresses.isEmpty else { throw NameLookup.AddressProhibited() }
            return admitted
        }
    }
}

/// The addresses of this machine.
private enum OwnAddresses {
    /// Asks the system, off the event loop.
    static func all(on loop: any EventLoop) -> EventLoopFuture<Set<IPAddress>> {
        NIOThreadPool.singleton.runIfActive(eventLoop: loop) {
            let addresses = try System.enumerateDevices().compactMap { $0.address?.ipBytes }
            return Set(addresses.compactMap { IPAddress($0) })
        }
    }
}
