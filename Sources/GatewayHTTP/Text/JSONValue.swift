/// Any JSON, for documents whose shape others decide.
///
/// Files that read a particular shape extend it privately.
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
            let bytes = Array(text.utf8)
            var position = 0
            return skip(bytes.span, at: &position) && position == bytes.count
        }

        /// Moves `position` past a number.
        ///
        /// - Returns: false if none begins there.
        static func skip(_ bytes: borrowing Span<UInt8>, at position: inout Int) -> Bool {
            if bytes.byte(at: position) == UInt8(ascii: "-") { position += 1 }
            if bytes.byte(at: position) == UInt8(ascii: "0") {
                position += 1
            } else if !skipDigits(bytes, at: &position) {
                return false
            }
            if bytes.byte(at: position) == UInt8(ascii: ".") {
                position += 1
                guard skipDigits(bytes, at: &position) else { return false }
            }
            guard let mark = bytes.byte(at: position), mark == UInt8(ascii: "e") || mark == UInt8(ascii: "E") else {
                return true
            }
            position += 1
            if let sign = bytes.byte(at: position), sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-") {
                position += 1
            }
            return skipDigits(bytes, at: &position)
        }

        private static func skipDigits(_ bytes: borrowing Span<UInt8>, at position: inout Int) -> Bool {
            let start = position
            while bytes.byte(at: position)?.isDigit ?? false { position += 1 }
            return position > start
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
    ///     string keeps raw control characters, and has U+FFFD for what is no UTF-8 and for broken escapes: code that uses it has to
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
        // Not nested, and not many: a member that is repeated 10,000 times must exhaust neither the stack nor a core.
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

/// Reads one JSON document (RFC 8259).
///
/// A hostile answer must exhaust neither the stack nor a core, so nesting and the number of values have limits.
private struct JSONReader {
    private static let deepest = 64
    private static let mostSeparators = 10_000

    private let bytes: [UInt8]
    /// Whether damage does not make the whole unreadable: see ``JSONValue/init(_:forgiving:uniqueNames:)``.
    private let isForgiving: Bool
    private var position = 0
    private var depth = 0
    private var separators = 0
    /// An object had two members of one name; the first one counts.
    private(set) var hasRepeatedNames = false

    init(_ bytes: [UInt8], isForgiving: Bool) {
        self.bytes = bytes
        self.isForgiving = isForgiving
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { position = 3 }
    }

    /// nil when the bytes are no JSON, or too much of it.
    mutating func document() -> JSONValue? {
        guard let value = value() else { return nil }
        skipBlanks()
        return position == bytes.count ? value : nil
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard let next, UInt32(next) == character.value else { return false }
        position += 1
        return true
    }

    private mutating func skipBlanks() {
        while let next, next == 0x20 || next == 0x09 || next == 0x0A || next == 0x0D { position += 1 }
    }

    private mutating func value() -> JSONValue? {
        skipBlanks()
        guard let byte = next else { return nil }
        switch byte {
        case UInt8(ascii: "{"): return object()
        case UInt8(ascii: "["): return array()
        case UInt8(ascii: "\""): return string().map { .string($0) }
        case UInt8(ascii: "t"): return take(word: "true") ? .bool(true) : nil
        case UInt8(ascii: "f"): return take(word: "false") ? .bool(false) : nil
        case UInt8(ascii: "n"): return take(word: "null") ? .null : nil
        case UInt8(ascii: "-"), 0x30...0x39: return number().map { .number($0) }
        default: return nil
        }
    }

    private mutating func take(word: StaticString) -> Bool {
        for byte in word.description.utf8 {
            guard next == byte else { return false }
            position += 1
        }
        return true
    }

    private mutating func open() -> Bool {
        position += 1
        depth += 1
        return depth <= Self.deepest
    }

    private mutating func takeSeparator() -> Bool? {
        guard take(",") else { return false }
        separators += 1
        return separators <= Self.mostSeparators ? true : nil
    }

    private mutating func object() -> JSONValue? {
        guard open() else { return nil }
        defer { depth -= 1 }
        var members: [String: JSONValue] = [:]
        skipBlanks()
        if take("}") { return .object(members) }
        while true {
            skipBlanks()
            guard next == UInt8(ascii: "\""), let name = string() else { return nil }
            skipBlanks()
            guard take(":"), let value = value() else { return nil }
            hasRepeatedNames = hasRepeatedNames || members[name] != nil
            members[name] = members[name].map { isForgiving ? $0.given(again: value) : $0 } ?? value
            skipBlanks()
            guard let goesOn = takeSeparator() else { return nil }
            if !goesOn { return take("}") ? .object(members) : nil }
        }
    }

    private mutating func array() -> JSONValue? {
        guard open() else { return nil }
        defer { depth -= 1 }
        var elements: [JSONValue] = []
        skipBlanks()
        if take("]") { return .array(elements) }
        while true {
            guard let value = value() else { return nil }
            elements.append(value)
            skipBlanks()
            guard let goesOn = takeSeparator() else { return nil }
            if !goesOn { return take("]") ? .array(elements) : nil }
        }
    }

    private mutating func number() -> JSONValue.Number? {
        let start = position
        while let next, next.isDigit || Array("+-.eE".utf8).contains(next) { position += 1 }
        let number = JSONValue.Number(written: String(decoding: bytes[start..<position], as: UTF8.self))
        return number.value.isNaN && !isForgiving ? nil : number
    }

    private mutating func string() -> String? {
        guard let text = JSONString.read(bytes.span, at: &position, isForgiving: isForgiving) else { return nil }
        return isForgiving ? String(decoding: text, as: UTF8.self) : String(validating: text, as: UTF8.self)
    }
}

/// Reads and writes JSON strings (RFC 8259 section 7).
package enum JSONString {
    /// Reads a string with its escapes decoded. Whether it is UTF-8 is not checked.
    ///
    /// - Parameters:
    ///   - position: That of the opening quotation mark; afterwards, what follows the closing one.
    ///   - isForgiving: Accepts raw control characters, and reads broken escapes as U+FFFD.
    ///   - isKept: With false, the string is only checked, and the result is empty.
    /// - Returns: nil if it is broken, or not closed.
    static func read(
        _ bytes: borrowing Span<UInt8>,
        at position: inout Int,
        isForgiving: Bool = false,
        isKept: Bool = true
    ) -> [UInt8]? {
        position += 1
        var text: [UInt8] = []
        var start = position
        while let byte = bytes.byte(at: position) {
            switch byte {
            case UInt8(ascii: "\""):
                if isKept { text += bytes.array(start..<position) }
                position += 1
                return text
            case UInt8(ascii: "\\"):
                if isKept { text += bytes.array(start..<position) }
                position += 1
                guard let scalar = escaped(bytes, at: &position) ?? (isForgiving ? "\u{FFFD}" : nil) else { return nil }
                if isKept { text += String(scalar).utf8 }
                start = position
            case ..<0x20 where !isForgiving: return nil
            default: position += 1
            }
        }
        return nil
    }

    private static func escaped(_ bytes: borrowing Span<UInt8>, at position: inout Int) -> Unicode.Scalar? {
        guard let byte = bytes.byte(at: position) else { return nil }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{08}"
        case UInt8(ascii: "f"): return "\u{0C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return codePoint(bytes, at: &position)
        default: return nil
        }
    }

    /// Half of a surrogate pair is not a character, and readers differ in what they make of it (RFC 8259 section 8.2). What follows it
    /// is read by itself: it may be the escape of a quotation mark.
    private static func codePoint(_ bytes: borrowing Span<UInt8>, at position: inout Int) -> Unicode.Scalar? {
        guard let unit = hexUnit(bytes, at: &position) else { return nil }
        guard (0xD800..<0xDC00).contains(unit) else { return Unicode.Scalar(unit) }
        var end = position
        guard bytes.byte(at: end) == UInt8(ascii: "\\"), bytes.byte(at: end + 1) == UInt8(ascii: "u") else { return nil }
        end += 2
        guard let low = hexUnit(bytes, at: &end), (0xDC00..<0xE000).contains(low) else { return nil }
        position = end
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
    }

    private static func hexUnit(_ bytes: borrowing Span<UInt8>, at position: inout Int) -> UInt32? {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = bytes.byte(at: position)?.hexValue else { return nil }
            unit = unit << 4 | UInt32(digit)
            position += 1
        }
        return unit
    }

    /// `text` in quotation marks, with control characters escaped.
    package static func quoted(_ text: String) -> String { quoted(text) { $0.value >= 0x20 && $0.value != 0x7F } }

    /// - Parameters:
    ///   - limit: How many bytes may be written before what is left is cut and marked.
    ///   - isPlain: Whether a character other than quotation marks and backslashes is written as it is.
    package static func quoted(
        _ text: String,
        limit: Int = .max,
        isPlain: (Unicode.Scalar) -> Bool
    ) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            guard quoted.utf8.count < limit else { return quoted + "…\"" }
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            case "\r": quoted += "\\r"
            case "\t": quoted += "\\t"
            case _ where isPlain(scalar): quoted.unicodeScalars.append(scalar)
            default: for unit in scalar.utf16 { quoted += "\\u" + Hexadecimal.number(UInt32(unit)) }
            }
        }
        return quoted + "\""
    }
}

extension Span<UInt8> {
    /// nil behind the end.
    @inline(__always)
    fileprivate func byte(at position: Int) -> UInt8? { position < count ? self[position] : nil }
}

extension Unicode.Scalar {
    /// Can forge no line, move no cursor and reverse nothing that a person reads.
    package var isHarmless: Bool {
        if isASCII { return value >= 0x20 && value != 0x7F }
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return false
        default: return true
        }
    }
}

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
