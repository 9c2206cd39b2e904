import FoundationEssentials
import GatewayHTTP

/// JSON to be sent; members keep the order in which they are written.
enum JSON: Sendable {
    case null
    case bool(Bool)
    case integer(Int)
    case number(Double)
    case string(String)
    case array([JSON])
    case object([(String, JSON)])

    static func counts(_ counts: [String: Int]) -> JSON {
        .object(counts.sorted { $0.key < $1.key }.map { ($0.key, .integer($0.value)) })
    }

    static func optional(_ text: String?) -> JSON { text.map { .string($0) } ?? .null }

    /// What a control call brought, to be sent on unchanged in meaning.
    init(_ value: JSONValue) {
        switch value {
        case .null: self = .null
        case .bool(let value): self = .bool(value)
        case .number(let number): self = number.int.map { .integer($0) } ?? .number(number.value)
        case .string(let value): self = .string(value)
        case .array(let values), .conflict(let values): self = .array(values.map { JSON($0) })
        case .object(let members): self = .object(members.sorted { $0.key < $1.key }.map { ($0.key, JSON($0.value)) })
        }
    }

    var text: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .null: text += "null"
        case .bool(let value): text += value ? "true" : "false"
        case .integer(let value): text += String(value)
        case .number(let value): text += value.isFinite ? String(value) : "null"
        case .string(let value): text += JSONString.quoted(value)
        case .array(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .object(let members):
            text += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { text += "," }
                text += JSONString.quoted(member.0)
                text += ":"
                member.1.write(to: &text)
            }
            text += "}"
        }
    }
}

extension JSON: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral,
    ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    init(stringLiteral value: String) { self = .string(value) }
    init(integerLiteral value: Int) { self = .integer(value) }
    init(booleanLiteral value: Bool) { self = .bool(value) }
    init(arrayLiteral elements: JSON...) { self = .array(elements) }
    init(dictionaryLiteral elements: (String, JSON)...) { self = .object(elements) }
}

extension Base64 {
    /// nil when `text` is not standard base64 of UTF-8 text.
    static func decodeText(_ text: String) -> String? {
        Data(base64Encoded: text).flatMap { String(validating: $0, as: UTF8.self) }
    }
}
