/// The lines of a text as libyaml counts them, with what ends each: joined, they are the text again.
struct TextLines: Sendable {
    struct Line: Hashable, Sendable {
        var content: String
        /// `\n`, `\r\n` or another line break; empty at the end of a text that ends without one.
        var end: String

        var isBlank: Bool { content.utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 } }
        /// Only where no scalar goes on over several lines.
        var isComment: Bool { content.utf8.first { $0 != 0x20 && $0 != 0x09 } == 0x23 }
        var indentation: Int { content.utf8.prefix { $0 == 0x20 }.count }
    }

    /// A byte order mark, or nothing.
    private let mark: String
    var lines: [Line]

    private static let byteOrderMark: Unicode.Scalar = "\u{FEFF}"

    /// - Parameter bytes: UTF-8, as ``SourceText`` has found.
    init(_ bytes: [UInt8]) {
        var scalars = String(decoding: bytes, as: UTF8.self).unicodeScalars[...]
        let hasMark = scalars.first == Self.byteOrderMark
        if hasMark { scalars = scalars.dropFirst() }
        mark = hasMark ? String(Self.byteOrderMark) : ""
        lines = []
        while let index = scalars.firstIndex(where: Self.isBreak) {
            var next = scalars.index(after: index)
            if scalars[index] == "\r", next < scalars.endIndex, scalars[next] == "\n" {
                next = scalars.index(after: next)
            }
            lines.append(Line(content: String(scalars[..<index]), end: String(scalars[index..<next])))
            scalars = scalars[next...]
        }
        if !scalars.isEmpty { lines.append(Line(content: String(scalars), end: "")) }
    }

    private static func isBreak(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x0A, 0x0D, 0x85, 0x2028, 0x2029: true
        default: false
        }
    }

    var bytes: [UInt8] {
        var bytes = Array(mark.utf8)
        for line in lines {
            bytes.append(contentsOf: line.content.utf8)
            bytes.append(contentsOf: line.end.utf8)
        }
        return bytes
    }

    /// What new lines end with: as the first line of the text does.
    var lineBreak: String { lines.first { !$0.end.isEmpty }?.end ?? "\n" }

    /// Lines that are put into the text end as the others do; a last line without a line break gets one.
    mutating func insert(_ contents: [String], at index: Int) {
        let end = lineBreak
        if index > 0, lines[index - 1].end.isEmpty { lines[index - 1].end = end }
        lines.insert(contentsOf: contents.map { Line(content: $0, end: end) }, at: index)
    }
}

extension String {
    /// The part between two columns, counted in Unicode scalars from 1, as the parser counts them.
    func columns(_ range: Range<Int>) -> String {
        String(String.UnicodeScalarView(unicodeScalars.dropFirst(range.lowerBound - 1).prefix(range.count)))
    }

    func columns(from column: Int) -> String { String(String.UnicodeScalarView(unicodeScalars.dropFirst(column - 1))) }

    var withoutTrailingBlanks: String {
        let kept = unicodeScalars.reversed().drop { $0 == " " || $0 == "\t" }
        return String(String.UnicodeScalarView(kept.reversed()))
    }
}
