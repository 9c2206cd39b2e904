/// A regular expression whose search takes time in proportion to pattern times text, whatever both hold.
///
/// It follows all possibilities at once (Thompson's construction with captures). An answer of an authority therefore
/// cannot block the gateway. Literals, `.`, classes, `\d \w \s`, groups, `|`, `* + ? {m,n}` and their lazy forms, `^`
/// and `$` for the ends of the text; no look-around and no back-references. Works on bytes: a character class holds
/// ASCII only.
package struct TextPattern: Hashable, Sendable {
    package struct Mistake: Error, Hashable {
        package let message: String
    }

    /// In a longer text only the beginning is searched.
    package static let longestText = 256 << 10
    static let largestProgram = 512

    enum Instruction: Hashable, Sendable {
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

    package init(_ text: String) throws(Mistake) {
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

    private static func compile(_ node: TextPatternNode, to program: inout [Instruction]) throws(Mistake) {
        guard program.count < largestProgram else { throw Mistake(message: "the pattern is too large") }
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
struct ByteSet: Hashable, Sendable {
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
