import GatewayConfiguration
import GatewayHTTP

/// Text with names in double braces, `Bearer {{session}}`, that are filled in when it is used.
struct Template: Hashable, Sendable {
    enum Part: Hashable, Sendable {
        case text(String)
        case name(String)
    }

    /// A name without a value when it is needed: a step that yields it was left out.
    struct MissingValue: Error, Hashable {
        let name: String
    }

    enum Escaping {
        case none
        /// For a URL (RFC 3986 §2.3): all but letters, digits and `-._~`.
        case percent
        /// For one segment of a path (RFC 3986 §3.3).
        case segment
    }

    private(set) var parts: [Part] = []

    init(_ text: String) throws(UnusableInput) {
        var rest = Substring(text)
        while let open = rest.firstRange(of: "{{") {
            append(.text(String(rest[..<open.lowerBound])))
            guard let close = rest[open.upperBound...].firstRange(of: "}}") else {
                throw UnusableInput("a \"{{\" is never closed")
            }
            let name = String(rest[open.upperBound..<close.lowerBound]).trimmedBlanks
            guard Self.isName(name) else {
                throw UnusableInput("expected a name between \"{{\" and \"}}\": letters, digits, _, - and .")
            }
            append(.name(name))
            rest = rest[close.upperBound...]
        }
        append(.text(String(rest)))
    }

    private init(parts: [Part]) { parts.forEach { append($0) } }

    private mutating func append(_ part: Part) {
        switch (part, parts.last) {
        case (.text(""), _): break
        case (.text(let more), .text(let text)?): parts[parts.count - 1] = .text(text + more)
        default: parts.append(part)
        }
    }

    static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 64
            && name.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F, 0x2D, 0x2E: true
                default: false
                }
            }
    }

    /// In order of appearance, perhaps more than once.
    var names: [String] {
        parts.compactMap { part in
            guard case .name(let name) = part else { return nil }
            return name
        }
    }

    /// Puts in what never changes.
    func settling(_ constants: [String: String], _ escaping: Escaping = .none) -> Template {
        Template(
            parts: parts.map { part in
                guard case .name(let name) = part, let value = constants[name] else { return part }
                return .text(escaping.apply(value))
            }
        )
    }

    func filled(from values: [String: Secret], _ escaping: Escaping = .none) throws(MissingValue) -> Secret {
        var text = ""
        for part in parts {
            switch part {
            case .text(let own): text += own
            case .name(let name):
                guard let value = values[name] else { throw MissingValue(name: name) }
                value.withValue { text += escaping.apply($0) }
            }
        }
        return Secret(text)
    }

    /// The text with its names, as it was written.
    var shown: String {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .name(let name): "{{\(name)}}"
            }
        }.joined()
    }
}

extension Template.Escaping {
    fileprivate func apply(_ value: String) -> String {
        switch self {
        case .none: value
        case .percent: PercentEncoding.encode(value)
        case .segment: PercentEncoding.encode(segment: value)
        }
    }
}

extension String {
    fileprivate var trimmedBlanks: String {
        let start = drop { $0 == " " }
        return String(start.reversed().drop { $0 == " " }.reversed())
    }
}

/// The names that a template may use where it stands, and the reading of templates from the configuration.
struct TemplateScope {
    /// Plain values of the configuration; they are filled in when it is read.
    var constants: [String: String] = [:]
    /// Secrets, the token at hand, and what earlier steps have put aside.
    var names: Set<String> = []

    private var known: [String] { (names.union(constants.keys)).sorted() }

    func template(_ key: String, in fields: ConfigFields, _ escaping: Template.Escaping = .none) -> Template? {
        guard let text = fields.string(key) else { return nil }
        return fields.usable(key, try template(text, escaping))
    }

    func template(_ text: String, _ escaping: Template.Escaping = .none) throws(UnusableInput) -> Template {
        let template = try Template(text)
        for name in template.names where !names.contains(name) && constants[name] == nil {
            let hint = Suggestion.hint(for: name, in: known)
            let others = known.isEmpty ? "there are none here" : "known here: \(known.joined(separator: ", "))"
            throw UnusableInput("nothing is named \"{{\(name)}}\"\(hint.isEmpty ? "; \(others)" : hint)")
        }
        return template.settling(constants, escaping)
    }

    /// A mapping of names to templates, in file order.
    func templates(_ key: String, in fields: ConfigFields) -> [(name: String, value: Template)]? {
        guard let own = fields.fields(key) else { return nil }
        return own.chosenNames().compactMap { name in template(name, in: own).map { (name, $0) } }
    }
}

/// A JSON document whose strings are templates. What is filled in can never become structure.
indirect enum JSONTemplate: Hashable, Sendable {
    /// `null`, `true`, `false` or a number, as it is written.
    case literal(String)
    case string(Template)
    case array([JSONTemplate])
    case object([Member])

    struct Member: Hashable, Sendable {
        let name: String
        let value: JSONTemplate
    }

    /// Reads what the configuration holds, as YAML 1.2 understands it; problems are recorded at their place.
    init?(_ node: ConfigNode, path: ConfigPath, scope: TemplateScope, context: ConfigContext) {
        switch node.content {
        case .scalar(let scalar):
            if !scalar.isQuoted, let literal = Self.literal(scalar) {
                self = .literal(literal)
                return
            }
            do throws(UnusableInput) {
                self = .string(try scope.template(scalar.text))
            } catch {
                context.error(error.message, at: node.span, path: path)
                return nil
            }
        case .sequence(let nodes):
            var elements: [JSONTemplate] = []
            for (index, node) in nodes.enumerated() {
                guard
                    let element = JSONTemplate(node, path: path.appending(index), scope: scope, context: context)
                else { return nil }
                elements.append(element)
            }
            self = .array(elements)
        case .mapping(let entries):
            var members: [Member] = []
            for entry in entries {
                let path = path.appending(entry.key)
                guard let value = JSONTemplate(entry.value, path: path, scope: scope, context: context) else {
                    return nil
                }
                members.append(Member(name: entry.key, value: value))
            }
            self = .object(members)
        }
    }

    private static func literal(_ scalar: ConfigNode.Scalar) -> String? {
        if scalar.isNull { return "null" }
        // What the environment holds is text, whatever it looks like.
        guard !scalar.isInterpolated else { return nil }
        switch scalar.text {
        case "true", "false": return scalar.text
        default: return JSONValue.Number.isNumber(scalar.text) ? scalar.text : nil
        }
    }

    func text(with values: [String: Secret]) throws(Template.MissingValue) -> String {
        switch self {
        case .literal(let text): return text
        case .string(let template): return try template.filled(from: values).withValue(JSONString.quoted)
        case .array(let elements):
            var parts: [String] = []
            for element in elements { parts.append(try element.text(with: values)) }
            return "[\(parts.joined(separator: ","))]"
        case .object(let members):
            var parts: [String] = []
            for member in members {
                parts.append("\(JSONString.quoted(member.name)):\(try member.value.text(with: values))")
            }
            return "{\(parts.joined(separator: ","))}"
        }
    }

    var names: [String] {
        switch self {
        case .literal: []
        case .string(let template): template.names
        case .array(let elements): elements.flatMap(\.names)
        case .object(let members): members.flatMap(\.value.names)
        }
    }
}
