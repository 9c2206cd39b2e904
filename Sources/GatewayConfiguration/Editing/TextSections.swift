/// Which lines of a file belong to which entry: content by the parser, comments by where they stand.
struct TextSections {
    let lines: [TextLines.Line]
    let layout: YAMLLayout

    var sections: [YAMLLayout.Entry] { layout.root.entries ?? [] }

    /// The index of the section, which may be missing.
    func index(of section: String) -> Int? { sections.firstIndex { $0.key == section } }

    /// The first line of the comments directly above an entry, at most as far to the right as its key; else its own.
    ///
    /// - Parameter floor: The first line that can be one.
    func firstLine(of entry: YAMLLayout.Entry, from floor: Int) -> Int {
        var first = entry.keyStart.line - 1
        while first > floor, lines[first - 1].isComment, lines[first - 1].indentation < entry.keyStart.column {
            first -= 1
        }
        return first
    }

    /// The line behind an entry: with the comments that stand deeper than its key.
    ///
    /// - Parameters:
    ///   - indentation: The least indentation of the comments that belong to it.
    ///   - limit: The line that the next entry begins at, with its comments.
    func end(of entry: YAMLLayout.Entry, indentation: Int, before limit: Int) -> Int {
        var end = contentEnd(of: entry)
        var line = end
        while line < limit, lines[line].isBlank || (lines[line].isComment && lines[line].indentation >= indentation) {
            line += 1
            if lines[line - 1].isComment { end = line }
        }
        return end
    }

    /// The line behind the last one that is no comment.
    func contentEnd(of entry: YAMLLayout.Entry) -> Int {
        var end = min(entry.lines.upperBound + 1, lines.count)
        if entry.value.lastScalarIsBlock {
            while end > entry.keyStart.line, lines[end - 1].isBlank { end -= 1 }
        }
        return end
    }

    /// Where the section at `index` ends, with the comments that are indented as its entries are.
    func end(ofSection index: Int) -> Int {
        let section = sections[index]
        let limit = index + 1 < sections.count ? sections[index + 1].keyStart.line - 1 : lines.count
        return end(of: section, indentation: section.keyStart.column, before: limit)
    }

    /// How many columns the file indents by.
    var unit: Int {
        for section in sections {
            guard let entries = section.value.entries, !section.value.isFlow, let first = entries.first else {
                continue
            }
            return max(1, first.keyStart.column - section.keyStart.column)
        }
        return 2
    }

    /// Whether blank lines stand between sections.
    var hasBlankLines: Bool { lines.contains(where: \.isBlank) }

    /// Whether a blank line stands above the last entry of a section, or above one of another when it has only one.
    func separatesEntries(of entries: [YAMLLayout.Entry]) -> Bool {
        let all = entries.count > 1 ? [entries] : sections.compactMap(\.value.entries).filter { $0.count > 1 }
        return all.contains { entries in
            guard let last = entries.last else { return false }
            let first = firstLine(of: last, from: 0)
            return first > 0 && lines[first - 1].isBlank
        }
    }
}

extension YAMLLayout.Node {
    /// Whether what stands last in it is a block scalar, whose blank lines at the end mean nothing.
    fileprivate var lastScalarIsBlock: Bool {
        switch kind {
        case .scalar, .alias: isBlockScalar
        case .mapping(let entries, _): entries.last?.value.lastScalarIsBlock ?? false
        case .sequence(let elements, _): elements.last?.lastScalarIsBlock ?? false
        }
    }
}

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
