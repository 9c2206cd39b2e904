import GatewayHTTP

/// Makes what a client or a person wrote fit to be shown: bounded, on one line, without secrets.
package enum ShownText {
    /// The longest value, in bytes.
    static let limit = 300

    /// Control characters become `\u{..}`; what is beyond the limit is cut and marked.
    package static func clean(_ text: String, limit: Int = limit) -> String { text.singleLine(limit: limit) }

    // MARK: Fields

    /// Fields whose values are shown, in lower case. All others may hold a secret.
    private static let openNames: Set<String> = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "connection",
        "content-encoding", "content-language", "content-length", "content-type", "date", "expect", "host",
        "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "keep-alive",
        "max-forwards", "origin", "pragma", "prefer", "proxy-connection", "range", "sec-fetch-dest", "sec-fetch-mode",
        "sec-fetch-site", "sec-fetch-user", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via",
        "x-http-method", "x-http-method-override", "x-method-override", "x-request-id", "x-requested-with",
    ]

    /// The value of a field that a client sends; masked unless the name is known to hold no secret.
    ///
    /// - Parameter userFields: Fields that name a user to act for, in lower case. They are shown, too.
    static func value(_ value: String, of name: String, userFields: Set<String>) -> String {
        let lower = name.lowercased()
        if openNames.contains(lower) || userFields.contains(lower) || ForwardedPolicy.names.contains(lower) {
            return clean(value)
        }
        return value.isEmpty ? "" : mask
    }

    static let mask = "***"

    // MARK: Targets

    /// The target with the values of its query masked.
    ///
    /// - Parameters:
    ///   - name: The query parameter that the gateway injects.
    ///   - injected: What stands for its value.
    package static func target(_ target: String, injecting name: String? = nil, as injected: String = "") -> String {
        guard let mark = target.firstIndex(of: "?") else { return clean(target, limit: targetLimit) }
        let parameters = target[target.index(after: mark)...].split(separator: "&", omittingEmptySubsequences: false)
        let shown = parameters.map { parameter -> String in
            guard let equals = parameter.firstIndex(of: "=") else { return parameter.isEmpty ? "" : mask }
            let key = String(parameter[..<equals])
            return "\(clean(key))=" + (key == name ? injected : mask)
        }
        return clean("\(target[..<mark])?" + shown.joined(separator: "&"), limit: targetLimit)
    }

    static let targetLimit = 1000
}

/// Lines with a label before each, which is not repeated.
package struct LabelledLines {
    private let width: Int?
    private var last = ""
    package private(set) var text = ""

    /// The width of the longest label and two spaces.
    private static let margin = 12

    package init(width: Int?) { self.width = width }

    /// A line without a label, however long.
    package mutating func addLine(_ line: String) {
        text += line + "\n"
        last = ""
    }

    /// What stands above a command that explains an error code.
    package static let codeTitle = "What the code means:"

    /// A command to type, on a line of its own. Nothing where there is none.
    package mutating func addCommand(_ command: String?, under title: String) {
        guard let command else { return }
        addLine("")
        addLine(title)
        addLine("  \(command)")
    }

    /// - Parameter label: Empty for a line that belongs to the one before.
    package mutating func add(_ label: String, _ value: String) {
        let shown = label == last ? "" : label
        if !label.isEmpty { last = label }
        var indent = shown + String(repeating: " ", count: max(1, Self.margin - shown.count))
        var line = ""
        for word in value.split(separator: " ") {
            if let width, !line.isEmpty, indent.count + line.count + 1 + word.count > width {
                text += indent + line + "\n"
                indent = String(repeating: " ", count: Self.margin)
                line = ""
            }
            line += line.isEmpty ? String(word) : " \(word)"
        }
        text += indent + line + "\n"
    }
}
