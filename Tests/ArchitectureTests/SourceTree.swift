import Foundation

/// The sources of this package as text, so that rules about them can be tests.
struct SourceTree: Sendable {
    struct File: CustomStringConvertible {
        /// Relative to the folder, for example `GatewayHTTP/Secrets/Secret.swift`.
        let path: String
        let target: String
        let lines: [Line]

        var description: String { path }
    }

    struct Line: Sendable {
        let number: Int
        /// Without comments and without what stands between quotes, but for what is interpolated there.
        let code: String
    }

    let files: [File]

    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// `Sources` has a folder per target.
    static func load(_ folder: String = "Sources") throws -> SourceTree {
        let sources = root.appendingPathComponent(folder)
        let paths = try FileManager.default.subpathsOfDirectory(atPath: sources.path)
        let files = try paths.filter { $0.hasSuffix(".swift") }.sorted().map { path in
            let parts = path.split(separator: "/")
            let text = try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8)
            return File(path: path, target: parts.count > 1 ? String(parts[0]) : path, lines: codeLines(of: text))
        }
        return SourceTree(files: files)
    }

    /// Places whose code matches, as `path:line`.
    func places(in include: (File) -> Bool = { _ in true }, matching pattern: String) throws -> [String] {
        let expression = try NSRegularExpression(pattern: pattern)
        return files.filter(include).flatMap { file in
            file.lines.filter { line in
                let range = NSRange(line.code.startIndex..., in: line.code)
                return expression.firstMatch(in: line.code, range: range) != nil
            }
            .map { "\(file.path):\($0.number)" }
        }
    }

    static func codeLines(of text: String) -> [Line] {
        var reader = CodeReader()
        return text.split(separator: "\n", omittingEmptySubsequences: false).enumerated().map { index, line in
            Line(number: index + 1, code: reader.code(of: String(line)))
        }
    }
}
