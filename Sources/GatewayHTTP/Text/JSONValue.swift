/// Any JSON, for answers whose shape is not ours to decide.
package enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case number(Number)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])
    /// A member that was given more than once, with these values: no one of them is its value, and no pointer leads into it.
    case conflict([JSONValue])

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

        /// Exact, however many digits it has; nil for a fraction, for what is larger, and for what JSON cannot write.
        package var whole: Int64? { value.isFinite ? Int64(text) ?? Int64(exactly: value) : nil }

        /// ``whole`` as the type of counts and indices.
        package var int: Int? { whole.flatMap { Int(exactly: $0) } }

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

    /// A number that JSON cannot write, or a ``conflict(_:)``.
    package struct Unwritable: Error {}

    /// The members of objects in the order of their names, so that equal values have equal bytes.
    package func bytes() throws(Unwritable) -> [UInt8] { Array(try text().utf8) }

    private func text() throws(Unwritable) -> String {
        switch self {
        case .null: return "null"
        case .bool(let value): return String(value)
        case .number(let number):
            guard number.value.isFinite else { throw Unwritable() }
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
        case .conflict: throw Unwritable()
        }
    }

    /// nil when `bytes` is not JSON, or when it is nested deeper than 64 or holds more than 10,000 values.
    ///
    /// - Parameters:
    ///   - forgiving: Whether what is damaged leaves the rest readable. A number that cannot be read, such as 1e999, is a NaN. A
    ///     string keeps raw control characters, and has U+FFFD for what is no UTF-8 and for broken escapes: whoever uses it has to
    ///     refuse both. A member that is given twice with different values is a ``conflict(_:)``.
    ///   - uniqueNames: Whether the whole is no JSON if an object has two members of one name. Otherwise one of them counts, and
    ///     another reader may take the other (RFC 8259 section 4).
    package init?(_ bytes: [UInt8], forgiving: Bool = false, uniqueNames: Bool = false) {
        var reader = JSONReader(bytes, isForgiving: forgiving)
        guard let value = reader.document(), !uniqueNames || !reader.hasRepeatedNames else { return nil }
        self = value
    }

    /// A form as an object of strings, as forgiving as JSON can be read; nil when no member has a value, or when there are more
    /// than 10,000.
    package init?(form bytes: [UInt8]) {
        let pairs = bytes.split(separator: UInt8(ascii: "&"), maxSplits: 10_000)
        guard (1...10_000).contains(pairs.count) else { return nil }
        var members: [String: JSONValue] = [:]
        var hasValue = false
        for pair in pairs {
            let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            hasValue = hasValue || parts.count == 2
            let texts = parts.map { part in
                let bytes = Array(part)
                let decoded = PercentEncoding.decodeLeniently(bytes.span, bytes.indices, isForm: true)
                return String(decoding: decoded, as: UTF8.self)
            }
            let value = JSONValue.string(parts.count == 2 ? texts[1] : "")
            members[texts[0]] = members[texts[0]]?.given(again: value) ?? value
        }
        guard hasValue else { return nil }
        self = .object(members)
    }

    /// A member that is given once more: two that agree are one.
    func given(again other: JSONValue) -> JSONValue {
        guard self != other else { return self }
        guard case .conflict(let values) = self else { return .conflict([self, other]) }
        // Not nested, and not many: who repeats a member 10,000 times must exhaust neither the stack nor a core.
        return values.count < 16 ? .conflict(values + [other]) : self
    }

    /// Whether there is no telling what the authority meant: a number that JSON cannot write, or a ``conflict(_:)``.
    package var isDamaged: Bool {
        switch self {
        case .number(let number): !number.value.isFinite
        case .conflict: true
        case .null, .bool, .string, .array, .object: false
        }
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

extension UnixTime {
    /// A NumericDate (RFC 7519 section 2): seconds since 1970, with a fraction or without. nil for anything else, also for a number
    /// so large that it was meant as milliseconds.
    package init?(numericDate value: JSONValue?) {
        guard case .number(let number)? = value, (0..<1e11).contains(number.value) else { return nil }
        self.init(milliseconds: Int64(number.value * 1000))
    }
}
