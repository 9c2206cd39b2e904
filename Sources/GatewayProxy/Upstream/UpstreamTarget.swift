import GatewayCore
import GatewayFiles
import NIOCore
import NIOSSL

/// Where a route's connections go, and how they are secured; routes with equal targets share connections.
final class UpstreamTarget: Sendable {
    struct Key: Hashable {
        let origin: Origin
        private let lookupName: String
        let tls: RoutePlan.TLS
        var version: UpstreamProtocol
        /// Files that are replaced on disk make another target.
        private let files: [FileVersion?]

        init(_ route: RoutePlan) {
            origin = route.upstream
            lookupName = origin.lookupName
            tls = route.tls
            version = Self.version(of: route)
            files = [tls.caPath, tls.certificatePath].map { $0.flatMap(FileVersion.init) }
        }

        /// The same upstream in HTTP/1.1.
        var inHTTP1: Key {
            var key = self
            key.version = .http1
            return key
        }

        /// Without TLS nothing can be chosen. NTLM and Negotiate need a connection for each client, as only HTTP/1 has them.
        private static func version(of route: RoutePlan) -> UpstreamProtocol {
            let cannotChoose = route.upstream.scheme == .http || route.allowsConnectionAuth
            return route.upstreamProtocol == .auto && cannotChoose ? .http1 : route.upstreamProtocol
        }
    }

    let key: Key
    let origin: Origin
    var version: UpstreamProtocol { key.version }
    let budget: ConnectionBudget
    let tlsContext: NIOSSLContext?
    /// Sent as SNI and verified; nil for addresses, whose certificate must name the address.
    let serverName: String?
    private let pinned: PinnedKeys

    /// - Parameter contexts: Of the targets that are made together.
    /// - Throws: ``ListenerError`` naming the route when a certificate or key cannot be used.
    init(
        _ route: RoutePlan,
        key: Key,
        budget: ConnectionBudget,
        contexts: inout UpstreamTLSContexts,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) throws(ListenerError) {
        pinned = PinnedKeys(pins: route.tls.pins, sha256: sha256)
        self.key = key
        self.budget = budget
        origin = route.upstream
        tlsContext = try contexts.context(of: route, in: key.version)
        let host = route.upstream.host
        serverName = tlsContext == nil ? nil : route.tls.serverName ?? (Self.isAddress(host) ? nil : host)
    }

    func tlsHandler(_ context: NIOSSLContext) throws -> NIOSSLClientHandler {
        let (pinned, expected) = (pinned, serverName.map(PeerName.init))
        guard expected != nil || !pinned.pins.isEmpty else {
            return try NIOSSLClientHandler(context: context, serverHostname: nil)
        }
        return try NIOSSLClientHandler._makeSSLClientHandler(context: context, serverHostname: serverName) {
            certificate,
            channel in
            channel.eventLoop.makeCompletedFuture {
                try expected?.check(certificate)
                try pinned.check(certificate)
            }
        }
    }

    private static func isAddress(_ host: String) -> Bool {
        (try? SocketAddress(ipAddress: host, port: 0)) != nil
    }
}
