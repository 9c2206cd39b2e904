import GatewayHTTP

/// Which part of its long lists a page shows.
struct ListQuery: Sendable {
    enum List: String, Sendable {
        case routes
        case credentials
    }

    /// How many entries of a list one page has.
    static let size = 100

    /// Only entries whose names have it in them; empty for all.
    var find = ""
    /// Strips show 7 days instead of 24 hours.
    var isWeek = false
    /// Only credentials that need a person.
    var onlyNeedy = false
    /// Whose requests are drawn; nil for all.
    var traffic: TrafficChoice?
    /// From 1.
    private var numbers: [List: Int] = [:]
    /// The filter of the events, which links to other lists keep.
    private var filter: [(name: String, value: String)] = []

    /// One route or one client; a client without a name is empty.
    struct TrafficChoice: Hashable, Sendable {
        var route: String?
        var client: String?

        init?(_ text: String) {
            if text.hasPrefix("route:") {
                route = String(text.dropFirst(6))
            } else if text.hasPrefix("client:") {
                client = String(text.dropFirst(7))
            } else {
                return nil
            }
        }

        var text: String { client.map { "client:\($0)" } ?? "route:\(route ?? "")" }
    }

    init() {}

    /// - Parameter value: The value of a parameter of the query.
    init(_ value: (_ parameter: Substring) -> Substring?) {
        find = String((value("find") ?? "").prefix(100))
        isWeek = value("span") == "7d"
        onlyNeedy = value("show") == "needs"
        traffic = value("traffic").flatMap { TrafficChoice(String($0.prefix(300))) }
        filter = ["kind", "client", "route", "credential", "request"].compactMap { name in
            value(name[...]).flatMap { $0.isEmpty ? nil : (name, String($0.prefix(300))) }
        }
        for list in [List.routes, .credentials] { numbers[list] = value(list.rawValue[...]).flatMap { Int($0) } }
    }

    func matches(_ texts: String?...) -> Bool {
        let wanted = find.lowercased()
        return wanted.isEmpty || texts.contains { $0?.lowercased().contains(wanted) == true }
    }

    /// The part that is shown of a list with `count` entries.
    func range(of list: List, count: Int) -> Range<Int> {
        let start = (number(of: list, count: count) - 1) * Self.size
        return start..<min(start + Self.size, count)
    }

    private func number(of list: List, count: Int) -> Int {
        let last = max(1, (count + Self.size - 1) / Self.size)
        return min(max(numbers[list] ?? 1, 1), last)
    }

    /// Which part is shown, and links to the parts before and behind it; nil where the list has one part.
    func pager(_ list: List, count: Int) -> HTML? {
        guard count > Self.size else { return nil }
        let (number, shown) = (number(of: list, count: count), range(of: list, count: count))
        func link(_ title: String, _ to: Int, _ isThere: Bool) -> HTML {
            guard isThere else { return "<span class=\"chip soft\">\(title)</span>" }
            return "<a class=\"chip\" href=\"\(address(list, to))\">\(title)\(HTML.spoken(" \(list.rawValue)"))</a>"
        }
        return """
            <nav class="filters pager" aria-label="Pages of \(list.rawValue)">
            \(link("Previous", number - 1, shown.lowerBound > 0))
            <span class="soft">\(shown.lowerBound + 1) to \(shown.upperBound) of \(count)</span>
            \(link("Next", number + 1, shown.upperBound < count))
            </nav>
            """
    }

    private func address(_ list: List, _ number: Int) -> String {
        address { $0.numbers[list] = number } + "#\(list.rawValue)"
    }

    /// The address of the page after a change of what it shows.
    func address(_ change: (inout ListQuery) -> Void) -> String {
        var other = self
        change(&other)
        // A shorter list may not have as many pages.
        if other.onlyNeedy != onlyNeedy { other.numbers[.credentials] = nil }
        let pairs = other.parameters.map { "\($0)=\(PercentEncoding.encode($1))" }
        return pairs.isEmpty ? "/" : "/?\(pairs.joined(separator: "&"))"
    }

    private var parameters: [(name: String, value: String)] {
        let pages = numbers.filter { $0.value > 1 }.map { ($0.key.rawValue, String($0.value)) }.sorted { $0.0 < $1.0 }
        let own: [(String, String?)] = [
            ("find", find.isEmpty ? nil : find), ("span", isWeek ? "7d" : nil), ("show", onlyNeedy ? "needs" : nil),
            ("traffic", traffic?.text),
        ]
        return pages + own.compactMap { name, value in value.map { (name, $0) } } + filter
    }

    /// What a form without the script must not lose, apart from its own field.
    func hidden(but field: String) -> [HTML] {
        parameters.filter { $0.name != field }.map { name, value in
            "<input type=\"hidden\" name=\"\(name)\" value=\"\(value)\">"
        }
    }

    /// When the strips begin.
    func start(at now: UnixTime) -> UnixTime { now + .seconds(isWeek ? -7 * 86_400 : -86_400) }

    /// The search field; nil where everything fits on one page.
    func form(count: Int) -> HTML? {
        guard count > Self.size || !find.isEmpty else { return nil }
        return """
            <form class="filters" method="get" action="/" role="search">
            \(hidden(but: "find"))
            <label><span class="spoken">Find routes and credentials</span>\
            <input class="chip" type="search" name="find" value="\(find)" maxlength="100" placeholder="Find by name"></label>
            <button class="chip">Find</button>
            </form>
            """
    }
}
