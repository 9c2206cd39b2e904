/// A regular expression whose search takes time in proportion to pattern times text, whatever both hold.
///
/// It follows all possibilities at once (Thompson's construction with captures). An answer of an authority therefore
/// cannot block the gateway. Literals, `.`, classes, `\d \w \s`, groups, `|`, `* + ? {m,n}` and their lazy forms, `^`
/// and `$` for the ends of the text; no look-around and no back-references. Works on bytes: a character class holds
/// ASCII only.
package struct TextPattern: Hashable, Sendable {
    /// In a longer text only the beginning is searched.
    package static let longestText = 256 << 10
    static let largestProgram = 512

    fileprivate enum Instruction: Hashable, Sendable {
        case byte(ByteSet)
        /// The first is preferred.
        case split(Int, Int)
        case jump(Int)
        case captureStart
        case captureEnd
        case textStart
        case textEnd
        case match
    }

    package let text: String
    private let program: [Instruction]

    /// The most steps that a search takes for one byte. A repetition with an upper limit counts once for each time.
    package var size: Int { program.count }

    package init(_ text: String) throws(UnusableInput) {
        self.text = text
        var parser = TextPatternParser(text)
        let node = try parser.parse()
        var program: [Instruction] = []
        try Self.compile(node, to: &program)
        // Without a group the whole of what fits is the result.
        if !program.contains(.captureStart) {
            program = program.map { $0.shifted(by: 1) }
            program.insert(.captureStart, at: 0)
            program.append(.captureEnd)
        }
        program.append(.match)
        self.program = program
    }

    private static func compile(_ node: TextPatternNode, to program: inout [Instruction]) throws(UnusableInput) {
        guard program.count < largestProgram else { throw UnusableInput("the pattern is too large") }
        switch node {
        case .empty: break
        case .bytes(let set): program.append(.byte(set))
        case .textStart: program.append(.textStart)
        case .textEnd: program.append(.textEnd)
        case .sequence(let nodes): for node in nodes { try compile(node, to: &program) }
        case .capture(let node):
            program.append(.captureStart)
            try compile(node, to: &program)
            program.append(.captureEnd)
        case .choice(let nodes):
            var jumps: [Int] = []
            for (index, node) in nodes.enumerated() {
                guard index < nodes.count - 1 else {
                    try compile(node, to: &program)
                    break
                }
                let split = program.count
                program.append(.match)
                try compile(node, to: &program)
                jumps.append(program.count)
                program.append(.match)
                program[split] = .split(split + 1, program.count)
            }
            for jump in jumps { program[jump] = .jump(program.count) }
        case .repeated(let node, let least, let most, let isLazy):
            for _ in 0..<least { try compile(node, to: &program) }
            guard let most else {
                let split = program.count
                program.append(.match)
                try compile(node, to: &program)
                program.append(.jump(split))
                program[split] = isLazy ? .split(program.count, split + 1) : .split(split + 1, program.count)
                return
            }
            var splits: [Int] = []
            for _ in least..<most {
                splits.append(program.count)
                program.append(.match)
                try compile(node, to: &program)
            }
            for split in splits {
                program[split] = isLazy ? .split(program.count, split + 1) : .split(split + 1, program.count)
            }
        }
    }

    private struct Walker {
        var counter: Int
        var start: Int?
        var end: Int?
    }

    /// The text of the group in the first place where the pattern fits; of the whole place when it has no group.
    ///
    /// - Parameter mostSteps: After so many steps the rest of the text is not searched.
    package func firstMatch(in text: some Collection<UInt8>, mostSteps: Int = .max) -> [UInt8]? {
        let bytes = Array(text.prefix(Self.longestText))
        var current: [Walker] = []
        var following: [Walker] = []
        var seen = [Int](repeating: -1, count: program.count)
        var found: Walker?
        var position = 0
        var steps = 0
        while steps < mostSteps {
            if found == nil { steps += add(Walker(counter: 0), at: position, of: bytes.count, to: &current, &seen) }
            if current.isEmpty { break }
            following.removeAll(keepingCapacity: true)
            for walker in current {
                switch program[walker.counter] {
                case .match:
                    found = walker
                case .byte(let set) where position < bytes.count && set.contains(bytes[position]):
                    var next = walker
                    next.counter += 1
                    steps += add(next, at: position + 1, of: bytes.count, to: &following, &seen)
                    continue
                default:
                    continue
                }
                // Those behind it are less preferred.
                break
            }
            swap(&current, &following)
            guard position < bytes.count else { break }
            position += 1
        }
        guard let start = found?.start, let end = found?.end, start <= end else { return nil }
        return Array(bytes[start..<end])
    }

    /// Follows all instructions that take no byte.
    ///
    /// - Returns: How many instructions it has reached: over all calls for one position, at most ``size``.
    private func add(
        _ first: Walker,
        at position: Int,
        of length: Int,
        to walkers: inout [Walker],
        _ seen: inout [Int]
    ) -> Int {
        var stack = [first]
        var steps = 0
        while var walker = stack.popLast() {
            guard seen[walker.counter] != position else { continue }
            seen[walker.counter] = position
            steps += 1
            switch program[walker.counter] {
            case .byte, .match:
                walkers.append(walker)
                continue
            case .split(let preferred, let other):
                var second = walker
                second.counter = other
                stack.append(second)
                walker.counter = preferred
            case .jump(let target): walker.counter = target
            case .captureStart:
                walker.start = position
                walker.counter += 1
            case .captureEnd:
                walker.end = position
                walker.counter += 1
            case .textStart:
                guard position == 0 else { continue }
                walker.counter += 1
            case .textEnd:
                guard position == length else { continue }
                walker.counter += 1
            }
            stack.append(walker)
        }
        return steps
    }
}

extension TextPattern.Instruction {
    fileprivate func shifted(by offset: Int) -> Self {
        switch self {
        case .split(let one, let other): .split(one + offset, other + offset)
        case .jump(let target): .jump(target + offset)
        default: self
        }
    }
}

/// A set of byte values.
private struct ByteSet: Hashable, Sendable {
    private var words = SIMD4<UInt64>()

    init(_ ranges: ClosedRange<UInt8>...) { for range in ranges { insert(range) } }

    mutating func insert(_ range: ClosedRange<UInt8>) {
        for byte in range { words[Int(byte >> 6)] |= 1 << UInt64(byte & 63) }
    }

    mutating func formUnion(_ other: ByteSet) { words |= other.words }

    func contains(_ byte: UInt8) -> Bool { words[Int(byte >> 6)] & (1 << UInt64(byte & 63)) != 0 }

    var inverted: ByteSet {
        var copy = self
        copy.words = ~words
        return copy
    }
}

/// What a pattern means, before it becomes a program.
private indirect enum TextPatternNode: Hashable, Sendable {
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

    fileprivate mutating func parse() throws(UnusableInput) -> TextPatternNode {
        let node = try choice()
        guard position == bytes.count else { throw mistake("a \")\" without \"(\"") }
        return node
    }

    private func mistake(_ message: String) -> UnusableInput { UnusableInput(message) }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard let next, UInt32(next) == character.value else { return false }
        position += 1
        return true
    }

    private mutating func choice() throws(UnusableInput) -> TextPatternNode {
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.deepest else { throw mistake("groups are nested too deeply") }
        var branches = [try sequence()]
        while take("|") { branches.append(try sequence()) }
        return branches.count == 1 ? branches[0] : .choice(branches)
    }

    private mutating func sequence() throws(UnusableInput) -> TextPatternNode {
        var nodes: [TextPatternNode] = []
        while let next, next != UInt8(ascii: "|"), next != UInt8(ascii: ")") {
            let node = try atom()
            nodes.append(try repetition(of: node))
        }
        return nodes.count == 1 ? nodes[0] : nodes.isEmpty ? .empty : .sequence(nodes)
    }

    private mutating func repetition(of node: TextPatternNode) throws(UnusableInput) -> TextPatternNode {
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

    private mutating func bounds() throws(UnusableInput) -> (Int, Int?) {
        guard let least = number() else { throw mistake("expected numbers after \"{\": {2}, {2,} or {2,5}") }
        var most: Int? = least
        if take(",") { most = number() }
        guard take("}"), least <= most ?? .max, max(least, most ?? 0) <= Self.maximumRepetitions else {
            throw mistake("expected numbers after \"{\", up to \(Self.maximumRepetitions): {2}, {2,} or {2,5}")
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

    private mutating func atom() throws(UnusableInput) -> TextPatternNode {
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

    private mutating func group() throws(UnusableInput) -> TextPatternNode {
        var captures = true
        if take("?") {
            guard take(":") else {
                throw mistake("\"(?\" is supported only as \"(?:\": no look-around, no named groups")
            }
            captures = false
        }
        if captures {
            guard !hasCapture else { throw mistake("only one group can yield the result; write the others as \"(?:\"") }
            hasCapture = true
        }
        let node = try choice()
        guard take(")") else { throw mistake("a \"(\" is never closed") }
        return captures ? .capture(node) : node
    }

    private mutating func characterClass() throws(UnusableInput) -> ByteSet {
        let isInverted = take("^")
        var set = ByteSet()
        var isFirst = true
        while true {
            guard let byte = next else { throw mistake("a \"[\" is never closed") }
            if byte == UInt8(ascii: "]"), !isFirst { break }
            isFirst = false
            position += 1
            guard byte < 0x80 else { throw mistake("only ASCII is allowed between \"[\" and \"]\"") }
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
                throw mistake("a range between \"[\" and \"]\" is reversed or does not end in a plain character")
            }
            position += 2
            set.insert(byte...last)
        }
        position += 1
        return isInverted ? set.inverted : set
    }

    private mutating func escape() throws(UnusableInput) -> ByteSet {
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
            throw mistake("\"\\\(Unicode.Scalar(byte))\" is not supported: no back-references, no Unicode properties")
        default: return ByteSet(byte...byte)
        }
    }
}
