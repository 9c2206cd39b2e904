import GatewayCore

/// The credentials as cards: those with a token first, then what the configuration holds.
struct CredentialSection {
    let page: StatusPage

    private static let limit = 200
    static let eventLimit = 6

    var html: HTML {
        let cards = tokenCards + staticCards
        guard !cards.isEmpty else { return "<section id=\"credentials\" data-live hidden></section>" }
        return """
            <section id="credentials" data-live aria-labelledby="credentials-title">
            <h2 id="credentials-title">Credentials</h2>
            <div class="cards">
            \(cards.prefix(Self.limit).map(\.html))
            </div>
            \(more(cards.count))
            </section>
            """
    }

    private func more(_ count: Int) -> HTML? {
        count > Self.limit ? "<p class=\"soft\">And \(count - Self.limit) more: authgateway status shows all.</p>" : nil
    }

    private var tokenCards: [CredentialCard] {
        var events: [String: [AuditEntry]] = [:]
        for entry in page.recent.page(EventQuery(), limit: .max).events {
            guard let name = entry.credential, events[name, default: []].count < Self.eventLimit else { continue }
            events[name, default: []].append(entry)
        }
        return page.tokens.map { token in
            CredentialCard(
                name: token.credential,
                strategy: token.strategy,
                routes: routes(using: token.perSubjectCredential ?? token.credential),
                token: token,
                children: page.tokens.filter { $0.parent == token.credential }.map(\.credential),
                points: page.timeline.points(of: token.credential, at: page.now),
                events: events[token.credential] ?? [],
                now: page.now
            )
        }
    }

    /// Those that the configuration holds as they are injected.
    private var staticCards: [CredentialCard] {
        let known = Set(page.tokens.map { $0.perSubjectCredential ?? $0.credential })
        var seen: Set<String> = []
        return page.routes.compactMap { route in
            guard let name = route.credential, !known.contains(name), seen.insert(name).inserted else { return nil }
            return CredentialCard(
                name: name,
                strategy: route.strategy,
                routes: routes(using: name),
                end: page.expirations.first { $0.kind == .secret && $0.of == name },
                points: page.timeline.points(of: name, at: page.now),
                now: page.now
            )
        }
    }

    private func routes(using credential: String) -> [String] {
        page.routes.filter { $0.credential == credential }.map(\.name)
    }
}
