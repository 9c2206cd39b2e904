/// Reads one JSON document (RFC 8259).
///
/// A hostile answer must exhaust neither the stack nor a core, so nesting and the number of values have limits.
struct JSONReader {
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
        position += 1
        var text: [UInt8] = []
        var start = position
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                text += bytes[start..<position]
                position += 1
                return isForgiving ? String(decoding: text, as: UTF8.self) : String(validating: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                text += bytes[start..<position]
                position += 1
                guard let scalar = escaped() ?? (isForgiving ? "\u{FFFD}" : nil) else { return nil }
                text.append(contentsOf: String(scalar).utf8)
                start = position
            case ..<0x20 where !isForgiving: return nil
            default: position += 1
            }
        }
        return nil
    }

    private mutating func escaped() -> Unicode.Scalar? {
        guard let byte = next else { return nil }
        position += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(byte)
        case UInt8(ascii: "b"): return "\u{08}"
        case UInt8(ascii: "f"): return "\u{0C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"): return codePoint()
        default: return nil
        }
    }

    /// Half of a surrogate pair is no character. What follows it is read by itself: it may be the escape of a quotation mark.
    private mutating func codePoint() -> Unicode.Scalar? {
        guard let unit = hexUnit() else { return nil }
        guard (0xD800..<0xDC00).contains(unit) else { return Unicode.Scalar(unit) }
        let end = position
        guard take("\\"), take("u"), let low = hexUnit(), (0xDC00..<0xE000).contains(low) else {
            position = end
            return nil
        }
        return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00))
    }

    private mutating func hexUnit() -> UInt32? {
        var unit: UInt32 = 0
        for _ in 0..<4 {
            guard let digit = next?.hexValue else { return nil }
            unit = unit << 4 | UInt32(digit)
            position += 1
        }
        return unit
    }
}
