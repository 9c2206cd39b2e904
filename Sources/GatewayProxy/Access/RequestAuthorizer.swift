package import GatewayHTTP
package import GatewayTokens

/// Decides from the head of a request whether it is admitted.
///
/// Checks the host, the page that sent the request, the client, the route and its rules, and selects the credential.
package final class RequestAuthorizer: Sendable {
    /// A route as it comes to the authorizer: its plan, and what the data plane has found out about its credential.
    package struct Route: Sendable {
        let plan: RoutePlan
        let places: ClientAuthenticator.Places
        let selection: (any SubjectCredentialResolver)?

        /// - Parameter selection: Where each request says whose token it goes with.
        package init(plan: RoutePlan, places: ClientAuthenticator.Places, selection: (any SubjectCredentialResolver)?) {
            self.plan = plan
            self.places = places
            self.selection = selection
        }
    }

    package let table: RouteTable
    /// What each route asks, by its index.
    private let gates: [RouteGate]
    /// How strict those gates are that ask nothing else; nil for the others. Most routes are found here, side by side.
    private let plainGates: [CanonicalPath.Strictness?]
    private let clients: ClientAuthenticator
    private let access: AccessPlan
    private let connect: [ListenerPlan.Address: ConnectPlan]
    /// For requests that find no route.
    private let originRule: OriginRule
    /// Pages of some other origin may call some route.
    private let answersPages: Bool
    /// How this gateway calls itself in `Via`.
    private let viaName: String
    private let matchPaths: [String]

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
        clients = ClientAuthenticator(access.clients, uses: uses, jwts: jwts, sha256: sha256)
        self.access = access
        self.connect = connect
        self.viaName = viaName
        gates = routes.map { RouteGate($0, access) }
        plainGates = gates.map { $0.isPlain ? $0.strictness : nil }
        originRule = OriginRule(access.allowedOrigins, allowsCredentials: false, isOfRoute: false)
        answersPages = gates.contains { $0.originRule.answersPages }
    }

    /// - Parameters:
    ///   - cache: The cache of the connection, since this configuration is in use.
    ///   - trace: nil unless a person wants to know the reasons.
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

    /// A request whose route was looked for: the page, the client, the rules of the route and the credential.
    ///
    /// - Parameter isProxyRequest: The client takes the gateway for its proxy, and would prove itself as to one.
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

    /// Whether an answer may name routes, credentials and strategies. For answers that need no decision, the client is nil.
    package func disclosesNames(to client: String?, on connection: ConnectionContext) -> Bool {
        NameDisclosure.isAllowed(to: client, on: connection.reach, hasClients: !clients.isEmpty)
    }

    /// Whether routes have this host name.
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
    /// What names that server: the target in absolute form, or else `Host`.
    @inline(__always)
    private func authority(of head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Authority? {
        // A pattern, not `==`: that is a call through a table into another module.
        if case .absolute = head.form { return Authority(bytes, head.targetAuthority) }
        return Authority(bytes, head.host)
    }

    /// The routes that lead to that server; none for a request to the gateway itself.
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

    /// Several routes lead there.
    ///
    /// - Parameter shared: The request and its client choose none of them.
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

    /// Only names that are ours are answered: in `Host` on loopback listeners, in an absolute target on all.
    ///
    /// A page that rebinds its own name to 127.0.0.1 becomes same-origin with this listener, but its requests still carry that
    /// name. And who takes the gateway for a proxy to anywhere must not have its request sent somewhere else.
    private func hostRefusal(
        _ bytes: borrowing Span<UInt8>,
        _ authority: Authority,
        _ head: borrowing RequestHead,
        on connection: ConnectionContext
    ) -> GatewayProblem? {
        let isAbsolute = if case .absolute = head.form { true } else { false }
        guard connection.reach == .loopback || isAbsolute else { return nil }
        // HTTP/1.0 without Host: no browser does that.
        if authority.host.isEmpty { return head.isHTTP10 ? nil : Self.notOurs }
        guard authority.port == nil || authority.port == connection.port else {
            // Where ports are mapped, hosts of routes come with others; a name of the client's own machine is another server's.
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
    /// - Parameter grant: The grant for a page that may call. For other requests of a route that such pages may call, what keeps caches from
    ///   answering them with the response.
    /// - Returns: nil where the request goes on.
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

    /// What an answer of the gateway's own says to the browser of a page, so that the page can read why there is no other.
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
        // A route that names clients asks for one, whatever the listener does.
        if gate.clients != nil, evidence.client == nil {
            trace?.add(.clientRequired(by: "clients"))
            return refuse(evidence.refusal(isProxyRequest: isProxyRequest), on: connection, route: match.route)
        }
        if let problem = forbid(evidence.client, match, gate, head, bytes, on: connection, &trace) {
            return refuse(problem, on: connection, route: match.route, client: evidence.client)
        }
        return choose(head, bytes, match, gate, evidence, grant, on: connection, &trace)
    }

    /// Why a client that has not proved itself is refused; nil where the listener asks for no proof (`access.require_client`).
    /// Proofs of different clients are refused everywhere.
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

    /// Who sends a request, before that is judged. On a connection whose CONNECT was taken, the fields of a request are for the upstream.
    ///
    /// - Parameters:
    ///   - match: nil before its route is known.
    ///   - client: As whom the request is judged, whatever it presents (``AuthorizationTrace/assumedClient``).
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
        if let client { evidence.assume(client) }
        return evidence
    }
}

/// What a route asks of a request.
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
                "An engine forwards Destination as it came, and the route \(gate.name) does not lead everywhere."
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

    /// On a listener for engines, encoded slashes and dots are refused: the engine may decode the path before it forwards it.
    private func judgePath(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ strictness: CanonicalPath.Strictness,
        on connection: ConnectionContext
    ) -> CanonicalPath.Verdict {
        CanonicalPath.judge(bytes, head.path, strictness: strictness, refusesReadings: connection.engine != nil)
    }

    /// Why a path that is not unambiguous is refused; nil if all its readings lead to the same route and the same rule.
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

    /// Whether the reading finds the same route, rule and endpoints as the path that was sent.
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

    /// Why a request may not have that `Destination` (RFC 4918 section 10.3); nil where it may. To the upstream it is a second path for
    /// the method, which the credential opens like the first.
    ///
    /// - Parameter destination: As the upstream gets it; nil for several.
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
        if !evidence.usesAuthorization, let problem = gate.forbidConnectionAuth(head, bytes) {
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
            stripsAuthorization: evidence.usesAuthorization,
            reach: connection.reach,
            chosen: chosen,
            crossOrigin: grant,
            disclosesNames: disclosesNames(to: evidence.client, on: connection)
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
        return subject.look(for: head, bytes, client: client)
            .map { named in
                trace?.add(.subjectNamed(named.subject))
                return named.source
            }
    }

    /// Refuses requests that have passed this gateway before: their `Via` names it (RFC 9110 section 7.6.3).
    private func loopRefusal(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> GatewayProblem? {
        guard head.present.contains(.via) else { return nil }
        for index in head.section.fields.indices where head.section.fields[index].kind == .via {
            // `1.1 name (comment), ...`: another gateway's name may begin as ours does.
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
    /// Decides as for a request that a client sends, and only for routes that name the engine.
    ///
    /// The server is found as behind a CONNECT: `Host` may name a route's upstream. The gateway's own names mean nothing here, because
    /// the client has named the engine.
    ///
    /// - Parameters:
    ///   - head: The head of ``OriginalRequest/bytes``.
    ///   - scheme: ``OriginalRequest/scheme``
    ///   - route: ``OriginalRequest/route``. With it, requests find their route as on a listener for clients, and it must be that one.
    ///   - cache: Of this configuration (``EngineClients``); the connection, which is the engine's, does not matter.
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
        case .admitted(let admitted): return .admitted(admitted)
        case .refused(let refusal): return .refused(refusal)
        // An answer with 2xx would let the engine forward it without a credential.
        case .preflight(let preflight):
            let detail = "The engine answers preflights itself; the gateway hands out no credential for them."
            return refuse(GatewayProblem(.originRefused, detail), on: connection, route: preflight.route)
        case .unrouted: return refuse(noRoute(false), on: connection)
        }
    }

    /// Why the route hands its credential not to this engine; nil where it does.
    private func refusal(of match: RouteTable.Match, to engine: String) -> GatewayProblem? {
        let gate = gates[match.route]
        guard !gate.engines.contains(engine) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The route \(gate.name) hands no credential to the engine \(engine). To allow it, add \(engine) to"
                + " routes.\(gate.name).authz."
        )
    }

    /// Whether the host of an upstream finds another route, or another path on it, than the engine has chosen by ``EnginePlan/routeField``.
    ///
    /// A client could send that field to an engine that does not, and would choose which of both readings is judged.
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
        "The host is that of an upstream, and the engine names a route that it finds in another way. Add the host to match.hosts of"
            + " that route, or have the engine send no \(EnginePlan.routeField)."
    )

    /// Why the engine's choice is not the gateway's; nil where it is, or where the engine names none.
    private func mismatch(_ match: RouteTable.Match, chosen route: [UInt8]) -> GatewayProblem? {
        let name = gates[match.route].name
        guard !route.isEmpty, !name.utf8.elementsEqual(route) else { return nil }
        return GatewayProblem(
            .routeForbidden,
            "The engine sends this request to another route than \(name), which the gateway finds for it. Export the engine's"
                + " configuration again (authgateway export)."
        )
    }
}

/// Connections that clients ask for with CONNECT, or by their TLS hello.
extension RequestAuthorizer {
    /// - Parameter head: Its target has the form of an authority.
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
        let host = IPAddress.hostName(bytes.string(authority.host).lowercased())
        return decideConnect(to: host, port: port, isRooted: authority.isRooted, proof: proof, on: connection)
    }

    /// The server in whose place the gateway answers a client that has named it in its TLS hello; nil where no route leads there.
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

    /// Whether the client would get the same tunnel now: a reload has come.
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
        return new.admits(dialled.address, isOwn: dialled.isOwn)
    }

    /// - Parameters:
    ///   - host: In lower case, without brackets and the dot of the root.
    ///   - isRooted: It was written with that dot.
    ///   - proof: The value of the field that says who the client is.
    private func decideConnect(
        to host: String,
        port: Int,
        isRooted: Bool,
        proof: [UInt8]?,
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
        let tunnel = TunnelDestination(
            host: host,
            port: port,
            isRooted: isRooted,
            client: evidence.client,
            proof: proof,
            plan: plan
        )
        if table.hasUpstream(name.span, scheme: .http, host: name.indices, port: port) {
            let origin = InterceptedOrigin(scheme: .http, host: host, port: port, proof: proof)
            return .peek(origin, tunnel: problem == nil ? tunnel : nil)
        }
        if let problem { return .refused(refusal(problem, on: connection, client: evidence.client)) }
        return .tunnel(tunnel)
    }

    /// Decides about a request on a connection whose CONNECT was taken. Routes are found as by an absolute target.
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

    /// The name of the route that leads to the whole server.
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

/// Plain requests for servers that no route leads to.
extension RequestAuthorizer {
    /// - Returns: nil where the listener passes no such request, or routes lead to the host.
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
        if let problem = loopRefusal(head, bytes) ?? plan.refusal(host: host, port: port, scheme: .http) {
            return refuse(problem, on: connection, client: evidence.client)
        }
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

/// What becomes of a request.
extension RequestAuthorizer {
    /// Handed on, never copied: there is one for every request.
    package enum Decision: ~Copyable, Sendable {
        case admitted(Admitted)
        case refused(Refusal)
        case preflight(Preflight)
        /// No route leads to the server, and the request passes without a credential.
        case unrouted(UnroutedRequest)
    }

    package struct Admitted: Sendable {
        package let match: RouteTable.Match
        /// nil for a server that no route leads to.
        package var route: Int? { if case .unrouted = match { nil } else { match.route } }
        package let client: String?
        /// The client authenticated to us with `Authorization`, so it must not go upstream.
        package let stripsAuthorization: Bool
        /// The reach of the listener that the request came to.
        package let reach: ConnectionContext.Reach
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

        init(problem: GatewayProblem, route: Int?, client: String?, disclosesNames: Bool) {
            self.problem = problem
            self.route = route
            self.client = client
            self.disclosesNames = disclosesNames
        }
    }

    /// What becomes of a CONNECT (RFC 9110 section 9.3.6).
    package enum ConnectDecision: Sendable {
        /// The gateway answers in place of that server.
        case intercept(InterceptedOrigin)
        /// A plain route leads to the server, and ``TunnelOpening`` says what becomes of the connection.
        ///
        /// - Parameter tunnel: nil where bytes may not pass as they are.
        case peek(InterceptedOrigin, tunnel: TunnelDestination?)
        /// Bytes pass as they are, if the server has an address that may be dialled.
        case tunnel(TunnelDestination)
        case refused(Refusal)
    }
}

/// A plain request with an absolute target, for a server that no route leads to (`connect.unrouted: tunnel`).
///
/// It passes without a credential. What the client has sent for that server stays, such as `Authorization`. What proves the client to
/// the gateway does not.
///
/// A class, so that a decision is no larger than what is admitted.
package final class UnroutedRequest: Sendable {
    package let server: TunnelDestination
    package let admitted: RequestAuthorizer.Admitted

    init(to server: TunnelDestination, _ admitted: RequestAuthorizer.Admitted) {
        self.server = server
        self.admitted = admitted
    }

    /// The answer to a client that asks in HTTP/2. Clients ask their proxy in HTTP/1.1 for plain URLs.
    package var refusalInHTTP2: RequestAuthorizer.Refusal {
        RequestAuthorizer.Refusal(
            problem: GatewayProblem(.misdirected, "Use HTTP/1.1 for servers without a route."),
            route: nil,
            client: admitted.client,
            disclosesNames: admitted.disclosesNames
        )
    }
}

/// Who is told names from the configuration: of routes, credentials, strategies, upstreams and commands.
package enum NameDisclosure {
    /// Names are for known clients.
    ///
    /// If no client is configured, they are for everyone who can reach a local listener: loopback, or a unix socket, whose
    /// peer the kernel has let in. An engine may pass an answer on to anybody.
    ///
    /// - Parameters:
    ///   - client: The one that sent the request; nil where it is not known.
    ///   - hasClients: `access.clients` names at least one.
    package static func isAllowed(
        to client: String?,
        on reach: ConnectionContext.Reach,
        hasClients: Bool
    ) -> Bool {
        client != nil || (!hasClients && reach != .network && reach != .engine)
    }
}
