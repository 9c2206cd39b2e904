/// Lays out a table for a width. A word is never broken.
///
/// Where all columns do not fit, the widest are wrapped between words. Where that is not enough, each row becomes a list
/// of `TITLE: value`.
package struct TableLayout {
    private static let gap = "  "

    private let titles: [String]
    private let rows: [[String]]
    /// Nil where lines may have any length: in a pipe or a file.
    private let width: Int?
    /// Colours a piece of a cell; the width of what it returns does not count.
    private let paint: (_ row: Int, _ column: Int, _ text: String) -> String

    /// - Parameter paint: See the property; called after everything has been measured.
    package init(
        titles: [String],
        rows: [[String]],
        width: Int? = nil,
        paint: @escaping (_ row: Int, _ column: Int, _ text: String) -> String = { $2 }
    ) {
        self.titles = titles
        self.rows = rows
        self.width = width
        self.paint = paint
    }

    /// Lines with their line breaks; no blanks at their ends.
    package var text: String {
        guard let widths = columnWidths else { return records }
        var text = lines(titles, widths) { $1 }
        for (index, row) in rows.enumerated() { text += lines(row, widths) { paint(index, $0, $1) } }
        return text
    }

    // MARK: Columns

    /// nil when even the longest words beside each other are too wide.
    private var columnWidths: [Int]? {
        var widths = measured { $0.count }
        guard let width else { return widths }
        let room = width - Self.gap.count * max(0, titles.count - 1)
        let minimum = measured { Self.words($0).map(\.count).max() ?? 0 }
        guard minimum.reduce(0, +) <= room else { return nil }
        while widths.reduce(0, +) > room {
            let shrinkable = widths.indices.filter { widths[$0] > minimum[$0] }
            guard let widest = shrinkable.max(by: { widths[$0] < widths[$1] }) else { break }
            widths[widest] -= 1
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
        let pieces = zip(cells, widths).map { Self.wrap($0, to: $1) }
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
