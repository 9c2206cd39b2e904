/// What somebody asks about: `URL`, `METHOD URL`, a curl command, or the id of a request.
package enum ExplainInput: Hashable, Sendable {
    case request(DescribedRequest)
    case requestID(String)

    /// The longest input, in bytes.
    package static let limit = 64 << 10

    /// - Parameter knowsHost: Whether a word without a path is the name of a host. It is an id otherwise.
    package init(_ text: String, knowsHost: (String) -> Bool = { _ in false }) throws(ExplainInputError) {
        guard text.utf8.count <= Self.limit else { throw ExplainInputError("The input has more than 64 KiB.") }
        // Only in a command does a shell read quotation marks and ampersands.
        let words = text.split { $0 == " " || $0 == "\t" || $0.isNewline }.map(String.init)
        // A line may have been copied with its prompt, or with variables before the command.
        let start = words.firstIndex { $0 == "curl" || $0.hasSuffix("/curl") }
        if let start, words[..<start].allSatisfy({ $0 == "$" || $0 == "%" || $0 == "#" || Self.isAssignment($0) }) {
            self = .request(try Self.command(text))
        } else {
            try self.init(words: words, knowsHost)
        }
    }

    private static func command(_ text: String) throws(ExplainInputError) -> DescribedRequest {
        let split: ShellWords
        do throws(ShellWords.Failure) {
            // A prompt of root is a comment to a shell.
            split = try ShellWords(String(text.drop { $0 == "#" || $0.isWhitespace }))
        } catch {
            throw ExplainInputError(words(for: error))
        }
        let words = split.words.drop { $0 != "curl" && !$0.hasSuffix("/curl") }.dropFirst()
        var request = try CurlCommand.request(words)
        request.remarks += remarks(on: split)
        return request
    }

    private init(words: [String], _ knowsHost: (String) -> Bool) throws(ExplainInputError) {
        switch words.count {
        case 0: throw ExplainInputError("There is nothing to explain: \(Self.usage)")
        case 1 where Self.isID(words[0]) && !Self.isHost(words[0], knowsHost): self = .requestID(words[0])
        case 1: self = .request(DescribedRequest(url: try RequestURL(words[0])))
        case 2 where Self.isMethod(words[0]):
            self = .request(DescribedRequest(method: words[0], url: try RequestURL(words[1])))
        default: throw ExplainInputError("This is neither a URL nor a request: \(Self.usage)")
        }
    }

    private static let usage = "give a URL, METHOD URL, a curl command or the id of a request."

    private static func isHost(_ word: String, _ knowsHost: (String) -> Bool) -> Bool {
        word.lowercased() == "localhost" || Origin(scheme: .http, authority: word)?.isIPv4 ?? false || knowsHost(word)
    }

    /// Letters, digits, `-`, `_` and `.`, as in the ids that the gateway gives and takes.
    private static func isID(_ word: String) -> Bool {
        (1...64).contains(word.utf8.count)
            && word.utf8.allSatisfy { $0.isDigit || ($0 | 0x20) &- 0x61 < 26 || [0x2D, 0x2E, 0x5F].contains($0) }
    }

    private static func isMethod(_ word: String) -> Bool {
        !word.isEmpty && word.utf8.allSatisfy { $0.isTokenByte } && !word.contains(".")
    }

    private static func isAssignment(_ word: String) -> Bool {
        let name = word.prefix { $0 != "=" }
        return name.count < word.count && !name.isEmpty
            && name.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
    }

    private static func words(for failure: ShellWords.Failure) -> String {
        switch failure {
        case .openQuote(let mark): "The quotation mark \(mark) is opened and not closed."
        }
    }

    private static func remarks(on split: ShellWords) -> [String] {
        var remarks: [String] = []
        if !split.variables.isEmpty {
            let names = split.variables.prefix(5).map { "$\(ShownText.clean($0, limit: 40))" }.joined(separator: ", ")
            remarks.append("\(names) stands for itself: no shell has put its value in.")
        }
        if let end = split.end {
            let advice = end == "&" ? " Put the URL in quotation marks if the & belongs to it." : ""
            remarks.append("A shell ends the command at the \(end), and so does this.\(advice)")
        }
        return remarks
    }
}
