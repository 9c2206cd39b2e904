import GatewayCore

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
            do throws(Template.Mistake) {
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
