import GatewayCore
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
            lookup = try UnroutedLookup.begin(host: destination.host, client: destination.client)
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
            guard !admitted.isEmpty || addresses.isEmpty else { throw NameLookup.AddressProhibited() }
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
/// A slow name server of such a server must not keep the lookups of routes waiting.
package final class UnroutedLookup: Sendable {
    /// With two questions each, fewer than ``NameLookup`` answers at a time.
    package static let maximum = 48
    private static let places = Mutex(ClientPlaces())

    package struct TooManyLookups: Error {}

    private let client: String?

    private init(for client: String?) { self.client = client }

    /// - Returns: nil for an address, which needs no lookup.
    package static func begin(host: String, client: String?) throws(TooManyLookups) -> UnroutedLookup? {
        guard IPAddress(host) == nil else { return nil }
        let isAdmitted = places.withLock { $0.take(for: client, limit: maximum) }
        guard isAdmitted else { throw TooManyLookups() }
        return UnroutedLookup(for: client)
    }

    deinit { Self.places.withLock { $0.giveBack(of: client) } }
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
