import GatewayCore

/// Aligned columns for people.
struct TextTable {
    private let titles: [String]
    private var rows: [[String]] = []
    /// By row and column.
    private var colors: [[Int: TextStyle.Color]] = []

    init(_ titles: String...) { self.titles = titles }

    mutating func add(_ cells: String...) { add(cells, color: nil, column: 0) }

    /// - Parameter column: The only one that is coloured.
    mutating func add(_ cells: [String], color: TextStyle.Color?, column: Int) {
        rows.append(cells.map(LogText.clean))
        colors.append(color.map { [column: $0] } ?? [:])
    }

    /// For a pipe or a file.
    var text: String { text(TextStyle()) }

    /// Two spaces between columns, none at the end of a line.
    func text(_ style: TextStyle) -> String {
        TableLayout(titles: titles, rows: rows, width: style.width) { row, column, text in
            style.paint(text, colors[row][column])
        }.text
    }
}
