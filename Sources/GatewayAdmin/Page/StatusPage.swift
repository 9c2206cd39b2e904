import GatewayCore

/// What the status page shows, as one value. It needs no script: the script only keeps it up to date.
struct StatusPage: Sendable {
    let overview: GatewayOverview
    let readiness: Readiness
    let routes: [RouteStatus]
    /// By the name of the route.
    let traffic: [String: TrafficStatus]
    let tokens: [TokenStatus]
    let expirations: [Expiration]
    let timeline: CredentialTimeline
    let recent: RecentEvents
    /// The filter of ``events``.
    let query: EventQuery
    var lists = ListQuery()
    /// The newest first.
    let events: [AuditEntry]
    /// nil when nothing was asked.
    var question: Question?
    let now: UnixTime

    var needs: [Attention] {
        Attention.items(readiness: readiness, tokens: tokens, expirations: expirations)
    }

    var html: HTML {
        let needs = needs
        let state = StateLine(readiness: readiness, needs: needs.count)
        return PageShell.document(
            title: "\(state.text) – AuthGateway",
            icon: state.mark,
            """
            \(PageHeader(state: state, overview: overview, now: now).html)
            <main>
            \(ExplainSection(question: question).html)
            \(NeedsSection(items: needs, now: now).html)
            \(lists.form(count: max(routes.count, tokens.count)))
            \(RouteSection(page: self).html)
            \(CredentialSection(page: self).html)
            \(LiveSection(page: self).html)
            </main>
            \(Self.footer)
            \(PageShell.dialogs)
            """
        )
    }

    private static let footer: HTML = """
        <footer>
        <p>The same for programs: <a href="/api/overview">overview</a>, <a href="/api/tokens">tokens</a>,
        <a href="/api/routes">routes</a>, <a href="/api/traffic">traffic</a>, <a href="/api/events">events</a>,
        <a href="/api/expirations">expirations</a>, <a href="/readyz?verbose">readiness</a>, <a href="/metrics">metrics</a>.</p>
        <p class="plain-only"><a class="button" href="/">Reload this page</a></p>
        </footer>
        """
}

/// What the page says first.
struct StateLine: Hashable, Sendable {
    let text: String
    let mark: Mark

    /// - Parameter needs: How many things a person must do.
    init(readiness: Readiness, needs: Int) {
        let need = needs == 1 ? "1 needs you" : "\(needs) need you"
        switch readiness.state {
        case .notReady: (text, mark) = ("Not serving", .bad)
        case .ready where needs == 0: (text, mark) = ("Serving", .good)
        case .degraded where needs == 0: (text, mark) = ("Serving · some requests fail", .warn)
        case .ready, .degraded: (text, mark) = ("Serving · \(need)", .warn)
        }
    }
}
