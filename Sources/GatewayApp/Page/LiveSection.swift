import GatewayEvents
import GatewayHTTP

/// The newest events with their filters. The script adds those that come.
struct LiveSection {
    let page: StatusPage

    static let limit = 50
    /// Up to this many names, one is chosen from a list. With more, it is typed.
    private static let choiceLimit = 200

    var html: HTML {
        let events = page.events
        let last = page.recent.page(EventQuery(), limit: 1).events.first?.id ?? 0
        let none: HTML? = events.isEmpty ? "<p class=\"soft none\">No event matches.</p>" : nil
        return """
            <section id="live" aria-labelledby="live-title" data-last="\(last)">
            <h2 id="live-title">Live</h2>
            \(filters)
            <ol class="panel events" id="events" aria-label="Events, the newest first">
            \(events.map { Self.row(of: $0, now: page.now) })
            </ol>
            \(none)
            </section>
            """
    }

    // MARK: Filters

    private var filters: HTML {
        """
        <form class="filters" method="get" action="/" id="filters">
        <nav aria-label="Kinds of events">
        \(groups)
        </nav>
        \(hidden)
        \(choice("client", page.overview.clients, page.query.client))
        \(choice("route", page.routes.map(\.name), page.query.route))
        <button class="plain-only">Filter</button>
        \(chips)
        <button type="button" class="script" id="pause" aria-pressed="false">Pause</button>
        </form>
        """
    }

    private var groups: [HTML] {
        let all: [(String, EventQuery.Group?)] = [
            ("All", nil), ("Failures", .failures), ("Renewals", .renewals), ("Logins", .logins),
            ("Configuration", .configuration), ("Requests", .requests),
        ]
        return all.map { title, group in
            let isCurrent = page.query.kind == group.map { .group($0) }
            let mark: HTML = isCurrent ? " aria-current=\"true\"" : ""
            return """
                <a class="chip" data-kind="\(group?.rawValue)" href="\(address(of: group))"\(mark)>\(title)</a>
                """
        }
    }

    private func address(of group: EventQuery.Group?) -> String {
        let pairs = [
            ("kind", group?.rawValue), ("client", page.query.client), ("route", page.query.route),
            ("credential", page.query.credential), ("request", page.query.request),
        ]
        let query = pairs.compactMap { name, value in value.map { "\(name)=\(PercentEncoding.encode($0))" } }
        return query.isEmpty ? "/#live" : "/?\(query.joined(separator: "&"))#live"
    }

    /// What a form without the script must not lose.
    private var hidden: [HTML] {
        let pairs = [
            ("kind", page.query.kindText), ("credential", page.query.credential), ("request", page.query.request),
        ]
        return pairs.compactMap { name, value in
            value.map { "<input type=\"hidden\" name=\"\(name)\" value=\"\($0)\">" }
        }
    }

    private func choice(_ name: String, _ known: [String], _ chosen: String?) -> HTML {
        guard known.count <= Self.choiceLimit else {
            return """
                <label><span class="spoken">Events of one \(name)</span><input name="\(name)" class="chip" \
                value="\(chosen)" placeholder="\(name): any"></label>
                """
        }
        let names = known + [chosen].compactMap { $0 }.filter { !known.contains($0) }
        let options = names.map { option -> HTML in
            let mark: HTML = option == chosen ? " selected" : ""
            return "<option value=\"\(option)\"\(mark)>\(name): \(option)</option>"
        }
        return """
            <label><span class="spoken">Events of one \(name)</span><select name="\(name)" class="chip">\
            <option value="">\(name): any</option>\(options)</select></label>
            """
    }

    /// Filters that only a link sets.
    private var chips: [HTML] {
        [("credential", page.query.credential), ("request", page.query.request)].compactMap { name, value in
            value.map { value -> HTML in
                """
                <a class="chip" href="/#live">\(name): \(value) ×\(HTML.spoken(" remove this filter"))</a>
                """
            }
        }
    }

    // MARK: Rows

    /// A row of the list; the stream sends the same to the script.
    static func row(of entry: AuditEntry, now: UnixTime) -> HTML {
        let request = entry.requestID.map { id -> HTML in
            """
            <a href="/explain?q=\(PercentEncoding.encode(id))" data-explain="\(id)">\(HTML.spoken("Explain request "))\(id)</a>
            """
        }
        return """
            <li id="\(entry.id.map { "e-\($0)" } ?? "q-\(entry.requestID ?? "")")">\(PageText.time(entry.at, now: now, style: .millisecond))\
            <strong class="event">\(HTML.dot(entry.mark))\(entry.event)\(entry.isFailed ? HTML.spoken(" (failed)") : "")</strong>\
            <span class="of">\(entry.credential ?? entry.route ?? "–")</span>\
            <span class="client soft">\(entry.client ?? "–")</span>\
            <span class="what">\(entry.note)</span><span class="request">\(request ?? "–")</span></li>
            """
    }
}

extension AuditEntry {
    /// A row that counts several events is written after them, so the order of ids is not that of time.
    static func newestFirst(_ entries: [AuditEntry]) -> [AuditEntry] {
        entries.sorted { ($0.at, $0.id ?? .max) > ($1.at, $1.id ?? .max) }
    }
}

extension EventQuery {
    fileprivate var kindText: String? {
        switch kind {
        case .group(let group): group.rawValue
        case .event(let event): event.rawValue
        case nil: nil
        }
    }
}

extension AuditEntry {
    fileprivate var mark: Mark {
        switch TokenEvent.Name(rawValue: event) {
        case .rejected, .expired, .expiringSoon, .scopeMissing, .withheld, .locked: .warn
        case _ where isFailed: .bad
        case .loginRequired: .bad
        case nil where event == "request": .good
        case .acquired, .renewed, .replayed, .loginCompleted, .configLoaded, .unlocked, .gatewayStarted: .good
        default: .accent
        }
    }
}
