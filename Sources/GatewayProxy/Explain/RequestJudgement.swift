package import GatewayHTTP
package import GatewayTokens

/// What the gateway would do with a described request, as the code that serves has decided it. Holds no secret.
package struct RequestJudgement: Sendable {
    /// The gateway's credential for the request.
    package struct CredentialUse: Sendable {
        package enum Answer: Sendable {
            /// There is one to inject.
            case ready(generation: Int)
            /// The request waits for it.
            case awaited
            case unavailable(GatewayProblem)
        }

        package let name: String
        package let strategy: String
        /// It has a token that comes and goes; otherwise it is what the configuration says.
        package let hasToken: Bool
        package let answer: Answer
        /// Fields that are injected, with a description instead of the value.
        package let fields: [DescribedRequest.Field]
        /// The query parameter that is injected.
        package let parameter: String?

        package init(
            name: String,
            strategy: String,
            hasToken: Bool,
            answer: Answer,
            fields: [DescribedRequest.Field] = [],
            parameter: String? = nil
        ) {
            self.name = name
            self.strategy = strategy
            self.hasToken = hasToken
            self.answer = answer
            self.fields = fields
            self.parameter = parameter
        }

        /// What is shown instead of its value.
        package static func placeholder(_ name: String, generation: Int, hasToken: Bool) -> String {
            hasToken ? "(token of \(name), generation \(generation))" : "(credential \(name))"
        }
    }

    /// The head that the upstream would get. What the gateway injects has been replaced by a description before it was written.
    struct Departure: Sendable {
        let head: [UInt8]
        /// Fields of the request that the upstream does not get.
        let dropped: [(name: String, reason: RequestFieldRules.DropReason)]
        /// Fields that the upstream gets and the client did not send.
        let added: [DescribedRequest.Field]
    }

    package let listenerMatch: ListenerMatch
    package let request: DescribedRequest
    package var trace = AuthorizationTrace()
    /// What the client would be answered; nil when the request goes to the upstream.
    package var problem: GatewayProblem?
    /// Whether that answer names routes, credentials and strategies.
    var disclosesNames = false
    package var route: RoutePlan?
    /// Host and port to which bytes pass as they are, where no route leads there.
    package var tunnel: String?
    /// The credential whose login the gateway captures, where it answers instead of the authorization server.
    var capturedFor: String?
    package var credential: CredentialUse?
    var departure: Departure?
    package var remarks: [String] = []
    /// The field of the answer that names the request; nil for none.
    package var idField: String?

    package init(_ request: DescribedRequest, listenerMatch: ListenerMatch) {
        self.request = request
        self.listenerMatch = listenerMatch
    }
}

// MARK: - Explanation

/// The explanation of a judgement.
extension Explanation {
    /// Puts a judgement into words.
    ///
    /// - Parameters:
    ///   - status: Of the credential's token; nil for a credential that has none.
    ///   - userFields: Fields that name a user to act for, in lower case. They hold no secret.
    ///   - now: To say how old the token is.
    package init(
        _ judgement: RequestJudgement,
        status: TokenStatus?,
        source: Source,
        userFields: Set<String> = [],
        at now: UnixTime
    ) {
        self.source = source
        request = Request(judgement)
        let losses = judgement.trace.otherRoutes.filter(\.isNear) + judgement.trace.otherRoutes.filter { !$0.isNear }
        otherRouteCount = losses.count
        otherRoutes = losses.prefix(Self.maximumOthers).map {
            OtherRoute(name: $0.name, reason: judgement.reason(of: $0))
        }
        route = judgement.route.map { Route($0, judgement) }
        client = Client(judgement)
        credential = judgement.credential.map { CredentialState($0, status, at: now) }
        refusal = judgement.problem.map { Refusal($0, disclosesNames: judgement.disclosesNames) }
        departure = judgement.departure.map { Departure($0, judgement, userFields) }
        outcome = Self.outcome(of: judgement)
        let credentialText = credential?.text ?? (judgement.route == nil ? nil : "none is injected")
        steps = ExplanationSteps(judgement, credential: credentialText).steps
        verdict = ""
        verdict = ShownText.clean(verdict(of: judgement), limit: 600)
    }

    private static func outcome(of judgement: RequestJudgement) -> Outcome {
        guard judgement.problem == nil else { return .refused }
        if judgement.trace.reasons.last == .preflightAnswered || judgement.capturedFor != nil { return .answered }
        if judgement.tunnel != nil { return .tunnelled }
        if case .awaited? = judgement.credential?.answer { return .waits }
        return .forwarded
    }

    private func verdict(of judgement: RequestJudgement) -> String {
        if let refusal { return "Would be refused: \(refusal.status) \(refusal.code): \(refusal.detail)" }
        if let name = judgement.capturedFor {
            return
                "Would be answered by the gateway in place of the authorization server (credential \(name), capture)."
        }
        if outcome == .answered { return "Would be answered by the gateway: the page may send the request." }
        if let tunnel = judgement.tunnel {
            return
                "Would be passed to \(tunnel) without a credential: no route leads there (connect.unrouted: tunnel)."
        }
        let place = "Would be forwarded to \(destination(of: judgement))"
        guard let credential else { return "\(place) without a credential." }
        guard outcome == .waits else { return "\(place) with credential \(credential.name)." }
        return
            "\(place) with credential \(credential.name), once it has a token: it has none, and the request waits for one."
    }

    /// The upstream's URL, without a query.
    private func destination(of judgement: RequestJudgement) -> String {
        guard let route = judgement.route else { return "" }
        let target = departure?.line.split(separator: " ").dropFirst().first.map(String.init) ?? ""
        return "\(route.upstream)\(target.prefix { $0 != "?" })"
    }
}

extension Explanation.Request {
    fileprivate init(_ judgement: RequestJudgement) {
        let (request, listenerMatch) = (judgement.request, judgement.listenerMatch)
        method = ShownText.clean(request.method, limit: 40)
        target = ShownText.target(listenerMatch.target(of: request))
        host = ShownText.clean(listenerMatch.host)
        listener = Explanation.Listener(listenerMatch.listener)
        way = listenerMatch.form
        idField = judgement.idField
        remarks = (request.remarks + listenerMatch.remarks + judgement.remarks).map { ShownText.clean($0) }
        if listenerMatch.form == .proxy, request.proxy == nil {
            let advice = "explained as if the gateway were the client's proxy, \(listenerMatch.listener.authority)"
            remarks.append("The URL is not one of the gateway's own: \(advice).")
        }
    }
}

extension Explanation.Listener {
    fileprivate init(_ listener: BoundListener) {
        self.init(name: listener.text, port: listener.port, isTls: listener.isTLS)
        switch listener.address {
        case .tcp(let host, _): address = host
        case .unix(let path, _): socket = path
        }
    }
}

extension ListenerMatch {
    /// The way that an explanation names, so that the request can be sent on it.
    package init(_ request: Explanation.Request) {
        let listener = request.listener
        let address: ListenerPlan.Address =
            if let path = listener.socket {
                .unix(path: path, allowedUsers: [])
            } else {
                .tcp(host: listener.address ?? "127.0.0.1", port: listener.port ?? 0)
            }
        self.init(
            form: request.way,
            listener: BoundListener(address: address, port: listener.port, isTLS: listener.isTls),
            host: request.host
        )
    }
}

extension Explanation.Route {
    fileprivate init(_ route: RoutePlan, _ judgement: RequestJudgement) {
        name = route.name
        upstream = route.upstream.description + route.upstreamPath
        rules = route.allow.map(\.description)
        reason =
            judgement.trace.reasons.lazy.compactMap { reason in
                guard case .routeFound(_, let way) = reason else { return nil }
                return judgement.foundBy(way)
            }.first ?? ""
    }
}

extension Explanation.Client {
    /// nil where the request was refused before anybody asked who sent it.
    fileprivate init?(_ judgement: RequestJudgement) {
        let known = judgement.trace.reasons.lazy.compactMap { reason -> (String?, Bool)? in
            guard case .client(let name, let presentedToken) = reason else { return nil }
            return (name, presentedToken)
        }.first
        guard let (name, presentsToken) = known else { return nil }
        let isAssumed = judgement.trace.assumedClient != nil
        self.init(name: name, presentsToken: presentsToken && !isAssumed, isAssumed: isAssumed)
    }
}

/// The state of the credential, and its words.
extension Explanation.CredentialState {
    fileprivate init(_ use: RequestJudgement.CredentialUse, _ status: TokenStatus?, at now: UnixTime) {
        name = use.name
        strategy = use.strategy
        hasToken = use.hasToken
        self.status = status
        ageSeconds = status?.obtainedAt.flatMap { UnixTime(rfc3339: $0) }
            .map { Int(max((now - $0).wholeMilliseconds / 1000, 0)) }
        fields = use.fields.map { Explanation.Field(name: $0.name, value: $0.value) }
        parameter = use.parameter
    }

    /// `box-service (box_ccg): valid, generation 14, 12m00s old, expires in 48m00s`
    var text: String {
        guard let status else {
            let state = hasToken ? "whether it has a token is not known here" : "it is what the configuration says"
            return "\(name) (\(strategy)): \(state)"
        }
        var facts = [status.state.rawValue]
        if status.generation > 0 { facts.append("generation \(status.generation)") }
        if let ageSeconds { facts.append("\(ConfigUnits.countdown(ageSeconds)) old") }
        if let left = status.remainingSeconds {
            facts.append(left > 0 ? "expires in \(ConfigUnits.countdown(left))" : "expired")
        }
        let error = status.lastError.map { "; last error: \($0)" } ?? ""
        let action = status.action.map { "; what to do: \($0)" } ?? ""
        return "\(name) (\(strategy)): " + facts.joined(separator: ", ") + error + action
    }
}

extension Explanation.Refusal {
    fileprivate init(_ problem: GatewayProblem, disclosesNames: Bool) {
        status = problem.status
        code = problem.kind.rawValue
        detail = ShownText.clean(problem.detail, limit: 600)
        let told = disclosesNames ? problem.detail : problem.withoutNames.detail
        detailForClient = told == problem.detail ? nil : ShownText.clean(told, limit: 600)
        command = problem.command.map { ShownText.clean($0) }
    }
}

/// What would leave for the upstream, line by line.
extension Explanation.Departure {
    fileprivate init(
        _ departure: RequestJudgement.Departure,
        _ judgement: RequestJudgement,
        _ userFields: Set<String>
    ) {
        let lines = String(decoding: departure.head, as: UTF8.self).replacing("\r\n", with: "\n").split(separator: "\n")
        line = Self.line(lines.first.map(String.init) ?? "", judgement.credential)
        fields = lines.dropFirst().map { line in
            let name = String(line.prefix { $0 != ":" })
            let value = String(line.dropFirst(name.count + 1).drop { $0 == " " || $0 == "\t" })
            let isAdded = departure.added.contains { $0.name == name && $0.value == value }
            return Explanation.Field(
                name: ShownText.clean(name),
                value: isAdded ? ShownText.clean(value) : ShownText.value(value, of: name, userFields: userFields)
            )
        }
        added = departure.added.map { Explanation.Field(name: $0.name, value: ShownText.clean($0.value)) }
        removed = departure.dropped.map { dropped in
            Explanation.RemovedField(
                name: ShownText.clean(dropped.name),
                reason: Self.words(for: dropped.reason, judgement.route)
            )
        }
    }

    private static func line(_ line: String, _ credential: RequestJudgement.CredentialUse?) -> String {
        let parts = line.split(separator: " ", maxSplits: 2)
        guard parts.count == 3 else { return ShownText.clean(line) }
        let target = ShownText.target(
            String(parts[1]),
            injecting: credential?.parameter,
            as: credential.map { "(\($0.name))" } ?? ""
        )
        return "\(ShownText.clean(String(parts[0]))) \(target) \(parts[2])"
    }

    private static func words(for reason: RequestFieldRules.DropReason, _ route: RoutePlan?) -> String {
        switch reason {
        case .host: "the upstream gets its own"
        case .clientToken: "it is the client's token for the gateway"
        case .authorization:
            route?.credential == nil ? "headers.remove names it" : "the route injects its own credential"
        case .expectation: "nothing has to be waited for"
        case .framing: "the length of the body is known"
        case .forwardedPolicy: "headers.forwarded is \(route?.headers.forwarded.rawValue ?? "remove")"
        case .cookiePolicy: "cookies is \(route?.cookies.rawValue ?? "drop")"
        case .hopByHop: "it belongs to one connection"
        case .owned: "the route sets or removes it"
        case .nominated: "Connection names it"
        case .trace: "the gateway continues the trace"
        case .link: "the upstream's URL takes the place of the gateway's (rewrite.links)"
        }
    }
}

/// Puts the checks of a judgement into words, in their order.
private struct ExplanationSteps {
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
            let rule = rules.indices.contains(number - 1) ? rules[number - 1] : nil
            add("allow", "rule \(number) of \(rules.count) allows it: \(rule?.description ?? "")")
        case .toolsChecked(let number, let mayCall):
            let rules = judgement.route?.allow ?? []
            guard rules.indices.contains(number - 1), let tools = rules[number - 1].tools else { break }
            add("tools", "rule \(number) has \(tools.description): \(tools.explanation(mayCall: mayCall))")
        case .notAllowed: addMisses()
        case .approvalNeeded:
            add("approve", "it is held until an operator approves it (authgateway approve)")
        case .methodOverrideRefused, .toolRefused, .approvalImpossible, .authorityEndpointRefused,
            .connectionAuthRefused:
            add("allow", detail, passes: false)
        case .runTokenRefused: add("client", detail, passes: false)
        case .phantomRefused: add("capture", detail, passes: false)
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

/// Reasons, in words that people read.
extension RequestJudgement {
    fileprivate var credentialProblem: GatewayProblem? {
        if case .unavailable(let problem)? = credential?.answer { problem } else { nil }
    }

    /// What of the request found the route.
    fileprivate func foundBy(_ way: String) -> String {
        guard let route else { return "" }
        switch way {
        case "path": return route.matchPath == "/" ? "it takes every path" : "the path begins with \(route.matchPath)"
        case "host": return "the host is one of its own: \(route.matchHosts.joined(separator: ", "))"
        default: return "the target is its upstream \(route.upstream)\(route.upstreamPath)"
        }
    }

    /// Why another route lost.
    fileprivate func reason(of loss: RouteLoss) -> String {
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
