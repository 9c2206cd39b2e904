import GatewayEvents
import GatewayHTTP
import GatewayTokens

/// The credentials as cards: those with a token first, then what the configuration holds.
struct CredentialSection {
    let page: StatusPage

    static let eventLimit = 6

    /// What a card is made of.
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
        let subjects = all.filter { page.lists.matches($0.name) }
        return """
            <section id="credentials" data-live aria-labelledby="credentials-title">
            <h2 id="credentials-title">Credentials</h2>
            <div class="cards">
            \(cards(subjects[page.lists.range(of: .credentials, count: subjects.count)]))
            </div>
            \(page.lists.pager(.credentials, count: subjects.count))
            </section>
            """
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

    private func cards(_ subjects: ArraySlice<Subject>) -> [HTML] {
        let events = events(of: Set(subjects.map(\.name)))
        let routes = Dictionary(grouping: page.routes) { $0.credential }.mapValues { $0.map(\.name) }
        let children = Dictionary(grouping: page.tokens) { $0.parent }.mapValues { $0.map(\.credential) }
        return subjects.map { subject in
            switch subject {
            case .token(let token):
                CredentialCard(
                    name: token.credential,
                    strategy: token.strategy,
                    routes: routes[token.perSubjectCredential ?? token.credential] ?? [],
                    token: token,
                    end: token.isStatic == true
                        ? page.expirations.first { $0.kind == .secret && $0.of == token.credential } : nil,
                    children: children[token.credential] ?? [],
                    points: page.timeline.points(of: token.credential, at: page.now),
                    events: events[token.credential] ?? [],
                    now: page.now
                ).html
            case .fixed(let route, let name):
                CredentialCard(
                    name: name,
                    strategy: route.strategy,
                    routes: routes[name] ?? [],
                    end: page.expirations.first { $0.kind == .secret && $0.of == name },
                    points: page.timeline.points(of: name, at: page.now),
                    now: page.now
                ).html
            }
        }
    }

    private func events(of names: Set<String>) -> [String: [AuditEntry]] {
        var events: [String: [AuditEntry]] = [:]
        for entry in page.recent.page(EventQuery(), limit: .max).events {
            guard let name = entry.credential, names.contains(name), events[name, default: []].count < Self.eventLimit
            else { continue }
            events[name, default: []].append(entry)
        }
        return events
    }
}

/// One credential: its state in a word, who uses it, how much of its life is left, its last day; behind it its events, its
/// parent and children, and what can be done with it.
private struct CredentialCard {
    let name: String
    let strategy: String
    let routes: [String]
    /// nil for one that never changes.
    var token: TokenStatus?
    /// When a secret of the configuration ends.
    var end: Expiration?
    var children: [String] = []
    let points: [CredentialTimeline.Point]
    var events: [AuditEntry] = []
    let now: UnixTime

    var html: HTML {
        """
        <article class="card" id="c-\(PercentEncoding.encode(name))">
        <h3>\(name)</h3><p class="word \(mark.rawValue)">\(word)</p>
        <p class="use">\(strategy) · \(use)</p>
        \(PageDrawing.life(left, mark))
        <p class="facts"><span>\(progress)</span><span>\(remaining)</span></p>
        \(PageDrawing.lastDay(points, now: now))\(HTML.spoken(PageDrawing.words(of: points)))
        \(CredentialDetails(card: self).html)
        </article>
        """
    }

    private var word: String {
        guard let token else { return "static" }
        if token.isOnlyRejected { return "rejected" }
        return token.isStatic == true && token.state == .valid ? "static" : token.state.words
    }

    private var mark: Mark {
        guard let token else { return end.map { $0.isSoon ? .warn : .good } ?? .good }
        if token.needsPerson { return .bad }
        if token.isOnlyRejected { return .bad }
        if token.isStatic == true, let end, end.isSoon { return .warn }
        switch token.state {
        case .valid, .renewing: return token.failing == nil ? .good : .warn
        case .empty, .acquiring: return token.failing == nil ? .plain : .bad
        default: return .warn
        }
    }

    private var use: String {
        guard !routes.isEmpty else { return "used by no route" }
        let more = routes.count > 8 ? " and \(routes.count - 8) more" : ""
        return "used by \(routes.prefix(8).joined(separator: ", "))\(more)"
    }

    private var left: Double? {
        guard let token else { return 1 }
        guard token.isServed, !token.isOnlyRejected else { return nil }
        guard let start = token.obtainedAt.flatMap({ UnixTime(rfc3339: $0) }),
            let end = token.expiresAt.flatMap({ UnixTime(rfc3339: $0) }), end > start
        else { return 1 }
        return Double((end - now).wholeMilliseconds) / Double((end - start).wholeMilliseconds)
    }

    private var progress: HTML {
        guard let token else { return "never renewed" }
        if token.isStatic == true {
            if token.isOnlyRejected, let rejected = token.lastRejectedAt {
                return "rejected \(PageText.time(rejected, now: now)), never accepted"
            }
            guard let accepted = token.lastAcceptedAt else { return "not accepted yet" }
            return "accepted \(PageText.time(accepted, now: now))"
        }
        let generation: HTML = token.generation == 0 ? "no token yet" : "gen \(token.generation)"
        if let failing = token.failing {
            return "\(generation) · failing since \(PageText.time(failing.since, now: now))"
        }
        if token.state == .renewing || token.state == .acquiring { return "\(generation) · renewing now" }
        guard let renews = token.renewsAt, token.state == .valid else { return generation }
        return "\(generation) · renews in \(PageText.countdown(to: renews, now: now, over: "a moment"))"
    }

    private var remaining: HTML {
        if let end = end?.endsAt ?? token?.expiresAt { return PageText.countdown(to: end, now: now, over: "ended") }
        return token?.isStatic ?? true ? "no end" : .empty
    }
}

/// What a card opens.
private struct CredentialDetails {
    let card: CredentialCard

    var html: HTML {
        guard let token = card.token else { return .empty }
        return """
            <details><summary>Details<span class="spoken"> of \(card.name)</span></summary>
            <dl>\(facts(of: token))</dl>
            \(eventList)
            \(operations(of: token))
            </details>
            """
    }

    private func facts(of token: TokenStatus) -> [HTML] {
        func fact(_ title: String, _ value: HTML?) -> HTML? { value.map { "<dt>\(title)</dt><dd>\($0)</dd>" } }
        func time(_ text: String?) -> HTML? { text.map { PageText.time($0, now: card.now) } }
        func link(_ name: String) -> HTML { "<a href=\"#c-\(PercentEncoding.encode(name))\">\(name)</a>" }
        let children: HTML? = card.children.isEmpty ? nil : "\(card.children.map(link))"
        return [
            fact("Obtained", time(token.obtainedAt)), fact("Ends", time(token.expiresAt)),
            fact("Login ends", time(token.renewalExpiresAt)), fact("Subject", token.subject.map { "\($0)" }),
            fact("Made from", token.parent.map(link)), fact("Made from it", children),
            fact("Last accepted", time(token.lastAcceptedAt)), fact("Last rejected", time(token.lastRejectedAt)),
            fact("Secret from", token.secretOrigin.map { "\($0)" }),
            fact("Renewal budget", token.emptyBudgetText.map { "\($0)" }),
            fact("Problem", (token.failing?.reason ?? token.lastError).map { "\($0)" }),
            fact("Authority said", token.authorityError.map(Self.words)),
            HTML.meaning(of: token.authorityError?.code),
            fact("Clock", token.clockSkewSeconds.map { "\(ClockSkew.words($0))" }),
        ].compactMap(\.self)
    }

    private static func words(of error: AuthorityError) -> HTML {
        let words = [error.status.map(String.init), error.code, error.description].compactMap(\.self)
        return "\(words.joined(separator: " "))"
    }

    private var eventList: HTML? {
        guard !card.events.isEmpty else { return nil }
        let rows = card.events.map { entry -> HTML in
            """
            <li>\(PageText.time(entry.at, now: card.now)) <strong>\(entry.event)</strong> \
            <span class="soft">\(entry.note)</span></li>
            """
        }
        let all = "/?credential=\(PercentEncoding.encode(card.name))#live"
        return "<ul class=\"events\">\(rows)</ul><p><a href=\"\(all)\">All its events</a></p>"
    }

    private func operations(of token: TokenStatus) -> HTML {
        let address = PercentEncoding.encode(card.name)
        let login: HTML? = token.canLogIn ? "<a class=\"button\" href=\"/login?credential=\(address)\">Log in</a>" : nil
        let offered = TokenPage.operations(isLocked: token.state == .locked, isStatic: token.isStatic == true)
        let buttons = offered.map { operation -> HTML in
            let verb = operation.verb
            return """
                <button type="button" class="script" data-operation="\(verb)" data-credential="\(card.name)" \
                data-words="\(operation.button?.summary)">\(verb.prefix(1).uppercased() + verb.dropFirst())</button>
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
