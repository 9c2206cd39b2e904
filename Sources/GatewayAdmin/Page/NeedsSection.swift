import GatewayCore

/// Only what a person must do, the worst first. Absent when there is nothing.
struct NeedsSection {
    let items: [Attention]
    let now: UnixTime

    var html: HTML {
        guard !items.isEmpty else { return "<section id=\"needs\" data-live hidden></section>" }
        return """
            <section id="needs" data-live aria-labelledby="needs-title">
            <h2 id="needs-title">Needs you</h2>
            \(items.prefix(Self.limit).map(item))
            \(more)
            </section>
            """
    }

    private static let limit = 50

    private var more: HTML? {
        let count = items.count - Self.limit
        return count > 0 ? "<p class=\"soft\">And \(count) more: authgateway status shows all.</p>" : nil
    }

    private func item(_ item: Attention) -> HTML {
        """
        <article class="need \(item.severity == .failing ? "bad" : "warn")">
        <div><h3>\(item.title)</h3>
        <p>\(item.text) \(facts(of: item))</p></div>
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
        let idle: HTML? = item.waits ? "Nothing is tried before that." : nil
        return "\([since, lost, next, idle].compactMap(\.self).map { "<span>\($0)</span>" as HTML })"
    }

    private func actions(of item: Attention) -> HTML? {
        let login = item.login.map { name -> HTML in
            "<a class=\"button primary\" href=\"/login?credential=\(PercentEncoding.encode(name))\">Log in</a>"
        }
        let command = item.command.map { command -> HTML in
            // An action can also be a sentence.
            guard command.hasPrefix("authgateway ") else { return "<span class=\"soft\">\(command)</span>" }
            return HTML.command(command, label: "the command for \(item.title)")
        }
        guard login != nil || command != nil else { return nil }
        return "<div class=\"actions\">\(login)\(command)</div>"
    }
}
