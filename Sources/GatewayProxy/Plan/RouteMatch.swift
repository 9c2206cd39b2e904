import GatewayConfiguration
import GatewayHTTP

/// What finds a route, with the places for the case that two routes want the same.
struct RouteMatch {
    struct Placed {
        let value: String
        let span: SourceSpan
        /// Whether it comes from the name of the route, and not from its `match`.
        var isDerived = false
    }

    var path: Placed
    var hosts: [Placed]
    /// A request has to have one of the hosts and the path.
    var needsAll = false
    /// What requests for the upstream's own host begin with; nil takes the path of `upstream`.
    var upstreamPath: Placed?
    var defaultSpan: SourceSpan?

    private static let keys = Keys {
        $0("path", default: "/NAME", example: "/reports")
            .means("The path that requests begin with. It is removed before they are forwarded.")
        $0("hosts", default: "[NAME.localhost]", example: "[reports.localhost, \"*.reports.example\"]")
            .means("The hosts that requests name. * stands for one label.")
        $0("all", default: "false", example: "true")
            .means("A request must match one of the hosts and the path. Otherwise, either is enough.")
        $0("upstream_path", default: "the path of upstream", example: "/2.0")
            .means(
                "The path prefix of requests that name the upstream's own host (in absolute form, or after "
                    + "a CONNECT). It is not removed."
            )
        $0("default", default: "false", example: "true")
            .means(
                "Of several routes to the same host and path, this one takes the requests whose client does not decide."
            )
    }

    /// Reads `match`; what it leaves out is derived from the route's name.
    static func decode(_ route: ConfigFields, name: String, at span: SourceSpan) -> RouteMatch {
        var match = RouteMatch(
            path: Placed(value: "/\(name)", span: span, isDerived: true),
            hosts: [Placed(value: "\(name.lowercased()).localhost", span: span, isDerived: true)]
        )
        guard let fields = route.fields("match") else { return match }
        fields.explain(keys)
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
        match.needsAll = fields.bool("all") ?? false
        if match.needsAll, !fields.has("path") || match.hosts.isEmpty || !fields.has("hosts") {
            fields.error("all", "also needs path and hosts: a request then has to match both")
        }
        if let text = fields.string("upstream_path"), let node = fields.node("upstream_path") {
            if let path = text.hasPrefix("/") ? RoutePath.canonical(text) : nil {
                match.upstreamPath = Placed(value: path == "/" ? "" : path, span: node.span)
            } else {
                fields.error("upstream_path", "expected a plain path such as /2.0, without wildcards and encodings")
            }
        }
        if fields.bool("default") ?? false { match.defaultSpan = fields.node("default")?.span }
        fields.refuseUnknownKeys()
        return match
    }

    /// Requests are forwarded below the path of the upstream.
    func checkUpstreamPath(below base: String, in route: ConfigFields) {
        guard let upstreamPath, let fields = route.fields("match") else { return }
        guard base.isEmpty || upstreamPath.value == base || upstreamPath.value.hasPrefix(base + "/") else {
            return fields.error("upstream_path", "must begin with the path of upstream, \(base)")
        }
    }

    private static func host(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> Placed? {
        if case .scalar(let scalar) = node.content {
            let name = scalar.text.lowercased()
            let exact = name.hasPrefix("*.") ? String(name.dropFirst(2)) : name
            if !exact.contains(":"), !exact.contains("["), Origin(scheme: .http, authority: exact) != nil {
                return Placed(value: Origin.unrooted(name), span: node.span)
            }
        }
        if case .scalar(let scalar) = node.content, let name = Punycode.hostName(scalar.text) {
            context.error("must be in ASCII, as clients send it: \(name)", at: node.span, path: path)
            return nil
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
    /// Each host with its path. They conflict where a route asks for both.
    private var pairs: [Claim] = []
    private var needingAll: Set<String> = []

    mutating func add(_ match: RouteMatch, path: ConfigPath) {
        for host in match.hosts {
            let pair = "\(host.value)\(match.path.value)"
            if match.needsAll { needingAll.insert(pair) }
            pairs.append(Claim(placed: RouteMatch.Placed(value: pair, span: match.path.span), path: path))
        }
        hosts.append(contentsOf: match.hosts.map { Claim(placed: $0, path: path) })
        if !match.needsAll { paths.append(Claim(placed: match.path, path: path)) }
    }

    func report(to context: ConfigContext) {
        report(paths, "path", context) { _, _ in true }
        report(hosts, "host", context) { $0.isDerived || $1.isDerived }
        report(pairs.filter { needingAll.contains($0.placed.value) }, "host and path", context) { _, _ in true }
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

    /// For each route, whether no other one has the host of its upstream.
    static func upstreamsAreFree(_ routes: [RoutePlan]) -> [Bool] {
        var owners: [String: Set<Int>] = [:]
        for (index, route) in routes.enumerated() {
            for host in route.matchHosts { owners[host, default: []].insert(index) }
        }
        return routes.enumerated().map { index, route in
            owners[route.upstream.host, default: []].subtracting([index]).isEmpty
        }
    }

    /// Refuses routes to the same place of which several are the default, or several have the same path of their own.
    static func reportShared(_ routes: [RoutePlan], _ matches: [String: RouteMatch], of fields: ConfigFields) {
        var defaults: [String: RouteMatch] = [:]
        var paths: [String: (match: RouteMatch, route: RoutePlan)] = [:]
        for route in routes {
            guard let match = matches[route.name] else { continue }
            let path = fields.path.appending(route.name).appending("match")
            if let span = match.defaultSpan {
                if let other = defaults[route.upstreamPlace]?.defaultSpan {
                    let message =
                        "another route is the default for \(route.upstreamPlace), too; tell them apart with match.upstream_path"
                    let related = ConfigDiagnostic.Related("the other route", at: other)
                    fields.context.error(message, at: span, path: path.appending("default"), related: related)
                }
                defaults[route.upstreamPlace] = match
            }
            guard let own = match.upstreamPath else { continue }
            if let other = paths[route.upstreamPlace], let first = other.match.upstreamPath {
                var shared = SharedUpstream()
                shared.add(0, other.route)
                shared.add(1, route)
                guard !shared.finds(0, other.route) || !shared.finds(1, route) else { continue }
                let message =
                    "the route \(other.route.name) has the same upstream_path; tell them apart with match.upstream_path, clients or"
                    + " match.default"
                let related = ConfigDiagnostic.Related("the other route", at: first.span)
                fields.context.error(message, at: own.span, path: path.appending("upstream_path"), related: related)
            }
            paths[route.upstreamPlace] = (match, route)
        }
    }
}
