import GatewayEvents
import GatewayHTTP
import GatewayTokens

/// The credentials as rows, each with a strip of its last day or week: those with a token first, then what the configuration holds.
struct CredentialSection {
    let page: StatusPage

    static let eventLimit = 6

    /// What a row is made of.
    private enum Subject {
        case token(TokenStatus)
        /// One that the configuration holds as it is injected.
        case fixed(RouteStatus, name: String)

        var name: String {
            switch self {
            case .token(let token): token.credential
            case .fixed(_, let name): name
            }
        }
    }

    var html: HTML {
        let all = subjects
        guard !all.isEmpty else { return "<section id=\"credentials\" data-live hidden></section>" }
        let needy = page.lists.onlyNeedy ? Set(page.needs.filter(\.needsPerson).map(\.name)) : nil
        let subjects = all.filter { page.lists.matches($0.name) && needy?.contains($0.name) ?? true }
        let none: HTML? = subjects.isEmpty ? "<p class=\"none soft\">No credentials to show.</p>" : nil
        return """
            <section id="credentials" data-live aria-labelledby="credentials-title">
            <h2 id="credentials-title">Credentials</h2>
            <nav class="filters" aria-label="Which credentials, and how long">
            \(chips)
            </nav>
            <div class="panel table">
            <p class="line titles" aria-hidden="true"><span>Credential</span>\(axis)<span>State</span><span>Next</span></p>
            \(rows(subjects[page.lists.range(of: .credentials, count: subjects.count)]))
            \(none)
            </div>
            \(page.lists.pager(.credentials, count: subjects.count))
            </section>
            """
    }

    private var chips: [HTML] {
        let lists = page.lists
        return [
            chip("24 hours", lists.address { $0.isWeek = false }, !lists.isWeek),
            chip("7 days", lists.address { $0.isWeek = true }, lists.isWeek),
            chip("Needs you", lists.address { $0.onlyNeedy.toggle() }, lists.onlyNeedy),
        ]
    }

    private func chip(_ title: String, _ address: String, _ isCurrent: Bool) -> HTML {
        let mark: HTML = isCurrent ? " aria-current=\"true\"" : ""
        return "<a class=\"chip\" data-show href=\"\(address)#credentials\"\(mark)>\(title)</a>"
    }

    private var axis: HTML {
        let words = page.lists.isWeek ? ["7 days ago", "now"] : ["24 hours ago", "12 hours", "now"]
        return "<span class=\"axis\">\(words.map { "<span>\($0)</span>" as HTML })</span>"
    }

    private var subjects: [Subject] {
        let known = Set(page.tokens.map { $0.perSubjectCredential ?? $0.credential })
        var seen: Set<String> = []
        let fixed = page.routes.compactMap { route -> Subject? in
            guard let name = route.credential, !known.contains(name), seen.insert(name).inserted else { return nil }
            return .fixed(route, name: name)
        }
        return page.tokens.map { .token($0) } + fixed
    }

    private func rows(_ subjects: ArraySlice<Subject>) -> [HTML] {
        let events = events(of: Set(subjects.map(\.name)))
        let routes = Dictionary(grouping: page.routes) { $0.credential }.mapValues { $0.map(\.name) }
        let children = Dictionary(grouping: page.tokens) { $0.parent }.mapValues { $0.map(\.credential) }
        return subjects.map { subject in
            let name = subject.name
            let strip = strip(of: subject)
            let end = page.expirations.first { $0.kind == .secret && $0.of == name }
            switch subject {
            case .token(let token):
                return CredentialRow(
                    name: name,
                    strategy: token.strategy,
                    routes: routes[token.perSubjectCredential ?? name] ?? [],
                    token: token,
                    end: token.isStatic == true ? end : nil,
                    children: children[name] ?? [],
                    strip: strip,
                    isWeek: page.lists.isWeek,
                    events: events[name] ?? [],
                    now: page.now
                ).html
            case .fixed(let route, _):
                return CredentialRow(
                    name: name,
                    strategy: route.strategy,
                    routes: routes[name] ?? [],
                    end: end,
                    strip: strip,
                    isWeek: page.lists.isWeek,
                    events: events[name] ?? [],
                    now: page.now
                ).html
            }
        }
    }

    private func strip(of subject: Subject) -> CredentialStrip {
        let (name, start) = (subject.name, page.lists.start(at: page.now))
        var strip = page.timeline.strip(of: name, from: start, to: page.now)
        // The audit log may be unreadable, or its rows too many.
        if strip.spans.isEmpty, case .token(let token) = subject, token.isServed,
            let at = token.obtainedAt.flatMap({ UnixTime(rfc3339: $0) })
        {
            var timeline = CredentialTimeline()
            let end = token.expiresAt.flatMap { UnixTime(rfc3339: $0) }
            timeline.add(CredentialTimeline.Event(.acquired, of: name, at: at, expiresAt: end))
            strip = timeline.strip(of: name, from: start, to: page.now)
        }
        return CredentialStrip(strip, isWeek: page.lists.isWeek, now: page.now)
    }

    private func events(of names: Set<String>) -> [String: [AuditEntry]] {
        var events: [String: [AuditEntry]] = [:]
        var query = EventQuery()
        query.mergesWithheld = true
        for entry in page.recent.page(query, limit: .max).events {
            guard let name = entry.credential, names.contains(name), events[name, default: []].count < Self.eventLimit
            else { continue }
            events[name, default: []].append(entry)
        }
        return events.mapValues(AuditEntry.newestFirst)
    }
}

/// One credential: who uses it, its strip, its state in a word, and what comes next. Below it opens why, what to type, its events, its
/// parent and children, and what can be done with it.
private struct CredentialRow {
    let name: String
    let strategy: String
    let routes: [String]
    /// nil for one that never changes.
    var token: TokenStatus?
    /// When a secret of the configuration expires.
    var end: Expiration?
    var children: [String] = []
    let strip: CredentialStrip
    let isWeek: Bool
    var events: [AuditEntry] = []
    let now: UnixTime

    var html: HTML {
        """
        <details class="entry" id="c-\(PercentEncoding.encode(name))">
        <summary class="line">
        <span class="name"><strong>\(name)</strong> <span class="soft">\(HTML.breakable(strategy)) · \(use)</span></span>
        \(strip.svg)\(HTML.spoken(strip.words))
        <span class="state"><strong class="word \(mark.rawValue)">\(word)</strong> <span class="soft">\(progress)</span></span>
        <span class="next soft">\(next)</span>
        </summary>
        \(CredentialDetails(row: self).html)
        </details>
        """
    }

    private var word: String {
        guard let token else { return "static" }
        if token.isOnlyRejected { return "rejected" }
        if token.isStatic == true, token.state == .valid { return "static" }
        return token.failing != nil && !token.needsPerson ? "\(token.state.words), failing" : token.state.words
    }

    private var mark: Mark {
        guard let token else { return end.map { $0.isSoon ? .warn : .good } ?? .good }
        if token.state == .locked { return .plain }
        if token.needsPerson || token.isOnlyRejected { return .bad }
        if token.isStatic == true, let end, end.isSoon { return .warn }
        switch token.state {
        case .valid, .renewing: return token.failing == nil && token.missingScopes == nil ? .good : .warn
        case .empty, .acquiring: return token.failing == nil ? .plain : .bad
        default: return .warn
        }
    }

    private var use: String {
        switch routes.count {
        case 0: "used by no route"
        case 1...2: routes.joined(separator: ", ")
        default: "\(routes.count) routes"
        }
    }

    private func time(_ text: String) -> HTML { PageText.time(text, now: now) }

    /// What is known of the token that there is, or why there is none.
    private var progress: HTML {
        guard let token else { return "in the configuration" }
        if token.state == .locked { return token.lockedAt.map { "since \(time($0))" } ?? "by an operator" }
        if token.isStatic == true { return answers(to: token) }
        if let failing = token.failing {
            let code = token.authorityError?.code.map { ": \($0)" } ?? ""
            return "since \(time(failing.since))\(code)"
        }
        if token.generation == 0 { return token.state == .acquiring ? "the first one is on its way" : .empty }
        let generation: HTML = "generation \(token.generation)"
        guard let end = token.expiresAt else { return generation }
        let left = PageText.countdown(to: end, now: now, unit: " left", over: "expired")
        return token.isServed ? "\(left) · \(generation)" : "expired \(time(end)) · \(generation)"
    }

    private func answers(to token: TokenStatus) -> HTML {
        let accepted = token.lastAcceptedAt.map { "accepted \(time($0))" as HTML } ?? "not accepted yet"
        guard let rejected = token.lastRejectedAt else { return accepted }
        let isLater = rejected > token.lastAcceptedAt ?? ""
        return isLater ? "rejected \(time(rejected)), \(accepted)" : "\(accepted), rejected \(time(rejected))"
    }

    /// What happens next by itself, or what a person has to do.
    private var next: HTML {
        func countdown(_ time: String) -> HTML { PageText.countdown(to: time, now: now, over: "a moment") }
        if let end = end?.endsAt { return "expires in \(countdown(end))" }
        guard let token else { return "never expires" }
        if let failing = token.failing {
            if let time = failing.nextTryAt { return "retries in \(countdown(time))" }
            if let time = failing.notBefore { return "retries with the next request, not before \(self.time(time))" }
        }
        if token.needsPerson { return HTML.words(token.action ?? token.failing?.command ?? "needs a person") }
        if token.failing != nil { return "retries with the next request" }
        if token.missingScopes != nil, let action = token.action { return HTML.words(action) }
        if token.isStatic == true { return token.isOnlyRejected ? "check the secret" : "never expires" }
        if token.state == .renewing || token.state == .acquiring { return "renewing now" }
        if let time = token.renewsAt { return "renews in \(countdown(time))" }
        if token.generation == 0 { return "with the first request" }
        if !token.isRenewable, let end = token.expiresAt { return "expires in \(countdown(end)), not renewed" }
        return token.expiresAt == nil ? "expiry unknown" : "renews when it is needed"
    }
}

/// What a row opens.
private struct CredentialDetails {
    let row: CredentialRow

    var html: HTML {
        """
        <div class="inside">
        \(cause)
        <div class="columns">
        <dl>\(facts)</dl>
        \(eventList)
        </div>
        \(uses)
        \(operations)
        </div>
        """
    }

    /// The script asks the audit log when the row is opened.
    private var uses: HTML {
        let command = GatewayCommand.line("audit", "who", row.name)
        return """
            <div class="who" data-who="\(row.name)" data-since="\(row.isWeek ? "7d" : "24h")">\
            <p class="plain-only">Who used it: \(HTML.command(command, label: "the command that shows who used it"))</p></div>
            """
    }

    /// Why it fails and what to type.
    private var cause: HTML? {
        guard let token = row.token,
            let reason = token.failing?.reason ?? token.lastError ?? token.missingScopeText
        else { return nil }
        let said = token.authorityError.map { " The authorization server said: \($0.text)." }
        let command = (token.failing?.command ?? token.action).flatMap { text -> HTML? in
            guard !text.hasPrefix("authgateway ") else {
                return "<p>\(HTML.command(text, label: "the command for \(row.name)"))</p>"
            }
            return token.failing?.remedy.contains(text) == true ? nil : "<p>\(text)</p>"
        }
        return
            "<p><strong>\(PageText.sentence(reason, now: row.now))</strong>\(said) \(token.failing?.remedy)</p>\(command)"
    }

    private var facts: [HTML] {
        func fact(_ title: String, _ value: HTML?) -> HTML? { value.map { "<dt>\(title)</dt><dd>\($0)</dd>" } }
        func time(_ text: String?) -> HTML? { text.map { PageText.time($0, now: row.now) } }
        func link(_ name: String) -> HTML { "<a href=\"#c-\(PercentEncoding.encode(name))\">\(name)</a>" }
        let routes = row.routes.prefix(20).map { "<a href=\"#r-\(PercentEncoding.encode($0))\">\($0)</a>" as HTML }
        let more = row.routes.count > 20 ? " and \(row.routes.count - 20) more" : ""
        let children: HTML? = row.children.isEmpty ? nil : "\(row.children.map(link))"
        let token = row.token
        return [
            fact("Used by", routes.isEmpty ? nil : "\(routes)\(more)"),
            fact("Obtained", time(token?.obtainedAt)), fact("Expires", time(row.end?.endsAt ?? token?.expiresAt)),
            fact("Locked", time(token?.lockedAt)),
            fact("Login expires", time(token?.renewalExpiresAt)), fact("Subject", token?.subject.map { "\($0)" }),
            fact("Made from", token?.parent.map(link)), fact("Made from it", children),
            fact("Last accepted", time(token?.lastAcceptedAt)), fact("Last rejected", time(token?.lastRejectedAt)),
            fact("Secret from", token?.secretOrigin.map { "\($0)" }),
            fact("Requests failed", token?.failing?.failedRequests.flatMap { $0 > 0 ? "\($0)" : nil }),
            fact("Added scopes", token?.addedScopes.map { "\($0.joined(separator: " "))" }),
            fact("Renewal budget", token?.emptyBudgetText.map { "\($0)" }),
            HTML.meaning(of: token?.authorityError?.code),
            fact("Clock", token?.clockSkewSeconds.map { "\(ClockSkew.words($0))" }),
        ].compactMap(\.self)
    }

    private var eventList: HTML {
        let rows = row.events.map { entry -> HTML in
            """
            <li>\(PageText.time(entry.at, now: row.now)) <strong>\(entry.event)</strong> \
            <span class="soft">\(entry.note)</span></li>
            """
        }
        let all = "/?credential=\(PercentEncoding.encode(row.name))#live"
        return "<div><ul class=\"events\">\(rows)</ul><p><a href=\"\(all)\">All its events</a></p></div>"
    }

    private var operations: HTML? {
        guard let token = row.token else { return nil }
        let address = PercentEncoding.encode(row.name)
        let login: HTML? = token.canLogIn ? "<a class=\"button\" href=\"/login?credential=\(address)\">Log in</a>" : nil
        let offered = TokenPage.operations(isLocked: token.state == .locked, isStatic: token.isStatic == true)
        let buttons = offered.map { operation -> HTML in
            let verb = operation.verb
            return """
                <button type="button" class="script" data-operation="\(verb)" data-credential="\(row.name)" \
                data-words="\(operation.summary)">\(verb.prefix(1).uppercased() + verb.dropFirst())</button>
                """
        }
        return """
            <p class="actions">\(login)\(buttons)\
            <a class="plain-only" href="/token?credential=\(address)">Change…</a></p>
            """
    }
}

extension TokenStatus.State {
    /// `login required`.
    var words: String { self == .empty ? "no token" : rawValue.replacing("_", with: " ") }
}
