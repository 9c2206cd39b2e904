import GatewayHTTP

/// Which part of its long lists a page shows.
struct ListQuery: Hashable, Sendable {
    enum List: String, Sendable {
        case routes
        case credentials
    }

    /// How many entries of a list one page has.
    static let size = 100

    /// Only entries whose names have it in them; empty for all.
    var find = ""
    /// From 1.
    private var numbers: [List: Int] = [:]

    init() {}

    /// - Parameter value: The value of a parameter of the query.
    init(_ value: (_ parameter: Substring) -> Substring?) {
        find = String((value("find") ?? "").prefix(100))
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
        var pairs = numbers.filter { $0.key != list && $0.value > 1 }.map { ($0.key.rawValue, String($0.value)) }
        pairs.append((list.rawValue, String(number)))
        if !find.isEmpty { pairs.append(("find", PercentEncoding.encode(find))) }
        return "/?\(pairs.map { "\($0)=\($1)" }.joined(separator: "&"))#\(list.rawValue)"
    }

    /// The search field; nil where everything fits on one page.
    func form(count: Int) -> HTML? {
        guard count > Self.size || !find.isEmpty else { return nil }
        return """
            <form class="filters" method="get" action="/" role="search">
            <label><span class="spoken">Find routes and credentials</span>\
            <input class="chip" type="search" name="find" value="\(find)" maxlength="100" placeholder="Find by name"></label>
            <button class="chip">Find</button>
            </form>
            """
    }
}
