/// Aligned columns for people.
struct TextTable {
    private let titles: [String]
    private var rows: [[String]] = []

    init(_ titles: String...) { self.titles = titles }

    mutating func add(_ cells: String...) { rows.append(cells.map(LogText.clean)) }

    /// Two spaces between columns, none at the end of a line.
    var text: String {
        var widths = titles.map(\.count)
        for row in rows {
            for (index, cell) in row.enumerated() where index < widths.count {
                widths[index] = max(widths[index], cell.count)
            }
        }
        return ([titles] + rows).map { row in
            var line = zip(row, widths).map { $0.padding(to: $1) }.joined(separator: "  ")
            while line.last == " " { line.removeLast() }
            return line + "\n"
        }.joined()
    }
}
