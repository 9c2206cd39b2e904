/// Decides from the head of a request whether it is admitted.
///
/// Checks the host, the page that sent the request, the client, the route and its rules, and selects the credential.
package final class RequestAuthorizer: Sendable {
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
    let matchPaths: [String]
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
    let places: [ClientAuthenticator.Places]
    let subjects: [SubjectRule?]
    let gates: [RouteGate]
    /// How strict those gates are that ask nothing else; nil for the others. Most routes are found here, side by side.
    let plainGates: [CanonicalPath.Strictness?]

    /// - Parameters:
    ///   - connect: By the listener's address; none of them takes a connection to a server without a route.
    ///   - jwts: nil where no signed token proves a client.
    ///   - uses: Told of each token of a client that is used.
    ///   - viaName: How the gateway calls itself in `Via`.
    package init(
        routes: [Route],
        access: AccessPlan,
        connect: [ListenerPlan.Address: ConnectPlan] = [:],
        uses: ClientTokenUses? = nil,
        jwts: ClientJWTParts? = nil,
        viaName: String,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        let plans = routes.map(\.plan)
        table = RouteTable(plans)
        matchPaths = plans.filter { !$0.matchesAll }.map(\.matchPath)
        names = plans.map(\.name)
        places = routes.map(\.places)
        subjects = routes.map(\.subject)
        clients = ClientAuthenticator(access.clients, uses: uses, jwts: jwts, sha256: sha256)
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
        on listener: ConnectionContext,
        cache: inout ClientAuthenticationCache,
        trace: inout AuthorizationTrace?
    ) -> Decision {
        if let origin = listener.intercepted {
            return decide(head, bytes, inPlaceOf: origin, on: listener, &cache, &trace)
        }
        guard let authority = authority(of: head, bytes) else {
            trace?.add(.hostRefused)
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."), on: listener)
        }
        var upstream: RouteTable.Match?
        var shared: SharedUpstream?
        switch findUpstream(head, bytes, authority, on: listener) {
        case .none: break
        case .one(let route): upstream = .upstream(route)
        case .shared(let found):
            shared = found
            let client = client(of: head, bytes, on: listener, &cache, trace)
            upstream = found.route(for: client.client).map { .upstream($0) }
        }
        if upstream == nil, let problem = hostRule.refusal(bytes, authority, head, on: listener) {
            if shared == nil, let decision = judgeUnrouted(head, bytes, authority, on: listener, &cache, &trace) {
                return decision
            }
            trace?.add(.hostRefused)
            if head.form == .absolute { trace?.compare(nil, for: head, bytes, authority) }
            guard let shared else { return refuse(problem, on: listener) }
            return refuse(
                shared,
                client(of: head, bytes, on: listener, &cache, trace),
                isProxyRequest: true,
                on: listener
            )
        }
        let match = upstream ?? table.find(bytes, host: authority.host, path: head.path)
        return judge(
            head,
            bytes,
            match,
            authority,
            isProxyRequest: upstream != nil,
            on: listener,
            &cache,
            &trace
        )
    }

    func refuse(
        _ problem: GatewayProblem,
        on listener: ConnectionContext,
        route: Int? = nil,
        client: String? = nil
    ) -> Decision {
        .refused(refusal(problem, on: listener, route: route, client: client))
    }

    package func refusal(
        _ problem: GatewayProblem,
        on listener: ConnectionContext,
        route: Int? = nil,
        client: String? = nil
    ) -> Refusal {
        let disclosesNames = disclosesNames(to: client, on: listener)
        return Refusal(problem: problem, route: route, client: client, disclosesNames: disclosesNames)
    }

    /// Whether an answer may name routes, credentials and strategies. For answers that need no decision, the client is nil.
    package func disclosesNames(to client: String?, on listener: ConnectionContext) -> Bool {
        NameDisclosure.isAllowed(to: client, on: listener.reach, hasClients: !clients.isEmpty)
    }

    /// Whether routes have this host name.
    package func knowsHost(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        return table.knowsHost(bytes.span, bytes.indices)
    }
}
