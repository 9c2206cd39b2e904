import GatewayHTTP

/// A piece of HTML. Text that is put into it is escaped; only literals and other pieces are not.
struct HTML: ExpressibleByStringInterpolation, Hashable, Sendable {
    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }
        mutating func appendInterpolation(_ html: HTML) { text += html.text }
        mutating func appendInterpolation(_ html: HTML?) { text += html?.text ?? "" }
        mutating func appendInterpolation(_ pieces: [HTML]) {
            for (index, piece) in pieces.enumerated() { text += index == 0 ? piece.text : "\n" + piece.text }
        }
        mutating func appendInterpolation(_ plain: String) { text += HTML.escaped(plain) }
        mutating func appendInterpolation(_ plain: String?) { text += plain.map(HTML.escaped) ?? "" }
        mutating func appendInterpolation(_ number: Int) { text += String(number) }
        mutating func appendInterpolation(_ number: Int64) { text += String(number) }
    }

    let text: String

    init(stringLiteral value: String) { text = value }
    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    static let empty: HTML = ""

    /// Escapes text that stands between tags or in quotation marks.
    private static func escaped(_ text: String) -> String {
        var result = ""
        result.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// Pieces that several sections of the page use.
extension HTML {
    /// Text with a mark before it; the colour never tells anything alone.
    static func dot(_ mark: Mark) -> HTML { "<span class=\"dot \(mark.rawValue)\" aria-hidden=\"true\"></span>" }

    /// Text for screen readers only.
    static func spoken(_ text: String) -> HTML { "<span class=\"spoken\">\(text)</span>" }

    /// An entry of a list that says which command explains an error code. Nothing for a code without an explanation.
    static func meaning(of code: String?) -> HTML? {
        ErrorEntry.command(explaining: code).map { command in
            "<dt>What it means</dt><dd>\(Self.command(command, label: "the command that explains it"))</dd>"
        }
    }

    /// A name that may be broken behind its underscores: `oauth2_authorization_code` in a narrow column.
    static func breakable(_ name: String) -> HTML {
        name.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
            .reduce(nil as HTML?) { start, part in start.map { "\($0)_<wbr>\(part)" } ?? "\(part)" } ?? .empty
    }

    /// A command as code, anything else as text.
    static func words(_ text: String) -> HTML {
        text.hasPrefix("authgateway ") ? "<code>\(text)</code>" : "\(text)"
    }

    /// What a click copies.
    static func command(_ text: String, label: String) -> HTML {
        """
        <span class="command"><code>\(text)</code><button type="button" class="copy script" data-copy="\(text)" \
        aria-label="Copy \(label)">Copy</button></span>
        """
    }
}

/// Which colour something has.
enum Mark: String {
    case good
    case warn
    case bad
    case plain
    case accent
}

/// How the page writes times and numbers. Times are in UTC; the script shows them in the reader's zone.
enum PageText {
    /// `12:02:11 UTC` today, `25 Nov 12:02 UTC` otherwise; the whole time on hover.
    static func time(_ rfc3339: String, now: UnixTime, style: TimeStyle = .second) -> HTML {
        guard let time = UnixTime(rfc3339: rfc3339) else { return "<span>\(rfc3339)</span>" }
        let text = time.rfc3339
        let isToday = text.prefix(10) == now.rfc3339.prefix(10)
        let clock = text.dropFirst(11)
        if style == .minute {
            return
                "<time datetime=\"\(text)\" data-style=\"minute\" title=\"\(text)\">\(String(clock.prefix(5)))</time>"
        }
        let shown =
            switch style {
            case .millisecond where isToday: String(clock.prefix(12))
            case .second where isToday: "\(clock.prefix(8)) UTC"
            case .millisecond, .second, .minute:
                "\(Int(text.dropFirst(8).prefix(2)) ?? 0) \(month(text)) \(clock.prefix(5)) UTC"
            }
        return "<time datetime=\"\(text)\" data-style=\"\(style.rawValue)\" title=\"\(text)\">\(shown)</time>"
    }

    /// A sentence; the times in it are shown as ``time(_:now:style:)`` shows them.
    static func sentence(_ text: String, now: UnixTime) -> HTML {
        text.split(separator: " ", omittingEmptySubsequences: false).map { word -> HTML in
            let end = word.lastIndex(of: "Z").map { word.index(after: $0) } ?? word.startIndex
            let stamp = String(word[..<end])
            guard stamp.utf8.count >= 20, UnixTime(rfc3339: stamp) != nil else { return "\(String(word))" }
            return "\(time(stamp, now: now))\(String(word[end...]))"
        }.reduce(nil as HTML?) { start, word in start.map { "\($0) \(word)" } ?? word } ?? .empty
    }

    enum TimeStyle: String {
        case second
        case millisecond
        /// For times within the last hour: only the clock.
        case minute
    }

    private static func month(_ text: String) -> String {
        let names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let number = Int(text.dropFirst(5).prefix(2)) ?? 1
        return names.indices.contains(number - 1) ? names[number - 1] : ""
    }

    /// A countdown that the script keeps going.
    ///
    /// - Parameters:
    ///   - unit: Follows the time as long as there is some, such as ` left`.
    ///   - over: Stands instead when there is none.
    static func countdown(to rfc3339: String, now: UnixTime, unit: String = "", over: String) -> HTML {
        guard let end = UnixTime(rfc3339: rfc3339) else { return "<span>\(rfc3339)</span>" }
        let seconds = (end - now).secondsLeft
        let shown = seconds > 0 ? ConfigUnits.remaining(seconds) + unit : over
        let attribute: HTML = unit.isEmpty ? .empty : " data-unit=\"\(unit)\""
        return """
            <time datetime="\(end.rfc3339)" data-until="\(over)"\(attribute) title="\(end.rfc3339)">\(shown)</time>
            """
    }

    /// `3 d 4 h`, `4 h 10 min`, `12 min`, `9 s`.
    static func age(_ seconds: Int) -> String {
        if seconds >= 86_400 { return "\(seconds / 86_400) d \(seconds / 3600 % 24) h" }
        if seconds >= 3600 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return seconds >= 60 ? "\(seconds / 60) min" : "\(max(0, seconds)) s"
    }

    /// `212/s`, `3.1/s`, `0.02/s`.
    static func rate(_ perSecond: Double) -> String {
        if perSecond >= 10 { return "\(Int(perSecond.rounded()))/s" }
        if perSecond == 0 { return "0/s" }
        return perSecond >= 0.1 ? "\(decimal(perSecond, 1))/s" : "\(decimal(max(perSecond, 0.01), 2))/s"
    }

    /// `0.0 %`, `12.5 %`, `100 %`.
    static func share(_ share: Double) -> String {
        share >= 0.9995 ? "100 %" : "\(decimal(share * 100, 1)) %"
    }

    static func milliseconds(_ milliseconds: Double) -> String {
        if milliseconds >= 10_000 { return "\(decimal(milliseconds / 1000, 1)) s" }
        return milliseconds >= 10 ? "\(Int(milliseconds.rounded())) ms" : "\(decimal(milliseconds, 1)) ms"
    }

    static func decimal(_ value: Double, _ digits: Int) -> String {
        let scale = (0..<digits).reduce(1) { scale, _ in scale * 10 }
        guard value.isFinite, abs(value) < 1e12 else { return "–" }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        let fraction = String(scaled % scale)
        let zeros = String(repeating: "0", count: digits - fraction.count)
        return "\(value < 0 ? "-" : "")\(scaled / scale).\(zeros)\(fraction)"
    }
}
