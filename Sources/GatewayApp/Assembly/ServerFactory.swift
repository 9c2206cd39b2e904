import Crypto
import GatewayAudit
import GatewayEvents
import GatewayFiles
package import GatewayHTTP
import GatewayLocalAuthority
package import GatewayProxy
package import GatewayTokens
import Logging
import NIOCore
import NIOPosix

/// Makes the two servers and takes their addresses.
package struct ServerFactory {
    let plan: Plan
    let options: GatewayOptions
    let group: MultiThreadedEventLoopGroup
    let turns: LoopTurns
    let clock: any GatewayClock

    func makeProxy(
        sources: CredentialSources,
        observer: TrafficObserver,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8],
        tokenUses: ClientTokenUses,
        jwts: ClientJWTParts,
        authority: LocalAuthority,
        captures: any CaptureControl,
        contexts: UpstreamTLSContexts
    ) throws(CommandFailure) -> ProxyServer {
        do throws(StateError) {
            try authority.cover(plan.interceptedHosts, as: plan.localAuthority)
        } catch {
            throw CommandFailure(error)
        }
        let configuration = Self.configuration(
            of: plan,
            sources: sources,
            observer: observer,
            authenticate: authenticate,
            captures: captures
        )
        do {
            return try ProxyServer(
                group: group,
                turns: turns,
                configuration: configuration,
                clock: clock,
                observer: observer,
                logger: options.logger("proxy"),
                descriptorLimit: options.descriptorLimit,
                passed: options.passedSockets,
                tokenUses: tokenUses,
                jwts: jwts,
                authority: authority,
                contexts: contexts
            )
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    /// With the numbers of the observer, and with its telemetry.
    static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        observer: TrafficObserver,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8],
        captures: any CaptureControl
    ) -> ProxyConfiguration {
        configuration(
            of: plan,
            sources: sources,
            tracing: observer.telemetry?.sampling,
            unroutedNumber: observer.number(of: TrafficObserver.unrouted),
            authenticate: authenticate,
            captures: captures
        ) { route in
            let number = observer.number(of: route.name)
            observer.telemetry?.name(number, route)
            return number
        }
    }

    /// - Parameters:
    ///   - tracing: How traces were sampled at the start, which decided whether there is an exporter.
    ///   - unroutedNumber: The observer's number for requests without a route.
    ///   - authenticate: What engines are handed; nothing that only explains hands them anything.
    ///   - captures: nil where requests are only explained.
    ///   - number: The observer's number for a route.
    package static func configuration(
        of plan: Plan,
        sources: CredentialSources,
        tracing: TraceSampling? = nil,
        unroutedNumber: Int? = nil,
        authenticate: @escaping @Sendable ([UInt8]) -> [UInt8] = { _ in [] },
        captures: (any CaptureControl)? = nil,
        number: (RoutePlan) -> Int
    ) -> ProxyConfiguration {
        let captured = sources.captured(in: plan)
        let routes = plan.routes.map { route in
            let credential = route.credential.map { plan.credentials[$0] }
            return ProxyRoute(
                plan: route,
                source: route.credential.flatMap { sources.source($0, in: plan) },
                selection: route.credential.flatMap { sources.selection($0, in: plan) },
                ownedFields: credential.map { type(of: $0.strategy).ownedFields } ?? [],
                policy: credential?.policy ?? RenewalPolicy(),
                proxyLogin: sources.proxyLogin(route.proxy),
                number: number(route),
                captured: route.credential.flatMap { captured.credentials[$0] },
                capturePoints: captured.points(of: route)
            )
        }
        return ProxyConfiguration(
            routes: routes,
            access: plan.access,
            engines: plan.authz.compactMap(\.engine),
            connect: plan.connect,
            unroutedNumber: unroutedNumber,
            proxy: plan.proxy,
            proxyLogin: sources.proxyLogin(plan.proxy?.parents.first { $0.credential != nil }),
            limits: plan.limits,
            sendsProxyStatus: plan.sendsProxyStatus,
            requestIDHeader: plan.requestIDHeader,
            tracing: tracing,
            sha256: { Array(SHA256.hash(data: $0)) },
            authenticate: authenticate,
            captures: captures
        )
    }

    func bind(_ proxy: ProxyServer) async throws(CommandFailure) {
        do {
            _ = try await proxy.bind(plan.listeners + plan.authz)
        } catch {
            throw CommandFailure(.failed, Self.words(for: error))
        }
    }

    static func refusal(of place: ListenerPlan.Address, _ error: any Error) -> String {
        switch place {
        case .unix(let path, _):
            let reason = error is ListenerError ? words(for: error) : "unix:\(path): \(words(for: error))"
            return "the admin listener cannot use \(reason); set listeners.admin.unix to another path"
        case .tcp(let host, let port):
            let address = Origin(scheme: .http, host: host, port: port).authority
            let advice = "set listeners.admin.address to another one"
            guard let error = error as? IOError, error.errnoCode == EADDRINUSE else {
                return "the admin listener cannot use \(address): \(words(for: error)); \(advice)"
            }
            let finding = "see who has it with `ss -ltnp 'sport = :\(port)'`"
            return "the admin address \(address) is in use; stop that program (\(finding)), or \(advice)"
        }
    }

    static func words(for error: any Error) -> String {
        switch error {
        case let error as ListenerError: error.description
        case let error as IOError: SystemError.text(error.errnoCode)
        default: "\(error)"
        }
    }

    // MARK: Admin

    /// - Returns: nil where the admin listener has no TLS.
    /// - Throws: ``CommandFailure`` when certificate or key cannot be used.
    func makeOperatorTLS() throws(CommandFailure) -> OperatorTLS? {
        guard let settings = plan.admin.tls else { return nil }
        do throws(ListenerError) {
            return OperatorTLS(try OperatorTLS.prepare(settings), clock: clock)
        } catch {
            throw CommandFailure(.failed, error.description)
        }
    }

    func makeAdmin(
        control: @escaping @Sendable () -> OperatorControl,
        logins: LoginDesk,
        vending: VendingDesk,
        explainer: Explainer,
        storage: Storage,
        observer: TrafficObserver,
        broadcaster: EventBroadcaster,
        refreshMetrics: @escaping @Sendable () async -> Void,
        users: @escaping @Sendable () -> [AdminUser],
        tls: OperatorTLS?
    ) -> AdminServers {
        let metrics = options.metrics
        var admin = AdminOptions(
            control: control(),
            logins: logins,
            vending: vending,
            explanations: explainer,
            token: storage.adminToken,
            metrics: {
                await refreshMetrics()
                return metrics.text()
            },
            now: { [clock] in clock.now().wall }
        )
        admin.localAuthorityPEM = { [folder = plan.stateDirectory] in
            do throws(StateError) {
                let roots = try AuthorityRoots.read(in: folder)
                return .success(roots.isEmpty ? nil : roots.map(\.pem).joined())
            } catch {
                return .failure(
                    GatewayProblem(.internalError, "The gateway cannot show its local CA: \(error).")
                )
            }
        }
        admin.requiresToken = plan.admin.requiresToken
        admin.broadcaster = broadcaster
        let events = StoredEvents(reader: AuditReader(path: plan.audit.path))
        admin.past = { [clock] in await events.beforeStart(at: clock.now().wall, fixed: control().fixedNames) }
        admin.requests = { cursor in
            let batch = observer.recentRequests(after: cursor.flatMap(RecentRequests.Cursor.init))
            return (batch.requests.map(AuditEntry.init), batch.cursor.description)
        }
        admin.olderEvents = { await events.page($0, since: $1, limit: $2) }
        admin.users = users
        admin.denied = { method, path, user, reason in
            let isKnown = AdminRouteTable.demand(method: method, path: path, hasQuery: false) != .unknown
            // A path that nobody knows may be anything, so it is not recorded; nor are identifiers in others.
            let bytes = Array(path.utf8)
            let shown = isKnown ? PathTemplate.text(bytes.span, path: bytes.indices) : "/admin"
            let route = String(shown.drop { $0 == "/" })
            let id = Hexadecimal.random(bytes: 16)
            observer.denied(
                CredentialRequest(route: route, client: user, requestID: id),
                method: method,
                reason: reason
            )
        }
        admin.sha256 = { Array(SHA256.hash(data: $0)) }
        admin.record =
            AdminActionLog(
                audit: storage.recorder,
                onFailure: plan.audit.onFailure,
                clock: clock,
                logger: options.logger("admin")
            ).record
        return AdminServers(
            plan,
            options: admin,
            connections: DescriptorShares.adminConnections(of: options.descriptorLimit),
            tls: tls,
            logger: options.logger("admin")
        )
    }

    /// - Parameter proxy: Closed if the admin listener cannot bind its address.
    func bind(_ admin: AdminServers, closing proxy: ProxyServer) async throws(CommandFailure) -> BoundListener {
        do throws(CommandFailure) {
            return try await admin.bind()
        } catch {
            await proxy.drain(within: .zero)
            throw error
        }
    }
}

extension ProxyOffer {
    /// What a gateway that serves this plan offers. Unix sockets are no proxies for clients.
    package init(_ plan: Plan, bound: [BoundListener]) {
        let endpoints = bound.compactMap { listener -> ProxyEndpoint? in
            guard case .tcp(let host, let port) = listener.address else { return nil }
            let reach: ConnectionContext.Reach =
                Origin(scheme: .http, host: host, port: port).isLoopback ? .loopback : .network
            return ProxyEndpoint(
                host: host,
                port: listener.port ?? port,
                isTLS: listener.isTLS,
                intercepts: listener.intercepts,
                tunnelsUnrouted: plan.connect[listener.address]?.unrouted == .tunnel,
                requiresClientToken: plan.access.requiresClient(on: reach)
            )
        }
        let routes = Dictionary(grouping: plan.routes, by: \.upstream.description)
        let services = routes.keys.sorted().compactMap { origin -> Service? in
            let routes = routes[origin] ?? []
            guard routes.allSatisfy({ $0.credential != nil }) else { return nil }
            return Service(origin: origin, path: routes.first { $0.upstreamPath.isEmpty }?.matchPath)
        }
        self.init(endpoints: endpoints, origins: routes.keys.sorted(), services: services)
    }
}
