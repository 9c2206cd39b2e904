import GatewayApp
import GatewayHTTP
import Glibc

/// Aligned columns for people.
struct TextTable {
    private let titles: [String]
    private var rows: [[String]] = []
    /// The colors of cells: by row, then by column.
    private var colors: [[Int: TextStyle.Color]] = []
    /// The columns whose cells may lose their middle on a narrow terminal.
    private let shortened: Set<Int>

    init(_ titles: String...) { self.init(titles) }

    init(_ titles: [String], shortened: Set<Int> = []) {
        self.titles = titles
        self.shortened = shortened
    }

    /// Makes a table whose cells are shortened on a terminal that has no room for the whole ones.
    ///
    /// - Parameter make: Told whether its cells are to be short.
    static func fitting(_ style: TextStyle, _ make: (_ isShort: Bool) -> Self) -> String {
        let whole = make(false)
        return (whole.layout(style).fits ? whole : make(true)).text(style)
    }

    mutating func add(_ cells: String...) { add(cells, color: nil, column: 0) }

    /// - Parameter column: The only one that is coloured.
    mutating func add(_ cells: [String], color: TextStyle.Color?, column: Int) {
        rows.append(cells.map(LogText.clean))
        colors.append(color.map { [column: $0] } ?? [:])
    }

    /// The table without colors and line limit, for a pipe or a file.
    var text: String { text(TextStyle()) }

    /// Two spaces between columns, none at the end of a line.
    func text(_ style: TextStyle) -> String { layout(style).text }

    private func layout(_ style: TextStyle) -> TableLayout {
        TableLayout(titles: titles, rows: rows, width: style.width, shortened: shortened) { row, column, text in
            style.paint(text, colors[row][column])
        }
    }
}

/// What a terminal wants of a text; nothing for a pipe or a file.
struct TextStyle: Sendable {
    /// nil for any length of line.
    var width: Int?
    var usesColor = false

    /// The style of standard output.
    static var current: TextStyle {
        TextStyle(width: Console.isOutputTerminal ? terminalWidth : nil, usesColor: Console.usesColor)
    }

    /// `COLUMNS` counts before what the terminal says; 80 where neither says anything.
    private static var terminalWidth: Int {
        if let columns = Console.environment("COLUMNS").flatMap({ Int($0) }), columns > 0 { return columns }
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    enum Color: Int {
        case red = 31
        case green = 32
        case yellow = 33
    }

    func paint(_ text: String, _ color: Color?) -> String {
        guard usesColor, let color else { return text }
        return "\u{1B}[\(color.rawValue)m\(text)\u{1B}[0m"
    }
}
