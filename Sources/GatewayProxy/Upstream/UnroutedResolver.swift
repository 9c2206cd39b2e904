import GatewayHTTP
import NIOCore
import NIOPosix
import Synchronization

/// Finds the addresses of a server without a route, and leaves out those that must not be dialled.
final class UnroutedResolver: Resolver, Sendable {
    private let destination: TunnelDestination
    private let own: Set<IPAddress>
    private let resolver: UpstreamResolver
    /// Until both kinds of addresses are asked for.
    private let lookup: NIOLoopBoundBox<(lookup: UnroutedLookup, isAskedOnce: Bool)?>

    private init(_ destination: TunnelDestination, own: Set<IPAddress>, lookup: UnroutedLookup?, loop: any EventLoop) {
        self.destination = destination
        self.own = own
        resolver = UpstreamResolver(loop: loop)
        self.lookup = NIOLoopBoundBox(lookup.map { ($0, false) }, eventLoop: loop)
    }

    /// For one attempt to connect. Fails with ``UnroutedLookup/TooManyLookups``, or where the addresses of this machine cannot be found out.
    static func make(for destination: TunnelDestination, on loop: any EventLoop) -> EventLoopFuture<UnroutedResolver> {
        let lookup: UnroutedLookup?
        do throws(UnroutedLookup.TooManyLookups) {
            lookup = try UnroutedLookup.begin(
                host: destination.host,
                port: destination.port,
                client: destination.client
            )
        } catch {
            // On a later turn, as all other answers.
            return loop.submit { throw error }
        }
        return OwnAddresses.all(on: loop)
            .map { UnroutedResolver(destination, own: $0, lookup: lookup, loop: loop) }
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
            guard !admitted.isEmpty || addresses.isEmpty else { throw NameLookup.Failure.prohibited }
            return admitted
        }
    }

    /// Where the connection leads.
    func dialled(on channel: any Channel) -> TunnelDestination.Dialled? {
        guard let address = channel.remoteAddress?.ipBytes.flatMap({ IPAddress($0) }) else { return nil }
        return TunnelDestination.Dialled(address: address, isOwn: own.contains(address))
    }

    /// Why no connection came about.
    static func problem(_ error: any Error, _ origin: Origin, isUnresolved: Bool = false) -> GatewayProblem {
        guard !(error is UnroutedLookup.TooManyLookups) else {
            let detail = "Too many names of other connections are being looked up."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        let problem = UpstreamFailure.problem(error, origin, isUnresolved: isUnresolved)
        return problem.kind == .destinationProhibited ? ConnectPlan.prohibited(origin.host) : problem
    }
}

/// One lookup of a server without a route. It holds one of the places for such lookups while it exists.
///
/// A slow name server of such a server must not keep the lookups of routes waiting. Lookups of one client for one server share a place,
/// because they share the answers: a server whose second kind of address is long in coming must not use up the places.
final class UnroutedLookup: Sendable {
    /// The most lookups at a time. Each asks two questions, and together they are fewer than ``NameLookup`` answers at a time.
    static let maximum = 48
    /// The most lookups of one client, which leaves some to others. Clients without a name count as one.
    static let maximumPerClient = 12
    /// How many lookups are under way, by client, then by server.
    private static let running = Mutex<[String?: [String: Int]]>([:])

    /// All places for such lookups are taken, or those of this client. ``NameLookup`` was not asked.
    struct TooManyLookups: Error {}

    private let client: String?
    private let server: String

    private init(of server: String, for client: String?) { (self.server, self.client) = (server, client) }

    /// - Returns: nil for an address, which needs no lookup.
    static func begin(host: String, port: Int, client: String?) throws(TooManyLookups) -> UnroutedLookup? {
        guard IPAddress(host) == nil else { return nil }
        let server = Origin.hostAndPort(host, port)
        let isAdmitted = running.withLock { running in
            let own = running[client, default: [:]]
            let isNew = own[server] == nil
            let isFull = own.count >= maximumPerClient || running.values.reduce(0) { $0 + $1.count } >= maximum
            guard !isNew || !isFull else { return false }
            running[client, default: [:]][server, default: 0] += 1
            return true
        }
        guard isAdmitted else { throw TooManyLookups() }
        return UnroutedLookup(of: server, for: client)
    }

    deinit {
        Self.running.withLock { running in
            var own = running[client, default: [:]]
            let rest = own[server, default: 1] - 1
            own[server] = rest > 0 ? rest : nil
            running[client] = own.isEmpty ? nil : own
        }
    }
}

/// The addresses of this machine.
private enum OwnAddresses {
    /// Reads them from the system, off the event loop.
    static func all(on loop: any EventLoop) -> EventLoopFuture<Set<IPAddress>> {
        NIOThreadPool.singleton.runIfActive(eventLoop: loop) {
            let addresses = try System.enumerateDevices().compactMap { $0.address?.ipBytes }
            return Set(addresses.compactMap { IPAddress($0) })
        }
    }
}
