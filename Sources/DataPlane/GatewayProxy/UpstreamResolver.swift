import NIOCore
import NIOPosix

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Finds the addresses of one upstream for one event loop, without holding up any other upstream.
///
/// The system's lookup blocks a thread for as long as the name server likes. Each upstream has at most one lookup under way on a
/// loop, on threads kept for this, and its answer is good for 30 s: the system does not tell the record's own lifetime.
final class UpstreamResolver: Resolver, Sendable {
    struct NameNotResolved: Error {}

    private struct Addresses: Sendable {
        var v4: [SocketAddress] = []
        var v6: [SocketAddress] = []
    }

    private struct State {
        var known: (addresses: Addresses, until: NIODeadline)?
        var lookup: EventLoopFuture<Addresses>?
    }

    private static let lifetime = TimeAmount.seconds(30)
    private static let threads = {
        let pool = NIOThreadPool(numberOfThreads: 8)
        pool.start()
        return pool
    }()

    private let loop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    init(loop: any EventLoop) {
        self.loop = loop
        state = .makeBoxSendingValue(State(), eventLoop: loop)
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(of: host, port: port).map(\.v4)
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(of: host, port: port).map(\.v6)
    }

    /// Others may wait for the same answer.
    func cancelQueries() {}

    /// No connection came about: the next one asks anew.
    func forget() { state.value.known = nil }

    private func addresses(of host: String, port: Int) -> EventLoopFuture<Addresses> {
        if let known = state.value.known, NIODeadline.now() < known.until {
            return loop.makeSucceededFuture(known.addresses)
        }
        if let lookup = state.value.lookup { return lookup }
        if let address = try? SocketAddress(ipAddress: host, port: port) {
            let addresses = address.protocol == .inet ? Addresses(v4: [address]) : Addresses(v6: [address])
            state.value.known = (addresses, .distantFuture)
            return loop.makeSucceededFuture(addresses)
        }
        let lookup = Self.threads.runIfActive(eventLoop: loop) { try Self.lookUp(host, port: port) }
        state.value.lookup = lookup
        lookup.assumeIsolated().whenComplete { [self] result in
            state.value.lookup = nil
            if case .success(let addresses) = result {
                state.value.known = (addresses, .now() + Self.lifetime)
            }
        }
        return lookup
    }

    private static func lookUp(_ host: String, port: Int) throws -> Addresses {
        var hints = unsafe addrinfo()
        #if canImport(Glibc)
            unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
            unsafe hints.ai_socktype = SOCK_STREAM
        #endif
        var first: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, String(port), &hints, &first) == 0 else { throw NameNotResolved() }
        defer { unsafe freeaddrinfo(first) }
        var addresses = Addresses()
        var next = unsafe first
        while let entry = unsafe next {
            if let address = unsafe entry.pointee.ai_addr {
                if unsafe entry.pointee.ai_family == AF_INET {
                    let value = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
                    addresses.v4.append(SocketAddress(value, host: host))
                } else if unsafe entry.pointee.ai_family == AF_INET6 {
                    let value = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in6.self)
                    addresses.v6.append(SocketAddress(value, host: host))
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        return addresses
    }
}
