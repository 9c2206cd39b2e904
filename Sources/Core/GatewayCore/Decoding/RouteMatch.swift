/// What finds a route, with the places for the case that two routes want the same.
struct RouteMatch {
    struct Placed {
        let value: String
        let span: SourceSpan
        /// From the name of the route, not from its `match`.
        var isDerived = false
    }

    var path: Placed
    var hosts: [Placed]

    /// Reads `match`; what it leaves out is derived from the route's name.
    static func decode(_ route: ConfigFields, name: String, at span: SourceSpan) -> RouteMatch {
        var match = RouteMatch(
            path: Placed(value: "/\(name)", span: span, isDerived: true),
            hosts: [Placed(value: "\(name.lowercased()).localhost", span: span, isDerived: true)]
        )
        guard let fields = route.fields("match") else { return match }
        fields.explain(meanings)
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
///
/// A path finds its route on every host, so it belongs to one route. Several routes may name the same host; their
/// paths then choose between them. A host that is only derived from a name belongs to its route alone.
struct RouteConflicts {
    private struct Claim {
        let placed: RouteMatch.Placed
        let path: ConfigPath
    }

    private var paths: [Claim] = []
    private var hosts: [Claim] = []

    mutating func add(_ match: RouteMatch, path: ConfigPath) {
        paths.append(Claim(placed: match.path, path: path))
        hosts.append(contentsOf: match.hosts.map { Claim(placed: $0, path: path) })
    }

    func report(to context: ConfigContext) {
        report(paths, "path", context) { _, _ in true }
        report(hosts, "host", context) { $0.isDerived || $1.isDerived }
    }

    private func report(
        _ claims: [Claim],
        _ what: String,
        _ context: ConfigContext,
        where areInConflict: (RouteMatch.Placed, RouteMatch.Placed) -> Bool
    ) {
        var first: [String: RouteMatch.Placed] = [:]
        for claim in claims {
            let value = claim.placed.value
            guard let other = first[value] else {
                first[value] = claim.placed
                continue
            }
            guard areInConflict(other, claim.placed) else { continue }
            let message = "another route has the \(what) \"\(value)\" too"
            let related = ConfigDiagnostic.Related("the other route", at: other.span)
            context.error(message, at: claim.placed.span, path: claim.path, related: related)
        }
    }

    /// For each route, whether a request in absolute form for its upstream can mean no other.
    static func upstreamsAreUnique(_ routes: [RoutePlan]) -> [Bool] {
        var uses: [String: Int] = [:]
        var owners: [String: Set<Int>] = [:]
        for (index, route) in routes.enumerated() {
            uses["\(route.upstream)\(route.upstreamPath)", default: 0] += 1
            for host in route.matchHosts { owners[host, default: []].insert(index) }
        }
        return routes.enumerated().map { index, route in
            let others = owners[route.upstream.host, default: []].subtracting([index])
            return uses["\(route.upstream)\(route.upstreamPath)"] == 1 && others.isEmpty
        }
    }
}
