import GatewayFiles
import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOSSL

/// Where a route's connections go, and how they are secured; routes with equal targets share connections.
final class UpstreamTarget: Sendable {
    struct Key: Hashable {
        let origin: Origin
        private let lookupName: String
        let tls: RoutePlan.TLS
        var version: UpstreamProtocol
        let parent: ParentHop.Key?
        /// Files that are replaced on disk make another target.
        private let files: [FileVersion?]

        /// - Parameter source: The credential that its proxy is sent.
        init(_ route: RoutePlan, login source: FixedCredentialSource? = nil) {
            origin = route.upstream
            lookupName = origin.lookupName
            tls = route.tls
            version = Self.version(of: route)
            parent = route.proxy.map { ParentHop.Key($0, source) }
            let paths = [tls.caPath, tls.certificatePath, route.proxy?.caPath].compactMap(\.self)
            // Without files there is no array: thousands of routes have none.
            files = paths.isEmpty ? [] : paths.map(FileVersion.init)
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

    /// The name of its TLS handler in the pipeline.
    static let tlsName = "upstream TLS"

    let key: Key
    let origin: Origin
    var version: UpstreamProtocol { key.version }
    let budget: ConnectionBudget
    /// The proxy that its connections go through; nil for none.
    let parent: ParentHop?
    /// Requests in HTTP/1 are sent to the proxy, which sends them on; nil where they go through a tunnel, or there is no proxy.
    let absoluteForm: AbsoluteForm?
    let tlsContext: NIOSSLContext?
    /// Sent as SNI and verified; nil for addresses, whose certificate must name the address.
    let serverName: String?
    private let pinned: PinnedKeys

    /// - Parameter contexts: The contexts of the targets that are made together.
    /// - Throws: ``ListenerError`` naming the route when a certificate or key cannot be used.
    init(
        _ route: RoutePlan,
        key: Key,
        budget: ConnectionBudget,
        contexts: inout UpstreamTLSContexts,
        parent: ParentHop? = nil,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) throws(ListenerError) {
        self.parent = parent
        // HTTP/2 has no such form, so it takes a tunnel in clear text, too.
        let sendsToProxy = route.upstream.scheme == .http && key.version == .http1
        absoluteForm = sendsToProxy ? parent.map { AbsoluteForm(route.upstream, through: $0) } : nil
        pinned = PinnedKeys(pins: route.tls.pins, sha256: sha256)
        self.key = key
        self.budget = budget
        origin = route.upstream
        tlsContext = try contexts.context(of: route, in: key.version)
        let host = route.upstream.host
        serverName = tlsContext == nil ? nil : route.tls.serverName ?? (Self.isAddress(host) ? nil : host)
    }

    /// A target that is made alone.
    ///
    /// - Parameter contexts: Those that were made already.
    convenience init(
        _ route: RoutePlan,
        budget: ConnectionBudget,
        contexts: UpstreamTLSContexts = UpstreamTLSContexts(),
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) throws(ListenerError) {
        var contexts = contexts
        var parent: ParentHop?
        if let proxy = route.proxy {
            parent = ParentHop(proxy, source: nil, context: try contexts.context(of: proxy))
        }
        try self.init(
            route,
            key: Key(route),
            budget: budget,
            contexts: &contexts,
            parent: parent,
            sha256: sha256
        )
    }

    /// TLS is nowhere in the pipeline of a connection.
    var hasDirectSocket: Bool { tlsContext == nil && !(parent?.isEncrypted ?? false) }

    /// What a tunnel of the proxy leads to; nil where there is none.
    var tunnelEnd: Origin? { parent == nil || absoluteForm != nil ? nil : origin }

    /// - Parameter error: Of a connection that cannot be used yet.
    func problem(_ error: any Error, certificate: NIOSSLCertificate? = nil) -> GatewayProblem {
        if let failure = error as? ParentFailure { return failure.problem }
        let problem = UpstreamFailure.problem(error, origin, certificate: certificate, authorities: key.tls.caPath)
        return behindProxy(problem)
    }

    /// Says of a problem with the upstream which proxy was between. A lock of that proxy's credential is the cause where there is one.
    func behindProxy(_ problem: GatewayProblem) -> GatewayProblem {
        guard let parent else { return problem }
        if let problem = parent.lockedProblem { return problem }
        var problem = problem
        problem.detail += " The connection goes through the proxy \(parent.plan)."
        return problem
    }

    func tlsHandler(_ context: NIOSSLContext) throws -> NIOSSLClientHandler {
        // The library compares an address with the one that was dialled, which is the proxy's.
        let expected = serverName ?? (parent == nil ? nil : origin.host)
        return try Self.tlsHandler(context, named: serverName, expecting: expected.map(PeerName.init), pinned: pinned)
    }

    /// - Parameters:
    ///   - serverName: Sent as SNI; nil for addresses.
    ///   - expected: nil where the library alone compares the address that was dialled.
    fileprivate static func tlsHandler(
        _ context: NIOSSLContext,
        named serverName: String?,
        expecting expected: PeerName?,
        pinned: PinnedKeys
    ) throws -> NIOSSLClientHandler {
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

    /// For a server without pinned keys.
    static func tlsHandler(_ context: NIOSSLContext, named serverName: String?) throws -> NIOSSLClientHandler {
        let pinned = PinnedKeys(pins: [], sha256: { _ in [] })
        return try tlsHandler(context, named: serverName, expecting: serverName.map(PeerName.init), pinned: pinned)
    }

    private static func isAddress(_ host: String) -> Bool {
        (try? SocketAddress(ipAddress: host, port: 0)) != nil
    }
}

extension ChannelPipeline.SynchronousOperations {
    /// The TLS with the server, not with a proxy before it.
    var upstreamTLS: NIOSSLClientHandler? {
        (try? context(name: UpstreamTarget.tlsName))?.handler as? NIOSSLClientHandler
    }

    var upstreamCertificate: NIOSSLCertificate? { upstreamTLS?.peerCertificate }
}

/// Gathers the distinct upstreams of a configuration.
struct UpstreamTargets {
    private(set) var all: [UpstreamTarget] = []
    private var known: [UpstreamTarget.Key: Int] = [:]
    private var parents: [ParentHop.Key: ParentHop] = [:]
    /// The budgets by target. All versions of HTTP share that of HTTP/1.1.
    private(set) var budgets: [UpstreamTarget.Key: ConnectionBudget] = [:]
    private let kept: [UpstreamTarget.Key: ConnectionBudget]
    /// Those of the budgets.
    let clients: ClientNames
    private var contexts: UpstreamTLSContexts
    private let configuration: ProxyConfiguration

    /// What proxies are sent.
    var proxyLogins: Set<ParentHop.Login> { Set(parents.values.compactMap(\.login)) }

    /// - Parameters:
    ///   - budgets: The budgets of the configuration before, which has the same clients. Those of the same upstreams go on.
    ///   - contexts: Those that were made already.
    init(
        of configuration: ProxyConfiguration,
        keeping budgets: [UpstreamTarget.Key: ConnectionBudget] = [:],
        contexts: UpstreamTLSContexts = UpstreamTLSContexts()
    ) {
        self.configuration = configuration
        self.contexts = contexts
        kept = budgets
        clients = budgets.first?.value.leases.clients ?? ClientNames(configuration.access.clients.map(\.name))
    }

    /// - Parameter source: The credential that the proxy of the route is sent.
    mutating func index(of route: RoutePlan, login source: FixedCredentialSource? = nil) throws(ListenerError) -> Int {
        try index(of: route, UpstreamTarget.Key(route, login: source), source)
    }

    mutating func indexInHTTP1(
        of route: RoutePlan,
        login source: FixedCredentialSource? = nil
    ) throws(ListenerError) -> Int {
        try index(of: route, UpstreamTarget.Key(route, login: source).inHTTP1, source)
    }

    /// - Throws: ``ListenerError`` when the certificate authorities of the proxy cannot be used.
    mutating func parent(_ proxy: ParentProxy, login source: FixedCredentialSource?) throws(ListenerError) -> ParentHop
    {
        let key = ParentHop.Key(proxy, source)
        if let parent = parents[key] { return parent }
        let parent = ParentHop(proxy, source: source, context: try contexts.context(of: proxy))
        parents[key] = parent
        return parent
    }

    private mutating func index(
        of route: RoutePlan,
        _ key: UpstreamTarget.Key,
        _ source: FixedCredentialSource?
    ) throws(ListenerError) -> Int {
        if let index = known[key] { return index }
        var parent: ParentHop?
        if let proxy = route.proxy { parent = try self.parent(proxy, login: source) }
        known[key] = all.count
        all.append(
            try UpstreamTarget(
                route,
                key: key,
                budget: budget(of: key),
                contexts: &contexts,
                parent: parent,
                sha256: configuration.sha256
            )
        )
        return all.count - 1
    }

    private mutating func budget(of key: UpstreamTarget.Key) -> ConnectionBudget {
        if let budget = budgets[key.inHTTP1] { return budget }
        let budget =
            kept[key.inHTTP1]
            ?? ConnectionBudget(
                maximum: configuration.limits.connectionsPerUpstream,
                clients: clients
            )
        budgets[key.inHTTP1] = budget
        return budget
    }
}

/// A certificate that does not name the server we meant.
struct PeerNameMismatch: Error {}

extension PeerName {
    func check(_ certificate: NIOSSLCertificate) throws(PeerNameMismatch) {
        let names = certificate._subjectAlternativeNames().map { name -> Alternative in
            switch name.nameType {
            case .dnsName: .name(Array(name.contents))
            case .ipAddress: .address(Array(name.contents))
            default: .other
            }
        }
        guard isNamed(by: names) else { throw PeerNameMismatch() }
    }
}

/// A certificate that is trusted, with another key than the route names.
struct PinMismatch: Error {
    let seen: CertificatePin
}

/// The keys of which an upstream's certificate must have one, beyond being trusted.
///
/// The server's own certificate counts, not those that it comes from: the TLS library shows no more.
private struct PinnedKeys: Sendable {
    let pins: [CertificatePin]
    let sha256: @Sendable ([UInt8]) -> [UInt8]

    func check(_ certificate: NIOSSLCertificate) throws {
        guard !pins.isEmpty else { return }
        let seen = CertificatePin(digest: sha256(try certificate.extractPublicKey().toSPKIBytes()))
        guard pins.contains(seen) else { throw PinMismatch(seen: seen) }
    }
}
