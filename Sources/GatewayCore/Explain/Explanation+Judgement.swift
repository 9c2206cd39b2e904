extension Explanation {
    /// - Parameters:
    ///   - status: Of the credential's token; nil for a credential that has none.
    ///   - now: To say how old the token is.
    package init(_ judgement: RequestJudgement, status: TokenStatus?, source: Source, at now: UnixTime) {
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
        departure = judgement.departure.map { Departure($0, judgement) }
        outcome = Self.outcome(of: judgement)
        let credentialText = credential?.text ?? (judgement.route == nil ? nil : "none is injected")
        steps = ExplanationSteps(judgement, credential: credentialText).steps
        verdict = ""
        verdict = ShownText.clean(verdict(of: judgement), limit: 600)
    }

    private static func outcome(of judgement: RequestJudgement) -> Outcome {
        guard judgement.problem == nil else { return .refused }
        if judgement.trace.reasons.last == .preflightAnswered { return .answered }
        if judgement.tunnel != nil { return .tunnelled }
        if case .awaited? = judgement.credential?.answer { return .waits }
        return .forwarded
    }

    private func verdict(of judgement: RequestJudgement) -> String {
        if let refusal { return "Would be refused: \(refusal.status) \(refusal.code): \(refusal.detail)" }
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
        let (request, arrival) = (judgement.request, judgement.arrival)
        method = ShownText.clean(request.method, limit: 40)
        target = ShownText.target(arrival.target(of: request))
        host = ShownText.clean(arrival.host)
        listener = Explanation.Listener(arrival.listener)
        way = arrival.form
        idField = judgement.idField
        remarks = (request.remarks + arrival.remarks + judgement.remarks).map { ShownText.clean($0) }
        if arrival.form == .proxy, request.proxy == nil {
            let advice = "explained as if the gateway were the client's proxy, \(arrival.listener.authority)"
            remarks.append("The URL is none of the gateway's own: \(advice).")
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
        status = problem.kind.status
        code = problem.kind.rawValue
        detail = ShownText.clean(problem.detail, limit: 600)
        let told = disclosesNames ? problem.detail : problem.withoutNames.detail
        detailForClient = told == problem.detail ? nil : ShownText.clean(told, limit: 600)
        command = problem.command.map { ShownText.clean($0) }
    }
}

extension Explanation.Departure {
    fileprivate init(_ departure: RequestJudgement.Departure, _ judgement: RequestJudgement) {
        let lines = String(decoding: departure.head, as: UTF8.self).replacing("\r\n", with: "\n").split(separator: "\n")
        line = Self.line(lines.first.map(String.init) ?? "", judgement.credential)
        fields = lines.dropFirst().map { line in
            let name = String(line.prefix { $0 != ":" })
            let value = String(line.dropFirst(name.count + 1).drop { $0 == " " || $0 == "\t" })
            let isAdded = departure.added.contains { $0.name == name && $0.value == value }
            return Explanation.Field(
                name: ShownText.clean(name),
                value: isAdded ? ShownText.clean(value) : ShownText.value(value, of: name)
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
