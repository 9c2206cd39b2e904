import GatewayEvents
import GatewayHTTP

/// The drawings of the page, as SVG with attributes alone: the content security policy forbids styles inside of it. What they show is
/// said in words beside them.
enum PageDrawing {
    /// Requests in each minute of the last hour; minutes with errors are marked below.
    static func lastHour(_ traffic: TrafficStatus?) -> HTML {
        let requests = traffic?.requests ?? []
        guard requests.count > 1, let peak = requests.max(), peak > 0 else {
            return """
                <svg class="hour" viewBox="0 0 120 30" preserveAspectRatio="none" aria-hidden="true">\
                <path class="rest" d="M0 28H120"/></svg>
                """
        }
        let step = 120 / Double(requests.count - 1)
        let points = requests.enumerated().map { index, count in
            let height = 26 * Double(count) / Double(peak)
            return "\(number(Double(index) * step)) \(number(28 - height))"
        }
        let line = points.joined(separator: "L")
        let errors = (traffic?.errors ?? []).enumerated().filter { $0.element > 0 }
            .map { "M\(number(max(0, Double($0.offset) * step - 1))) 28h2" }.joined()
        let fails = errors.isEmpty ? HTML.empty : "<path class=\"errors\" d=\"\(errors)\"/>"
        return """
            <svg class="hour" viewBox="0 0 120 30" preserveAspectRatio="none" aria-hidden="true">\
            <path class="area" d="M0 28L\(line)L120 28Z"/><path class="line" d="M\(line)"/>\(fails)</svg>
            """
    }

    static func number(_ value: Double) -> String {
        let text = PageText.decimal(value, 1)
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }
}

/// Some hours of a credential: the lives of its tokens in alternating shades, failures as marks.
struct CredentialStrip {
    private struct Box {
        let kind: CredentialTimeline.Strip.Kind
        let from: Double
        var to: Double
    }

    private let strip: CredentialTimeline.Strip
    private let isWeek: Bool
    private let end: UnixTime

    init(_ strip: CredentialTimeline.Strip, isWeek: Bool, now: UnixTime) {
        self.strip = strip
        self.isWeek = isWeek
        end = now
    }

    /// The width of the drawing; it is stretched to that of its place.
    private static let width = 1000.0

    private var length: Int64 { (isWeek ? 7 : 1) * 86_400_000 }

    private func place(_ time: UnixTime) -> Double {
        let part = 1 - Double((end - time).wholeMilliseconds) / Double(length)
        return Self.width * min(max(part, 0), 1)
    }

    var svg: HTML {
        let grid = (isWeek ? 1..<7 : 1..<4).map { part in
            "M\(PageDrawing.number(Self.width * Double(part) / (isWeek ? 7 : 4))) 0V26"
        }.joined()
        let kinds: [(CredentialTimeline.Strip.Kind, String)] = [
            (.odd, "odd"), (.even, "even"), (.missing, "missing"), (.locked, "locked"),
        ]
        let boxes = boxes
        let spans = kinds.map { kind, name in Self.path(name, boxes.filter { $0.kind == kind }) }
        let marks = [
            path("accent", [.loggedIn]), path("warn", [.rejected, .turnedAway]), path("bad", [.refused]),
            path("plain", [.locked]),
        ]
        return """
            <svg class="strip" viewBox="0 0 1000 26" preserveAspectRatio="none" aria-hidden="true">\
            <path class="rest" d="M0 13H1000\(grid)"/>\
            \((spans + marks).compactMap(\.self).reduce(HTML.empty) { "\($0)\($1)" })</svg>
            """
    }

    /// Lives that are too short to be told apart are one box, so that a week of short tokens does not make a long page.
    private var boxes: [Box] {
        strip.spans.reduce(into: [Box]()) { boxes, span in
            let box = Box(kind: span.kind, from: place(span.from), to: place(span.to))
            if let last = boxes.last, last.to >= box.from, box.to - last.from < 3, last.kind.isLife, box.kind.isLife {
                boxes[boxes.count - 1].to = box.to
            } else {
                boxes.append(box)
            }
        }
    }

    private static func path(_ name: String, _ boxes: [Box]) -> HTML? {
        let lines = boxes.map { box in
            // A border between two lives, where there is room for one.
            let end = max(box.to - (box.to - box.from > 4 ? 1 : 0), box.from + 0.5)
            let (from, to) = (PageDrawing.number(box.from), PageDrawing.number(end))
            return "M\(from) 6H\(to)V20H\(from)Z"
        }
        return lines.isEmpty ? nil : "<path class=\"\(name)\" d=\"\(lines.joined())\"/>"
    }

    private func path(_ name: String, _ marks: Set<CredentialTimeline.Mark>) -> HTML? {
        var seen: Set<Int> = []
        let lines = strip.points.filter { marks.contains($0.mark) }.map { place($0.at) }
            // No more lines than can be told apart.
            .filter { seen.insert(Int($0 / 3)).inserted }.map { "M\(PageDrawing.number($0)) 1V25" }
        return lines.isEmpty ? nil : "<path class=\"mark \(name)\" d=\"\(lines.joined())\"/>"
    }

    /// What ``svg`` shows.
    var words: String {
        let names: [(CredentialTimeline.Mark, String)] = [
            (.acquired, "acquired"), (.renewed, "renewed"), (.loggedIn, "logged in"), (.rejected, "rejected"),
            (.turnedAway, "rejected"), (.refused, "failed"), (.ended, "ended"), (.locked, "locked"),
            (.unlocked, "unlocked"),
        ]
        let counts = names.compactMap { mark, name -> String? in
            let count = strip.points.filter { $0.mark == mark }.map(\.count).reduce(0, +)
            return count == 0 ? nil : "\(name) \(count)×"
        }
        let period = isWeek ? "Last 7 days" : "Last 24 hours"
        return counts.isEmpty ? "\(period): no events" : "\(period): \(counts.joined(separator: ", "))"
    }
}

extension CredentialTimeline.Strip.Kind {
    fileprivate var isLife: Bool { self == .odd || self == .even }
}
