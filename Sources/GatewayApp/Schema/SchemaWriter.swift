import GatewayConfiguration
import GatewayHTTP

/// Puts what was recorded into the words of JSON Schema.
struct SchemaWriter {
    /// By path, `*` standing for a name and `[]` for an element: what is written by hand.
    let substitutes: [String: SchemaValue]
    /// By path: what else holds for a mapping.
    var additions: [String: [(String, SchemaValue)]] = [:]

    struct Members {
        var properties: [(String, SchemaValue)]
        var required: [String]

        func value(isClosed: Bool) -> [(String, SchemaValue)] {
            var members: [(String, SchemaValue)] = [("type", .string("object"))]
            if !required.isEmpty { members.append(("required", .array(required.map { .string($0) }))) }
            members.append(("properties", .object(properties)))
            if isClosed { members.append(("additionalProperties", .bool(false))) }
            return members
        }
    }

    func members(_ node: KeyRecorder.Node, at path: String) -> Members {
        var keys = node.keys
        if path.isEmpty, substitutes["include"] != nil, !keys.contains("include") { keys.append("include") }
        let properties = keys.sorted().compactMap { key -> (String, SchemaValue)? in
            let place = path.isEmpty ? key : "\(path).\(key)"
            let meaning = node.meanings[key]
            if let substitute = substitutes[place] { return (key, substitute.describing(meaning)) }
            guard let child = node.children[key] else { return nil }
            return (key, value(child, at: place).describing(meaning))
        }
        return Members(properties: properties, required: (node.required ?? []).sorted())
    }

    func object(_ node: KeyRecorder.Node, at path: String) -> SchemaValue {
        var members = members(node, at: path)
        // Where any key is read, a value is whatever somebody wants to say.
        if !node.isClosed { members.properties = members.properties.map { ($0.0, .object([])) } }
        return .object(members.value(isClosed: node.isClosed) + (additions[path] ?? []))
    }

    private func value(_ node: KeyRecorder.Node, at path: String) -> SchemaValue {
        if let substitute = substitutes[path] { return substitute }
        for case .secrets(let maximum) in node.kinds { return Self.secrets(upTo: maximum) }
        if node.kinds.contains(.secret) { return Self.reference("secret") }
        if node.isReadText { return Self.reference("text") }
        if let values = node.values { return names(node, values, at: path) }
        if node.isMapping {
            var forms = [object(node, at: path)]
            // One, or a list of them.
            if node.kinds.contains(.sequence) || node.items?.isMapping == true {
                forms.append(.object([("type", .string("array")), ("items", items(node, at: path))]))
            }
            // Or a word that stands for the most usual one.
            if let word = node.kinds.first(where: \.isWord) ?? node.kinds.first(where: { $0 == .scalar }) {
                forms.append(value(word, node, at: path))
            }
            return forms.count == 1 ? forms[0] : .object([("anyOf", .array(forms))])
        }
        let specific = node.kinds.filter { $0 != .scalar && $0 != .mapping && $0 != .readText }
        let choice = specific.first { if case .choice = $0 { true } else { false } }
        guard let kind = choice ?? specific.first(where: { $0 != .sequence && $0 != .string }) ?? specific.first else {
            return node.kinds.contains(.scalar) ? Self.reference("string") : .object([])
        }
        return value(kind, node, at: path)
    }

    /// A mapping whose keys are names, beside some that have a meaning of their own.
    private func names(_ node: KeyRecorder.Node, _ values: KeyRecorder.Node, at path: String) -> SchemaValue {
        let own = node.keys.isEmpty ? [("type", .string("object"))] : members(node, at: path).value(isClosed: false)
        let rule = node.hasPlainNames ? [("propertyNames", Self.reference("name"))] : []
        return .object(own + rule + [("additionalProperties", value(values, at: "\(path).*"))])
    }

    private func value(_ kind: KeyRecorder.Kind, _ node: KeyRecorder.Node, at path: String) -> SchemaValue {
        switch kind {
        case .scalar, .string, .url: Self.reference("string")
        case .secret: Self.reference("secret")
        case .secrets(let maximum): Self.secrets(upTo: maximum)
        case .readText: Self.reference("text")
        case .bool: Self.orVariable([("type", .string("boolean"))])
        case .integer(let range):
            Self.orVariable([
                ("type", .string("integer")), ("minimum", .number(range.lowerBound)),
                ("maximum", .number(range.upperBound)),
            ])
        case .choice(let words): Self.orVariable([("enum", .array(words.flatMap(Self.word)))])
        case .duration: Self.reference("duration")
        case .size: Self.reference("size")
        case .percent: Self.reference("percent")
        case .strings: Self.strings
        case .scalarOrStrings: Self.stringOrStrings
        case .sequence: .object([("type", .string("array")), ("items", items(node, at: path))])
        case .mapping: .object([])
        }
    }

    private func items(_ node: KeyRecorder.Node, at path: String) -> SchemaValue {
        guard let items = node.items, items.isMapping || !items.kinds.isEmpty else { return Self.reference("string") }
        return value(items, at: "\(path)[]")
    }

    /// YAML reads some words as truth values and numbers.
    private static func word(_ word: String) -> [SchemaValue] {
        if word == "true" || word == "false" { return [.bool(word == "true"), .string(word)] }
        return [.string(word)] + (Int(word).map { [.number($0)] } ?? [])
    }

    // MARK: Shared definitions

    static func reference(_ name: String) -> SchemaValue { .object([("$ref", .string("#/$defs/\(name)"))]) }

    private static let strings = SchemaValue.object([("type", .string("array")), ("items", reference("string"))])

    static let stringOrStrings = SchemaValue.object([("anyOf", .array([reference("string"), strings]))])

    private static func secrets(upTo maximum: Int) -> SchemaValue {
        let list = SchemaValue.object([
            ("type", .string("array")), ("items", reference("secret")), ("minItems", .number(1)),
            ("maxItems", .number(maximum)),
        ])
        return .object([("anyOf", .array([reference("secret"), list]))])
    }

    private static func orVariable(_ members: [(String, SchemaValue)]) -> SchemaValue {
        .object([("anyOf", .array([.object(members), reference("variable")]))])
    }

    private static func pattern(_ pattern: String, _ description: String) -> SchemaValue {
        orVariable([
            ("type", .string("string")), ("pattern", .string(pattern)), ("description", .string(description)),
        ])
    }

    static var shared: [(String, SchemaValue)] {
        let text = SchemaValue.object([("type", .array([.string("string"), .string("number"), .string("boolean")]))])
        func source(_ key: String, _ value: SchemaValue, _ more: [(String, SchemaValue)] = []) -> SchemaValue {
            .object([
                ("type", .string("object")), ("required", .array([.string(key)])),
                ("properties", .object([(key, value)] + more)), ("additionalProperties", .bool(false)),
            ])
        }
        let program = SchemaValue.object([("type", .string("array")), ("items", text)])
        let environment = SchemaValue.object([
            ("type", .string("object")), ("additionalProperties", reference("secret")),
        ])
        func read(_ description: String) -> SchemaValue {
            let settings = [
                ("environment", environment), ("timeout", reference("duration")), ("ttl", reference("duration")),
            ]
            let sources = [source("env", text), source("file", text), source("systemd_credential", text)]
            return .object([
                ("description", .string(description)),
                ("anyOf", .array([text] + sources + [source("exec", program, settings)])),
            ])
        }
        return [
            (
                "variable",
                .object([
                    ("type", .string("string")), ("pattern", .string("\\$\\{")),
                    ("description", .string("A value from the environment: ${NAME}, ${NAME:-default}.")),
                ])
            ),
            ("string", text),
            (
                "name",
                .object([
                    ("type", .string("string")), ("pattern", .string("^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")),
                ])
            ),
            ("duration", pattern("^[0-9]{1,9}(ms|s|m|h|d)$", "A duration such as 250ms, 30s, 10m, 1h or 90d.")),
            (
                "size",
                .object([
                    (
                        "anyOf",
                        .array([
                            .object([("type", .string("integer")), ("minimum", .number(0))]),
                            pattern("^[0-9]{1,16}(B|KiB|MiB|GiB)?$", "A size such as 64KiB or 1MiB."),
                        ])
                    )
                ])
            ),
            ("percent", pattern("^[0-9]{1,3}%$", "A share such as 10%.")),
            (
                "secret",
                read("A secret, or where it comes from: env, file, exec or systemd_credential.")
            ),
            ("text", read("A string, or where it comes from: env, file, exec or systemd_credential.")),
        ]
    }
}

extension SchemaValue {
    /// Editors show the description where the key stands.
    fileprivate func describing(_ meaning: KeyMeaning?) -> SchemaValue {
        guard let meaning, case .object(let members) = self else { return self }
        let standard = meaning.standard.map { " Default: \($0)." } ?? ""
        return .object([("description", .string(meaning.text + standard))] + members)
    }
}

extension KeyRecorder.Kind {
    fileprivate var isWord: Bool {
        switch self {
        case .string, .choice, .bool: true
        default: false
        }
    }
}

/// A JSON value whose members keep their order, for a file that people compare.
indirect enum SchemaValue: Sendable {
    case object([(String, SchemaValue)])
    case array([SchemaValue])
    case string(String)
    case number(Int)
    case bool(Bool)

    func text(indent: Int = 0) -> String {
        let margin = String(repeating: " ", count: indent + 2)
        let end = "\n" + String(repeating: " ", count: indent)
        switch self {
        case .string(let text): return JSONString.quoted(text)
        case .number(let number): return String(number)
        case .bool(let value): return String(value)
        case .array(let values):
            let isFlat = values.allSatisfy { if case .string = $0 { true } else { false } }
            let texts = values.map { $0.text(indent: indent + 2) }
            if isFlat { return "[\(texts.joined(separator: ", "))]" }
            return "[\n" + texts.map { margin + $0 }.joined(separator: ",\n") + end + "]"
        case .object(let members):
            guard !members.isEmpty else { return "{}" }
            let texts = members.map { "\(margin)\(JSONString.quoted($0)): \($1.text(indent: indent + 2))" }
            return "{\n" + texts.joined(separator: ",\n") + end + "}"
        }
    }
}
