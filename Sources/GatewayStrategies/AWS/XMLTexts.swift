/// The texts of a small XML document by the paths of their elements, such as `ErrorResponse/Error/Code`: as much of XML as AWS answers
/// with.
///
/// Elements with children have no text. Attributes, comments and processing instructions are skipped.
struct XMLTexts: Sendable {
    static let limitBytes = 64 << 10
    static let maximumDepth = 16
    static let maximumElements = 256

    private var texts: [String: String] = [:]

    /// nil for what is larger or deeper, not well formed, or has a declaration (`<!DOCTYPE`), CDATA, or two texts with one path.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.limitBytes, String(validating: bytes, as: UTF8.self) != nil else { return nil }
        var reader = XMLReader(bytes[...])
        var path: [(name: String, isLeaf: Bool)] = []
        var elements = 0
        while let piece = reader.next() {
            switch piece {
            case .skipped: continue
            case .start(let name):
                guard !path.isEmpty || elements == 0 else { return nil }
                elements += 1
                guard path.count < Self.maximumDepth, elements <= Self.maximumElements else { return nil }
                if !path.isEmpty { path[path.count - 1].isLeaf = false }
                path.append((name, true))
            case .end(let name, let text):
                guard let last = path.last, last.name == name else { return nil }
                if last.isLeaf {
                    let place = path.map(\.name).joined(separator: "/")
                    guard let text, texts.updateValue(text, forKey: place) == nil else { return nil }
                }
                path.removeLast()
            case .broken: return nil
            }
        }
        guard path.isEmpty, elements > 0 else { return nil }
    }

    subscript(path: String) -> String? { texts[path] }
}

private struct XMLReader {
    enum Piece {
        /// A comment or a processing instruction.
        case skipped
        case start(String)
        /// - Parameter text: What stands between the last tag and this one; nil for a reference that XML does not define.
        case end(String, text: String?)
        case broken
    }

    private var rest: ArraySlice<UInt8>
    /// An element without content, whose end follows its start.
    private var emptyElement: String?

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// nil at the end of the document.
    mutating func next() -> Piece? {
        if let name = emptyElement.take() { return .end(name, text: "") }
        let text = rest.prefix { $0 != UInt8(ascii: "<") }
        rest = rest.dropFirst(text.count)
        let isBlank = text.allSatisfy { $0 == 0x20 || (0x09...0x0D).contains($0) }
        if rest.isEmpty { return isBlank ? nil : .broken }
        if rest.starts(with: "<!--".utf8) { return isBlank ? skip(to: "-->") : .broken }
        if rest.starts(with: "<?".utf8) { return isBlank ? skip(to: "?>") : .broken }
        guard let tag = takeTag() else { return .broken }
        guard tag.first != UInt8(ascii: "/") else {
            return .end(Self.name(of: tag.dropFirst()), text: Self.decoded(text))
        }
        let name = Self.name(of: tag)
        guard isBlank, !name.isEmpty, !name.hasPrefix("!") else { return .broken }
        if tag.last == UInt8(ascii: "/") { emptyElement = name }
        return .start(name)
    }

    private mutating func skip(to end: String) -> Piece {
        guard let range = rest.firstRange(of: Array(end.utf8)) else { return .broken }
        rest = rest[range.upperBound...]
        return .skipped
    }

    /// What stands between `<` and its `>`, which may also stand in the value of an attribute.
    private mutating func takeTag() -> ArraySlice<UInt8>? {
        var quote: UInt8?
        for index in rest.indices.dropFirst() {
            let byte = rest[index]
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                let tag = rest[(rest.startIndex + 1)..<index]
                rest = rest[(index + 1)...]
                return tag
            }
        }
        return nil
    }

    private static func name(of tag: ArraySlice<UInt8>) -> String {
        let name = tag.prefix { $0 != 0x20 && !(0x09...0x0D).contains($0) && $0 != UInt8(ascii: "/") }
        return String(decoding: name, as: UTF8.self)
    }

    /// Without the references of XML (section 4.6) and those to characters.
    private static func decoded(_ text: ArraySlice<UInt8>) -> String? {
        let parts = String(decoding: text, as: UTF8.self).split(separator: "&", omittingEmptySubsequences: false)
        var decoded = String(parts.first ?? "")
        for part in parts.dropFirst() {
            guard let end = part.firstIndex(of: ";"), let character = character(named: part[..<end]) else { return nil }
            decoded.unicodeScalars.append(character)
            decoded += part[part.index(after: end)...]
        }
        return decoded
    }

    private static func character(named name: Substring) -> Unicode.Scalar? {
        switch name {
        case "amp": return "&"
        case "lt": return "<"
        case "gt": return ">"
        case "quot": return "\""
        case "apos": return "'"
        default:
            guard name.first == "#" else { return nil }
            let isHexadecimal = name.dropFirst().first == "x"
            let digits = name.dropFirst(isHexadecimal ? 2 : 1)
            return UInt32(digits, radix: isHexadecimal ? 16 : 10).flatMap(Unicode.Scalar.init)
        }
    }
}
