import GatewayCore
import NIOCore

/// A request head on its way through the writer that serves, with nothing secret to inject.
struct DepartureDraft: Sendable {
    let bytes: [UInt8]
    let match: RouteTable.Match
    let stripsAuthorization: Bool
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
        if let problem = rules.refusal(of: decoder.head, bytes.span, stripsAuthorization: stripsAuthorization) {
            return .failure(problem)
        }
        var writer = RequestWriter(route: route, match: match, stripsAuthorization: stripsAuthorization)
        if route.addsForwarded { writer.forwarded = forwarded(decoder.head, route.state.route.forwarded) }
        let links = route.state.route.plan.rewritesLinks(match) ? links(decoder.head, configuration) : nil
        let source = ByteBuffer(bytes: bytes)
        let problem = writer.takeDestination(of: decoder.head, source, links, client: client, in: configuration.shared)
        if let problem { return .failure(problem) }
        let end = configuration.shared.requestEnd(of: route.state.route)
            .line(isHTTP10: decoder.head.isHTTP10)
        var out = ByteBuffer()
        guard writer.write(decoder.head, source, end: end, into: &out) else { return nil }
        let departure = RequestJudgement.Departure(
            head: Array(out.readableBytesView),
            dropped: dropped(decoder.head, rules, replacesDestination: !writer.destination.isEmpty),
            added: Self.fields(of: route.hostLine) + (credential?.use.fields ?? []) + Self.fields(of: route.routeLines)
                + Self.fields(of: Array(writer.forwarded.utf8))
                + Self.fields(of: writer.destination) + Self.fields(of: end)
        )
        return .success(departure)
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
        var route = shared.configuration.routes[match.route]
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
            stripsAuthorization: stripsAuthorization,
            sendsExpect: true,
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
