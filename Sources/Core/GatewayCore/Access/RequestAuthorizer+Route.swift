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
        on listener: ListenerIdentity,
        _ cache: inout ClientAuthenticationCache,
        _ trace: inout AuthorizationTrace?
    ) -> Decision {
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

    func choose(
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
        return subject.look(for: head, bytes, client: client)
            .map { named in
                trace?.add(.subjectNamed(named.subject))
                return named.source
            }
    }
}
