import GatewayHTTP

/// What a route asks of a request.
extension RequestAuthorizer {
    /// A request whose route was looked for: the page, the client, the rules of the route and the credential.
    ///
    /// - Parameter isProxyRequest: The client takes the gateway for its proxy, and would prove itself as to one.
    @inline(__always)
    func judge(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match?,
        _ authority: Authority,
        isProxyRequest: Bool,
        on listener: ConnectionContext,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
        var grant: CrossOriginGrant?
        if answersPages || head.mayBeOfPage,
            let decision = judgePage(head, bytes, match, on: listener, &grant, &cache, &trace)
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
            on: listener,
            &cache,
            &trace
        )
    }

    func noRoute(_ disclosesNames: Bool) -> GatewayProblem {
        guard disclosesNames else { return GatewayProblem(.noRoute, "No route matches.") }
        let paths = matchPaths.prefix(20).joined(separator: ", ")
        return GatewayProblem(.noRoute, "No route matches. Known paths: \(paths)")
    }

    func forbid(
        _ client: String?,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        on listener: ConnectionContext,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        if head.present.contains(.destination), listener.engine != nil, gates[match.route].guardsPaths {
            trace?.add(.notAllowed)
            let detail =
                "An engine forwards Destination as it came, and the route \(gates[match.route].name) does not lead everywhere."
            return GatewayProblem(.routeForbidden, detail)
        }
        if let strictness = plainGates[match.route] {
            switch judgePath(head, bytes, strictness, on: listener) {
            case .unambiguous: return nil
            case let verdict: return problem(of: verdict, match, head, bytes, &trace)
            }
        }
        let gate = gates[match.route]
        if let allowed = gate.clients {
            guard client.map(allowed.contains) ?? false else {
                trace?.add(.notAllowed)
                return GatewayProblem(.routeForbidden, "This client may not use the route \(gate.name).")
            }
            trace?.add(.clientAllowed(onRoute: gate.name))
        }
        let verdict = judgePath(head, bytes, gate.strictness, on: listener)
        if case .unambiguous = verdict { return gate.forbid(match, head, bytes, &trace) }
        return problem(of: verdict, match, head, bytes, &trace)
    }

    /// On a listener for engines, encoded slashes and dots are refused: the engine may decode the path before it forwards it.
    private func judgePath(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ strictness: CanonicalPath.Strictness,
        on listener: ConnectionContext
    ) -> CanonicalPath.Verdict {
        CanonicalPath.judge(bytes, head.path, strictness: strictness, refusesReadings: listener.engine != nil)
    }

    /// Why a path that is not unambiguous is refused; nil if all its readings lead to the same route and the same rule.
    private func problem(
        of verdict: CanonicalPath.Verdict,
        _ match: RouteTable.Match,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ trace: inout AuthorizationTrace?
    ) -> GatewayProblem? {
        let gate = gates[match.route]
        do throws(CanonicalPath.Ambiguity) {
            if case .refused(let ambiguity) = verdict { throw ambiguity }
            let readings = try PathReadings(bytes, head.path)
            if let problem = gate.forbid(match, head, bytes, &trace) { return problem }
            guard let reading = readings.all.first(where: { !isJudgedAlike($0, match, head, bytes) }) else {
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
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>
    ) -> Bool {
        let gate = gates[match.route]
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
        }
        return found && gate.selectsSameRule(for: reading, match, head, bytes)
            && gate.meetsNoOtherEndpoint(in: reading, match, head, bytes)
    }

    /// Why a request may not have that `Destination` (RFC 4918 section 10.3); nil where it may. To the upstream it is a second path for
    /// the method, which the credential opens like the first.
    ///
    /// - Parameter destination: As the upstream gets it; nil for several.
    package func forbid(
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

    func choose(
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match,
        _ evidence: ClientAuthenticator.Evidence,
        _ grant: CrossOriginGrant?,
        on listener: ConnectionContext,
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
        return subject.look(for: head, bytes, client: client)
            .map { named in
                trace?.add(.subjectNamed(named.subject))
                return named.source
            }
    }
}
