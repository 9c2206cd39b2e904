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
        } else if let value = Self.number(in: container, isForgiving: decoder.isForgiving) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([JSONValue].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: JSONValue].self))
        }
    }

    private static func number(in container: any SingleValueDecodingContainer, isForgiving: Bool) -> Double? {
        do {
            return try container.decode(Double.self)
        } catch DecodingError.typeMismatch {
            return nil
        } catch {
            return isForgiving ? .nan : nil
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

    /// nil when `bytes` is not JSON, or when it is nested deeper than 64 or holds more than 10,000 values: reading a
    /// hostile answer must exhaust neither the stack nor a core.
    ///
    /// - Parameters:
    ///   - forgivingNumbers: Whether a number that cannot be read, such as 1e999, is a NaN. Otherwise the whole is no JSON.
    ///   - uniqueNames: Whether the whole is no JSON if an object has two members of one name. Otherwise one of them counts, and
    ///     another reader may take the other (RFC 8259 section 4).
    package init?(_ bytes: [UInt8], forgivingNumbers: Bool = false, uniqueNames: Bool = false) {
        guard !bytes.isEmpty, let members = Self.membersIfModest(bytes) else { return nil }
        let decoder = JSONDecoder()
        if let key = CodingUserInfoKey.forgivesNumbers { decoder.userInfo[key] = forgivingNumbers }
        guard let value = try? decoder.decode(JSONValue.self, from: Data(bytes)) else { return nil }
        // The object keeps only one of several members with the same name.
        if uniqueNames, value.memberCount != members { return nil }
        self = value
    }

    /// In all objects, however deep.
    private var memberCount: Int {
        switch self {
        case .null, .bool, .number, .string: 0
        case .array(let elements): elements.reduce(0) { $0 + $1.memberCount }
        case .object(let members): members.values.reduce(members.count) { $0 + $1.memberCount }
        }
    }

    /// Looks at brackets, commas and colons outside strings only.
    ///
    /// - Returns: How many members all objects have together; nil for what is too deep or too long.
    private static func membersIfModest(_ bytes: [UInt8]) -> Int? {
        var (depth, values, members, inString, escaped) = (0, 0, 0, false, false)
        for byte in bytes {
            if inString {
                if escaped {
                    escaped = false
                } else if byte == UInt8(ascii: "\\") {
                    escaped = true
                } else if byte == UInt8(ascii: "\"") {
                    inString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): inString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                guard depth <= 64 else { return nil }
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ","):
                values += 1
                guard values <= 10_000 else { return nil }
            case UInt8(ascii: ":"): members += 1
            default: break
            }
        }
        return members
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

extension CodingUserInfoKey {
    fileprivate static let forgivesNumbers = CodingUserInfoKey(rawValue: "forgivesNumbers")
}

extension Decoder {
    fileprivate var isForgiving: Bool {
        CodingUserInfoKey.forgivesNumbers.flatMap { userInfo[$0] as? Bool } ?? false
    }
}
