/// What finds a route, with the places for the case that two routes want the same.
struct RouteMatch {
    struct Placed {
        let value: String
        let span: SourceSpan
    }

    var path: Placed
    var hosts: [Placed]

    /// Reads `match`; what it leaves out is derived from the route's name.
    static func decode(_ route: ConfigFields, name: String, at span: SourceSpan) -> RouteMatch {
        var match = RouteMatch(
            path: Placed(value: "/\(name)", span: span),
            hosts: [Placed(value: "\(name.lowercased()).localhost", span: span)]
        )
        guard let fields = route.fields("match") else { return match }
        if let text = fields.string("path"), let node = fields.node("path") {
            if let path = text.hasPrefix("/") ? RoutePath.canonical(text) : nil {
                match.path = Placed(value: path, span: node.span)
            } else {
                fields.error("path", "expected a plain path such as /reports, without wildcards and encodings")
            }
        }
        if let elements = fields.elements("hosts") {
            match.hosts = elements.compactMap { host($0.node, $0.path, fields.context) }
        }
        fields.refuseUnknownKeys()
        return match
    }

    private static func host(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> Placed? {
        if case .scalar(let scalar) = node.content {
            let name = scalar.text.lowercased()
            let exact = name.hasPrefix("*.") ? String(name.dropFirst(2)) : name
            if !exact.contains(":"), !exact.contains("["), Origin(scheme: .http, authority: exact) != nil {
                return Placed(value: name, span: node.span)
            }
        }
        let advice = "expected the name of a host such as reports.localhost or *.example.com, without a port"
        context.error(advice, at: node.span, path: path)
        return nil
    }
}

/// Finds routes that can match the same request.
struct RouteConflicts {
    private var paths: [(placed: RouteMatch.Placed, path: ConfigPath)] = []
    private var hosts: [(placed: RouteMatch.Placed, path: ConfigPath)] = []

    mutating func add(_ match: RouteMatch, path: ConfigPath) {
        paths.append((match.path, path))
        hosts.append(contentsOf: match.hosts.map { ($0, path) })
    }

    func report(to context: ConfigContext) {
        report(paths, "path", context)
        report(hosts, "host", context)
    }

    private func report(
        _ claims: [(placed: RouteMatch.Placed, path: ConfigPath)],
        _ what: String,
        _ context: ConfigContext
    ) {
        var first: [String: RouteMatch.Placed] = [:]
        for (placed, path) in claims {
            if let other = first[placed.value] {
                let message = "another route has the \(what) \"\(placed.value)\" too"
                let related = ConfigDiagnostic.Related("the other route", at: other.span)
                context.error(message, at: placed.span, path: path, related: related)
            } else {
                first[placed.value] = placed
            }
        }
    }

    /// Whether nothing else in the plan claims the host of this route's upstream.
    static func upstreamHostIsUnique(_ index: Int, in routes: [RoutePlan]) -> Bool {
        let upstream = routes[index].upstream
        return routes.indices.allSatisfy { other in
            other == index
                || (routes[other].upstream.host != upstream.host && !routes[other].matchHosts.contains(upstream.host))
        }
    }
}
