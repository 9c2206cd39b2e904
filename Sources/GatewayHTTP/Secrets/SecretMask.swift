/// Finds, in one line of a configuration file, what may be a secret by the name of its key.
///
/// The decoder knows which values are secrets; this is for lines that it never understood: a file with a syntax error,
/// a key that stands twice, a strategy that does not exist.
package enum SecretMask {
    private static let words = [
        "secr", "pass", "pwd", "token", "private", "apikey", "assertion", "authorization", "bearer", "cookie",
    ]
    private static let exact: Set<String> = ["value", "request_auth"]
    private static let harmless = ["_url", "_file", "_path", "_type", "tokens", "credentials", "whole_token"]

    /// Column ranges, counted from 0.
    ///
    /// - Parameter isContinuation: The line has no key of its own and continues a secret of the line before.
    package static func ranges(in line: String, continuing isContinuation: Bool) -> [Range<Int>] {
        let scalars = Array(line.unicodeScalars)
        if isContinuation {
            guard let first = scalars.firstIndex(where: { $0 != " " && $0 != "\t" }) else { return [] }
            return [first..<scalars.count]
        }
        var ranges = userInfo(in: scalars) + queryValues(in: scalars)
        for key in keys(in: scalars) where isSensitive(key.name) {
            if let range = value(after: key.colon, in: scalars) { ranges.append(range) }
        }
        return ranges
    }

    /// How many characters at the end of a line are searched for its last key first: a line can be a mebibyte long.
    static let searched = 4000

    /// Whether the line's last key may hold a secret that continues on the next lines; nil if the line has no key.
    static func opensSecret(_ line: String) -> Bool? {
        let scalars = line.unicodeScalars
        let isLong = line.utf8.count > searched
        if let last = keys(in: Array(scalars.suffix(searched))).last {
            // A key near the cut might have lost the beginning of its name.
            return isSensitive(last.name) || isLong && last.colon < 100
        }
        // The last key might be in the middle; then it is too far from the end to judge what is open there, so assume a secret.
        return isLong && !keys(in: Array(scalars)).isEmpty ? true : nil
    }

    /// Whether a secret that starts in these first columns of a line may continue after them: the value of a key, a part of a URL, or
    /// anything in a long line without a key.
    package static func reachesEnd(of start: String.UnicodeScalarView.SubSequence) -> Bool {
        let scalars = Array(start.suffix(searched))
        let word = scalars.suffix(from: (scalars.lastIndex { " \t\"'".unicodeScalars.contains($0) } ?? -1) + 1)
        if zip(word, word.dropFirst()).contains(where: { $0 == "/" && $1 == "/" }) { return true }
        guard let last = keys(in: scalars).last else { return scalars.count == searched }
        guard isSensitive(last.name) || scalars.count == searched && last.colon < 100 else { return false }
        // Nothing but space so far: the value begins behind it.
        guard scalars[(last.colon + 1)...].contains(where: { $0 != " " && $0 != "\t" }) else { return true }
        return value(after: last.colon, in: scalars).map { $0.upperBound == scalars.count } ?? false
    }

    /// How many lines above a line are searched for its key.
    static let maximumContinued = 200

    /// A line without a key belongs to the value above it. It is a secret if that value is, or if its key is too far away to be found.
    package static func continuesSecret(_ index: Int, in lines: [String]) -> Bool {
        guard opensSecret(lines[index]) == nil else { return false }
        for line in lines[..<index].reversed().prefix(maximumContinued) {
            if let isSecret = opensSecret(line) { return isSecret }
        }
        return index > maximumContinued
    }

    /// The same for every line. Each line is read only once, so no key is too far away.
    package static func continuations(in lines: [String]) -> [Bool] {
        var isSecret = false
        return lines.map { line in
            guard let opens = opensSecret(line) else { return isSecret }
            isSecret = opens
            return false
        }
    }

    package static func isSensitive(_ name: String) -> Bool {
        let name = name.lowercased()
        guard !harmless.contains(where: { name.hasSuffix($0) }) else { return false }
        return name.hasSuffix("key") || exact.contains(name) || words.contains { name.contains($0) }
    }

    private static func keys(in line: [Unicode.Scalar]) -> [(name: String, colon: Int)] {
        var keys: [(name: String, colon: Int)] = []
        for (index, scalar) in line.enumerated() where scalar == ":" || scalar == "=" {
            let name = name(before: index, in: line)
            // Only with a space is it a key for YAML; people write `token:SECRET` and `token=SECRET` and mean one.
            let isKey = isColonOfKey(index, in: line) || (!name.isEmpty && isSensitive(name))
            if isKey { keys.append((name, index)) }
        }
        return keys
    }

    package static func isColonOfKey(_ index: Int, in line: [Unicode.Scalar]) -> Bool {
        guard line[index] == ":" else { return false }
        return index + 1 == line.count || line[index + 1] == " " || line[index + 1] == "\t"
            || (index > 0 && (line[index - 1] == "\"" || line[index - 1] == "'"))
    }

    private static func name(before sign: Int, in line: [Unicode.Scalar]) -> String {
        var name = String.UnicodeScalarView()
        for character in line[..<sign].reversed().drop(while: { $0 == " " || $0 == "\t" }) {
            if character == "\"" || character == "'" { continue }
            guard character == "_" || character == "-" || character.properties.isAlphabetic else { break }
            name.append(character)
        }
        return String(String(name).reversed())
    }

    /// What stands between `//` and `@` of a URL.
    private static func userInfo(in line: [Unicode.Scalar]) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        for index in line.indices.dropLast(2) where line[index...].starts(with: "//".unicodeScalars) {
            let rest = line[(index + 2)...].prefix { $0 != "/" && $0 != " " && $0 != "\"" && $0 != "'" }
            if let end = rest.lastIndex(of: "@"), end > rest.startIndex { ranges.append(rest.startIndex..<end) }
        }
        return ranges
    }

    /// What the parameters in the query and the fragment of a URL are; a template and a plain `${NAME}` are shown.
    private static func queryValues(in line: [Unicode.Scalar]) -> [Range<Int>] {
        let words = line.indices.split { line[$0] == " " || line[$0] == "\t" || line[$0] == "\"" || line[$0] == "'" }
        return words.flatMap { word -> [Range<Int>] in
            guard let authority = word.dropLast().first(where: { line[$0] == "/" && line[$0 + 1] == "/" }),
                let mark = line[authority..<word.upperBound].firstIndex(where: { $0 == "?" || $0 == "#" })
            else { return [] }
            let parameters = (mark..<word.upperBound).split { "?#&;".unicodeScalars.contains(line[$0]) }
            return parameters.compactMap { parameter in
                let start = line[parameter].firstIndex(of: "=").map { $0 + 1 } ?? parameter.lowerBound
                let value = start..<parameter.upperBound
                return value.isEmpty || isTemplate(text(line[value])) ? nil : value
            }
        }
    }

    private static func text(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: scalars)
        return String(text)
    }

    /// The scalar behind a colon: up to the end of the quotes or of the line; of a sequence, its elements. A mapping,
    /// an alias and a plain `${NAME}` are shown.
    private static func value(after colon: Int, in line: [Unicode.Scalar]) -> Range<Int>? {
        guard let start = line[(colon + 1)...].firstIndex(where: { $0 != " " && $0 != "\t" }) else { return nil }
        switch line[start] {
        case "{", "*", "#": return nil
        case "[":
            let end = line[start...].lastIndex(of: "]") ?? line.count
            return end > start + 1 ? (start + 1)..<end : nil
        case "\"", "'":
            let end = line[(start + 1)...].firstIndex(of: line[start]) ?? line.count - 1
            // An escaped or doubled quote ends the search too early: hide the rest then.
            let next = line[min(end + 1, line.count)...].first { $0 != " " }
            let isWhole = next == nil || next == "," || next == "}" || next == "]" || next == "#"
            return start..<(isWhole ? end + 1 : line.count)
        default:
            if isReference(text(line[start...])) { return nil }
            let end = line[start...].firstIndex { $0 == "," || $0 == "}" } ?? line.count
            let isFlow = line[..<start].contains("{")
            return start..<(isFlow ? max(end, start + 1) : line.count)
        }
    }

    /// `${NAME}` at the beginning, without a default.
    private static func isReference(_ text: String) -> Bool {
        guard text.hasPrefix("${"), let end = text.firstIndex(of: "}") else { return false }
        let after = text[text.index(after: end)...].first { $0 != " " }
        return !text[..<end].contains(":") && (after == nil || after == "," || after == "}" || after == "#")
    }

    /// `{{name}}`, or `${NAME}`.
    private static func isTemplate(_ text: String) -> Bool {
        guard text.hasPrefix("{{"), let end = text.firstRange(of: "}}") else { return isReference(text) }
        return text[end.upperBound...].allSatisfy { $0 == "}" || $0 == "]" || $0 == "," }
    }
}
