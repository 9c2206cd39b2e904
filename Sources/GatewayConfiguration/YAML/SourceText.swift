import GatewayHTTP

/// A text that may be shown to the parser: UTF-8, printable, split into lines as the parser counts them.
struct SourceText {
    let file: Int
    /// Without a byte order mark at the start.
    let bytes: [UInt8]
    let lines: [String]
    /// How wide each line is without the blanks at its end. Counted once: a line can be a mebibyte long and hold every value.
    private let widths: [Int]

    /// Why a text may not be shown to the parser, with its lines as far as they can be made out.
    struct Refusal: Error {
        let diagnostic: ConfigDiagnostic
        let lines: [String]
    }

    static func read(_ bytes: [UInt8], file: Int) throws(Refusal) -> SourceText {
        let bytes = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? Array(bytes.dropFirst(3)) : bytes
        let (lines, problem) = lines(of: bytes, file: file)
        if let problem { throw Refusal(diagnostic: problem, lines: lines) }
        return SourceText(file: file, bytes: bytes, lines: lines, widths: lines.map(width))
    }

    private static func lines(of bytes: [UInt8], file: Int) -> (lines: [String], problem: ConfigDiagnostic?) {
        if bytes.starts(with: [0xFE, 0xFF]) || bytes.starts(with: [0xFF, 0xFE]) {
            let span = SourceSpan(file: file, line: 1, column: 1)
            return ([], ConfigDiagnostic(.error, "the file is UTF-16; save it as UTF-8", at: span))
        }
        var reader = Reader(file: file)
        var problem: ConfigDiagnostic?
        var rest = bytes[...]
        while let end = rest.indices.last {
            // No character has a line feed within its bytes, so each part that ends with one can be read on its own.
            let next = rest.firstIndex(of: 0x0A) ?? end
            let line = rest[...next]
            rest = rest[(next + 1)...]
            let text = line.last == 0x0A ? line.dropLast() : line
            if reader.isAtStart, text.allSatisfy(isPlain) {
                reader.append(line: text)
            } else {
                read(line, with: &reader, &problem)
            }
        }
        return (reader.finish(), problem)
    }

    /// Printable ASCII and tabs, which nearly all lines consist of.
    private static func isPlain(_ byte: UInt8) -> Bool { (0x20...0x7E).contains(byte) || byte == 0x09 }

    private static func read(_ line: ArraySlice<UInt8>, with reader: inout Reader, _ problem: inout ConfigDiagnostic?) {
        var decoder = UTF8()
        var iterator = line.makeIterator()
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue(let scalar):
                guard let complaint = reader.append(scalar) else { continue }
                problem = problem ?? ConfigDiagnostic(.error, complaint, at: reader.position)
                reader.replace()
            case .emptyInput: return
            case .error:
                problem = problem ?? ConfigDiagnostic(.error, "not valid UTF-8", at: reader.position)
                reader.replace()
            }
        }
    }

    /// The rest of a line from a column on, in columns, without the blanks at its end; at least 1.
    private func columnsLeft(inLine line: Int, from column: Int) -> Int { max(1, widths[line - 1] - column + 1) }

    private static func width(of line: String) -> Int {
        line.unicodeScalars.count - line.unicodeScalars.reversed().prefix { $0 == " " || $0 == "\t" }.count
    }

    /// A span that is sure to lie in the text; the end of the text stands for anything behind it.
    func span(line: Int, column: Int, length: Int) -> SourceSpan {
        guard line <= lines.count else {
            let last = max(1, lines.lastIndex { !$0.isEmpty }.map { $0 + 1 } ?? 1)
            let end = lines.isEmpty ? 1 : lines[last - 1].unicodeScalars.count + 1
            return SourceSpan(file: file, line: last, column: end)
        }
        return SourceSpan(
            file: file,
            line: line,
            column: column,
            length: min(length, columnsLeft(inLine: line, from: column))
        )
    }

    /// Splits at CR, LF, CRLF, NEL, LS and PS, as libyaml does, so that both count the same lines.
    private struct Reader {
        let file: Int
        private var lines: [String] = []
        private var current = String.UnicodeScalarView()
        private var column = 1
        private var afterCarriageReturn = false

        init(file: Int) { self.file = file }

        var position: SourceSpan { SourceSpan(file: file, line: lines.count + 1, column: column) }

        /// Whether the next character is the first of a line.
        var isAtStart: Bool { current.isEmpty && !afterCarriageReturn }

        /// Takes a whole line without its end, at the start.
        mutating func append(line: ArraySlice<UInt8>) { lines.append(String(decoding: line, as: UTF8.self)) }

        /// - Returns: What is wrong with the character, when it may not stand in a configuration.
        mutating func append(_ scalar: Unicode.Scalar) -> String? {
            defer { afterCarriageReturn = scalar == "\r" }
            switch scalar.value {
            case 0x0A where afterCarriageReturn: return nil
            case 0x0A, 0x0D, 0x85, 0x2028, 0x2029:
                lines.append(String(current))
                current.removeAll(keepingCapacity: true)
                column = 1
                return nil
            case 0: return "a NUL byte; the file is not text"
            case 0x01...0x08, 0x0B, 0x0C, 0x0E...0x1F, 0x7F...0x84, 0x86...0x9F, 0xFFFE, 0xFFFF:
                return "a control character (U+\(Hexadecimal.number(scalar.value).uppercased()))"
            case 0xFEFF: return "a byte order mark in the middle of the file"
            default:
                current.append(scalar)
                column += 1
                return nil
            }
        }

        /// Puts a mark where a character cannot stand.
        mutating func replace() {
            current.append("\u{FFFD}")
            column += 1
        }

        mutating func finish() -> [String] {
            if !current.isEmpty { lines.append(String(current)) }
            return lines
        }
    }
}
