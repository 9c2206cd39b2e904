/// Reads Swift line by line and leaves out comments and what stands between quotes. What is interpolated there is code.
struct CodeReader {
    private enum Mode {
        /// - Parameter depth: Of parentheses; the one that closes no other ends an interpolation.
        case code(depth: Int)
        case comment(depth: Int)
        case text(hashes: Int, isMultiline: Bool)
    }

    private var modes = [Mode.code(depth: 0)]

    mutating func code(of line: String) -> String {
        var (rest, code) = (Array(line.utf8)[...], [UInt8]())
        reading: while let byte = rest.first {
            switch modes[modes.count - 1] {
            case .code(let depth):
                if rest.starts(with: "//".utf8) { break reading }
                if rest.starts(with: "/*".utf8) {
                    modes.append(.comment(depth: 0))
                    rest = rest.dropFirst(2)
                } else if let text = Self.beginning(of: rest) {
                    modes.append(.text(hashes: text.hashes, isMultiline: text.isMultiline))
                    rest = rest.dropFirst(text.hashes + (text.isMultiline ? 3 : 1))
                } else {
                    rest = rest.dropFirst()
                    takeCode(byte, at: depth, to: &code)
                }
            case .comment(let depth):
                if rest.starts(with: "/*".utf8) {
                    modes[modes.count - 1] = .comment(depth: depth + 1)
                    rest = rest.dropFirst(2)
                } else if rest.starts(with: "*/".utf8) {
                    if depth > 0 { modes[modes.count - 1] = .comment(depth: depth - 1) } else { modes.removeLast() }
                    rest = rest.dropFirst(2)
                } else {
                    rest = rest.dropFirst()
                }
            case .text(let hashes, let isMultiline):
                let marks = String(repeating: "#", count: hashes)
                let (end, escape) = ((isMultiline ? "\"\"\"" : "\"") + marks, "\\" + marks)
                if rest.starts(with: end.utf8) {
                    modes.removeLast()
                    rest = rest.dropFirst(end.utf8.count)
                } else if rest.starts(with: (escape + "(").utf8) {
                    modes.append(.code(depth: 0))
                    code.append(UInt8(ascii: " "))
                    rest = rest.dropFirst(escape.utf8.count + 1)
                } else {
                    rest = rest.dropFirst(rest.starts(with: escape.utf8) ? escape.utf8.count + 1 : 1)
                }
            }
        }
        // So that a quote that was none, in a regular expression for example, is the matter of one line.
        while case .text(_, isMultiline: false) = modes[modes.count - 1] { modes.removeLast() }
        return String(decoding: code, as: UTF8.self)
    }

    private mutating func takeCode(_ byte: UInt8, at depth: Int, to code: inout [UInt8]) {
        switch byte {
        case UInt8(ascii: "("): modes[modes.count - 1] = .code(depth: depth + 1)
        case UInt8(ascii: ")") where depth > 0: modes[modes.count - 1] = .code(depth: depth - 1)
        case UInt8(ascii: ")") where modes.count > 1:
            modes.removeLast()
            code.append(UInt8(ascii: " "))
            return
        default: break
        }
        code.append(byte)
    }

    private static func beginning(of rest: ArraySlice<UInt8>) -> (hashes: Int, isMultiline: Bool)? {
        let hashes = rest.prefix { $0 == UInt8(ascii: "#") }.count
        let quotes = rest.dropFirst(hashes).prefix { $0 == UInt8(ascii: "\"") }.count
        // Two quotes are an empty text.
        return quotes == 0 ? nil : (hashes, quotes >= 3)
    }
}
