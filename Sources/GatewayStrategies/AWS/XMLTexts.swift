/// The text of each element of a small XML document, by path, such as `ErrorResponse/Error/Code`; only what responses from AWS need.
///
/// Elements with children have no text. Attributes, comments and processing instructions are skipped. A document type (`<!DOCTYPE`) is
/// not read, because its entities could stand for anything.
struct XMLTexts: Sendable {
    static let limitBytes = 64 << 10
    static let maximumDepth = 16
    static let maximumElements = 256

    /// The first for each path.
    private var texts: [String: String] = [:]
    private var repeated: Set<String> = []

    /// nil for what is larger or deeper, or not well formed.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.limitBytes, read(bytes[...]) else { return nil }
    }

    /// Reads as far as the document is well formed and within the limits: the rest may be missing.
    init(beginning bytes: [UInt8]) { _ = read(bytes.prefix(Self.limitBytes)) }

    /// nil if no element has this path, or several have.
    subscript(path: String) -> String? { repeated.contains(path) ? nil : texts[path] }

    /// The text of the first element with this path.
    func first(_ path: String) -> String? { texts[path] }

    /// - Returns: Whether it was read to its end.
    private mutating func read(_ bytes: ArraySlice<UInt8>) -> Bool {
        var reader = XMLReader(bytes)
        var open = OpenElements()
        var elements = 0
        while let piece = reader.next() {
            switch piece {
            case .skipped: break
            case .text(let more): open.text += more
            case .start(let name, let isEmpty):
                guard open.text.isBlank, elements == 0 || !open.path.isEmpty, open.path.count < Self.maximumDepth,
                    elements < Self.maximumElements
                else { return false }
                elements += 1
                open.begin(name)
                if isEmpty, !end(name, in: &open) { return false }
            case .end(let name):
                guard end(name, in: &open) else { return false }
            }
        }
        return reader.isAtEnd && open.path.isEmpty && elements > 0 && open.text.isBlank
    }

    /// - Returns: Whether the element may end here.
    private mutating func end(_ name: String, in open: inout OpenElements) -> Bool {
        guard open.path.last == name, open.isLeaf || open.text.isBlank else { return false }
        if open.isLeaf {
            let place = open.path.joined(separator: "/")
            if texts[place] == nil { texts[place] = open.text } else { repeated.insert(place) }
        }
        open.end()
        return true
    }
}

/// The elements that have begun and not ended.
private struct OpenElements {
    private enum Tag {
        case start
        case end
    }

    private(set) var path: [String] = []
    /// What was read since the last tag.
    var text = ""
    private var last = Tag.end

    /// Whether the innermost element has no children, if it ends now.
    var isLeaf: Bool { last == .start }

    mutating func begin(_ name: String) {
        path.append(name)
        (text, last) = ("", .start)
    }

    mutating func end() {
        path.removeLast()
        (text, last) = ("", .end)
    }
}

/// Splits a document into tags and text, in one pass.
private struct XMLReader {
    enum Piece {
        /// A comment or a processing instruction.
        case skipped
        /// A part of the text between two tags: characters, or a CDATA section.
        case text(String)
        case start(String, isEmpty: Bool)
        case end(String)
    }

    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    var isAtEnd: Bool { rest.isEmpty }

    /// nil at the end, and before what is not well formed or not complete.
    mutating func next() -> Piece? {
        guard let first = rest.first else { return nil }
        guard first == UInt8(ascii: "<") else {
            let text = rest.prefix { $0 != UInt8(ascii: "<") }
            return Self.decoded(text).map { decoded in
                rest = rest.dropFirst(text.count)
                return .text(decoded)
            }
        }
        if rest.starts(with: "<!--".utf8) { return take(behind: "<!--", to: "-->") == nil ? nil : .skipped }
        if rest.starts(with: "<?".utf8) { return take(behind: "<?", to: "?>") == nil ? nil : .skipped }
        if rest.starts(with: "<![CDATA[".utf8) {
            let text = take(behind: "<![CDATA[", to: "]]>").flatMap { String(validating: $0, as: UTF8.self) }
            return text.map { .text($0) }
        }
        return takeTag()
    }

    /// What stands between the two.
    private mutating func take(behind start: String, to end: String) -> ArraySlice<UInt8>? {
        let inner = rest.dropFirst(start.utf8.count)
        guard let range = inner.firstRange(of: Array(end.utf8)) else { return nil }
        rest = rest[range.upperBound...]
        return inner[..<range.lowerBound]
    }

    /// What stands between `<` and its `>`, which may also stand in the value of an attribute.
    private mutating func takeTag() -> Piece? {
        var quote: UInt8?
        for index in rest.indices.dropFirst() {
            let byte = rest[index]
            if let open = quote {
                if byte == open { quote = nil }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                let piece = Self.piece(of: rest[(rest.startIndex + 1)..<index])
                if piece != nil { rest = rest[(index + 1)...] }
                return piece
            }
        }
        return nil
    }

    private static func piece(of tag: ArraySlice<UInt8>) -> Piece? {
        let isEnd = tag.first == UInt8(ascii: "/")
        let name = (isEnd ? tag.dropFirst() : tag).prefix { !$0.isXMLSpace && $0 != UInt8(ascii: "/") }
        guard let first = name.first, first != UInt8(ascii: "!"), let text = String(validating: name, as: UTF8.self)
        else { return nil }
        return isEnd ? .end(text) : .start(text, isEmpty: tag.last == UInt8(ascii: "/"))
    }

    /// Without the references of XML (section 4.6) and those to characters; nil if there is another one.
    private static func decoded(_ text: ArraySlice<UInt8>) -> String? {
        guard let text = String(validating: text, as: UTF8.self) else { return nil }
        let parts = text.split(separator: "&", omittingEmptySubsequences: false)
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

extension UInt8 {
    /// White space of XML (section 2.3).
    var isXMLSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}

extension String {
    fileprivate var isBlank: Bool { utf8.allSatisfy(\.isXMLSpace) }
}
