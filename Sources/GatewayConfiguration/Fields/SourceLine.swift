/// A line of a configuration file as a diagnostic shows it: secrets hidden, and no longer than a screen is wide.
struct SourceLine {
    private let shown: [Unicode.Scalar]
    /// For each column of the file, counted from 0, the column where it is shown.
    private let columns: [Int]

    private static let mask = Array("***".unicodeScalars)
    static let widest = 160

    /// - Parameter hidden: Column ranges, counted from 0.
    init(_ line: String, hiding hidden: [Range<Int>]) {
        let scalars = Array(line.unicodeScalars)
        var shown: [Unicode.Scalar] = []
        var columns: [Int] = []
        var isHidden = [Bool](repeating: false, count: scalars.count)
        for range in hidden {
            for index in range.clamped(to: scalars.indices) { isHidden[index] = true }
        }
        for (index, scalar) in scalars.enumerated() {
            guard isHidden[index] else {
                columns.append(shown.count)
                shown.append(Self.isPrintable(scalar) ? scalar : "\u{FFFD}")
                continue
            }
            let isFirst = index == 0 || !isHidden[index - 1]
            if isFirst { shown.append(contentsOf: Self.mask) }
            columns.append(shown.count - Self.mask.count)
        }
        columns.append(shown.count)
        self.shown = shown
        self.columns = columns
    }

    /// A terminal must not obey what a broken file holds.
    /// A text that a terminal can show: no control character of it is left.
    static func printable(_ text: String) -> String {
        guard !text.unicodeScalars.allSatisfy(isPrintable) else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.map { isPrintable($0) ? $0 : "\u{FFFD}" }))
    }

    private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "\t" || (scalar.value >= 0x20 && !(0x7F...0x9F).contains(scalar.value))
    }

    /// The line, cut where a screen ends.
    var text: String {
        let kept = String(String.UnicodeScalarView(shown.prefix(Self.widest)))
        return shown.count > Self.widest ? kept + "…" : kept
    }

    /// The line, and below it the marks under a span.
    func render(marking span: SourceSpan) -> (line: String, marks: String) {
        let start = columns[min(span.column - 1, columns.count - 1)]
        var end = max(columns[min(span.column - 1 + span.length, columns.count - 1)], start + 1)
        let first = start > Self.widest / 2 ? start - Self.widest / 4 : 0
        let last = min(shown.count, first + Self.widest)
        end = min(end, max(last, start + 1))

        var line = first > 0 ? "…" : ""
        line.unicodeScalars.append(contentsOf: shown[min(first, last)..<last])
        if last < shown.count { line += "…" }
        var marks = first > 0 ? " " : ""
        // A tab stays a tab, so that the marks stand below what they mark.
        for index in first..<start { marks += index < shown.count && shown[index] == "\t" ? "\t" : " " }
        marks += "^" + String(repeating: "~", count: end - start - 1)
        return (line, marks)
    }
}
