package import GatewayHTTP
package import GatewayTokens

/// Decides from the head of a request whether it is admitted.
///
/// It checks the host, the web page that sent the request, the client, the route and its rules, and selects the credential.
package final class RequestAuthorizer: Sendable {
    /// A route as the authorizer gets it: its plan, and what depends on its credential.
    package struct Route: Sendable {
        let plan: RoutePlan
        let places: ClientAuthenticator.Places
        let selection: (any SubjectCredentialResolver)?
        let ownedNames: [[UInt8]]
        let captured: CapturedCredential?
        let capturePoints: [CapturePoint]

        /// - Parameters:
        ///   - selection: For a route whose requests name the subject of the token.
        ///   - ownedNames: Names of fields that only the route may set, in lower case.
        ///   - captured: For a route whose requests need a phantom.
        package init(
            plan: RoutePlan,
            places: ClientAuthenticator.Places,
            selection: (any SubjectCredentialResolver)?,
            ownedNames: [[UInt8]] = [],
            captured: CapturedCredential? = nil,
            capturePoints: [CapturePoint] = []
        ) {
            self.plan = plan
            self.places = places
            self.selection = selection
            self.ownedNames = ownedNames
            self.captured = captured
            self.capturePoints = capturePoints
        }
    }

    package let table: RouteTable
    /// The requirements of each route, by its index.
    private let gates: [RouteGate]
    /// The strictness of gates that require nothing else; nil for the others. Most routes need only this compact array.
    private let plainGates: [CanonicalPath.Strictness?]
    private let clients: ClientAuthenticator
    private let access: AccessPlan
    private let connect: [ListenerPlan.Address: ConnectPlan]
    /// For requests without a route.
    private let originRule: OriginRule
    /// Some route may be called by web pages of another origin.
    private let answersPages: Bool
    /// Some credential has `capture`: a request may have a phantom, or need one.
    private let hasCaptures: Bool
    private let captures: (any CaptureControl)?
    /// How this gateway calls itself in `Via`.
    private let viaName: String
    private let matchPaths: [String]

    /// - Parameters:
    ///   - captures: Knows the phantoms; nil knows none.
    ///   - connect: By the listener's address. Other listeners open no connection to a server without a route.
    ///   - jwts: nil if no client authenticates with a signed token.
    ///   - uses: Told of each use of a client's token.
    ///   - viaName: How the gateway calls itself in `Via`.
    package init(
        routes: [Route],
        captures: (any CaptureControl)? = nil,
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
        clients = ClientAuthenticator(access.clients, uses: uses, jwts: jwts, sha256: sha256)
        self.access = access
        self.captures = captures
        hasCaptures = routes.contains { $0.captured != nil || !$0.capturePoints.isEmpty }
        self.connect = connect
        self.viaName = viaName
        gates = routes.map { RouteGate($0, access) }
        plainGates = gates.map { $0.isPlain ? $0.strictness : nil }
        originRule = OriginRule(access.allowedOrigins, allowsCredentials: false, isOfRoute: false)
        answersPages = gates.contains { $0.originRule.answersPages }
    }

    /// - Parameters:
    ///   - cache: The connection's cache, for this configuration.
    ///   - trace: Collects the reasons, for explanations; nil for ordinary requests.
    package func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on connection: ConnectionContext,
        cache: inout ClientAuthenticationCache,
        trace: inout AuthorizationTrace?
    ) -> Decision {
        if let origin = connection.intercepted {
            return decide(head, bytes, inPlaceOf: origin, on: connection, &cache, &trace)
        }
        guard let authority = authority(of: head, bytes) else {
            trace?.add(.hostRefused)
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."), on: connection)
        }
        guard case .absolute = head.form else {
            if let problem = hostRefusal(bytes, authority, head, on: connection) {
                trace?.add(.hostRefused)
                return refuse(problem, on: connection)
            }
            let match = table.find(bytes, host: authority.host, path: head.path)
            return judge(head, bytes, match, authority, isProxyRequest: false, on: connection, &cache, &trace)
        }
        return decide(head, bytes, absolute: authority, on: connection, &cache, &trace)
    }

    /// A request whose target names a server.
    private func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        absolute authority: Authority,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        var upstream: RouteTable.Match?
        var shared: SharedUpstream?
        switch findUpstream(head, bytes, authority, on: connection) {
        case .none: break
        case .one(let route): upstream = .upstream(route)
        case .shared(let found):
            shared = found
            let evidence = evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient)
            upstream = found.route(for: evidence.client).map { .upstream($0) }
        }
        if upstream == nil, let problem = hostRefusal(bytes, authority, head, on: connection) {
            if shared == nil, let decision = judgeUnrouted(head, bytes, authority, on: connection, &cache, &trace) {
                return decision
            }
            trace?.add(.hostRefused)
            trace?.compare(nil, for: head, bytes, authority)
            guard let shared else { return refuse(problem, on: connection) }
            return refuse(
                shared,
                evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient),
                isProxyRequest: true,
                on: connection
            )
        }
        let match = upstream ?? table.find(bytes, host: authority.host, path: head.path)
        return judge(
            head,
            bytes,
            match,
            authority,
            isProxyRequest: upstream != nil,
            on: connection,
            &cache,
            &trace
        )
    }

    /// Judges a request after the lookup of its route: the web page, the client, the rules of the route and the credential.
    ///
    /// - Parameter isProxyRequest: The client uses the gateway as its proxy, so it would authenticate as to one.
    @inline(__always)
    private func judge(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        _ authority: Authority,
        isProxyRequest: Bool,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        var grant: CrossOriginGrant?
        if answersPages || head.mayBeOfPage,
            let decision = judgePage(head, bytes, match, on: connection, &grant, &cache, &trace)
        {
            return decision
        }
        trace?.add(match.map { .routeFound(name: gates[$0.route].name, by: $0.way) } ?? .routeNotFound)
        trace?.compare(match, for: head, bytes, authority)
        return authenticate(
            head,
            bytes,
            match: match,
            isProxyRequest: isProxyRequest,
            grant,
            on: connection,
            &cache,
            &trace
        )
    }

    // MARK: Refusals

    private func refuse(
        _ problem: GatewayProblem,
        on connection: ConnectionContext,
        route: Int? = nil,
        client: String? = nil
    ) -> Decision {
        .refused(refusal(problem, on: connection, route: route, client: client))
    }

    package func refusal(
        _ problem: GatewayProblem,
        on connection: ConnectionContext,
        route: Int? = nil,
        client: String? = nil
    ) -> Refusal {
        let disclosesNames = disclosesNames(to: client, on: connection)
        return Refusal(problem: problem, route: route, client: client, disclosesNames: disclosesNames)
    }

    /// Whether a response may name routes, credentials and strategies. The client is nil for responses that need no decision.
    package func disclosesNames(to client: String?, on connection: ConnectionContext) -> Bool {
        NameDisclosure.isAllowed(to: client, on: connection.reach, hasClients: !clients.isEmpty)
    }

    /// Whether some route has this host name.
    package func knowsHost(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        return table.knowsHost(bytes.span, bytes.indices)
    }

    private func noRoute(_ disclosesNames: Bool) -> GatewayProblem {
        guard disclosesNames else { return GatewayProblem(.noRoute, "No route matches.") }
        let paths = matchPaths.prefix(20).joined(separator: ", ")
        return GatewayProblem(.noRoute, "No route matches. Known paths: \(paths)")
    }
}

/// The server that a request is for.
extension RequestAuthorizer {
    /// The name of that server: the target if it is in absolute form, otherwise `Host`.
    @inline(__always)
    private func authority(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Authority? {
        // A pattern, because `==` would be a call through a witness table into another module.
        if case .absolute = head.form { return Authority(bytes, head.targetAuthority) }
        return Authority(bytes, head.host)
    }

    /// The routes to that server; none for a request to the gateway itself.
    @inline(__always)
    private func findUpstream(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on connection: ConnectionContext
    ) -> RouteTable.UpstreamMatch {
        let (host, path) = (authority.host, head.path)
        if let origin = connection.intercepted {
            return table.findUpstream(bytes, scheme: origin.scheme, host: host, port: origin.port, path: path)
        }
        guard head.form == .absolute else { return .none }
        let scheme: Origin.Scheme = head.asksForTLS(bytes) ? .https : .http
        return table.findUpstream(bytes, scheme: scheme, host: host, port: authority.port, path: path)
    }

    /// The refusal if there are several routes to the server.
    ///
    /// - Parameter shared: The routes, none of which is selected by the request or its client.
    private func refuse(
        _ shared: SharedUpstream,
        _ evidence: ClientAuthenticator.Evidence,
        isProxyRequest: Bool,
        on connection: ConnectionContext
    ) -> Decision {
        if let refusal = refusal(of: evidence, isProxyRequest: isProxyRequest, on: connection) {
            return .refused(refusal)
        }
        let mayKnow = disclosesNames(to: evidence.client, on: connection)
        let routes = mayKnow ? ": " + shared.routes.prefix(20).map { gates[$0].name }.joined(separator: ", ") : ""
        let detail =
            "Several routes lead to this server\(routes). Tell them apart with match.upstream_path, clients or match.default, or"
            + " name one by its path."
        return refuse(GatewayProblem(.misdirected, detail), on: connection, client: evidence.client)
    }

    /// Only the gateway's own names are answered: in `Host` on loopback listeners, and in an absolute target on all listeners.
    ///
    /// A web page that rebinds its own name to 127.0.0.1 becomes same-origin with this listener, but its requests still carry that
    /// name. And if a client uses the gateway as an open proxy, its request must not be sent to some other server.
    private func hostRefusal(
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        _ head: borrowing RequestHead,
        on connection: ConnectionContext
    ) -> GatewayProblem? {
        let isAbsolute = if case .absolute = head.form { true } else { false }
        guard connection.reach == .loopback || isAbsolute else { return nil }
        // HTTP/1.0 without Host, which no browser sends.
        if authority.host.isEmpty { return head.isHTTP10 ? nil : Self.notOurs }
        guard authority.port == nil || authority.port == connection.port else {
            // With mapped ports, a route's host may come with another port. With a name of the client's own machine, another port
            // means another server.
            let isElsewhere = connection.reach != .loopback && table.knowsHost(bytes, authority.host)
            return isElsewhere && !Self.plainOrigin(bytes, authority.host).isLoopback ? nil : Self.notOurs
        }
        return isOurs(bytes, authority.host) ? nil : Self.notOurs
    }

    private func isOurs(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> Bool {
        if bytes.equalsLowercased(host, "127.0.0.1") || bytes.equalsLowercased(host, "localhost") { return true }
        return table.knowsHost(bytes, host) || Self.plainOrigin(bytes, host).isLoopbackAddress
    }

    private static func plainOrigin(_ bytes: borrowing Span<UInt8>, _ host: Range<Int>) -> Origin {
        Origin(scheme: .http, host: bytes.string(host).lowercased(), port: 80)
    }

    private static let notOurs = GatewayProblem(
        .misdirected,
        "This gateway answers for its own address and for the hosts and upstreams of its routes only."
    )
}

/// Requests that web pages send.
extension RequestAuthorizer {
    /// - Parameter grant: Set to the grant for a page that may call the route. For other requests of such a route, set to what
    ///   keeps caches from serving the response to such pages.
    /// - Returns: nil if the request goes on.
    private func judgePage(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        on connection: ConnectionContext,
        _ grant: inout CrossOriginGrant?,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision? {
        let rule = rule(for: match)
        switch rule.decide(head, bytes, own: connection.intercepted) {
        case .passes:
            if rule.answersPages { grant = .unlisted }
            return nil
        case .refused(let problem):
            var problem = problem
            if let authority = authority(of: head, bytes),
                OriginRule.isOfListener(head, bytes, authority, on: connection)
            {
                // Browsers may leave Sec-Fetch fields out of WebSocket handshakes, and attach the certificate that the user has.
                let prover = head.section.fields.contains { $0.kind == .upgrade } ? connection.withoutPeer : connection
                guard evidence(of: head, bytes, match, on: prover, &cache, assuming: trace?.assumedClient).client == nil
                else {
                    trace?.add(.ownOrigin)
                    if rule.answersPages { grant = .unlisted }
                    return nil
                }
                problem = rule.unproven
            }
            trace?.add(.originRefused)
            return .refused(refusal(problem, on: connection))
        case .granted(let found):
            trace?.add(.originAllowed(String(decoding: found.origin, as: UTF8.self)))
            guard let preflight = Preflight(head, bytes, route: match?.route, grant: found) else {
                grant = found
                return nil
            }
            trace?.add(.preflightAnswered)
            return .preflight(preflight)
        }
    }

    private func rule(for match: RouteTable.Match?) -> OriginRule {
        match.map { gates[$0.route].originRule } ?? originRule
    }

    /// The CORS fields of a response by the gateway itself, so that the page can read why its request failed.
    func crossOriginFields(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on connection: ConnectionContext
    ) -> [ProblemAnswer.Field] {
        guard head.present.contains(.origin) else { return [] }
        guard let authority = authority(of: head, bytes) else { return [] }
        let upstream = findUpstream(head, bytes, authority, on: connection).route
        let match = upstream.map { .upstream($0) } ?? table.find(bytes, host: authority.host, path: head.path)
        guard case .granted(let grant) = rule(for: match).decide(head, bytes, own: connection.intercepted) else {
            return []
        }
        return grant.fields
    }
}

/// Who sends a request.
extension RequestAuthorizer {
    private func authenticate(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        match: RouteTable.Match?,
        isProxyRequest: Bool,
        _ grant: CrossOriginGrant?,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        let evidence = evidence(of: head, bytes, match, on: connection, &cache, assuming: trace?.assumedClient)
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        if let refusal = refusal(of: evidence, isProxyRequest: isProxyRequest, on: connection, route: match?.route) {
            trace?.add(.clientRequired(by: "access.require_client"))
            return .refused(refusal)
        }
        guard let match else {
            let problem = noRoute(disclosesNames(to: evidence.client, on: connection))
            return refuse(problem, on: connection, client: evidence.client)
        }
        let gate = gates[match.route]
        // A route that names clients requires one, even if the listener does not.
        if gate.clients != nil, evidence.client == nil {
            trace?.add(.clientRequired(by: "clients"))
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: connection, route: match.route)
        }
        if let problem = forbid(evidence.client, match, gate, head, bytes, on: connection, &trace) {
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        if hasCaptures, let problem = phantomRefusal(head, bytes, match, gate, evidence.client) {
            trace?.add(.phantomRefused)
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        return choose(head, bytes, match, gate, evidence, grant, on: connection, &trace)
    }

    /// Why a request is refused that has a phantom where none belongs, or has none where it needs one.
    private func phantomRefusal(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match,
        _ gate: RouteGate,
        _ client: String?
    ) -> GatewayProblem? {
        // At the endpoints, phantoms stand in the body.
        let isAnswered = gate.capturePoint(match, head, bytes) != nil
        return PhantomRule.refusal(
            of: head,
            bytes,
            client: client,
            to: isAnswered ? nil : gate.captured,
            asking: captures
        )
    }

    /// Why a client that has not authenticated is refused; nil if the listener does not require it (`access.require_client`).
    /// Proofs of different clients are always refused.
    @inline(__always)
    private func refusal(
        of evidence: ClientAuthenticator.Evidence,
        isProxyRequest: Bool,
        on connection: ConnectionContext,
        route: Int? = nil
    ) -> Refusal? {
        guard evidence.client == nil, evidence.isContradictory || access.requiresClient(on: connection.reach) else {
            return nil
        }
        return refusal(evidence.refusal(isProxyRequest: isProxyRequest), on: connection, route: route)
    }

    /// The client's proof of who it is, before it is judged. In an intercepted connection, the fields of a request are for the
    /// upstream.
    ///
    /// - Parameters:
    ///   - match: nil before the route is known.
    ///   - client: The client to assume, whatever the request presents (``AuthorizationTrace/assumedClient``).
    private func evidence(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match? = nil,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        assuming client: String?
    ) -> ClientAuthenticator.Evidence {
        var evidence =
            if clients.isEmpty {
                ClientAuthenticator.Evidence()
            } else if let origin = connection.intercepted, origin.listenerPort == nil {
                clients.evidence(of: origin, in: head, bytes, peer: connection.clientPeer, cache: &cache)
            } else {
                clients.evidence(
                    in: head,
                    bytes,
                    places: match.flatMap { gates[$0.route].places },
                    peer: connection.clientPeer,
                    cache: &cache
                )
            }
        if clients.hasRuns {
            // Behind CONNECT, the proxy's login is the proof.
            let isOwnConnection = connection.intercepted.map { $0.listenerPort != nil } ?? true
            clients.addRun(
                in: head,
                bytes,
                places: match.flatMap { gates[$0.route].places },
                proves: isOwnConnection && connection.reach == .loopback,
                to: &evidence
            )
        }
        if let client { evidence.assume(client) }
        return evidence
    }
}

/// What a route requires of a request.
extension RequestAuthorizer {
    private func forbid(
        _ client: String?,
        _ match: RouteTable.Match,
        _ gate: RouteGate,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on connection: ConnectionContext,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        if head.present.contains(.destination), connection.engine != nil, gate.guardsPaths {
            trace?.add(.notAllowed)
            let detail =
                "An engine forwards Destination unchanged, and the route \(gate.name) does not allow every path."
            return GatewayProblem(.routeForbidden, detail)
        }
        if let strictness = plainGates[match.route] {
            switch judgePath(head, bytes, strictness, on: connection) {
            case .unambiguous: return nil
            case let verdict: return problem(of: verdict, match, gate, head, bytes, &trace)
            }
        }
        if let allowed = gate.clients {
            guard let client, allowed.contains(client) else {
                trace?.add(.notAllowed)
                return GatewayProblem(.routeForbidden, "This client may not use the route \(gate.name).")
            }
            trace?.add(.clientAllowed(onRoute: gate.name))
        }
        let verdict = judgePath(head, bytes, gate.strictness, on: connection)
        if case .unambiguous = verdict { return gate.forbid(match, head, bytes, &trace) }
        return problem(of: verdict, match, gate, head, bytes, &trace)
    }

    /// On a listener for engines, encoded slashes and dots are refused, because the engine may decode the path before it forwards
    /// it.
    private func judgePath(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ strictness: CanonicalPath.Strictness,
        on connection: ConnectionContext
    ) -> CanonicalPath.Verdict {
        CanonicalPath.judge(bytes, head.path, strictness: strictness, refusesReadings: connection.engine != nil)
    }

    /// Why an ambiguous path is refused; nil if all its readings select the same route and the same rule.
    private func problem(
        of verdict: CanonicalPath.Verdict,
        _ match: RouteTable.Match,
        _ gate: RouteGate,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        do throws(CanonicalPath.Ambiguity) {
            if case .refused(let ambiguity) = verdict { throw ambiguity }
            let readings = try PathReadings(bytes, head.path)
            if let problem = gate.forbid(match, head, bytes, &trace) { return problem }
            guard let reading = readings.all.first(where: { !isJudgedAlike($0, match, gate, head, bytes) }) else {
                return nil
            }
            trace?.add(.pathRefused)
            let path = String(decoding: reading.path, as: UTF8.self).singleLine(limit: 300)
            let hint = gate.hint(for: reading, match, head, bytes).map { " \($0)" } ?? ""
            return GatewayProblem(
                .requestRefused,
                "A server may read the path as \(path), which the same route and rule do not cover.\(hint)"
            )
        } catch {
            trace?.add(.pathRefused)
            return GatewayProblem(.requestRefused, "The path has \(error.rawValue).")
        }
    }

    /// Whether the reading selects the same route, rule and endpoints as the path that was sent.
    private func isJudgedAlike(
        _ reading: PathReadings.Reading,
        _ match: RouteTable.Match,
        _ gate: RouteGate,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        var found: Bool
        var whole: [UInt8]
        switch match {
        case .path, .host:
            whole = authority(of: head, bytes).map { authority in authority.host.map { bytes[$0] } } ?? []
            let host = whole.indices
            whole += reading.path
            found = table.find(whole.span, host: host, path: host.count..<whole.count) == match
        case .upstream(let route):
            whole = Array(gate.upstream.host.utf8)
            let host = whole.indices
            whole += reading.path
            let other = table.findUpstream(
                whole.span,
                scheme: gate.upstream.scheme,
                host: host,
                port: gate.upstream.port,
                path: host.count..<whole.count
            )
            switch other {
            case .none: found = false
            case .one(let other): found = other == route
            case .shared(let shared): found = shared.routes.contains(route)
            }
        case .unrouted: found = false
        }
        return found && gate.selectsSameRule(for: reading, match, head, bytes)
            && gate.meetsNoOtherEndpoint(in: reading, match, head, bytes)
    }

    /// Why a request may not have this `Destination` (RFC 4918 section 10.3); nil if it may. To the upstream it is a second path,
    /// on which the method acts with the same credential.
    ///
    /// - Parameter destination: The value that the upstream gets; nil if there are several.
    func forbid(
        destination: [UInt8]?,
        of method: String,
        on route: Int,
        client: String?,
        links: LinkTable
    ) -> GatewayProblem? {
        let gate = gates[route]
        guard gate.guardsPaths else { return nil }
        if let destination, let (origin, path) = URIReference(destination)?.target(at: gate.upstream) {
            let peers = links.peers(of: route, at: origin)
            if peers.contains(where: { gates[$0].takes(method, of: client, at: path) }) { return nil }
        }
        return GatewayProblem(.routeForbidden, "The route \(gate.name) does not allow this method and Destination.")
    }

    /// What the rules of its route say about an admitted request beyond its head; nil if they say nothing.
    func bodyRules(
        of head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match
    ) -> BodyRules? {
        if case .unrouted = match { return nil }
        return gates[match.route].bodyRules(match, head, bytes)
    }

    /// How a signer signs the request. A request that also reads another path is refused unless the client may get that path.
    func signingPlan(
        for request: SignableRequest,
        by signer: any RequestSigner,
        on route: Int,
        client: String?
    ) -> Result<any SigningPlan, GatewayProblem> {
        let gate = gates[route]
        let mayRead =
            !gate.guardsPaths
            || signer.otherPaths(of: request).allSatisfy { path in
                path.map { gate.takes("GET", of: client, at: $0) } ?? false
            }
        guard !mayRead else { return signer.plan(for: request) }
        return .failure(
            GatewayProblem(
                .routeForbidden,
                "The route \(gate.name) does not let this client GET the object that the request copies, or requires an approval"
                    + " for it."
            )
        )
    }

    private func choose(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match,
        _ gate: RouteGate,
        _ evidence: ClientAuthenticator.Evidence,
        _ grant: CrossOriginGrant?,
        on connection: ConnectionContext,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        if let problem = loopRefusal(head, bytes) {
            trace?.add(.loopRefused)
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        if clients.hasRuns,
            let problem = refusalOfStrayRun(head, bytes, evidence, gate.places, owned: gate.ownedNames)
        {
            trace?.add(.runTokenRefused)
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        if !evidence.tokenPlaces.hasAuthorization, let problem = gate.forbidConnectionAuth(head, bytes) {
            trace?.add(.connectionAuthRefused)
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        var chosen: (any CredentialSource)?
        if let subject = gate.subject {
            switch source(subject, for: head, bytes, client: evidence.client, &trace) {
            case .success(let source): chosen = source
            case .failure(let problem):
                trace?.add(.subjectRefused)
                return refuse(problem, on: connection, route: match.route, client: evidence.client)
            }
        }
        trace?.add(.admitted)
        return .admitted(admitted(match, evidence, from: chosen, grant, on: connection))
    }

    /// Why a request that would take the token of a program of `exec` upstream is refused; nil where it would not.
    private func refusalOfStrayRun(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ evidence: ClientAuthenticator.Evidence,
        _ places: ClientAuthenticator.Places? = nil,
        owned: [[UInt8]] = []
    ) -> GatewayProblem? {
        guard let place = clients.strayRun(in: head, bytes, evidence, places, owned: owned) else { return nil }
        let detail =
            "The token of a program that exec runs stands in \(place), from where it would reach the upstream. Send it as an API "
            + "key: in Authorization or X-Api-Key."
        return GatewayProblem(.requestRefused, detail)
    }

    private func admitted(
        _ match: RouteTable.Match,
        _ evidence: ClientAuthenticator.Evidence,
        from chosen: (any CredentialSource)? = nil,
        _ grant: CrossOriginGrant? = nil,
        on connection: ConnectionContext
    ) -> Admitted {
        Admitted(
            match: match,
            client: evidence.client,
            tokenPlaces: evidence.tokenPlaces,
            reach: connection.reach,
            chosen: chosen,
            crossOrigin: grant,
            disclosesNames: disclosesNames(to: evidence.client, on: connection)
        )
    }

    /// A request that is only being explained creates no source.
    private func source(
        _ subject: SubjectRule,
        for head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        client: String?,
        _ trace: inout AuthorizationTrace?
    ) -> Result<(any CredentialSource)?, GatewayProblem> {
        guard trace != nil else { return subject.source(for: head, bytes, client: client).map { $0 } }
        return subject.look(for: head, bytes, client: client)
            .map { named in
                trace?.add(.subjectNamed(named.subject))
                return named.source
            }
    }

    /// Refuses requests that have already passed this gateway, which their `Via` tells (RFC 9110 section 7.6.3).
    private func loopRefusal(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> GatewayProblem? {
        guard head.present.contains(.via) else { return nil }
        for index in head.section.fields.indices where head.section.fields[index].kind == .via {
            // `1.1 name (comment), ...`. Whole words, because another gateway's name may begin with ours.
            let words = bytes.string(head.section.fields[index].value).split { " \t,".contains($0) }
            guard !words.contains(where: { $0 == viaName }) else {
                return GatewayProblem(.loop, "The request has already passed this gateway.")
            }
        }
        return nil
    }
}

/// Requests that another proxy asks about.
extension RequestAuthorizer {
    /// Decides as if the client had sent the request itself, but only for routes that name the engine.
    ///
    /// The server is looked up as for an intercepted connection: `Host` may name a route's upstream. The gateway's own names mean
    /// nothing here, because the client has sent the request to the engine.
    ///
    /// - Parameters:
    ///   - head: The head of ``OriginalRequest/bytes``.
    ///   - scheme: ``OriginalRequest/scheme``
    ///   - route: ``OriginalRequest/route``. If present, the route is looked up as on a listener for clients, and must be this one.
    ///   - cache: From ``EngineClients`` of this configuration, not from the connection, since that belongs to the engine.
    package func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        scheme: Origin.Scheme?,
        route: [UInt8],
        askedBy engine: String,
        on connection: ConnectionContext,
        cache: inout ClientAuthenticationCache,
        trace: inout AuthorizationTrace?
    ) -> Decision {
        guard let authority = authority(of: head, bytes) else {
            trace?.add(.hostRefused)
            return refuse(GatewayProblem(.requestRefused, "The Host is not a host name."), on: connection)
        }
        let upstream = table.findUpstream(
            bytes,
            scheme: scheme ?? .https,
            host: authority.host,
            port: authority.port,
            path: head.path
        )
        var match = table.find(bytes, host: authority.host, path: head.path)
        if route.isEmpty {
            switch upstream {
            case .none: break
            case .one(let route): match = .upstream(route)
            case .shared(let shared):
                let evidence = evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient)
                match = shared.route(for: evidence.client).map { .upstream($0) }
                if match == nil { return refuse(shared, evidence, isProxyRequest: false, on: connection) }
            }
        } else if isAmbiguous(upstream, match, head) {
            trace?.add(.hostRefused)
            return refuse(Self.ambiguous, on: connection, route: match?.route)
        }
        if let match, let problem = refusal(of: match, to: engine) ?? mismatch(match, chosen: route) {
            trace?.add(.notAllowed)
            return refuse(problem, on: connection, route: match.route)
        }
        let decision = judge(head, bytes, match, authority, isProxyRequest: false, on: connection, &cache, &trace)
        switch consume decision {
        case .admitted(let admitted):
            // The engine would forward it, and the client would get real tokens.
            guard bodyRules(of: head, bytes, admitted.match)?.capturePoint == nil else {
                let detail = "Logins at this authorization server are captured, which an engine cannot do."
                return refuse(
                    GatewayProblem(.routeForbidden, detail),
                    on: connection,
                    route: admitted.route,
                    client: admitted.client
                )
            }
            return .admitted(admitted)
        case .refused(let refusal): return .refused(refusal)
        // After an answer with 2xx, the engine would forward the preflight without a credential.
        case .preflight(let preflight):
            let detail = "The engine answers preflights itself; the gateway hands out no credential for them."
            return refuse(GatewayProblem(.originRefused, detail), on: connection, route: preflight.route)
        case .unrouted: return refuse(noRoute(false), on: connection)
        }
    }

    /// Why the route does not give its credential to this engine; nil if it does.
    private func refusal(of match: RouteTable.Match, to engine: String) -> GatewayProblem? {
        let gate = gates[match.route]
        guard !gate.engines.contains(engine) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The route \(gate.name) hands no credential to the engine \(engine). To allow it, add \(engine) to"
                + " routes.\(gate.name).authz."
        )
    }

    /// Whether the upstream's host leads to another route, or to another path on it, than the engine has named in
    /// ``EnginePlan/routeField``.
    ///
    /// If the engine does not set that field, a client could send it, and so choose which of the two readings is judged.
    private func isAmbiguous(
        _ upstream: RouteTable.UpstreamMatch,
        _ match: RouteTable.Match?,
        _ head: borrowing RequestHead
    ) -> Bool {
        guard let match else { return false }
        switch upstream {
        case .none: return false
        case .one(let route): return route != match.route || !gates[route].readsAlike(head, match)
        case .shared(let shared):
            return !shared.routes.contains(match.route) || !gates[match.route].readsAlike(head, match)
        }
    }

    private static let ambiguous = GatewayProblem(
        .misdirected,
        "The host is an upstream's, and the route that the engine names does not match it. Add the host to match.hosts of"
            + " that route, or have the engine send no \(EnginePlan.routeField)."
    )

    /// Why the engine's choice of a route is refused; nil if the gateway has found the same route, or if the engine names none.
    private func mismatch(_ match: RouteTable.Match, chosen route: [UInt8]) -> GatewayProblem? {
        let name = gates[match.route].name
        guard !route.isEmpty, !name.utf8.elementsEqual(route) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The engine chose another route for this request; the gateway would use \(name). Export the engine's"
                + " configuration again (authgateway export)."
        )
    }
}

/// Connections that clients request with CONNECT, or with a TLS hello.
extension RequestAuthorizer {
    /// - Parameter head: Its target is in authority form.
    func decideConnect(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on connection: ConnectionContext
    ) -> ConnectDecision {
        guard let authority = Authority(bytes, head.targetAuthority), let port = authority.port else {
            return .refused(
                refusal(GatewayProblem(.requestRefused, "The target is not a host and port."), on: connection)
            )
        }
        let proof = head.first(.proxyAuthorization).map { bytes.array($0.value) }
        guard head.section.fields.count(where: { $0.kind == .proxyAuthorization }) <= 1 else {
            let problem = GatewayProblem(.requestRefused, "It has more than one Proxy-Authorization.")
            return .refused(refusal(problem, on: connection))
        }
        if let problem = loopRefusal(head, bytes) { return .refused(refusal(problem, on: connection)) }
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        let via = head.section.fields.filter { $0.kind == .via }.map { bytes.string($0.value) }.joined(separator: ", ")
        return decideConnect(to: host, port: port, isRooted: authority.isRooted, proof: proof, via, on: connection)
    }

    /// The server that a client has named in its TLS hello, and for which the gateway answers; nil if it has no route.
    package func origin(named name: String, on connection: ConnectionContext) -> InterceptedOrigin? {
        let host = Array(Origin.unrooted(name.lowercased()).utf8)
        let ports = table.upstreamPorts(host.span, scheme: .https, host: host.indices)
        guard
            let port = [connection.port, Origin.Scheme.https.defaultPort, ports.min()].compactMap(\.self).first(
                where: ports.contains
            )
        else { return nil }
        return InterceptedOrigin(host: name, port: port, listenerPort: connection.port)
    }

    /// Whether the client would get the same tunnel after a reload.
    package func stillAdmits(_ tunnel: TunnelDestination, on connection: ConnectionContext) -> Bool {
        let decision = decideConnect(
            to: tunnel.host,
            port: tunnel.port,
            isRooted: tunnel.isRooted,
            proof: tunnel.proof,
            on: connection
        )
        let new: TunnelDestination? =
            switch decision {
            case .tunnel(let new): new
            case .peek(_, let new): new
            case .intercept, .refused: nil
            }
        guard let new, new.client == tunnel.client, let dialled = tunnel.dialled else { return false }
        return new.admits(dialled)
    }

    /// - Parameters:
    ///   - host: In lower case, without brackets and without the trailing dot.
    ///   - isRooted: The name was written with a trailing dot.
    ///   - proof: The value of the field with which the client authenticates.
    private func decideConnect(
        to host: String,
        port: Int,
        isRooted: Bool,
        proof: [UInt8]?,
        _ via: String = "",
        on connection: ConnectionContext
    ) -> ConnectDecision {
        let evidence = clients.evidence(proof: proof, peer: connection.peer)
        if let refusal = refusal(of: evidence, isProxyRequest: true, on: connection) { return .refused(refusal) }
        let proof = evidence.client == nil ? nil : proof
        guard connection.intercepted == nil else {
            let problem = GatewayProblem(.methodRefused, "CONNECT is not allowed inside an intercepted connection.")
            return .refused(refusal(problem, on: connection, client: evidence.client))
        }
        guard connection.intercepts else {
            return .refused(refusal(Self.notIntercepting, on: connection, client: evidence.client))
        }
        let name = Array(host.utf8)
        if table.hasUpstream(name.span, scheme: .https, host: name.indices, port: port) {
            return .intercept(InterceptedOrigin(host: host, port: port, proof: proof))
        }
        let plan = connection.address.flatMap { connect[$0] } ?? ConnectPlan()
        let problem = plan.refusal(host: host, port: port)
        var tunnel = TunnelDestination(
            host: host,
            port: port,
            isRooted: isRooted,
            client: evidence.client,
            proof: proof,
            plan: plan
        )
        tunnel.via = via
        if table.hasUpstream(name.span, scheme: .http, host: name.indices, port: port) {
            let origin = InterceptedOrigin(scheme: .http, host: host, port: port, proof: proof)
            return .peek(origin, tunnel: problem == nil ? tunnel : nil)
        }
        if let problem { return .refused(refusal(problem, on: connection, client: evidence.client)) }
        return .tunnel(tunnel)
    }

    /// Decides about a request in an intercepted connection. Routes are looked up as for an absolute target.
    private func decide(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        inPlaceOf origin: InterceptedOrigin,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        guard let authority = authority(of: head, bytes), origin.isNamed(by: authority, in: bytes),
            head.form != .absolute || head.asksForTLS(bytes) == (origin.scheme == .https)
        else {
            trace?.add(.hostRefused)
            let way = origin.listenerPort == nil ? "CONNECT" : "the name in the TLS hello"
            let client = evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient).client
            let route =
                disclosesNames(to: client, on: connection) ? name(ofRouteTo: origin).map { ", route \($0)" } ?? "" : ""
            let detail = "This connection was opened for \(origin.host):\(origin.port) (\(way)\(route))."
            return refuse(GatewayProblem(.misdirected, detail), on: connection, client: client)
        }
        var match: RouteTable.Match?
        switch findUpstream(head, bytes, authority, on: connection) {
        case .none: break
        case .one(let route): match = .upstream(route)
        case .shared(let shared):
            let evidence = evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient)
            match = shared.route(for: evidence.client).map { .upstream($0) }
            if match == nil {
                trace?.add(.hostRefused)
                trace?.compare(nil, for: head, bytes, authority)
                return refuse(shared, evidence, isProxyRequest: false, on: connection)
            }
        }
        return judge(head, bytes, match, authority, isProxyRequest: false, on: connection, &cache, &trace)
    }

    /// The name of the route to the whole server.
    private func name(ofRouteTo origin: InterceptedOrigin) -> String? {
        let bytes = origin.hostBytes + [0x2F]
        let host = origin.hostBytes.indices
        let path = host.count..<bytes.count
        return table.findUpstream(bytes.span, scheme: origin.scheme, host: host, port: origin.port, path: path).route
            .map { gates[$0].name }
    }

    private static let notIntercepting = GatewayProblem(
        .methodRefused,
        "CONNECT needs \"intercept: true\" on this listener (listeners.proxy). Without it, ask for an http:// URL by http_proxy, "
            + "or for the route's path."
    )
}

/// Plain requests for servers without a route.
extension RequestAuthorizer {
    /// - Returns: nil if the listener does not forward such requests, or if the host has routes.
    private func judgeUnrouted(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        on connection: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision? {
        guard head.form == .absolute, !head.asksForTLS(bytes), !authority.host.isEmpty, connection.intercepts,
            let plan = connection.address.flatMap({ connect[$0] }), plan.unrouted == .tunnel,
            !table.leads(to: bytes, authority.host, port: authority.port)
        else { return nil }
        let evidence = evidence(of: head, bytes, on: connection, &cache, assuming: trace?.assumedClient)
        trace?.add(.client(name: evidence.client, presentedToken: evidence.hasPresentedToken))
        if let refusal = refusal(of: evidence, isProxyRequest: true, on: connection) {
            trace?.add(.clientRequired(by: "access.require_client"))
            return .refused(refusal)
        }
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        let port = authority.port ?? Origin.Scheme.http.defaultPort
        var problem = loopRefusal(head, bytes) ?? plan.refusal(host: host, port: port, scheme: .http)
        if problem == nil, clients.hasRuns { problem = refusalOfStrayRun(head, bytes, evidence) }
        if problem == nil, hasCaptures {
            problem = PhantomRule.refusal(of: head, bytes, client: evidence.client, to: nil, asking: captures)
        }
        if let problem { return refuse(problem, on: connection, client: evidence.client) }
        let server = TunnelDestination(
            host: host,
            port: port,
            isRooted: authority.isRooted,
            client: evidence.client,
            proof: nil,
            plan: plan
        )
        return .unrouted(UnroutedRequest(to: server, admitted(.unrouted, evidence, on: connection)))
    }
}

// MARK: - Decisions

/// The decisions about a request.
extension RequestAuthorizer {
    /// Passed on, but never copied, since there is one for every request.
    package enum Decision: ~Copyable, Sendable {
        case admitted(Admitted)
        case refused(Refusal)
        case preflight(Preflight)
        /// The server has no route, and the request is forwarded without a credential.
        case unrouted(UnroutedRequest)
    }

    package struct Admitted: Sendable {
        package let match: RouteTable.Match
        /// nil for a server without a route.
        package var route: Int? { if case .unrouted = match { nil } else { match.route } }
        package let client: String?
        /// Where the client's token for the gateway stands, which therefore must not be forwarded.
        package let tokenPlaces: ClientTokenPlaces
        /// The reach of the listener that accepted the request.
        package let reach: ConnectionContext.Reach
        /// The source that the request has chosen, on a route that lets it; nil otherwise.
        package let chosen: (any CredentialSource)?
        /// The CORS fields of the response; nil if no page of another origin may call the route.
        package let crossOrigin: CrossOriginGrant?
        /// Whether a later refusal may name routes, credentials and strategies (``NameDisclosure``).
        package let disclosesNames: Bool
    }

    /// A class, so that a decision is no larger than ``Admitted``.
    package final class Refusal: Sendable {
        package let problem: GatewayProblem
        package let route: Int?
        package let client: String?
        /// Whether the response may name routes, credentials and strategies (``NameDisclosure``).
        ///
        /// If not, it has ``GatewayProblem/withoutNames``. The log always has the whole problem.
        package let disclosesNames: Bool

        init(problem: GatewayProblem, route: Int?, client: String?, disclosesNames: Bool) {
            self.problem = problem
            self.route = route
            self.client = client
            self.disclosesNames = disclosesNames
        }
    }

    /// The decision about a CONNECT (RFC 9110 section 9.3.6).
    package enum ConnectDecision: Sendable {
        /// The gateway answers instead of that server.
        case intercept(InterceptedOrigin)
        /// The server has a plain route. ``TunnelOpening`` decides by the first bytes.
        ///
        /// - Parameter tunnel: nil if bytes must not be forwarded unchanged.
        case peek(InterceptedOrigin, tunnel: TunnelDestination?)
        /// Bytes are forwarded unchanged, if the server has an address that may be dialled.
        case tunnel(TunnelDestination)
        case refused(Refusal)
    }
}

/// A plain request with an absolute target, for a server without a route (`connect.unrouted: tunnel`).
///
/// It is forwarded without a credential of the gateway. Fields for that server stay, such as `Authorization`. Fields with which the
/// client authenticates to the gateway are removed.
///
/// A class, so that a decision is no larger than ``RequestAuthorizer/Admitted``.
package final class UnroutedRequest: Sendable {
    package let server: TunnelDestination
    package let admitted: RequestAuthorizer.Admitted

    init(to server: TunnelDestination, _ admitted: RequestAuthorizer.Admitted) {
        self.server = server
        self.admitted = admitted
    }

    /// The refusal for a client that speaks HTTP/2. Clients use HTTP/1.1 to ask their proxy for plain URLs.
    package var refusalInHTTP2: RequestAuthorizer.Refusal {
        RequestAuthorizer.Refusal(
            problem: GatewayProblem(.misdirected, "Use HTTP/1.1 for servers without a route."),
            route: nil,
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }
}

/// Who may see names from the configuration: of routes, credentials, strategies, upstreams and commands.
package enum NameDisclosure {
    /// Known clients may see names.
    ///
    /// If no client is configured, so may everyone who can reach a local listener: loopback, or a unix socket, to which the kernel
    /// has admitted the peer. An engine may forward the response to anybody.
    ///
    /// - Parameters:
    ///   - client: The client that has sent the request; nil if unknown.
    ///   - hasClients: `access.clients` names at least one.
    package static func isAllowed(
        to client: String?,
        on reach: ConnectionContext.Reach,
        hasClients: Bool
    ) -> Bool {
        client != nil || (!hasClients && reach != .network && reach != .engine)
    }
}
