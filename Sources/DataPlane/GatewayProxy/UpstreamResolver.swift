import GatewayCore
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
/// The system's lookup blocks a thread for as long as the name server likes, so each has a thread of its own; there is at most one
/// for each kind of address at a time, and no waiting for one kind when the other is known (RFC 8305 §3). An answer is good for
/// 30 s: the system does not tell the record's own lifetime. What is given out is what is dialled: a ``ProhibitedAddress`` only
/// where the upstream is named by it.
final class UpstreamResolver: Resolver, Sendable {
    struct NameNotResolved: Error {}
    /// The name leads to addresses that may not be dialled, and to no other of their kind.
    struct AddressProhibited: Error {}

    private enum Kind: CaseIterable, Sendable {
        case v4, v6

        var family: Int32 { self == .v4 ? AF_INET : AF_INET6 }
    }

    /// What is known of one kind.
    private struct Answers {
        var known: (addresses: [SocketAddress], until: NIODeadline)?
        var lookup: EventLoopFuture<[SocketAddress]>?
    }

    private static let lifetime = TimeAmount.seconds(30)

    private let loop: any EventLoop
    private let answers: NIOLoopBoundBox<[Kind: Answers]>

    init(loop: any EventLoop) {
        self.loop = loop
        answers = .makeBoxSendingValue([:], eventLoop: loop)
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(.v4, of: host, port: port)
    }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        addresses(.v6, of: host, port: port)
    }

    /// Others may wait for the same answer.
    func cancelQueries() {}

    /// There was nothing to dial so far.
    var knowsNoAddress: Bool { answers.value.values.allSatisfy { $0.known?.addresses.isEmpty ?? true } }

    /// No connection came about: the next one asks anew.
    func forget() {
        for kind in Kind.allCases { answers.value[kind]?.known = nil }
    }

    private func addresses(_ kind: Kind, of host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        let own = answers.value[kind]
        if let known = own?.known, NIODeadline.now() < known.until {
            return loop.makeSucceededFuture(known.addresses)
        }
        if let lookup = own?.lookup { return lookup }
        if let address = try? SocketAddress(ipAddress: host, port: port) {
            let addresses = (address.protocol == .inet) == (kind == .v4) ? [address] : []
            answers.value[kind] = Answers(known: (addresses, .distantFuture))
            return loop.makeSucceededFuture(addresses)
        }
        let lookup = onThreadOfItsOwn { try Self.lookUp(kind, host, port: port) }
        answers.value[kind, default: Answers()].lookup = lookup
        lookup.assumeIsolated().whenComplete { [self] result in
            answers.value[kind]?.lookup = nil
            if case .success(let addresses) = result {
                answers.value[kind]?.known = (addresses, .now() + Self.lifetime)
            }
        }
        return lookup
    }

    private func onThreadOfItsOwn<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) -> EventLoopFuture<Value> {
        let thread = NIOThreadPool(numberOfThreads: 1)
        thread.start()
        let result = thread.runIfActive(eventLoop: loop, work)
        result.whenComplete { _ in thread.shutdownGracefully { _ in } }
        return result
    }

    /// - Throws: ``AddressProhibited``; ``NameNotResolved`` when no answer came. A name without such addresses has none.
    private static func lookUp(_ kind: Kind, _ host: String, port: Int) throws -> [SocketAddress] {
        var hints = unsafe addrinfo()
        #if canImport(Glibc)
            unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
            unsafe hints.ai_socktype = SOCK_STREAM
        #endif
        unsafe hints.ai_family = kind.family
        var first: UnsafeMutablePointer<addrinfo>?
        switch unsafe getaddrinfo(host, String(port), &hints, &first) {
        case 0: break
        case EAI_NONAME, noData, otherFamily: return []
        default: throw NameNotResolved()
        }
        defer { unsafe freeaddrinfo(first) }
        var addresses: [SocketAddress] = []
        var hasProhibited = false
        var next = unsafe first
        while let entry = unsafe next {
            if let bytes = unsafe UnsafeRawPointer(entry.pointee.ai_addr) {
                if unsafe isProhibited(bytes, kind) {
                    hasProhibited = true
                } else if kind == .v4 {
                    addresses.append(SocketAddress(unsafe bytes.loadUnaligned(as: sockaddr_in.self), host: host))
                } else {
                    addresses.append(SocketAddress(unsafe bytes.loadUnaligned(as: sockaddr_in6.self), host: host))
                }
            }
            unsafe next = entry.pointee.ai_next
        }
        guard !hasProhibited || !addresses.isEmpty else { throw AddressProhibited() }
        return addresses
    }

    #if canImport(Glibc)
        // EAI_NODATA and EAI_ADDRFAMILY, which the C library shows to its GNU dialect only.
        private static let noData: Int32 = -5
        private static let otherFamily: Int32 = -9
    #else
        private static let noData = EAI_NONAME
        private static let otherFamily = EAI_NONAME
    #endif

    private static func isProhibited(_ address: UnsafeRawPointer, _ kind: Kind) -> Bool {
        // Where the number stands in a `sockaddr_in` and a `sockaddr_in6`.
        let number = kind == .v4 ? 4..<8 : 8..<24
        return ProhibitedAddress.contains(number.map { unsafe address.load(fromByteOffset: $0, as: UInt8.self) })
    }
}
