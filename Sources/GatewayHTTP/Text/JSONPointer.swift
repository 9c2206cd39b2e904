/// Where in a JSON document a value stands, for example `/data/access_token` (RFC 6901).
package struct JSONPointer: Hashable, Sendable {
    package let text: String
    private let steps: [String]

    /// nil when `text` is not a pointer to a member.
    package init?(_ text: String) {
        guard text.hasPrefix("/") else { return nil }
        var steps: [String] = []
        for part in text.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            guard let step = Self.unescape(part) else { return nil }
            steps.append(step)
        }
        self.text = text
        self.steps = steps
    }

    /// `~1` is a slash and `~0` a tilde; another tilde is a mistake.
    private static func unescape(_ part: Substring) -> String? {
        let pieces = part.split(separator: "~", omittingEmptySubsequences: false)
        var step = pieces.first.map(String.init) ?? ""
        for piece in pieces.dropFirst() {
            switch piece.first {
            case "0": step += "~"
            case "1": step += "/"
            default: return nil
            }
            step += piece.dropFirst()
        }
        return step
    }

    package func value(in document: JSONValue) -> JSONValue? {
        var value = document
        for step in steps {
            switch value {
            case .object(let members):
                guard let member = members[step] else { return nil }
                value = member
            case .array(let elements):
                guard let index = Int(step), elements.indices.contains(index) else { return nil }
                value = elements[index]
            default:
                return nil
            }
        }
        return value
    }
}
