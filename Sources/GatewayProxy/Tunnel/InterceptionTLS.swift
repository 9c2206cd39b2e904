import GatewayHTTP
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// How TLS connections are accepted in place of upstreams: a context for each host, made off the event loops and kept.
final class InterceptionTLS: Sendable {
    /// Hosts whose context is kept.
    static let capacity = 1024

    private struct Entry {
        let context: NIOSSLContext
        let renewsAt: UnixTime
        /// The generation of the authority that issued the certificate.
        let generation: Int
        var lastUse: UInt64
    }

    private struct State {
        var entries: [String: Entry] = [:]
        var waiting: [String: [EventLoopPromise<NIOSSLContext>]] = [:]
        var uses: UInt64 = 0
    }

    private let authority: any LeafAuthority
    private let clock: any GatewayClock
    private let state = Mutex(State())

    init(authority: any LeafAuthority, clock: any GatewayClock) {
        self.authority = authority
        self.clock = clock
    }

    /// The TLS context for a host. If several connections ask at the same time, one makes it and the others wait.
    ///
    /// - Parameter host: In lower case.
    func context(for host: String, on loop: any EventLoop) -> EventLoopFuture<NIOSSLContext> {
        let now = clock.now().wall
        let generation = authority.generation
        let promise = loop.makePromise(of: NIOSSLContext.self)
        let isFirst = state.withLock { state -> Bool in
            state.uses += 1
            if let known = state.entries[host], known.renewsAt > now, known.generation == generation {
                state.entries[host]?.lastUse = state.uses
                promise.succeed(known.context)
                return false
            }
            state.waiting[host, default: []].append(promise)
            return state.waiting[host]?.count == 1
        }
        if isFirst { make(host, generation) }
        return promise.futureResult
    }

    private func make(_ host: String, _ generation: Int) {
        NIOThreadPool.singleton.submit { [self] _ in
            let result = Result { try Self.context(of: try authority.leaf(for: host), host) }
            let waiting = state.withLock { state in
                if case .success(let (context, renewsAt)) = result {
                    state.entries[host] = Entry(
                        context: context,
                        renewsAt: renewsAt,
                        generation: generation,
                        lastUse: state.uses
                    )
                    if state.entries.count > Self.capacity { Self.dropOldest(&state.entries) }
                    assert(state.entries.count <= Self.capacity, "More contexts are kept than there may be.")
                }
                return state.waiting.removeValue(forKey: host) ?? []
            }
            for promise in waiting { promise.completeWith(result.map { $0.0 }) }
        }
    }

    private static func dropOldest(_ entries: inout [String: Entry]) {
        guard let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) else { return }
        entries[oldest.key] = nil
    }

    private static func context(of leaf: LeafCertificate, _ host: String) throws -> (NIOSSLContext, UnixTime) {
        let chain = try leaf.chain.map { try NIOSSLCertificate(bytes: $0, format: .der) }
        let key = try leaf.privateKey.withValue { try NIOSSLPrivateKey(bytes: Array($0.utf8), format: .pem) }
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: chain.map { .certificate($0) },
            privateKey: .privateKey(key)
        )
        configuration.minimumTLSVersion = .tlsv12
        configuration.shutdownTimeout = Timeouts.tlsShutdown
        configuration.applicationProtocols = ApplicationProtocol.served
        // The certificate is that of the CONNECT, so another name is another server's.
        configuration.sslContextCallback = { client, answer in
            if let name = client.serverHostname, Origin(scheme: .https, host: name, port: 443).host != host {
                answer.fail(ListenerError("the client has asked for \(host) and now names another server"))
            } else {
                answer.succeed(.noChanges)
            }
        }
        return (try NIOSSLContext(configuration: configuration), leaf.renewsAt)
    }
}
