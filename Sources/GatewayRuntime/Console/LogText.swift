import GatewayCore

/// Makes text from anywhere fit for one line of a log: bounded, and without anything that could forge a line.
enum LogText {
    /// The longest value of one field, in bytes.
    static let fieldLimit = 1024

    /// Control characters and line separators become `\u{..}`; what is beyond the limit is cut and marked.
    static func clean(_ text: String) -> String { text.singleLine(limit: fieldLimit) }

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
