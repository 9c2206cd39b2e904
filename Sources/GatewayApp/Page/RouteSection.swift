import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// The routes: how each does, and lines to copy behind it.
struct RouteSection {
    let page: StatusPage
    /// The tokens by the name of their credential.
    private let tokens: [String: TokenStatus]

    init(page: StatusPage) {
        self.page = page
        tokens = Dictionary(page.tokens.map { ($0.credential, $0) }) { first, _ in first }
    }

    var html: HTML {
        let routes = page.routes.filter { page.lists.matches($0.name, $0.upstream, $0.credential) }
        let shown = routes[page.lists.range(of: .routes, count: routes.count)]
        return """
            <section id="routes" data-live aria-labelledby="routes-title">
            <h2 id="routes-title">Routes</h2>
            <div class="panel table">
            <p class="row titles" aria-hidden="true"><span>Route</span><span>Upstream</span><span>Credential</span>\
            <span class="number">Requests</span><span class="number">Errors</span><span class="number">p50 / p99</span>\
            <span>Last hour</span></p>
            \(shown.map(row))
            </div>
            \(page.lists.pager(.routes, count: routes.count))
            </section>
            """
    }

    private func row(_ route: RouteStatus) -> HTML {
        let traffic = page.traffic[route.name]
        let condition = route.condition(traffic, token: route.credential.flatMap { tokens[$0] })
        return """
            <details class="route" id="r-\(PercentEncoding.encode(route.name))">
            <summary class="row">
            <span class="name">\(HTML.dot(condition.mark))<span class="text"><strong>\(route.name)</strong> \
            <span class="soft">\(place(of: route))</span>\(HTML.spoken(", \(condition.words)"))</span>\(note(of: route))</span>
            <span class="upstream">\(HTML.spoken("upstream "))\(host(of: route))</span>
            <span class="credential soft">\(HTML.spoken("credential "))\(route.credential ?? "none")</span>
            <span class="number rate">\(PageText.rate(traffic?.requestsPerSecond ?? 0))\(HTML.spoken(" requests"))</span>
            \(errors(traffic))
            <span class="number latency">\(HTML.spoken("p50 and p99 "))\(latency(traffic))</span>
            <span class="chart">\(PageDrawing.lastHour(traffic))</span>
            </summary>
            \(body(of: route, condition))
            </details>
            """
    }

    private func place(of route: RouteStatus) -> String {
        route.path == "/" ? route.hosts.first ?? route.path : route.path
    }

    private func host(of route: RouteStatus) -> String {
        let start = route.upstream.firstRange(of: "://")?.upperBound ?? route.upstream.startIndex
        return String(route.upstream[start...].prefix { $0 != "/" })
    }

    private func note(of route: RouteStatus) -> HTML? {
        let notes = notes(of: route)
        let parts = notes.map { "<span>\($0)</span>" as HTML }
        guard let first = parts.first else { return nil }
        return "<span class=\"note\">\(parts.dropFirst().reduce(first) { "\($0) · \($1)" })</span>"
    }

    /// What is odd.
    private func notes(of route: RouteStatus) -> [String] {
        let token = route.credential.flatMap { tokens[$0] }
        var notes: [String] = []
        if let token, token.needsAttention {
            notes.append(token.isServed ? "the credential is not renewed" : "credential: \(token.state.words)")
        }
        if let skew = token?.clockSkewSeconds, skew != 0 {
            notes.append("clock \(ClockSkew.words(skew))")
        }
        if let health = route.health, let failure = health.lastFailure, (health.failureRate ?? 0) > 0 {
            let words = failure.replacing("upstream-", with: "", maxReplacements: 1).replacing("_", with: " ")
            notes.append("upstream: \(words)")
        }
        if let silence = route.health?.silence { notes.append(silence) }
        if let rejected = page.traffic[route.name]?.rejectionShare, rejected > 0 {
            notes.append("\(PageText.share(rejected)) rejected")
        }
        return notes
    }

    private func errors(_ traffic: TrafficStatus?) -> HTML {
        guard let share = traffic?.errorShare else {
            return "<span class=\"number errors\">–\(HTML.spoken(" errors"))</span>"
        }
        let mark = share >= 0.01 ? " bad" : ""
        return "<span class=\"number errors\(mark)\">\(PageText.share(share))\(HTML.spoken(" errors"))</span>"
    }

    private func latency(_ traffic: TrafficStatus?) -> String {
        guard let median = traffic?.p50Milliseconds, let tail = traffic?.p99Milliseconds else { return "–" }
        return "\(PageText.milliseconds(median)) / \(PageText.milliseconds(tail))"
    }

    private func body(of route: RouteStatus, _ condition: RouteCondition) -> HTML {
        let snippets = RouteSnippets(
            route,
            listeners: page.overview.listeners,
            asksForClients: page.overview.requiresClientToken
        )
        let lines = snippets.all.map { snippet -> HTML in
            "<dt>\(snippet.title)</dt><dd>\(HTML.command(snippet.text, label: "\(snippet.title) of \(route.name)"))</dd>"
        }
        return """
            <div class="inside">
            <dl>\(facts(of: route, condition))
            \(lines)</dl>
            </div>
            """
    }

    private func facts(of route: RouteStatus, _ condition: RouteCondition) -> HTML {
        let credential = route.credential.map { name -> HTML in
            let link = "#c-\(PercentEncoding.encode(name))"
            return "<dt>Credential</dt><dd><a href=\"\(link)\">\(name)</a> (\(route.strategy))</dd>"
        }
        let needs = route.needs.map { needs -> HTML in "<dt>Needs</dt><dd>\(needs)</dd>" }
        let events = "/?route=\(PercentEncoding.encode(route.name))#live"
        return """
            <dt>State</dt><dd>\(condition.words)\(health(of: route))</dd>
            \(HTML.meaning(of: route.health?.lastFailure))
            <dt>Upstream</dt><dd>\(route.upstream)</dd>
            \(credential)\(needs)
            <dt>Events</dt><dd><a href="\(events)">of this route</a></dd>
            """
    }

    private func health(of route: RouteStatus) -> HTML? {
        guard let health = route.health else { return nil }
        let good = health.lastSuccessAt.map { at -> HTML in "; last success \(PageText.time(at, now: page.now))" }
        let bad = health.lastFailureAt.map { at -> HTML in
            "; last failure \(PageText.time(at, now: page.now)) (\(health.lastFailure ?? "unknown"))"
        }
        let why = health.lastFailureExplanation.map { why -> HTML in ". \(why)" }
        let request = health.lastFailureRequestId.map { id -> HTML in
            " <a href=\"/?request=\(PercentEncoding.encode(id))#live\">Request <code>\(id)</code></a>"
        }
        return "\(good)\(bad)\(why)\(request)"
    }
}

/// How the condition of a route is shown.
extension RouteCondition {
    fileprivate var mark: Mark {
        switch self {
        case .idle: .plain
        case .good: .good
        case .degraded: .warn
        case .failing: .bad
        }
    }

    fileprivate var words: String {
        switch self {
        case .idle: "no requests lately"
        case .good: "answers"
        case .degraded: "some requests fail"
        case .failing: "requests fail"
        }
    }
}
