/// Puts the checks of a judgement into words, in their order.
struct ExplanationSteps {
    private(set) var steps: [Explanation.Step] = []
    private let judgement: RequestJudgement

    init(_ judgement: RequestJudgement, credential: String?) {
        self.judgement = judgement
        for reason in judgement.trace.reasons { add(reason) }
        if let tunnel = judgement.tunnel {
            add("connect", "\(tunnel) may be reached without a route, if its addresses may be dialled")
            if let problem = judgement.problem { add("limits", problem.detail, passes: false) }
            return
        }
        let isAdmitted = judgement.trace.reasons.last == .admitted
        if judgement.trace.reasons.isEmpty, let problem = judgement.problem {
            add("request", problem.detail, passes: false)
        }
        guard isAdmitted else { return }
        if let credential { add("credential", credential, passes: judgement.credentialProblem == nil) }
        if judgement.credentialProblem == nil, let problem = judgement.problem {
            let isLimit = problem.kind == .clientLimitReached || problem.kind == .contentTooLarge
            add(isLimit ? "limits" : "fields", problem.detail, passes: false)
        }
    }

    private mutating func add(_ name: String, _ text: String, passes: Bool = true) {
        steps.append(Explanation.Step(name: name, text: ShownText.clean(text, limit: 600), passes: passes))
    }

    private var detail: String { judgement.problem?.detail ?? "" }

    private mutating func add(_ reason: AuthorizationTrace.Reason) {
        switch reason {
        case .routeFound(let name, let way): add("route", "\(name): \(judgement.foundBy(way))")
        case .routeNotFound: add("route", "none of \(judgement.trace.routes.count) matches", passes: false)
        case .hostRefused: add("host", detail, passes: false)
        case .originRefused: add("origin", detail, passes: false)
        case .originAllowed(let origin): add("origin", "pages of \(origin) may call (allow_origins)")
        case .ownOrigin: add("origin", "it is the listener's own, and a client is known")
        case .preflightAnswered:
            add("preflight", "the gateway answers the browser, before it asks for a client and without the upstream")
        case .client(let name, let presentedToken): add("client", client(name, presentedToken))
        case .clientRequired(let key): add("client", "a known client is required (\(key))", passes: false)
        case .clientAllowed:
            let names = judgement.route?.clients?.joined(separator: ", ") ?? ""
            add("clients", "the route lets in \(names)")
        case .pathRefused: add("path", detail, passes: false)
        case .allowedByRule(let number):
            let rules = judgement.route?.allow ?? []
            let rule = rules.indices.contains(number - 1) ? rules[number - 1].description : ""
            add("allow", "rule \(number) of \(rules.count) allows it: \(rule)")
        case .notAllowed: addMisses()
        case .methodOverrideRefused, .authorityEndpointRefused, .connectionAuthRefused:
            add("allow", detail, passes: false)
        case .loopRefused: add("loop", detail, passes: false)
        case .subjectNamed(let subject): add("subject", "the request names \(subject)")
        case .subjectRefused: add("subject", detail, passes: false)
        case .admitted: break
        }
    }

    private func client(_ name: String?, _ presentedToken: Bool) -> String {
        if let name {
            return judgement.trace.assumedClient == nil ? "\(name), known by its token" : "\(name), as asked"
        }
        return presentedToken
            ? "not known: no client of access.clients has the token that it presents"
            : "not known: the request presents no client token"
    }

    private mutating func addMisses() {
        let misses = judgement.trace.ruleMisses
        guard !misses.isEmpty else {
            let names = judgement.route?.clients?.joined(separator: ", ") ?? ""
            return add("clients", "the route lets in only \(names)", passes: false)
        }
        add("allow", "none of the \(misses.count) rules allows it", passes: false)
        for miss in misses.prefix(Explanation.maximumOthers) {
            let lack = miss.takesMethod ? "the path differs" : miss.takesPath ? "the method differs" : "both differ"
            add("allow", "not rule \(miss.number), \(miss.rule): \(lack)", passes: false)
        }
    }
}

extension RequestJudgement {
    var credentialProblem: GatewayProblem? {
        if case .unavailable(let problem)? = credential?.answer { problem } else { nil }
    }

    /// What of the request found the route.
    func foundBy(_ way: String) -> String {
        guard let route else { return "" }
        switch way {
        case "path": return route.matchPath == "/" ? "it takes every path" : "the path begins with \(route.matchPath)"
        case "host": return "the host is one of its own: \(route.matchHosts.joined(separator: ", "))"
        default: return "the target is its upstream \(route.upstream)\(route.upstreamPath)"
        }
    }

    /// Why another route lost.
    func reason(of loss: RouteLoss) -> String {
        guard trace.routes.indices.contains(loss.route) else { return "" }
        let other = trace.routes[loss.route]
        let winner = route?.name ?? ""
        switch loss.reason {
        case .otherHostAndPath:
            let path = "the path does not begin with \(other.matchPath)"
            guard !other.matchHosts.isEmpty else { return path }
            return "\(path), and the host is not \(other.matchHosts.joined(separator: ", "))"
        case .hostDecides: return "its path fits, but the host belongs to \(winner), and a host counts before a path"
        case .specificHost(let name): return "its host fits, but \(name) of \(winner) fits more closely"
        case .sharedHost:
            return
                "it has the host with other routes, so the path decides, and that does not begin with \(other.matchPath)"
        case .longerPath: return "the path begins with \(other.matchPath), too, but that of \(winner) is longer"
        case .otherUpstream: return "its upstream is \(other.upstream)\(other.upstreamPath)"
        case .sharedUpstream:
            return
                "the target is its upstream, but other routes have the same one; tell them apart with match.upstream_path, clients or"
                + " match.default, or name it by its path \(other.matchPath)"
        case .nearerUpstream: return "the target is its upstream, but that of \(winner) is nearer"
        }
    }
}
