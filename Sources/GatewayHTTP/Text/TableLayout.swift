/// Lays out a table for a width. A word is never broken.
///
/// Where all columns do not fit, the widest are wrapped between words. Where that is not enough, cells of the columns that allow it lose
/// their middle. Where that is not enough either, each row becomes a list of `TITLE: value`.
package struct TableLayout {
    private static let gap = "  "
    /// No cell is shortened to less, because names would look the same.
    private static let shortest = 12

    private let titles: [String]
    private let rows: [[String]]
    /// Nil where lines may have any length: in a pipe or a file.
    private let width: Int?
    private let shortened: Set<Int>
    /// Colours a piece of a cell; the width of what it returns does not count.
    private let paint: (_ row: Int, _ column: Int, _ text: String) -> String

    /// - Parameters:
    ///   - shortened: The columns whose cells may lose their middle.
    ///   - paint: See the property; called after everything has been measured.
    package init(
        titles: [String],
        rows: [[String]],
        width: Int? = nil,
        shortened: Set<Int> = [],
        paint: @escaping (_ row: Int, _ column: Int, _ text: String) -> String = { $2 }
    ) {
        self.titles = titles
        self.rows = rows
        self.width = width
        self.shortened = shortened
        self.paint = paint
    }

    /// Whether the columns fit beside each other without a shortened cell.
    package var fits: Bool {
        guard let room else { return true }
        return narrowest.reduce(0, +) <= room
    }

    /// Lines with their line breaks; no blanks at their ends.
    package var text: String {
        guard let widths = columnWidths else { return records }
        var text = lines(titles, widths) { $1 }
        for (index, row) in rows.enumerated() { text += lines(row, widths) { paint(index, $0, $1) } }
        return text
    }

    // MARK: Columns

    /// For the cells of a row; nil where there is no limit.
    private var room: Int? { width.map { $0 - Self.gap.count * max(0, titles.count - 1) } }

    /// The longest word of each column.
    private var narrowest: [Int] { measured { Self.words($0).map(\.count).max() ?? 0 } }

    /// nil when even the longest words beside each other are too wide.
    private var columnWidths: [Int]? {
        var widths = measured { $0.count }
        guard let room else { return widths }
        let minimum = narrowest
        guard minimum.reduce(0, +) <= room else { return shortenedWidths(minimum, room) }
        while widths.reduce(0, +) > room {
            let shrinkable = widths.indices.filter { widths[$0] > minimum[$0] }
            guard let widest = shrinkable.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
        }
        return widths
    }

    private func shortenedWidths(_ minimum: [Int], _ room: Int) -> [Int]? {
        var widths = minimum
        for column in shortened where widths.indices.contains(column) {
            widths[column] = min(widths[column], max(Self.shortest, titles[column].count))
        }
        var rest = room - widths.reduce(0, +)
        guard rest >= 0 else { return nil }
        for column in widths.indices {
            let more = min(rest, minimum[column] - widths[column])
            widths[column] += more
            rest -= more
        }
        return widths
    }

    private func measured(_ measure: (String) -> Int) -> [Int] {
        titles.indices.map { column in
            rows.reduce(measure(titles[column])) { widest, row in
                column < row.count ? max(widest, measure(row[column])) : widest
            }
        }
    }

    private func lines(_ cells: [String], _ widths: [Int], _ paint: (Int, String) -> String) -> String {
        let pieces = zip(cells, widths).enumerated().map { column, cell in
            let pieces = Self.wrap(cell.0, to: cell.1)
            return shortened.contains(column) ? pieces.map { Self.shorten($0, to: cell.1) } : pieces
        }
        let height = pieces.map(\.count).max() ?? 0
        return (0..<height).map { line in
            var text = ""
            var pending = 0
            for (column, piece) in pieces.enumerated() {
                let cell = line < piece.count ? piece[line] : ""
                if !cell.isEmpty {
                    text += String(repeating: " ", count: pending) + paint(column, cell)
                    pending = 0
                }
                pending += widths[column] - cell.count + Self.gap.count
            }
            return text + "\n"
        }.joined()
    }

    // MARK: Records

    private var records: String {
        let margin = (titles.map(\.count).max() ?? 0) + 2
        let room = max(1, (width ?? .max) - margin)
        return rows.enumerated().map { index, row in
            zip(titles, row).enumerated().filter { !$0.element.1.isEmpty }.map { column, cell in
                let indent = "\n" + String(repeating: " ", count: margin)
                let value = Self.wrap(cell.1, to: room).map { paint(index, column, $0) }.joined(separator: indent)
                return "\(cell.0):" + String(repeating: " ", count: margin - cell.0.count - 1) + value + "\n"
            }.joined()
        }.joined(separator: "\n")
    }

    // MARK: Words

    /// Without the middle: beginning and end of a name tell it from others.
    private static func shorten(_ word: String, to width: Int) -> String {
        guard word.count > width, width > 1 else { return word }
        let end = (width - 1) / 2
        return "\(word.prefix(width - 1 - end))…\(word.suffix(end))"
    }

    private static func words(_ text: String) -> [Substring] { text.split(separator: " ") }

    /// At least one line. A word that is longer than the width keeps its line for itself.
    package static func wrap(_ text: String, to width: Int) -> [String] {
        guard text.count > width else { return [text] }
        var lines: [String] = []
        var line = ""
        for word in words(text) {
            if line.isEmpty {
                line = String(word)
            } else if line.count + 1 + word.count <= width {
                line += " \(word)"
            } else {
                lines.append(line)
                line = String(word)
            }
        }
        return lines + [line]
    }
}
