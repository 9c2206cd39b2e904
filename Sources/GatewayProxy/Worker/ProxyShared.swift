import GatewayHTTP
import Logging
import NIOCore

/// What every event loop shares under one configuration: immutable, replaced whole by a reload.
final class ProxyShared: Sendable {
    let state: ProxyState
    let routes: [CompiledRoute]
    let authorizer: RequestAuthorizer
    let links: LinkTable
    /// The engines that may ask, by name.
    let engines: [String: AuthzClient]
    /// The counts of clients with limits, by name.
    private let usages: [String: ClientUsage]
    /// Whether the configuration names clients.
    let hasClients: Bool
    /// Without its routes, which ``routes`` are made of.
    let configuration: ProxyConfiguration
    let limits: Limits
    let descriptors: DescriptorShares
    let timeouts: Timeouts
    let clock: any GatewayClock
    let observer: any ExchangeObserver
    let logger: Logger
    let viaName: String
    /// The end of each request's head, and of those of routes that send no `Via`.
    private let requestEnds: RequestEnds
    private let requestEndsWithoutVia: RequestEnds
    /// Whether the gateway's own responses have `Proxy-Status`. For those of upstreams, the ``ResponseWriter`` of the route knows.
    let sendsProxyStatus: Bool
    /// nil: requests are part of no trace.
    let tracing: TraceSampling?
    /// One for each distinct upstream, and which of them a route uses.
    let targets: [UpstreamTarget]
    private let budgets: [UpstreamTarget.Key: ConnectionBudget]
    /// Those that the connections to upstreams are counted by.
    let clientNames: ClientNames
    /// The proxies for servers without a route.
    private let unroutedParents: [ParentHop]
    /// What proxies are sent.
    private let proxyLogins: Set<ParentHop.Login>
    let targetOfRoute: [Int]
    /// The same upstreams in HTTP/1.1, for requests that cannot go by HTTP/2.
    let http1TargetOfRoute: [Int]
    /// An event loop's part of these limits.
    let pendingPerRoute: Int
    let pendingPerUpstream: Int

    /// - Parameters:
    ///   - old: Its connections to upstreams count on, where limits and clients are as before.
    ///   - contexts: Those of upstreams that were made already.
    /// - Throws: ``ListenerError`` when a route's TLS settings cannot be used, or the process has too few descriptors.
    init(
        configuration: ProxyConfiguration,
        workers: Int,
        state: ProxyState,
        replacing old: ProxyShared? = nil,
        contexts: UpstreamTLSContexts = UpstreamTLSContexts()
    ) throws {
        self.state = state
        clock = state.clock
        observer = state.observer
        logger = state.logger
        viaName = state.viaName
        let now = clock.now().monotonic
        sendsProxyStatus = configuration.sendsProxyStatus
        tracing = configuration.tracing
        var words: [String: UpstreamHeaderTemplate] = [:]
        let served = configuration.routes.enumerated().map { [viaName] index, route in
            let authority = route.plan.upstream.authority
            let known = words[authority] ?? UpstreamHeaderTemplate(authority, viaName: viaName, of: configuration)
            words[authority] = known
            return CompiledRoute(
                index: index,
                route: route,
                upstream: known,
                requestIDHeader: configuration.requestIDHeader,
                answersPages: !configuration.access.allowedOrigins(on: route.plan).isEmpty,
                now: now
            )
        }
        routes = served
        authorizer = RequestAuthorizer(
            routes: served.map { route in
                RequestAuthorizer.Route(
                    plan: route.plan,
                    places: ClientAuthenticator.Places(fields: route.credentialFields, query: route.querySlot),
                    selection: route.selection,
                    ownedNames: route.ownedNames,
                    captured: route.captured,
                    capturePoints: route.capturePoints
                )
            },
            captures: configuration.captures,
            access: configuration.access,
            connect: configuration.connect,
            uses: state.tokenUses,
            jwts: state.jwts,
            viaName: viaName,
            sha256: configuration.sha256
        )
        links = LinkTable(served.map(\.plan), table: authorizer.table)
        engines = Dictionary(
            configuration.engines.enumerated().map {
                ($1.name, AuthzClient(number: $0, $1, authenticate: configuration.authenticate))
            }
        ) { first, _ in first }
        usages = state.usages(of: configuration.access.clients)
        hasClients = !configuration.access.clients.isEmpty
        var rest = configuration
        rest.routes = []
        self.configuration = rest
        limits = configuration.limits
        timeouts = Timeouts(configuration.limits)
        requestEnds = RequestEnds(ViaLines(name: viaName, then: "\r\n"))
        requestEndsWithoutVia = RequestEnds(ViaLines("Gateway-Loop", name: viaName, then: "\r\n"))
        pendingPerRoute = max(1, configuration.limits.pendingPerRoute / workers)
        pendingPerUpstream = max(1, configuration.limits.pendingPerUpstream / workers)
        let counted = old.flatMap { Self.countsConnections(configuration, as: $0.configuration) ? $0.budgets : nil }
        var targets = UpstreamTargets(of: configuration, keeping: counted ?? [:], contexts: contexts)
        targetOfRoute = try configuration.routes.map { route throws(ListenerError) in
            try targets.index(of: route.plan, login: route.proxyLogin)
        }
        http1TargetOfRoute = try configuration.routes.map { route throws(ListenerError) in
            try targets.indexInHTTP1(of: route.plan, login: route.proxyLogin)
        }
        unroutedParents = try (configuration.proxy?.parents ?? []).map { proxy throws(ListenerError) in
            try targets.parent(proxy, login: configuration.proxyLogin)
        }
        proxyLogins = targets.proxyLogins
        descriptors = Self.descriptors(configuration, upstreams: targets.all.count, workers: workers, state)
        if let problem = descriptors.problem { throw ListenerError(problem) }
        self.targets = targets.all
        budgets = targets.budgets
        clientNames = targets.clients
    }

    /// The proxy for a server without a route; nil where that is reached directly.
    func parent(ofUnrouted server: Origin) -> ParentHop? {
        guard let plan = configuration.proxy?.parent(for: server) else { return nil }
        return unroutedParents.first { $0.plan == plan }
    }

    /// Through a proxy, the server's addresses were never checked, so such a request must not go directly now.
    ///
    /// - Parameter parent: The proxy that a request to the server went through; nil for none.
    func stillReaches(_ server: Origin, through parent: ParentHop?) -> Bool {
        parent == nil || self.parent(ofUnrouted: server)?.plan == parent?.plan
    }

    /// The value of `Via` in a CONNECT to a proxy. A client that is itself a gateway is told by it if it is asked again.
    ///
    /// - Parameter received: What the client's CONNECT had; empty without.
    func connectVia(after received: String = "") -> String {
        received.isEmpty ? "1.1 \(viaName)" : "\(received), 1.1 \(viaName)"
    }

    /// Whether any proxy is still sent what this one was sent.
    func sendsLogin(of parent: ParentHop) -> Bool { parent.login.map(proxyLogins.contains) ?? true }

    var isDraining: Bool { state.isDraining }

    /// Whether connections to upstreams are limited and shared among clients as before.
    func countsConnections(as old: ProxyShared) -> Bool {
        Self.countsConnections(configuration, as: old.configuration)
    }

    private static func countsConnections(_ new: ProxyConfiguration, as old: ProxyConfiguration) -> Bool {
        new.limits == old.limits && new.access.clients.map(\.name) == old.access.clients.map(\.name)
    }

    private static func descriptors(
        _ configuration: ProxyConfiguration,
        upstreams: Int,
        workers: Int,
        _ state: ProxyState
    ) -> DescriptorShares {
        let hasOwnConnections =
            configuration.connect.values.contains { $0.unrouted == .tunnel }
            || configuration.routes.contains { $0.plan.allowsConnectionAuth }
        return DescriptorShares(
            limit: state.descriptorLimit,
            limits: configuration.limits,
            upstreams: upstreams,
            sharesConnections: !hasOwnConnections,
            workers: workers,
            processors: System.coreCount
        )
    }

    /// The end of a request's head.
    func requestEnd(of route: CompiledRoute, isHTTP10: Bool, isHTTP2: Bool = false) -> RequestEnd {
        route.plan.sendsVia
            ? requestEnds.end(isHTTP10: isHTTP10, isHTTP2: isHTTP2)
            : requestEndsWithoutVia.end(isHTTP10: isHTTP10, isHTTP2: isHTTP2)
    }

    /// nil for a client without limits.
    func usage(of client: String?) -> ClientUsage? {
        guard !usages.isEmpty, let client else { return nil }
        return usages[client]
    }

    /// - Returns: Whether the new connection is within `limits.connections`.
    ///   One that is not takes no place: clients that stay after they were refused would keep everybody out.
    func connectionOpened() -> Bool {
        guard state.connectionOpened() > descriptors.clients else { return true }
        state.connectionClosed()
        return false
    }
    func connectionClosed() { state.connectionClosed() }

    /// What `new` takes from requests that this configuration serves.
    func withdrawal(by new: ProxyShared) -> ReloadWithdrawal {
        ReloadWithdrawal(
            from: (routes.map(\.identity), configuration.access.clients),
            to: (new.routes.map(\.identity), new.configuration.access.clients),
            under: new.configuration.access,
            proofs: { $0.proofs(configuration.sha256) }
        )
    }

    /// Whether it decides about each request as `old` does, apart from credentials.
    func hasRules(of old: ProxyShared) -> Bool {
        limits == old.limits && configuration.access == old.configuration.access
            && routes.elementsEqual(old.routes) {
                $0.plan == $1.plan && $0.captured == $1.captured && $0.capturePoints == $1.capturePoints
            }
    }

    /// What a client is told of a problem with its request. Browsers show it to pages that may call.
    func answer(
        _ problem: GatewayProblem,
        to subject: ProblemSubject,
        of request: RequestMessage,
        on connection: ConnectionContext,
        isHTTP2: Bool = false
    ) -> ProblemAnswer {
        let bytes = request.bytes
        let hasHead = bytes.readableBytes > 0
        let form = ProblemAnswer.Form(
            prefersText: hasHead && AcceptRule.prefersText(request.decoder.head, bytes.readableBytesUInt8Span),
            omitsBody: request.decoder.head.isHead,
            explainsInReasonPhrase: hasHead && request.decoder.head.form == .authority,
            isGRPC: hasHead && isHTTP2 && GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
        )
        let answer = answer(problem, to: subject, in: form)
        guard hasHead, problem.kind != .originRefused else { return answer }
        let named = authorizer.crossOriginFields(request.decoder.head, bytes.readableBytesUInt8Span, on: connection)
        return answer.with(named)
    }

    func answer(
        _ problem: GatewayProblem,
        to subject: ProblemSubject,
        in form: ProblemAnswer.Form
    ) -> ProblemAnswer {
        ProblemAnswer(
            problem,
            requestID: subject.requestID.description,
            requestIDHeader: configuration.requestIDHeader,
            names: ProblemAnswer.Names(
                route: subject.route?.plan.name,
                credential: subject.credential ?? subject.route?.credentialName,
                strategy: subject.route?.strategy,
                upstream: subject.route?.plan.upstream.authority
            ),
            disclosesNames: subject.disclosesNames,
            sendsProxyStatus: sendsProxyStatus,
            form: form
        )
    }
}
