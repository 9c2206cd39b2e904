/// What a pattern means, before it becomes a program.
indirect enum TextPatternNode: Hashable, Sendable {
    case empty
    case bytes(ByteSet)
    case textStart
    case textEnd
    case sequence([TextPatternNode])
    case choice([TextPatternNode])
    case capture(TextPatternNode)
    /// `most` nil is without end.
    case repeated(TextPatternNode, least: Int, most: Int?, isLazy: Bool)
}

/// Reads the syntax of ``TextPattern``.
struct TextPatternParser {
    static let deepest = 32
    static let maximumRepetitions = 100

    private let bytes: [UInt8]
    private var position = 0
    private var depth = 0
    private var hasCapture = false

    init(_ text: String) { bytes = Array(text.utf8) }

    mutating func parse() throws(TextPattern.Mistake) -> TextPatternNode {
        let node = try choice()
        guard position == bytes.count else { throw mistake("a \")\" without \"(\"") }
        return node
    }

    private func mistake(_ message: String) -> TextPattern.Mistake { TextPattern.Mistake(message: message) }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard let next, UInt32(next) == character.value else { return false }
        position += 1
        return true
    }

    private mutating func choice() throws(TextPattern.Mistake) -> TextPatternNode {
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.deepest else { throw mistake("groups are nested too deeply") }
        var branches = [try sequence()]
        while take("|") { branches.append(try sequence()) }
        return branches.count == 1 ? branches[0] : .choice(branches)
    }

    private mutating func sequence() throws(TextPattern.Mistake) -> TextPatternNode {
        var nodes: [TextPatternNode] = []
        while let next, next != UInt8(ascii: "|"), next != UInt8(ascii: ")") {
            let node = try atom()
            nodes.append(try repetition(of: node))
        }
        return nodes.count == 1 ? nodes[0] : nodes.isEmpty ? .empty : .sequence(nodes)
    }

    private mutating func repetition(of node: TextPatternNode) throws(TextPattern.Mistake) -> TextPatternNode {
        let (least, most): (Int, Int?)
        if take("*") {
            (least, most) = (0, nil)
        } else if take("+") {
            (least, most) = (1, nil)
        } else if take("?") {
            (least, most) = (0, 1)
        } else if take("{") {
            (least, most) = try bounds()
        } else {
            return node
        }
        let isLazy = take("?")
        if let next, Array("*+?{".utf8).contains(next) { throw mistake("a repetition of a repetition; use a group") }
        return .repeated(node, least: least, most: most, isLazy: isLazy)
    }

    private mutating func bounds() throws(TextPattern.Mistake) -> (Int, Int?) {
        guard let least = number() else { throw mistake("after \"{\" stand numbers: {2}, {2,} or {2,5}") }
        var most: Int? = least
        if take(",") { most = number() }
        guard take("}"), least <= most ?? .max, max(least, most ?? 0) <= Self.maximumRepetitions else {
            throw mistake("after \"{\" stand numbers up to \(Self.maximumRepetitions): {2}, {2,} or {2,5}")
        }
        return (least, most)
    }

    private mutating func number() -> Int? {
        var digits = ""
        while let next, (0x30...0x39).contains(next), digits.count < 4 {
            digits.unicodeScalars.append(Unicode.Scalar(next))
            position += 1
        }
        return Int(digits)
    }

    private mutating func atom() throws(TextPattern.Mistake) -> TextPatternNode {
        guard let byte = next else { return .empty }
        position += 1
        switch byte {
        case UInt8(ascii: "("): return try group()
        case UInt8(ascii: "["): return .bytes(try characterClass())
        case UInt8(ascii: "."): return .bytes(ByteSet(0x0A...0x0A).inverted)
        case UInt8(ascii: "^"): return .textStart
        case UInt8(ascii: "$"): return .textEnd
        case UInt8(ascii: "\\"): return .bytes(try escape())
        case UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "?"), UInt8(ascii: "{"):
            throw mistake("nothing to repeat before \"\(Unicode.Scalar(byte))\"; write a backslash before it")
        default: return .bytes(ByteSet(byte...byte))
        }
    }

    private mutating func group() throws(TextPattern.Mistake) -> TextPatternNode {
        var captures = true
        if take("?") {
            guard take(":") else { throw mistake("of \"(?\" only \"(?:\" is known: no look-around, no named groups") }
            captures = false
        }
        if captures {
            guard !hasCapture else { throw mistake("one group yields the result; write the others as \"(?:\"") }
            hasCapture = true
        }
        let node = try choice()
        guard take(")") else { throw mistake("a \"(\" is never closed") }
        return captures ? .capture(node) : node
    }

    private mutating func characterClass() throws(TextPattern.Mistake) -> ByteSet {
        let isInverted = take("^")
        var set = ByteSet()
        var isFirst = true
        while true {
            guard let byte = next else { throw mistake("a \"[\" is never closed") }
            if byte == UInt8(ascii: "]"), !isFirst { break }
            isFirst = false
            position += 1
            guard byte < 0x80 else { throw mistake("between \"[\" and \"]\" stands ASCII only") }
            if byte == UInt8(ascii: "\\") {
                set.formUnion(try escape())
                continue
            }
            guard next == UInt8(ascii: "-"), position + 1 < bytes.count, bytes[position + 1] != UInt8(ascii: "]") else {
                set.insert(byte...byte)
                continue
            }
            let last = bytes[position + 1]
            guard last >= byte, last < 0x80, last != UInt8(ascii: "\\") else {
                throw mistake("a range between \"[\" and \"]\" runs backwards or ends in no plain character")
            }
            position += 2
            set.insert(byte...last)
        }
        position += 1
        return isInverted ? set.inverted : set
    }

    private mutating func escape() throws(TextPattern.Mistake) -> ByteSet {
        guard let byte = next else { throw mistake("a backslash at the end") }
        position += 1
        let digit = ByteSet(0x30...0x39)
        let word = ByteSet(0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F...0x5F)
        let space = ByteSet(0x09...0x0D, 0x20...0x20)
        switch byte {
        case UInt8(ascii: "d"): return digit
        case UInt8(ascii: "D"): return digit.inverted
        case UInt8(ascii: "w"): return word
        case UInt8(ascii: "W"): return word.inverted
        case UInt8(ascii: "s"): return space
        case UInt8(ascii: "S"): return space.inverted
        case UInt8(ascii: "n"): return ByteSet(0x0A...0x0A)
        case UInt8(ascii: "r"): return ByteSet(0x0D...0x0D)
        case UInt8(ascii: "t"): return ByteSet(0x09...0x09)
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A:
            throw mistake("\"\\\(Unicode.Scalar(byte))\" is not known: no back-references, no Unicode properties")
        default: return ByteSet(byte...byte)
        }
    }
}
