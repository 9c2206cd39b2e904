import Glibc

/// What a terminal wants of a text; nothing for a pipe or a file.
package struct TextStyle: Sendable {
    /// nil for any length of line.
    package var width: Int?
    package var usesColor: Bool

    package init(width: Int? = nil, usesColor: Bool = false) {
        self.width = width
        self.usesColor = usesColor
    }

    /// Of standard output.
    package static var current: TextStyle {
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
