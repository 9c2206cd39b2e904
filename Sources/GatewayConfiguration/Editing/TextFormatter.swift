/// Lays a file out in one way: two columns for each level, one space behind `:` and `-`, one blank line between sections.
///
/// Comments, quotes, order, and what stands in braces stay as they are written.
struct TextFormatter {
    private enum Role {
        case blank
        case comment
        /// Begins with a key or a dash.
        case structure
        /// Goes on with a text or with braces from the line above; it moves as far as that line does.
        case continued(by: Int, isText: Bool)
        /// A mark of the document, which stays.
        case other
    }

    /// A column of the text, counted from 0, and the one that it moves to.
    private struct Move {
        let old: Int
        let new: Int
    }

    private static let step = 2

    private let lines: [TextLines.Line]
    private let unit: Int
    private var roles: [Role]
    /// Where the structure of a line begins, with the levels around it; the innermost is last.
    private var moves: [Int: [Move]] = [:]
    private var spaces: [Int: [(columns: Range<Int>, text: String)]] = [:]
    private var levels: [Move] = []
    /// The lines of entries at the top, and whether they have several lines.
    private var top: [(line: Int, isLong: Bool)] = []

    init(_ lines: TextLines, _ layout: YAMLLayout) {
        self.lines = lines.lines
        unit = TextSections(lines: lines.lines, layout: layout).unit
        roles = lines.lines.map { line in line.isBlank ? .blank : line.isComment ? .comment : .other }
        for entry in layout.root.entries ?? [] { top.append((entry.lines.lowerBound, entry.lines.count > 1)) }
        visit(layout.root, at: 0)
    }

    // MARK: Structure

    private mutating func visit(_ node: YAMLLayout.Node, at column: Int) {
        switch node.kind {
        case .mapping(let entries, isFlow: false):
            for entry in entries {
                levels.append(Move(old: entry.keyStart.column - 1, new: column))
                begin(entry.keyStart)
                note(behind: entry.keyEnd, before: entry.value, text: ": ")
                visitValue(entry.value, of: entry.keyStart, at: column)
                levels.removeLast()
            }
        case .sequence(let elements, isFlow: false):
            for element in elements {
                guard let dash = dash(before: element) else { continue }
                levels.append(Move(old: dash.column - 1, new: column))
                begin(dash)
                let behind = YAMLEvent.Mark(line: dash.line, column: dash.column + 1)
                note(behind: behind, before: element, text: " ")
                visitValue(element, of: dash, at: column)
                levels.removeLast()
            }
        case .scalar, .alias, .mapping, .sequence: break
        }
    }

    private mutating func visitValue(_ value: YAMLLayout.Node, of owner: YAMLEvent.Mark, at column: Int) {
        switch value.kind {
        case .mapping(_, isFlow: false), .sequence(_, isFlow: false): visit(value, at: column + Self.step)
        case .scalar, .alias: continueLines(of: value, under: owner, at: column, isText: true)
        case .mapping, .sequence: continueLines(of: value, under: owner, at: column, isText: false)
        }
    }

    /// The line of a key or a dash moves when nothing stands before it.
    private mutating func begin(_ mark: YAMLEvent.Mark) {
        let row = mark.line - 1
        guard lines[row].indentation == mark.column - 1 else { return }
        roles[row] = .structure
        moves[row] = levels
    }

    private mutating func note(behind mark: YAMLEvent.Mark, before value: YAMLLayout.Node, text: String) {
        guard value.start.line == mark.line, value.start != value.end else {
            // The value stands below: only the blanks before the colon go.
            let blanks = lines[mark.line - 1].content.columns(from: mark.column).unicodeScalars.prefix { $0 == " " }
                .count
            if blanks > 0, text == ": " {
                spaces[mark.line - 1, default: []].append((mark.column..<(mark.column + blanks), ""))
            }
            return
        }
        guard value.start.column > mark.column else { return }
        spaces[mark.line - 1, default: []].append((mark.column..<value.start.column, text))
    }

    private mutating func continueLines(
        of value: YAMLLayout.Node,
        under owner: YAMLEvent.Mark,
        at column: Int,
        isText: Bool
    ) {
        // It may begin below its key.
        let first = value.start.line > owner.line ? value.start.line - 1 : value.start.line
        var last = value.end.column == 1 ? value.end.line - 2 : value.end.line - 1
        if value.isBlockScalar { while last >= first, lines[last].isBlank { last -= 1 } }
        guard last >= first, value.start != value.end else { return }
        let role = Role.continued(by: column - owner.column + 1, isText: isText)
        for row in first...min(last, lines.count - 1) { roles[row] = role }
    }

    /// The parser does not say where the dash of an element stands. It is the last one before it.
    private func dash(before element: YAMLLayout.Node) -> YAMLEvent.Mark? {
        let before = Array(lines[element.start.line - 1].content.unicodeScalars.prefix(element.start.column - 1))
        guard let index = before.lastIndex(where: { $0 != " " && $0 != "\t" }), before[index] == "-" else { return nil }
        return YAMLEvent.Mark(line: element.start.line, column: index + 1)
    }

    // MARK: Lines

    func formatted() -> TextLines {
        var result = TextLines([])
        let end = lines.first { !$0.end.isEmpty }?.end ?? "\n"
        let openings = sectionOpenings
        for row in lines.indices {
            let isAfterBlank = result.lines.last.map { $0.content.isEmpty } ?? true
            if case .blank = roles[row] {
                if !isAfterBlank { result.lines.append(.init(content: "", end: end)) }
                continue
            }
            if openings.contains(row), !isAfterBlank { result.lines.append(.init(content: "", end: end)) }
            result.lines.append(.init(content: content(row), end: end))
        }
        while result.lines.last?.content.isEmpty ?? false { result.lines.removeLast() }
        return result
    }

    /// The first lines, with their comments, of the sections at the top that a blank line stands before.
    private var sectionOpenings: Set<Int> {
        var openings: Set<Int> = []
        for (index, entry) in top.enumerated().dropFirst() where entry.isLong || top[index - 1].isLong {
            var row = entry.line
            while row > 0, case .comment = roles[row - 1], lines[row - 1].indentation == 0 { row -= 1 }
            openings.insert(row)
        }
        return openings
    }

    private func content(_ row: Int) -> String {
        let line = lines[row].content
        switch roles[row] {
        case .blank: return ""
        case .other: return line.withoutTrailingBlanks
        case .comment: return moved(line, by: column(ofComment: row) - lines[row].indentation).withoutTrailingBlanks
        case .structure:
            let move = moves[row]?.last ?? Move(old: 0, new: 0)
            let isCutOff =
                if row + 1 < roles.count, case .continued(_, isText: true) = roles[row + 1] { true } else { false }
            let shown = moved(spaced(line, row), by: move.new - move.old)
            return isCutOff ? shown : shown.withoutTrailingBlanks
        case .continued(let distance, let isText):
            if lines[row].isBlank { return isText ? line : "" }
            return isText ? moved(line, by: distance) : moved(line, by: distance).withoutTrailingBlanks
        }
    }

    private func spaced(_ line: String, _ row: Int) -> String {
        var line = line
        for (columns, text) in (spaces[row] ?? []).sorted(by: { $0.columns.lowerBound > $1.columns.lowerBound }) {
            line = line.columns(1..<columns.lowerBound) + text + line.columns(from: columns.upperBound)
        }
        return line
    }

    private func moved(_ line: String, by distance: Int) -> String {
        guard distance < 0 else { return String(repeating: " ", count: distance) + line }
        let blanks = line.utf8.prefix { $0 == 0x20 }.count
        return String(line.dropFirst(min(-distance, blanks)))
    }

    /// A comment stands where the next line does when it stood there before, else on a level of the line above it.
    private func column(ofComment row: Int) -> Int {
        let own = lines[row].indentation
        let next = lines.indices[(row + 1)...].first { moves[$0] != nil }.flatMap { moves[$0]?.last }
        if let next, next.old == own { return next.new }
        let above = lines.indices[..<row].last { moves[$0] != nil }.flatMap { moves[$0] } ?? []
        guard let level = above.last(where: { $0.old <= own }) else { return next?.new ?? 0 }
        return level.new + (own - level.old) * Self.step / unit
    }
}

extension ConfigurationText {
    /// Lays the text out anew. It means the same as before, and formatting it again changes nothing.
    package mutating func format() throws(ConfigurationEditError) {
        // What moved may have been what others stood by.
        for _ in 0..<4 {
            let formatted = TextFormatter(lines, layout).formatted()
            guard formatted.bytes != lines.bytes else { return }
            try acceptLooks(formatted)
        }
        throw ConfigurationEditError("this file cannot be formatted; its indentation is ambiguous")
    }
}
