/// The words of a command line, as a POSIX shell splits it. Nothing is expanded.
package struct ShellWords: Hashable, Sendable {
    /// Why a shell would wait for more of the line.
    package enum Failure: Error, Hashable, Sendable {
        /// A quotation mark has no partner.
        case openQuote(Character)
    }

    package private(set) var words: [String] = []
    /// Names behind `$`, for which a shell would put in a value.
    package private(set) var variables: [String] = []
    /// What ends the command: `|`, `;`, `&`, `<` or `>`. The rest is not read.
    package private(set) var end: Character?

    private var word = ""
    private var hasWord = false

    package init(_ text: String) throws(Failure) {
        // A line break of Windows is one character to Swift.
        var rest = Array(text.replacing("\r\n", with: "\n"))[...]
        while let character = rest.popFirst() {
            switch character {
            case "'": append(try Self.quoted(by: "'", &rest))
            case "\"": try readDoubleQuoted(&rest)
            case "\\": readEscape(&rest)
            case "$" where rest.first == "'":
                rest.removeFirst()
                try readEscapedQuote(&rest)
            case "$":
                noteVariable(rest)
                append("$")
            case " ", "\t", "\n": finishWord()
            case "#" where !hasWord: rest = rest.drop { $0 != "\n" }
            case "|", ";", "&", "<", ">":
                end = character
                rest = []
            default: append(String(character))
            }
        }
        finishWord()
    }

    private mutating func append(_ text: String) {
        word += text
        hasWord = true
    }

    private mutating func finishWord() {
        if hasWord { words.append(word) }
        (word, hasWord) = ("", false)
    }

    /// What stands before the next `mark`.
    private static func quoted(by mark: Character, _ rest: inout ArraySlice<Character>) throws(Failure) -> String {
        guard let end = rest.firstIndex(of: mark) else { throw .openQuote(mark) }
        defer { rest = rest[(end + 1)...] }
        return String(rest[..<end])
    }

    /// A line that ends with a backslash goes on in the next one.
    private mutating func readEscape(_ rest: inout ArraySlice<Character>) {
        guard let next = rest.popFirst() else { return append("\\") }
        if next != "\n" { append(String(next)) }
    }

    private mutating func readDoubleQuoted(_ rest: inout ArraySlice<Character>) throws(Failure) {
        append("")
        while let character = rest.popFirst() {
            switch character {
            case "\"": return
            case "\\":
                guard let next = rest.popFirst() else { throw .openQuote("\"") }
                if next == "\n" { continue }
                append("\"\\$`".contains(next) ? String(next) : "\\\(next)")
            case "$":
                noteVariable(rest)
                append("$")
            default: append(String(character))
            }
        }
        throw .openQuote("\"")
    }

    /// `$'…'`, as browsers copy a command: backslashes are read as in C.
    private mutating func readEscapedQuote(_ rest: inout ArraySlice<Character>) throws(Failure) {
        append("")
        while let character = rest.popFirst() {
            switch character {
            case "'": return
            case "\\":
                guard let next = rest.popFirst() else { throw .openQuote("'") }
                append(Self.escape(next, &rest))
            default: append(String(character))
            }
        }
        throw .openQuote("'")
    }

    private static func escape(_ kind: Character, _ rest: inout ArraySlice<Character>) -> String {
        switch kind {
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "x": return scalar(&rest, digits: 2) ?? "\\x"
        case "u": return scalar(&rest, digits: 4) ?? "\\u"
        default: return String(kind)
        }
    }

    private static func scalar(_ rest: inout ArraySlice<Character>, digits: Int) -> String? {
        let text = String(rest.prefix(digits).prefix { $0.isHexDigit })
        guard let value = UInt32(text, radix: 16), let scalar = Unicode.Scalar(value) else { return nil }
        rest.removeFirst(text.count)
        return String(scalar)
    }

    private mutating func noteVariable(_ rest: ArraySlice<Character>) {
        let isBraced = rest.first == "{"
        let name = String((isBraced ? rest.dropFirst() : rest).prefix { $0.isLetter || $0.isNumber || $0 == "_" })
        guard let first = name.first, !first.isNumber, !variables.contains(name) else { return }
        variables.append(name)
    }
}

/// Text as one word of a POSIX shell, for commands that people copy.
package enum ShellWord {
    package static func quoted(_ text: String) -> String {
        guard text.isEmpty || !text.utf8.allSatisfy(isPlain) else { return text }
        return "'\(text.replacing("'", with: "'\\''"))'"
    }

    /// Begins a command that sends a bearer token from a file. It ends with `curl -H @-` and more words: every user of the machine can read
    /// the arguments of programs, and `printf` is none.
    ///
    /// - Parameter file: The path, or a placeholder for it.
    package static func bearer(from file: String) -> String {
        "printf 'Authorization: Bearer %s\\n' \"$(cat \(quoted(file)))\" | "
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: Array("-._/:@%+=,".utf8).contains(byte)
        }
    }
}

/// Commands of this program that people copy into a shell.
package enum GatewayCommand {
    /// `authgateway token clear box`. Each word is quoted where a shell would read something into it: names of tokens hold what
    /// requests and registries send.
    package static func line(_ words: String...) -> String { line(words) }

    package static func line(_ words: [String]) -> String {
        (["authgateway"] + words).map(ShellWord.quoted).joined(separator: " ")
    }
}
