import NIOCore
import NIOPosix

/// What one event loop knows of the addresses of one upstream.
///
/// An answer is used for 30 s, because the system does not report the record's own lifetime. A request does not wait
/// long for one kind of address when the other is known (RFC 8305 §3). A ``ProhibitedAddress`` is dialled only when
/// the upstream is named by it.
final class UpstreamResolver: Resolver, Sendable {
    private typealias Kind = NameLookup.Question.Kind

    /// What is known of one kind.
    private struct Answers {
        var known: (addresses: [SocketAddress], until: NIODeadline)?
        var lookup: (answer: EventLoopFuture<[SocketAddress]>, since: NIODeadline)?

        /// There is something to dial, whatever becomes of the other kind.
        func hasAddresses(at now: NIODeadline) -> Bool {
            guard let known, now < known.until else { return false }
            return !known.addresses.isEmpty
        }
    }

    private static let lifetime = TimeAmount.seconds(30)
    /// So long a connection waits for the one kind when the other is known, whatever that costs it.
    private static let patience = TimeAmount.seconds(1)

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

    /// No connection came about: the next one asks anew.
    func forget() {
        for kind in Kind.allCases { answers.value[kind]?.known = nil }
    }

    private func addresses(_ kind: Kind, of host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        let (own, now) = (answers.value[kind], NIODeadline.now())
        if let known = own?.known, now < known.until { return loop.makeSucceededFuture(known.addresses) }
        if let lookup = own?.lookup {
            let isOverdue = now - lookup.since > Self.patience && hasAddresses(kind.other, at: now)
            return isOverdue ? loop.makeSucceededFuture([]) : lookup.answer
        }
        if let address = try? SocketAddress(ipAddress: host, port: port) {
            let addresses = (address.protocol == .inet) == (kind == .v4) ? [address] : []
            answers.value[kind] = Answers(known: (addresses, .distantFuture))
            return loop.makeSucceededFuture(addresses)
        }
        let answer = NameLookup.answer(to: .init(host: host, port: port, kind: kind), on: loop)
        answers.value[kind, default: Answers()].lookup = (answer, now)
        answer.assumeIsolated().whenComplete { [self] result in learn(kind, result) }
        return answer
    }

    private func learn(_ kind: Kind, _ result: Result<[SocketAddress], any Error>) {
        let now = NIODeadline.now()
        answers.value[kind]?.lookup = nil
        switch result {
        case .success(let addresses): answers.value[kind]?.known = (addresses, now + Self.lifetime)
        case .failure:
            // The other kind has addresses to dial, so the next request need not ask for this kind again.
            guard hasAddresses(kind.other, at: now) else { return }
            answers.value[kind]?.known = ([], now + Self.lifetime)
        }
    }

    private func hasAddresses(_ kind: Kind, at now: NIODeadline) -> Bool {
        answers.value[kind]?.hasAddresses(at: now) ?? false
    }
}

/// How every connection of the data plane is opened: to an upstream, to a server without a route, or to the proxy before them.
enum OutgoingConnection {
    struct Failure: Error {
        let cause: any Error
        /// Nothing was dialled: there was no address, or none in time.
        let isUnresolved: Bool
    }

    /// Resolved asynchronously, happy eyeballs (RFC 8305). Called on the event loop.
    ///
    /// - Parameters:
    ///   - limit: For the name and the connection together.
    ///   - prepare: Fills the pipeline of each connection that is tried.
    ///   - done: Called once, perhaps before this returns.
    static func open(
        _ host: String,
        _ port: Int,
        by resolver: any Resolver & Sendable,
        within limit: TimeAmount,
        on loop: any EventLoop,
        prepare: @escaping (any Channel) throws -> Void,
        _ done: @escaping (Result<any Channel, Failure>) -> Void
    ) {
        let bound = NIOLoopBoundBox((prepare: prepare, hasDialled: false), eventLoop: loop)
        ClientBootstrap(group: loop)
            .resolver(resolver)
            .connectTimeout(limit)
            .channelOption(.writeBufferWaterMark, value: .init(low: 32_768, high: 131_072))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    bound.value.hasDialled = true
                    try bound.value.prepare(channel)
                }
            }
            .connect(host: host, port: port)
            .assumeIsolated()
            .whenComplete { result in
                done(result.mapError { Failure(cause: $0, isUnresolved: !bound.value.hasDialled) })
            }
    }
}
