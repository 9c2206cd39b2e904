import GatewayEvents
import GatewayHTTP

/// The small drawings of the page, as SVG with attributes alone: the content security policy forbids styles inside of it. What
/// they show is said in words beside them.
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

    /// How much of a token's life is left.
    static func life(_ left: Double?, _ mark: Mark) -> HTML {
        let width = min(max(left ?? 0, 0), 1) * 100
        return """
            <svg class="life" aria-hidden="true"><rect class="track" width="100%" height="5" rx="2"/>\
            <rect class="\(mark.rawValue)" width="\(number(width))%" height="5" rx="2"/></svg>
            """
    }

    /// The last day of a credential.
    static func lastDay(_ points: [CredentialTimeline.Point], now: UnixTime) -> HTML {
        let circles: [HTML] = points.compactMap { point in
            guard let at = UnixTime(rfc3339: point.at) else { return nil }
            let part = 1 - Double((now - at).wholeMilliseconds) / 86_400_000
            let x = number(2 + 96 * min(max(part, 0), 1))
            return "<circle class=\"\(point.worst.mark.rawValue)\" cx=\"\(x)%\" cy=\"8\" r=\"3.5\"/>"
        }
        return """
            <svg class="day" aria-hidden="true"><line class="rest" x2="100%" y1="8" y2="8"/>\(circles)</svg>
            """
    }

    /// What ``lastDay(_:now:)`` shows, in words.
    static func words(of points: [CredentialTimeline.Point]) -> String {
        let counts = CredentialTimeline.Mark.allCases.compactMap { mark -> String? in
            let count = points.count { $0.marks.contains(mark) }
            return count == 0 ? nil : "\(mark.rawValue) \(count)×"
        }
        return counts.isEmpty ? "Last day: nothing" : "Last day: \(counts.joined(separator: ", "))"
    }

    private static func number(_ value: Double) -> String { PageText.decimal(value, 1) }
}

extension CredentialTimeline.Point {
    fileprivate var worst: CredentialTimeline.Mark {
        [.refused, .rejected, .acquired].first(where: marks.contains) ?? .renewed
    }
}

extension CredentialTimeline.Mark {
    fileprivate var mark: Mark {
        switch self {
        case .acquired: .good
        case .renewed: .accent
        case .rejected: .warn
        case .refused: .bad
        }
    }
}
