/// Where something stands in a configuration file. Lines and columns start at 1; columns count Unicode scalars.
package struct SourceSpan: Hashable, Sendable {
    /// Index into ``ConfigDocument/files``.
    package var file: Int
    package var line: Int
    package var column: Int
    /// How many columns to underline; at least 1, never past the end of the line.
    package var length: Int

    package init(file: Int, line: Int, column: Int, length: Int = 1) {
        self.file = file
        self.line = line
        self.column = column
        self.length = max(1, length)
    }
}

extension SourceSpan: Comparable {
    package static func < (lhs: Self, rhs: Self) -> Bool {
        (lhs.file, lhs.line, lhs.column) < (rhs.file, rhs.line, rhs.column)
    }
}
