package import GatewayHTTP
package import GatewayTokens

/// Which requests in progress a reload stops: those whose client, route or credential it removes or replaces, and those that its rules
/// no longer allow.
///
/// - A client stays the same while its name and its proofs (token, certificate, JWT) stay the same. If it loses one proof and keeps
///   another, only requests that would no longer be admitted are stopped.
/// - A route stays the same while its name and its credential do.
/// - A credential stays the same while its name, strategy and grant do. Its renewal settings do not matter.
/// - Anonymous requests are stopped where a client is now required, and a client's requests where the route's `clients` no longer name
///   it.
package struct ReloadWithdrawal: Sendable {
    /// One route as a configuration has it.
    package struct Route: Sendable {
        struct Identity: Hashable, Sendable {
            var name: String
            var credential: String?
            var strategy: String?
            var grant: CredentialKey?
        }

        var identity: Identity
        /// The clients that may use it; nil for all.
        package var clients: [String]?

        package init(
            name: String,
            credential: String? = nil,
            strategy: String? = nil,
            grant: CredentialKey? = nil,
            clients: [String]? = nil
        ) {
            identity = Identity(name: name, credential: credential, strategy: strategy, grant: grant)
            self.clients = clients
        }
    }

    /// What the new configuration decides about a request that began before it.
    package enum Verdict: Hashable, Sendable {
        /// The request would go the same way.
        case admitted
        /// It would take another way, or its client would not be recognized. That alone takes no right away.
        case other
        /// A rule refuses it, such as a narrowed `allow`.
        case refused
    }

    private enum Fate: Sendable {
        case taken
        /// Kept, for those clients; nil: for all.
        case kept(Set<String>?)

        func covers(_ client: String?) -> Bool {
            switch self {
            case .taken: true
            case .kept(nil): false
            case .kept(let allowed?): !(client.map(allowed.contains) ?? false)
            }
        }
    }

    /// What becomes of each route, by index into the old configuration's routes.
    private let routes: [Fate]
    private let clients: Set<String>
    /// The clients that have lost a proof and kept another.
    private let reduced: Set<String>
    /// Where it is known.
    private let newAccess: AccessPlan?

    /// - Parameters:
    ///   - access: The access plan of the new configuration; nil takes nothing from those without a name.
    ///   - proofs: The proofs of a client.
    package init(
        from old: (routes: [Route], clients: [AccessPlan.Client]),
        to new: (routes: [Route], clients: [AccessPlan.Client]),
        under access: AccessPlan? = nil,
        proofs: (AccessPlan.Client) -> Set<[UInt8]>
    ) {
        let kept = Dictionary(new.routes.map { ($0.identity, $0.clients) }) { first, _ in first }
        routes = old.routes.map { route in
            guard let clients = kept[route.identity] else { return .taken }
            return .kept(clients.map(Set.init))
        }
        let known = Dictionary(new.clients.map { ($0.name, proofs($0)) }) { first, _ in first }
        let fates = old.clients.map { client in
            let (old, new) = (proofs(client), known[client.name] ?? [])
            return (name: client.name, isTaken: old.isDisjoint(with: new), isReduced: !old.isSubset(of: new))
        }
        clients = Set(fates.filter(\.isTaken).map(\.name))
        reduced = Set(fates.filter { $0.isReduced && !$0.isTaken }.map(\.name))
        newAccess = access
    }

    /// Whether it takes away what a request or a tunnel was admitted with.
    ///
    /// - Parameters:
    ///   - client: nil for one without a name.
    ///   - route: Its index in the old configuration; nil for a server that no route leads to. Only a new decision admits those.
    ///   - reach: The reach of the listener that the client came to.
    package func covers(client: String?, route: Int?, on reach: ConnectionContext.Reach = .loopback) -> Bool {
        guard let route else { return true }
        return routes[route].covers(client)
            || client.map(clients.contains) ?? newAccess?.requiresClient(on: reach)
                ?? false
    }

    /// Whether a request or a tunnel ends.
    ///
    /// - Parameters:
    ///   - client, route, reach: As for ``covers(client:route:on:)``.
    ///   - verdict: What the new configuration decides about the request.
    func takesRight(
        of client: String?,
        route: Int?,
        on reach: ConnectionContext.Reach,
        verdict: Verdict
    ) -> Bool {
        // Without a route, being admitted is the only right.
        guard route != nil else { return verdict != .admitted }
        let hasLostProof = verdict != .admitted && client.map(reduced.contains) ?? false
        return verdict == .refused || hasLostProof || covers(client: client, route: route, on: reach)
    }

    /// What the exchange of a request is told.
    package func event(
        of client: String?,
        route: Int?,
        on reach: ConnectionContext.Reach,
        verdict: Verdict
    ) -> ExchangeEvent {
        // Without a route, another connection would be judged by what was replaced.
        let isAdmitted = route != nil && verdict == .admitted
        let takesRight = takesRight(of: client, route: route, on: reach, verdict: verdict)
        return .reloaded(takesRight: takesRight, isAdmitted: isAdmitted)
    }
}

extension RequestAuthorizer {
    /// The verdict on a request that began under an earlier configuration and is refused under this one.
    ///
    /// - Parameters:
    ///   - refusal: How ``decide(_:_:on:cache:trace:)`` refuses the request now.
    ///   - client: As whom the request was admitted; nil for one without a name.
    package func verdict(
        _ refusal: Refusal,
        of client: String?,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on connection: ConnectionContext
    ) -> ReloadWithdrawal.Verdict {
        guard refusal.mayLackProof, let client else {
            return refusal.mayLackProof || refusal.isByRule ? .refused : .other
        }
        // A signed token may have expired since, which ends nothing. The rules still apply to the client that it proved.
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace? = AuthorizationTrace(assuming: client)
        return switch decide(head, bytes, on: connection, cache: &cache, trace: &trace) {
        case .refused(let refusal): refusal.isByRule ? .refused : .other
        default: .other
        }
    }
}

extension RequestAuthorizer.Refusal {
    /// A client that proved itself may be admitted: it gets further, or its `Origin` is the listener's own.
    fileprivate var mayLackProof: Bool {
        switch problem.kind {
        case .clientAuthRequired, .proxyAuthRequired, .originRefused: true
        default: false
        }
    }

    /// A rule of the configuration refuses the request. No route, or a host that leads to none, is no rule: routes can move.
    fileprivate var isByRule: Bool {
        switch problem.kind {
        case .routeForbidden, .originRefused, .requestRefused, .methodRefused, .subjectRequired, .loop,
            .destinationProhibited:
            true
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .misdirected, .noRoute:
            false
        // No decision on a head.
        case .requestTimeout, .contentTooLarge, .targetTooLong, .fieldsTooLarge, .versionNotSupported,
            .clientLimitReached, .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable,
            .storeUnavailable, .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .loginFailed,
            .staticTokenExpired, .auditUnavailable, .approvalRequired, .upstreamUnreachable, .upstreamInvalidResponse,
            .upstreamTimeout,
            .upstreamBusy, .upgradeFailed, .locked, .draining, .overloaded, .internalError:
            false
        }
    }
}
