import GatewayCore

/// Makes text from anywhere fit for one line of a log: bounded, and without anything that could forge a line.
enum LogText {
    /// The longest value of one field, in bytes.
    static let fieldLimit = 1024

    /// Control characters and line separators become `\u{..}`; what is beyond the limit is cut and marked.
    static func clean(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            guard result.utf8.count < fieldLimit else { return result + "…" }
            if scalar.isHarmless {
                result.unicodeScalars.append(scalar)
            } else {
                result += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return result
    }

    /// In quotation marks when there is something that could be taken for another field.
    static func quoted(_ text: String) -> String {
        let cleaned = clean(text)
        guard cleaned.isEmpty || cleaned.contains(where: { $0 == " " || $0 == "\"" || $0 == "=" }) else {
            return cleaned
        }
        return "\"" + cleaned.replacing("\"", with: "\\\"") + "\""
    }

    /// A JSON string, quotation marks included.
    static func json(_ text: String) -> String {
        JSONString.quoted(text, limit: fieldLimit, isPlain: \.isHarmless)
    }
}
