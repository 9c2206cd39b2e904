import GatewayHTTP

/// Text as YAML writes it: plain where that is sure to be the same text, else in double quotes.
package enum YAMLScalar {
    /// As a value of a configuration, which replaces `${NAME}` in what it reads: the text stays as it is.
    package static func literal(_ text: String) -> String { Self.text(text.replacing("$", with: "$$")) }

    /// As a value, also within braces and brackets.
    package static func text(_ text: String) -> String {
        isPlain(text) ? text : JSONString.quoted(text) { $0.isHarmless }
    }

    /// As a key.
    package static func key(_ name: String) -> String { Self.text(name) }

    /// Words that are no text in YAML 1.1, in lower case.
    private static let words: Set<String> = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"]

    private static func isPlain(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, !words.contains(text.lowercased()) else { return false }
        guard first.properties.isAlphabetic || ("0"..."9").contains(first) || first == "/" || first == "." else {
            return false
        }
        // A number stays a number only where one is expected: it is quoted, as identifiers of digits have to be.
        let isNumber = text.utf8.allSatisfy { (0x30...0x39).contains($0) || $0 == 0x2E || $0 == 0x2B || $0 == 0x2D }
        let isColonSafe = !text.hasSuffix(":")
        return !isNumber && isColonSafe && text.utf8.allSatisfy(isPlain)
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("-._/:@+=~%*".utf8).contains(byte)
        }
    }
}
