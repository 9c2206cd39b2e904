import FoundationEssentials

/// Any JSON, for answers whose shape is not ours to decide.
package enum JSONValue: Hashable, Sendable, Codable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .number(let value):
            // Whole numbers without a fraction or exponent: that is how times are written.
            if let whole = Int64(exactly: value) { try container.encode(whole) } else { try container.encode(value) }
        case .string(let value): try container.encode(value)
        case .array(let elements): try container.encode(elements)
        case .object(let members): try container.encode(members)
        }
    }

    /// The members of objects in the order of their names, so that equal values have equal bytes.
    ///
    /// - Throws: When there is a number in it that JSON cannot write.
    package func bytes() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(self))
    }

    /// nil when `bytes` is not JSON, or when it is nested deeper than 64 or holds more than 10,000 values.
    ///
    /// - Parameters:
    ///   - forgiving: Whether what is damaged leaves the rest readable. A number that cannot be read, such as 1e999, is a NaN. A
    ///     string keeps raw control characters, and has U+FFFD for what is no UTF-8 and for broken escapes: whoever uses it has to
    ///     refuse both. A member that is given twice with different values is an array of them.
    ///   - uniqueNames: Whether the whole is no JSON if an object has two members of one name. Otherwise one of them counts, and
    ///     another reader may take the other (RFC 8259 section 4).
    package init?(_ bytes: [UInt8], forgiving: Bool = false, uniqueNames: Bool = false) {
        var reader = JSONReader(bytes, isForgiving: forgiving)
        guard let value = reader.document(), !uniqueNames || !reader.hasRepeatedNames else { return nil }
        self = value
    }

    /// A form as an object of strings, as forgiving as JSON can be read; nil when it has no member, or more than 10,000.
    package init?(form bytes: [UInt8]) {
        let pairs = bytes.split(separator: UInt8(ascii: "&"), maxSplits: 10_000)
        guard (1...10_000).contains(pairs.count) else { return nil }
        var members: [String: JSONValue] = [:]
        for pair in pairs {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return nil }
            let texts = parts.map { part in
                let bytes = Array(part)
                let decoded = PercentEncoding.decodeLeniently(bytes.span, bytes.indices, isForm: true)
                return String(decoding: decoded, as: UTF8.self)
            }
            let value = JSONValue.string(texts[1])
            members[texts[0]] = members[texts[0]]?.given(again: value) ?? value
        }
        self = .object(members)
    }

    /// A member that is given once more: two that agree are one.
    func given(again other: JSONValue) -> JSONValue {
        guard self != other else { return self }
        guard case .array(let elements) = self else { return .array([self, other]) }
        // Not nested, and not many: who repeats a member 10,000 times must exhaust neither the stack nor a core.
        return elements.count < 16 ? .array(elements + [other]) : self
    }

    package subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members[key]
    }

    package var string: String? {
        guard case .string(let value) = self else { return nil }
        return value
    }
}
