import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// What the status page shows, as one value. It needs no script: the script only keeps it up to date.
struct StatusPage: Sendable {
    let overview: GatewayOverview
    let readiness: Readiness
    let routes: [RouteStatus]
    /// The traffic of each route, by its name.
    let traffic: [String: TrafficStatus]
    /// What clients and upstreams did in the same hour.
    let hour: TrafficHour
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
        let state = StateLine(readiness: readiness, items: needs)
        return PageShell.document(
            title: "\(state.text) – AuthGateway",
            icon: state.mark,
            """
            \(PageHeader(state: state, overview: overview, now: now).html)
            <main>
            \(ExplainSection(question: question).html)
            \(HeldSection(count: overview.heldRequests ?? 0).html)
            \(NeedsSection(items: needs, now: now).html)
            \(TrafficSection(page: self).html)
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
        <a href="/api/routes">routes</a>, <a href="/api/traffic">traffic</a>, <a href="/api/traffic/hour">its last hour</a>, <a href="/api/events">events</a>,
        <a href="/api/expirations">expirations</a>, <a href="/readyz?verbose">readiness</a>, <a href="/metrics">metrics</a>.</p>
        <p class="plain-only"><a class="button" href="/">Reload this page</a></p>
        </footer>
        """
}

/// What the page says first.
private struct StateLine: Hashable, Sendable {
    let text: String
    let mark: Mark

    /// - Parameter items: What is wrong or soon will be.
    init(readiness: Readiness, items: [Attention]) {
        let needs = items.count(where: \.needsPerson)
        let need = needs == 1 ? "1 needs you" : "\(needs) need you"
        switch readiness.state {
        case .notReady: (text, mark) = ("Not serving", .bad)
        case .ready where needs == 0: (text, mark) = ("Serving", .good)
        case .degraded where needs == 0:
            let isFailing = items.contains { $0.severity == .failing }
            (text, mark) = (isFailing ? "Serving · some requests fail" : "Serving · renewals fail", .warn)
        case .ready, .degraded: (text, mark) = ("Serving · \(need)", .warn)
        }
    }
}

/// The line of state: whether requests are served, and what serves them.
private struct PageHeader {
    let state: StateLine
    let overview: GatewayOverview
    let now: UnixTime

    var html: HTML {
        """
        <header id="state" data-live>
        <h1>AuthGateway</h1>
        <p class="pill \(state.mark.rawValue)" role="status">\(state.text)</p>
        <p class="about">\(overview.version) · \(uptime) · <span>configuration \
        <code>\(overview.configurationDigest)</code> loaded \
        \(PageText.time(overview.configurationLoadedAt, now: now))</span>\
        <button type="button" class="link script" data-reload>reload</button> · \(chain)</p>
        </header>
        """
    }

    private var uptime: HTML {
        let seconds = UnixTime(rfc3339: overview.startedAt).map { Int((now - $0).wholeMilliseconds / 1000) } ?? 0
        let start = overview.startedAt
        return "<time datetime=\"\(start)\" title=\"\(start)\">up \(PageText.age(seconds))</time>"
    }

    private var chain: HTML {
        let verified = overview.auditVerifiedAt.map { PageText.time($0, now: now) }
        return switch overview.auditChain {
        case .notVerified: "<span title=\"Soon after the start, then daily\">audit chain not verified yet</span>"
        case .intact: "<span>audit chain intact \(verified)</span>"
        case .broken: "<strong class=\"bad\">audit chain broken \(verified)</strong>"
        }
    }
}

/// That requests wait for an operator's approval. What they hold is for operators alone, and stands on a page of its own.
private struct HeldSection {
    let count: Int

    var html: HTML {
        guard count > 0 else { return "<section id=\"held\" data-live hidden></section>" }
        let requests = count == 1 ? "1 request waits" : "\(count) requests wait"
        return """
            <section id="held" data-live aria-label="Approvals">
            <article class="need warn">
            <div><h3>\(requests) for approval</h3>
            <p>Read what would be sent, then approve or deny it. A request waits for at most \(ConfigUnits.text(HeldRequest.patience)).</p></div>
            <div class="actions"><a class="button primary" href="/approvals">Review</a>\
            \(HTML.command(GatewayCommand.line("approve"), label: "the command that lists them"))</div>
            </article>
            </section>
            """
    }
}

/// What a person must do, the worst first, then what the gateway tries again by itself. Absent when there is nothing.
private struct NeedsSection {
    let items: [Attention]
    let now: UnixTime

    var html: HTML {
        guard !items.isEmpty else { return "<section id=\"needs\" data-live hidden></section>" }
        return """
            <section id="needs" data-live aria-label="What is wrong">
            \(group("Needs you", items.filter(\.needsPerson)))
            \(group("Retried automatically", items.filter { !$0.needsPerson }))
            </section>
            """
    }

    private static let limit = 50

    private func group(_ title: String, _ items: [Attention]) -> HTML? {
        guard !items.isEmpty else { return nil }
        let count = items.count - Self.limit
        let more: HTML? = count > 0 ? "<p class=\"soft\">And \(count) more: authgateway status shows all.</p>" : nil
        return "<h2>\(title)</h2>\n\(items.prefix(Self.limit).map(item))\n\(more)"
    }

    private func item(_ item: Attention) -> HTML {
        """
        <article class="need \(item.severity == .failing ? "bad" : "warn")">
        <div><h3>\(item.title)</h3>
        <p>\(PageText.sentence(item.text, now: now)) \(facts(of: item))</p></div>
        \(actions(of: item))
        </article>
        """
    }

    private func facts(of item: Attention) -> HTML {
        let since = item.since.map { since -> HTML in "Since \(PageText.time(since, now: now))." }
        let lost = item.failedRequests.flatMap { count -> HTML? in
            switch count {
            case 0: nil
            case 1: "<strong>1 request</strong> has failed."
            default: "<strong>\(count) requests</strong> have failed."
            }
        }
        let next = item.nextTryAt.map { next -> HTML in
            "The gateway tries again in \(PageText.countdown(to: next, now: now, over: "a moment"))."
        }
        let demand = item.nextTryAt == nil ? item.notBefore : nil
        let wait = demand.map { time -> HTML in
            "The next request tries again, but not before \(PageText.time(time, now: now))."
        }
        let idle: HTML? = item.waits ? "The gateway does not retry automatically." : nil
        return "\([since, lost, next, wait, idle].compactMap(\.self).map { "<span>\($0)</span>" as HTML })"
    }

    private func actions(of item: Attention) -> HTML? {
        let login = item.login.map { name -> HTML in
            "<a class=\"button primary\" href=\"/login?credential=\(PercentEncoding.encode(name))\">Log in</a>"
        }
        let command = item.command.flatMap { command -> HTML? in
            // An action can also be a sentence, which the text may have said already.
            guard command.hasPrefix("authgateway ") else {
                return item.text.contains(command) ? nil : "<span class=\"soft\">\(command)</span>"
            }
            return HTML.command(command, label: "the command for \(item.title)")
        }
        guard login != nil || command != nil else { return nil }
        return "<div class=\"actions\">\(login)\(command)</div>"
    }
}

/// What was asked to be explained.
struct Question: Hashable, Sendable {
    let text: String
    /// nil as long as the admin token is missing.
    let answer: Result<String, GatewayProblem>?
}

/// Takes a URL, a curl line or a request ID; the answer stands below it and has an address of its own.
///
/// The answer is only for holders of the admin token: it shows who may do what. The question is sent in the body of a request, because a
/// curl line may hold a token.
private struct ExplainSection {
    let question: Question?

    var html: HTML {
        """
        <section id="explain" aria-labelledby="explain-title">
        <h2 id="explain-title" class="spoken">Explain a request</h2>
        <form method="post" action="/explain" class="explain" role="search">
        <label for="question" class="spoken">A URL, a curl line or a request ID</label>
        <input id="question" name="q" value="\(question?.text)" maxlength="8000" autocomplete="off" spellcheck="false" \
        placeholder="A URL, a curl line or a request ID" required>
        \(tokenField)<button>Explain</button>
        </form>
        <div id="answer" aria-live="polite"\(isAsked ? " data-asked" : HTML.empty)>\(question?.answer.map(Self.words))</div>
        </section>
        """
    }

    private var isAsked: Bool { question.map { $0.answer == nil } ?? false }

    /// The script asks for the token in a dialog.
    private var tokenField: HTML {
        """
        <label for="explain-token" class="spoken plain-only">Admin token</label>
        <input id="explain-token" class="plain-only token" type="password" name="token" autocomplete="off" \
        placeholder="Admin token">
        """
    }

    private static func words(_ answer: Result<String, GatewayProblem>) -> HTML {
        switch answer {
        case .success(let text): "<pre class=\"panel\" tabindex=\"0\" aria-label=\"Explanation\">\(text)</pre>"
        case .failure(let problem):
            "<p class=\"panel\"><strong>\(problem.title).</strong> \(problem.detail)</p>"
        }
    }
}
