/// The kind of a value in words, from what the decoders asked for.
enum KeyType {
    static func text(_ node: KeyRecorder.Node) -> String {
        for case .secrets(let maximum) in node.kinds { return "a secret, or a list of at most \(maximum)" }
        if node.kinds.contains(.secret) {
            return "a secret: {env: NAME}, {file: PATH}, {exec: [PROGRAM]}, {systemd_credential: NAME} or a text"
        }
        if node.isReadText {
            return "\(node.kinds.contains(.url) ? "an https URL" : "a text"), or where it comes from, as for a secret"
        }
        if let values = node.values {
            return node.keys.isEmpty ? "a mapping of names to \(plural(values))" : "a mapping"
        }
        if node.isMapping { return mapping(node) }
        return scalar(node) ?? "a value"
    }

    /// A mapping, and what may stand in its place.
    private static func mapping(_ node: KeyRecorder.Node) -> String {
        var forms = ["a mapping"]
        if node.kinds.contains(.sequence) || node.items?.isMapping == true { forms.append("a list of mappings") }
        if let other = scalar(node, withoutLists: true) { forms.append(other) }
        return forms.joined(separator: ", or ")
    }

    private static func scalar(_ node: KeyRecorder.Node, withoutLists: Bool = false) -> String? {
        let others: [KeyRecorder.Kind] = [.scalar, .mapping, .sequence, .readText]
        let specific = node.kinds.filter { !others.contains($0) }
        let choice = specific.first { if case .choice = $0 { true } else { false } }
        if let kind = choice ?? specific.first(where: { $0 != .string }) ?? specific.first { return text(kind) }
        if !withoutLists, node.kinds.contains(.sequence) {
            return node.items.map { "a list of \(plural($0))" } ?? "a list of texts"
        }
        return node.kinds.contains(.scalar) ? "a text" : nil
    }

    private static func plural(_ node: KeyRecorder.Node) -> String {
        if node.kinds.contains(.secret) { return "secrets or texts" }
        return node.isMapping || node.values != nil ? "mappings" : "texts"
    }

    private static func text(_ kind: KeyRecorder.Kind) -> String {
        switch kind {
        case .scalar, .string: "a text"
        case .bool: "true or false"
        case .integer(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .choice(let words): words.count == 1 ? words[0] : "one of \(words.joined(separator: ", "))"
        case .duration(let range):
            range.map { "a duration from \(ConfigUnits.text($0.lowerBound)) to \(ConfigUnits.text($0.upperBound))" }
                ?? "a duration such as 30s, 10m or 1h"
        case .size(let range):
            "a size from \(ConfigUnits.text(bytes: range.lowerBound)) to \(ConfigUnits.text(bytes: range.upperBound))"
        case .percent(let range): "a share from \(range.lowerBound)% to \(range.upperBound)%"
        case .url: "an https URL"
        case .secret: "a secret"
        case .secrets(let maximum): "a secret, or a list of at most \(maximum)"
        case .readText: "a text"
        case .strings: "a list of texts"
        case .scalarOrStrings: "a text, or a list of texts"
        case .mapping: "a mapping"
        case .sequence: "a list"
        }
    }
}
