/// Any JSON, for answers whose shape is not ours to decide.
package enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(Number)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// A number with the text that it was written in: a Double would change one of more than 15 digits, such as an
    /// account's ID.
    package struct Number: Hashable, Sendable, ExpressibleByIntegerLiteral {
        package let text: String
        /// NaN for a number that cannot be read, where those are forgiven.
        package let value: Double

        init(written text: String) {
            self.text = text
            let value = Self.isNumber(text) ? Double(text) ?? .nan : .nan
            let digits = text.prefix { $0 != "e" && $0 != "E" }
            let isTooSmall = value == 0 && digits.contains { ("1"..."9").contains($0) }
            self.value = value.isFinite && !isTooSmall ? value : .nan
        }

        package init(_ value: Double) {
            // Whole numbers without a fraction or exponent: that is how times are written.
            text = Int64(exactly: value).map { String($0) } ?? String(value)
            self.value = value
        }

        package init(integerLiteral value: Int64) {
            text = String(value)
            self.value = Double(value)
        }

        /// Exact, however many digits it has; nil for a fraction, and for what is larger.
        package var whole: Int64? { Int64(text) ?? Int64(exactly: value) }

        /// Whether JSON may write a number like this (RFC 8259 section 6): one with a leading zero is text, such as a
        /// postal code.
        package static func isNumber(_ text: String) -> Bool {
            var rest = Substring(text)
            func skipDigits() -> Bool {
                let digits = rest.prefix { ("0"..."9").contains($0) }
                rest = rest.dropFirst(digits.count)
                return !digits.isEmpty
            }
            if rest.first == "-" { rest = rest.dropFirst() }
            if rest.first == "0" { rest = rest.dropFirst() } else if !skipDigits() { return false }
            if rest.first == "." {
                rest = rest.dropFirst()
                guard skipDigits() else { return false }
            }
            if rest.first == "e" || rest.first == "E" {
                rest = rest.dropFirst()
                if rest.first == "+" || rest.first == "-" { rest = rest.dropFirst() }
                guard skipDigits() else { return false }
            }
            return rest.isEmpty
        }
    }

    /// A number that JSON cannot write.
    package struct UnwritableNumber: Error {}

    /// The members of objects in the order of their names, so that equal values have equal bytes.
    package func bytes() throws(UnwritableNumber) -> [UInt8] { Array(try text().utf8) }

    private func text() throws(UnwritableNumber) -> String {
        switch self {
        case .null: return "null"
        case .bool(let value): return String(value)
        case .number(let number):
            guard number.value.isFinite else { throw UnwritableNumber() }
            return number.text
        case .string(let value): return JSONString.quoted(value)
        case .array(let elements):
            var parts: [String] = []
            for element in elements { parts.append(try element.text()) }
            return "[\(parts.joined(separator: ","))]"
        case .object(let members):
            var parts: [String] = []
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                parts.append("\(JSONString.quoted(name)):\(try value.text())")
            }
            return "{\(parts.joined(separator: ","))}"
        }
    }

    /// nil when `bytes` is not JSON, or when it is nested deeper than 64 or holds more than 10,000 values.
    ///
    /// - Parameters:
    ///   - forgivingNumbers: Whether a number that cannot be read, such as 1e999, is a NaN. Otherwise the whole is no JSON.
    ///   - uniqueNames: Whether the whole is no JSON if an object has two members of one name. Otherwise one of them counts, and
    ///     another reader may take the other (RFC 8259 section 4).
    package init?(_ bytes: [UInt8], forgivingNumbers: Bool = false, uniqueNames: Bool = false) {
        var reader = JSONReader(bytes, forgivesNumbers: forgivingNumbers)
        guard let value = reader.document(), !uniqueNames || !reader.hasRepeatedNames else { return nil }
        self = value
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
