import GatewayHTTP
import GatewayTokens
import NIOCore

/// Judges a described request with the very parts that serve one: decoder, authorizer, limits, credential, field rules, writer.
///
/// Sends nothing, begins nothing and counts nothing.
struct RequestJudge: Sendable {
    let shared: ProxyShared
    let workers: WorkerRegistry
    let request: DescribedRequest
    let listenerMatch: ListenerMatch

    /// - Parameter client: The client that the request is judged for; nil for the one that its token names.
    /// - Returns: nil when a reload came in between, or no event loop answers.
    func judge(as client: String?) async -> RequestJudgement? {
        var judgement = RequestJudgement(request, listenerMatch: listenerMatch)
        judgement.idField = shared.configuration.requestIDHeader
        var connection = listenerMatch.listener.connectionContext
        if request.contentLength == nil {
            judgement.remarks.append("The size of the body is not known here; a chunked body is assumed.")
        }
        if listenerMatch.form == .connect {
            switch judgeConnect(on: connection) {
            case .success(.intercept(let origin)): connection = connection.intercepting(origin)
            case .success(.tunnel(let destination)):
                judgement.tunnel = destination.authority
                judgement.problem = shared.usage(of: destination.client)?.outlook(at: shared.clock.monotonic())
                return judgement
            case .failure(let refused):
                judgement.problem = refused.problem
                judgement.disclosesNames = refused.disclosesNames
                return judgement
            }
        }
        let bytes = headBytes
        var decoder = RequestHeadDecoder(maxBytes: shared.limits.headerBytes, maxFields: shared.limits.headerFields)
        if let problem = Self.decode(bytes, &decoder, shared.limits) {
            judgement.problem = problem
            judgement.disclosesNames = shared.authorizer.disclosesNames(to: nil, on: connection)
            return judgement
        }
        var cache = ClientAuthenticationCache()
        var trace: AuthorizationTrace? = AuthorizationTrace(routes: shared.routes.map(\.plan), assuming: client)
        let decision = shared.authorizer.decide(
            decoder.head,
            bytes.span,
            on: connection,
            cache: &cache,
            trace: &trace
        )
        judgement.trace = trace ?? judgement.trace
        switch consume decision {
        case .refused(let refusal):
            judgement.problem = refusal.problem
            judgement.disclosesNames = refusal.disclosesNames
            judgement.route = refusal.route.map { shared.routes[$0].plan }
            return judgement
        case .unrouted(let unrouted):
            judgement.tunnel = unrouted.server.plainOrigin.description
            judgement.problem = shared.usage(of: unrouted.server.client)?.outlook(at: shared.clock.monotonic())
            judgement.disclosesNames = unrouted.admitted.disclosesNames
            return judgement
        case .preflight(let preflight):
            judgement.disclosesNames = shared.authorizer.disclosesNames(to: nil, on: connection)
            judgement.route = preflight.route.map { shared.routes[$0].plan }
            return judgement
        case .admitted(let admitted):
            judgement.disclosesNames = admitted.disclosesNames
            judgement.route = shared.routes[admitted.match.route].plan
            let rules = shared.authorizer.bodyRules(of: decoder.head, bytes.span, admitted.match)
            judgement.capturedFor = rules?.capturePoint?.credential.name
            let refusedCalls = refusalOfCalls(rules?.readsCalls, decoder.head, bytes.span, admitted.match)
            return await follow(admitted, judgement, framing: decoder.head.framing, refusedCalls)
        }
    }

    /// Why calls of tools in the body are refused; nil if they pass, and where the body is not known.
    private func refusalOfCalls(
        _ rule: ToolRule?,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ match: RouteTable.Match
    ) -> GatewayProblem? {
        guard let rule, let body = request.body, !body.isEmpty else { return nil }
        return rule.refusal(ofBody: body.span, head, bytes, route: shared.routes[match.route].plan.name)
    }

    /// The bytes of the head; for a CONNECT, those of the request inside.
    private var headBytes: [UInt8] {
        let length = request.contentLength
        let isInside = listenerMatch.form == .connect
        let head =
            isInside
            ? listenerMatch.interceptedHead(of: request, contentLength: length)
            : listenerMatch.head(of: request, contentLength: length)
        return Array(head.utf8)
    }

    /// Why no request comes behind a CONNECT.
    private struct RefusedConnect: Error {
        let problem: GatewayProblem
        let disclosesNames: Bool
    }

    private enum TakenConnect {
        case intercept(InterceptedOrigin)
        case tunnel(TunnelDestination)
    }

    private func judgeConnect(on connection: ConnectionContext) -> Result<TakenConnect, RefusedConnect> {
        var connect = request
        connect.content = []
        let bytes = Array(listenerMatch.head(of: connect, contentLength: nil).utf8)
        var decoder = RequestHeadDecoder(maxBytes: shared.limits.headerBytes, maxFields: shared.limits.headerFields)
        if let problem = Self.decode(bytes, &decoder, shared.limits) {
            let disclosesNames = shared.authorizer.disclosesNames(to: nil, on: connection)
            return .failure(RefusedConnect(problem: problem, disclosesNames: disclosesNames))
        }
        switch shared.authorizer.decideConnect(decoder.head, bytes.span, on: connection) {
        case .intercept(let origin), .peek(let origin, _): return .success(.intercept(origin))
        case .tunnel(let destination): return .success(.tunnel(destination))
        case .refused(let refusal):
            return .failure(RefusedConnect(problem: refusal.problem, disclosesNames: refusal.disclosesNames))
        }
    }

    private static func decode(
        _ bytes: [UInt8],
        _ decoder: inout RequestHeadDecoder,
        _ limits: Limits
    ) -> GatewayProblem? {
        switch decoder.decode(bytes.span) {
        case .head: nil
        case .needMore: HeadRefusal.malformedRequestLine.problem("The request was", under: limits)
        case .refused(let reason): reason.problem("The request was", under: limits)
        }
    }

    // MARK: Once it is admitted

    /// Follows the steps of ``ExchangeDriver/begin(at:)``, in their order.
    private func follow(
        _ admitted: RequestAuthorizer.Admitted,
        _ judgement: RequestJudgement,
        framing: BodyFraming,
        _ refusedCalls: GatewayProblem?
    ) async -> RequestJudgement? {
        var judgement = judgement
        let now = shared.clock.monotonic()
        if case .length(let length) = framing, let problem = shared.limits.refusal(ofContent: length) {
            judgement.problem = problem
            return judgement
        }
        if let problem = shared.usage(of: admitted.client)?.outlook(at: now) {
            judgement.problem = problem
            return judgement
        }
        if judgement.capturedFor != nil { return judgement }
        let route = shared.routes[admitted.match.route]
        let credential = JudgedCredential(of: route, chosen: admitted.chosen, subject: judgement.subject, at: now)
        judgement.credential = credential?.use
        if credential?.isSentOnChallengeOnly == true {
            judgement.remarks.append("The credential is sent once the upstream asks for it (on_challenge).")
        }
        switch credential?.use.answer {
        case .unavailable(let problem):
            judgement.problem = problem
            return judgement
        case .awaited:
            judgement.remarks.append(
                "The request shown lacks what the credential adds, which is not known until there is a token."
            )
        case .ready, nil: break
        }
        if let refusedCalls {
            judgement.trace.add(.toolRefused)
            judgement.problem = refusedCalls
            return judgement
        }
        let draft = DepartureDraft(
            bytes: headBytes,
            match: admitted.match,
            tokenPlaces: admitted.tokenPlaces,
            credential: credential,
            listener: listenerMatch.listener,
            client: admitted.client
        )
        let shared = shared
        guard let result = await workers.ask({ $0.shared === shared ? draft.write(by: $0) : nil }) else { return nil }
        switch result {
        case .success(let departure): judgement.departure = departure
        case .failure(let problem): judgement.problem = problem
        }
        return judgement
    }
}

extension RequestJudgement {
    fileprivate var subject: String? {
        for case .subjectNamed(let subject) in trace.reasons { return subject }
        return nil
    }
}

extension ProxyServer {
    /// Says how a described request would be routed and signed.
    ///
    /// - Parameters:
    ///   - client: The client that sends it; nil for the one that its token names.
    ///   - listeners: Those that the gateway would have; nil for those that are open.
    /// - Returns: nil when no event loop answers in time.
    package func judge(
        _ request: DescribedRequest,
        as client: String?,
        listeners: [BoundListener]? = nil
    ) async -> RequestJudgement? {
        let listeners = listeners ?? bound.filter { $0.engine == nil }
        // A reload may come in between.
        for _ in 0..<3 {
            guard let shared = await workers.ask({ $0.shared }) else { return nil }
            let listenerMatch = ListenerMatch(
                of: request,
                to: listeners,
                knowsHost: { shared.authorizer.knowsHost($0) },
                isUpstream: { origin in
                    shared.routes.contains {
                        $0.plan.upstream.host == origin.host && $0.plan.upstream.port == origin.port
                    }
                }
            )
            guard let listenerMatch else { return nil }
            let judge = RequestJudge(shared: shared, workers: workers, request: request, listenerMatch: listenerMatch)
            if let judgement = await judge.judge(as: client) { return judgement }
        }
        return nil
    }
}

/// A request head on its way through the writer that serves, with nothing secret to inject.
private struct DepartureDraft: Sendable {
    let bytes: [UInt8]
    let match: RouteTable.Match
    let tokenPlaces: ClientTokenPlaces
    let credential: JudgedCredential?
    let listener: BoundListener
    let client: String?

    /// Call it on the event loop of the configuration.
    ///
    /// - Returns: nil when the head cannot be read, which was found out before.
    func write(by configuration: WorkerConfiguration) -> Result<RequestJudgement.Departure, GatewayProblem>? {
        let limits = configuration.limits
        var decoder = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        guard case .head = decoder.decode(bytes.span) else { return nil }
        let route = maskedRoute(configuration)
        let rules = route.requestFields
        if let problem = rules.refusal(of: decoder.head, bytes.span, tokenPlaces) {
            return .failure(problem)
        }
        var writer = RequestWriter(route: route, match: match, tokenPlaces: tokenPlaces)
        let source = ByteBuffer(bytes: bytes)
        if let problem = refusalToSign(decoder.head, source, by: writer, under: configuration.shared) {
            return .failure(problem)
        }
        if route.addsForwarded { writer.forwarded = forwarded(decoder.head, route.state.route.forwarded) }
        let links = route.state.route.plan.rewritesLinks(match) ? links(decoder.head, configuration) : nil
        let problem = writer.takeDestination(of: decoder.head, source, links, client: client, in: configuration.shared)
        if let problem { return .failure(problem) }
        let end = configuration.shared.requestEnd(of: route.state.route, isHTTP10: decoder.head.isHTTP10)
        var out = ByteBuffer()
        guard writer.write(decoder.head, source, end: end, into: &out) else { return nil }
        let departure = RequestJudgement.Departure(
            head: Array(out.readableBytesView),
            dropped: dropped(decoder.head, rules, replacesDestination: !writer.destination.isEmpty),
            added: Self.fields(of: route.hostLine) + (credential?.use.fields ?? []) + Self.fields(of: route.routeLines)
                + Self.fields(of: Array(writer.forwarded.utf8))
                + Self.fields(of: writer.destination) + Self.fields(of: end.lines)
        )
        return .success(departure)
    }

    /// Why the credential does not sign the request; nil if it does, and for one that signs nothing.
    private func refusalToSign(
        _ head: borrowing RequestHead,
        _ source: ByteBuffer,
        by writer: borrowing RequestWriter,
        under shared: ProxyShared
    ) -> GatewayProblem? {
        guard case .everyRequest(let signer)? = credential?.signer else { return nil }
        let request = writer.signable(head, source, at: shared.clock.now().wall)
        let plan = shared.authorizer.signingPlan(for: request, by: signer, on: match.route, client: client)
        guard case .failure(let problem) = plan else { return nil }
        return problem
    }

    private func links(_ head: borrowing RequestHead, _ configuration: WorkerConfiguration) -> LinkRewriter {
        LinkRewriter(
            head,
            bytes.span,
            match,
            of: configuration.shared.links,
            publicURL: listener.publicURL,
            isTLS: listener.isTLS
        )
    }

    private func maskedRoute(_ configuration: WorkerConfiguration) -> CredentialedRoute {
        let shared = configuration.shared
        var route = shared.routes[match.route].origin
        route.plan.headers.set = route.plan.headers.set.map {
            Injection.Field(name: $0.name, value: Secret("(set by the route)"))
        }
        let template = UpstreamHeaderTemplate(
            route.plan.upstream.authority,
            viaName: shared.viaName,
            of: shared.configuration
        )
        let compiled = CompiledRoute(
            index: match.route,
            route: route,
            upstream: template,
            requestIDHeader: shared.configuration.requestIDHeader,
            answersPages: false,
            now: shared.clock.monotonic()
        )
        let state = WorkerRoute(
            route: compiled,
            pool: configuration.route(match.route).state.pool,
            http1Pool: configuration.route(match.route).state.http1Pool,
            limits: shared.limits
        )
        return CredentialedRoute(state, credential: credential?.masked, of: credential?.source)
    }

    private func forwarded(_ head: borrowing RequestHead, _ policy: ForwardedPolicy) -> String {
        let isSocket = listener.port == nil
        return policy.lines(
            client: isSocket ? nil : "(the client's address)",
            host: bytes.span.string(head.host),
            isTLS: listener.isTLS
        )
    }

    private func dropped(
        _ head: borrowing RequestHead,
        _ rules: RequestFieldRules,
        replacesDestination: Bool
    ) -> [(name: String, reason: RequestFieldRules.DropReason)] {
        let options = RequestFieldRules.Options(
            tokenPlaces: tokenPlaces,
            content: .awaited,
            replacesDestination: replacesDestination
        )
        var dropped: [(name: String, reason: RequestFieldRules.DropReason)] = []
        for field in head.fields {
            guard let reason = rules.dropReason(of: field, in: head, bytes.span, options) else { continue }
            // The writer puts it back with a Connection of its own.
            if head.wantsUpgrade, field.kind == .upgrade { continue }
            dropped.append((bytes.span.string(field.name), reason))
        }
        return dropped
    }

    private static func fields(of lines: [UInt8]) -> [DescribedRequest.Field] {
        let text = String(decoding: lines, as: UTF8.self).replacing("\r\n", with: "\n")
        return text.split(separator: "\n").map { line in
            let name = String(line.prefix { $0 != ":" })
            return DescribedRequest.Field(name, String(line.dropFirst(name.count + 2)))
        }
    }
}

/// The credential that a request would get, with a description in place of each secret.
private struct JudgedCredential: Sendable {
    let use: RequestJudgement.CredentialUse
    /// nil where there is none to inject now.
    let masked: Credential?
    let source: (any CredentialSource)?
    /// nil for one that signs nothing.
    private(set) var signer: Signer?
    let isSentOnChallengeOnly: Bool

    /// nil for a route that injects nothing.
    ///
    /// - Parameters:
    ///   - chosen: The source that the request has chosen, if there is one already.
    ///   - subject: Whose token the request goes with.
    init?(of route: CompiledRoute, chosen: (any CredentialSource)?, subject: String?, at now: MonotonicTime) {
        source = chosen ?? route.source
        guard let source else {
            // No request has named this subject lately: its token would be loaded first.
            guard let selection = route.selection, let subject else { return nil }
            use = RequestJudgement.CredentialUse(
                name: "\(selection.name)[\(subject)]",
                strategy: selection.strategy,
                hasToken: true,
                answer: .awaited
            )
            masked = nil
            isSentOnChallengeOnly = false
            return
        }
        let answer: RequestJudgement.CredentialUse.Answer
        var fields: [DescribedRequest.Field] = []
        switch source.outlook(at: now) {
        case .ready(let credential):
            let text = RequestJudgement.CredentialUse.placeholder(
                source.name,
                generation: credential.generation,
                hasToken: source.fixed == nil
            )
            signer = credential.signer
            var (injection, values) = credential.injection.masked(as: text)
            if let signer {
                values += signer.usualFields.map { (name: $0, value: "(signed with \(source.name))") }
                injection.fields = values.map { Injection.Field(name: $0.name, value: Secret($0.value)) }
            }
            fields = values.map { DescribedRequest.Field($0.name, $0.value) }
            masked = Credential(name: source.name, generation: credential.generation, injection: injection)
            isSentOnChallengeOnly =
                source is any ChallengeAnswering && fields.isEmpty || route.sessions != nil
            answer = .ready(generation: credential.generation)
        case .wait: (masked, isSentOnChallengeOnly, answer) = (nil, false, .awaited)
        case .unavailable(let problem): (masked, isSentOnChallengeOnly, answer) = (nil, false, .unavailable(problem))
        }
        use = RequestJudgement.CredentialUse(
            name: source.name,
            strategy: source.strategy,
            hasToken: source.fixed == nil,
            answer: answer,
            fields: fields,
            parameter: masked?.injection.query?.name
        )
    }
}
