/// Decides from the head of a request whether it is admitted.
///
/// Checks the host, the page that sent the request, the client, the route and its rules, and selects the credential.
package final class RequestAuthorizer: Sendable {
    /// Handed on, never copied: there is one for every request.
    package enum Decision: ~Copyable, Sendable {
        case admitted(Admitted)
        case refused(Refusal)
        case preflight(Preflight)
    }

    package struct Admitted: Sendable {
        package let match: RouteTable.Match
        package let client: String?
        /// The client authenticated to us with `Authorization`, so it must not go upstream.
        package let stripsAuthorization: Bool
        /// Of the listener that the request came to.
        package let reach: ListenerIdentity.Reach
        /// Where the route leaves the choice to the request; nil otherwise.
        package let chosen: (any CredentialSource)?
        /// What the response says to the browser of a page; nil where no page of another origin may call the route.
        package let crossOrigin: CrossOriginGrant?
        /// Whether a later refusal may name routes, credentials and strategies (``NameDisclosure``).
        package let disclosesNames: Bool
    }

    /// A class, so that a decision is no larger than what is admitted.
    package final class Refusal: Sendable {
        package let problem: GatewayProblem
        package let route: Int?
        package let client: String?
        /// Whether the answer may name routes, credentials and strategies (``NameDisclosure``).
        ///
        /// If not, it has ``GatewayProblem/withoutNames``. The log has the whole problem.
        package let disclosesNames: Bool
        /// A connection of HTTP/1 passes the request without a route instead.
        package let unrouted: UnroutedRequest?

        init(
            problem: GatewayProblem,
            route: Int?,
            client: String?,
            disclosesNames: Bool,
            unrouted: UnroutedRequest? = nil
        ) {
            self.problem = problem
            self.route = route
            self.client = client
            self.disclosesNames = disclosesNames
            self.unrouted = unrouted
        }
    }

    /// What the authorizer has to know of one route.
    package struct Route: Sendable {
        let plan: RoutePlan
        let places: ClientAuthenticator.Places
        let subject: SubjectRule?

        /// - Parameter selection: Where each request says whose token it goes with.
        package init(plan: RoutePlan, places: ClientAuthenticator.Places, selection: (any SubjectCredentialResolver)?) {
            self.plan = plan
            self.places = places
            subject = selection.map(SubjectRule.init)
        }
    }

    package let table: RouteTable
    private let matchPaths: [String]
    let names: [String]
    let clients: ClientAuthenticator
    let access: AccessPlan
    let connect: [ListenerPlan.Address: ConnectPlan]
    private let hostRule: HostRule
    /// For requests that find no route.
    let originRule: OriginRule
    let originRules: [OriginRule]
    /// Pages of some other origin may call some route.
    let answersPages: Bool
    let loopRule: LoopRule
    private let places: [ClientAuthenticator.Places]
    private let subjects: [SubjectRule?]
    let gates: [RouteGate]
    /// How strict those gates are that ask nothing else; nil for the others. Most routes are found here, side by side.
    private let plainGates: [CanonicalPath.Strictness?]

    /// - Parameters:
    ///   - connect: By the listener's address; none of them takes a connection to a server without a route.
    ///   - viaName: How the gateway calls itself in `Via`.
    package init(
        routes: [Route],
        access: AccessPlan,
        connect: [ListenerPlan.Address: ConnectPlan] = [:],
        viaName: String,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        let plans = routes.map(\.plan)
        table = RouteTable(plans)
        matchPaths = plans.filter { !$0.matchesAll }.map(\.matchPath)
        names = plans.map(\.name)
        places = routes.map(\.places)
        subjects = routes.map(\.subject)
        clients = ClientAuthenticator(access.clients, sha256: sha256)
        self.access = access
        self.connect = connect
        hostRule = HostRule(table: table)
        loopRule = LoopRule(viaName: viaName)
        gates = plans.map(RouteGate.init)
        plainGates = gates.map { $0.isPlain ? $0.strictness : nil }
        originRule = OriginRule(
            policy: CrossOriginPolicy(access.allowedOrigins, allowsCredentials: false),
            isOfRoute: false
        )
        originRules = plans.map { plan in
            OriginRule(
                policy: CrossOriginPolicy(access.allowedOrigins(on: plan), allowsCredentials: plan.cookies == .pass),
                isOfRoute: plan.allowedOrigins != nil
            )
        }
        answersPages = originRules.contains { !$0.policy.isEmpty }
    }

    /// - Parameters:
    ///   - cache: Of the connection, since this configuration is in use.
    ///   - trace: nil unless a person wants to know the reasons.
    package func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ListenerIdentity,
        cache: inout ClientAuthenticationCache,
        trace: inout AuthorizationTrace?
    ) -> Decision {
        if let origin = listener.intercepted {
            return decide(head, bytes, inPlaceOf: origin, on: listener, &cache, &trace)
        }
        let isAbsolute = head.form == .absolute
        guard let authority = Authority(bytes, isAbsolute ? head.targetAuthority : head.host) else {
            trace?.add(.hostRefused)
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."), on: listener)
        }
        var upstream: RouteTable.Match?
        var shared: SharedUpstream?
        if isAbsolute {
            let scheme: Origin.Scheme = head.asksForTLS(bytes) ? .https : .http
            switch table.findUpstream(
                bytes,
                scheme: scheme,
                host: authority.host,
                port: authority.port,
                path: head.path
            ) {
            case .none: break
            case .one(let route): upstream = .upstream(route)
            case .shared(let found):
                shared = found
                let client = client(of: head, bytes, on: listener, &cache, trace)
                upstream = found.route(for: client.client).map { .upstream($0) }
            }
        }
        if upstream == nil, let problem = hostRule.refusal(bytes, authority, head, on: listener) {
            if shared == nil, let refusal = judgeUnrouted(head, bytes, authority, on: listener, &cache, &trace) {
                return .refused(refusal)
            }
            trace?.add(.hostRefused)
            if isAbsolute { trace?.compare(nil, for: head, bytes, authority) }
            guard let shared else { return refuse(problem, on: listener) }
            return refuse(
                shared,
                client(of: head, bytes, on: listener, &cache, trace),
                isProxyRequest: true,
                on: listener
            )
        }
        let match = upstream ?? table.find(bytes, host: authority.host, path: head.path)
        var grant: CrossOriginGrant?
        if answersPages || head.mayBeOfPage,
            let decision = judgePage(head, bytes, match, on: listener, &grant, &trace)
        {
            return decision
        }
        trace?.add(match.map { .routeFound(name: gates[$0.route].name, by: $0.way) } ?? .routeNotFound)
        trace?.compare(match, for: head, bytes, authority)
        return authenticate(
            head,
            bytes,
            match: match,
            isProxyRequest: upstream != nil,
            grant,
            on: listener,
            &cache,
            &trace
        )
    }

    func refuse(
        _ problem: GatewayProblem,
        on listener: ListenerIdentity,
        route: Int? = nil,
        client: String? = nil
    ) -> Decision {
        .refused(refusal(problem, on: listener, route: route, client: client))
    }

    package func refusal(
        _ problem: GatewayProblem,
        on listener: ListenerIdentity,
        route: Int? = nil,
        client: String? = nil
    ) -> Refusal {
        let disclosesNames = disclosesNames(to: client, on: listener)
        return Refusal(problem: problem, route: route, client: client, disclosesNames: disclosesNames)
    }

    /// Whether an answer may name routes, credentials and strategies. For answers that need no decision, the client is nil.
    package func disclosesNames(to client: String?, on listener: ListenerIdentity) -> Bool {
        NameDisclosure.isAllowed(to: client, on: listener.reach, hasClients: !clients.isEmpty)
    }

    /// Whether routes have this host name.
    package func knowsHost(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        return table.knowsHost(bytes.span, bytes.indices)
    }

    // MARK: Client

    func authenticate(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        match: RouteTable.Match?,
        isProxyRequest: Bool,
        _ grant: CrossOriginGrant?,
        on listener: ListenerIdentity,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        var evidence = evidence(of: head, bytes, match, on: listener, &cache)
        if let client = trace?.assumedClient { evidence.assume(client) }
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        guard evidence.client != nil || !access.requiresClient(on: listener.reach) else {
            trace?.add(.clientRequired(by: "access.require_client"))
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: listener, route: match?.route)
        }
        guard let match else {
            let problem = noRoute(disclosesNames(to: evidence.client, on: listener))
            return refuse(problem, on: listener, client: evidence.client)
        }
        let gate = gates[match.route]
        // A route that names clients asks for one, whatever the listener does.
        if gate.clients != nil, evidence.client == nil {
            trace?.add(.clientRequired(by: "clients"))
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: listener, route: match.route)
        }
        if let problem = forbid(evidence.client, match, head, bytes, &trace) {
            return refuse(problem, on: listener, route: match.route, client: evidence.client)
        }
        return choose(head, bytes, match, evidence, grant, on: listener, &trace)
    }

    /// On a connection whose CONNECT was taken, the fields of a request are for the upstream.
    func evidence(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        on listener: ListenerIdentity,
        _ cache: inout ClientAuthenticationCache
    ) -> ClientAuthenticator.Evidence {
        if clients.isEmpty { return ClientAuthenticator.Evidence() }
        if let origin = listener.intercepted, origin.listenerPort == nil {
            return clients.evidence(of: origin, in: head, bytes, cache: &cache)
        }
        return clients.evidence(in: head, bytes, places: match.map { places[$0.route] }, cache: &cache)
    }

    // MARK: Route

    private func noRoute(_ disclosesNames: Bool) -> GatewayProblem {
        guard disclosesNames else { return GatewayProblem(.noRoute, "No route matches.") }
        let paths = matchPaths.prefix(20).joined(separator: ", ")
        return GatewayProblem(.noRoute, "No route matches. Known paths: \(paths)")
    }

    private func forbid(
        _ client: String?,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        let gate = gates[match.route]
        if let strictness = plainGates[match.route] {
            guard let ambiguity = CanonicalPath.check(bytes, head.path, strictness: strictness) else { return nil }
            trace?.add(.pathRefused)
            return Self.refused(ambiguity)
        }
        if let allowed = gate.clients {
            guard client.map(allowed.contains) ?? false else {
                trace?.add(.notAllowed)
                return GatewayProblem(.routeForbidden, "This client may not use the route \(gate.name).")
            }
            trace?.add(.clientAllowed(onRoute: gate.name))
        }
        if let ambiguity = CanonicalPath.check(bytes, head.path, strictness: gate.strictness) {
            trace?.add(.pathRefused)
            return Self.refused(ambiguity)
        }
        return gate.forbid(match, head, bytes, &trace)
    }

    private static func refused(_ ambiguity: CanonicalPath.Ambiguity) -> GatewayProblem {
        GatewayProblem(.requestRefused, "The path has \(ambiguity.rawValue).")
    }

    // MARK: Credential

    private func choose(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match,
        _ evidence: ClientAuthenticator.Evidence,
        _ grant: CrossOriginGrant?,
        on listener: ListenerIdentity,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        if let problem = loopRule.refusal(head, bytes) {
            trace?.add(.loopRefused)
            return refuse(problem, on: listener, route: match.route, client: evidence.client)
        }
        if !evidence.usesAuthorization, let problem = gates[match.route].forbidConnectionAuth(head, bytes) {
            trace?.add(.connectionAuthRefused)
            return refuse(problem, on: listener, route: match.route, client: evidence.client)
        }
        var chosen: (any CredentialSource)?
        if let subject = subjects[match.route] {
            switch source(subject, for: head, bytes, client: evidence.client, &trace) {
            case .success(let source): chosen = source
            case .failure(let problem):
                trace?.add(.subjectRefused)
                return refuse(problem, on: listener, route: match.route, client: evidence.client)
            }
        }
        trace?.add(.admitted)
        return .admitted(
            Admitted(
                match: match,
                client: evidence.client,
                stripsAuthorization: evidence.usesAuthorization,
                reach: listener.reach,
                chosen: chosen,
                crossOrigin: grant,
                disclosesNames: disclosesNames(to: evidence.client, on: listener)
            )
        )
    }

    /// A request that is only explained makes no source.
    private func source(
        _ subject: SubjectRule,
        for head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        client: String?,
        _ trace: inout AuthorizationTrace?
    ) -> Result<(any CredentialSource)?, GatewayProblem> {
        guard trace != nil else { return subject.source(for: head, bytes, client: client).map { $0 } }
        return subject.look(for: head, bytes)
            .map { named in
                trace?.add(.subjectNamed(named.subject))
                return named.source
            }
    }
}
