import GatewayCore

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
