import GatewayCore

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

    /// For text between tags and between quotation marks.
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

extension HTML {
    /// Text with a mark before it; the colour never tells anything alone.
    static func dot(_ mark: Mark) -> HTML { "<span class=\"dot \(mark.rawValue)\" aria-hidden=\"true\"></span>" }

    /// For people who do not see the page.
    static func spoken(_ text: String) -> HTML { "<span class=\"spoken\">\(text)</span>" }

    /// An entry of a list that says which command explains an error code. Nothing for a code without an explanation.
    static func meaning(of code: String?) -> HTML? {
        ErrorEntry.command(explaining: code).map { command in
            "<dt>What it means</dt><dd>\(Self.command(command, label: "the command that explains it"))</dd>"
        }
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
