package import GatewayHTTP

/// What somebody asks about: `URL`, `METHOD URL`, a curl command, or the id of a request.
package enum ExplainInput: Hashable, Sendable {
    case request(DescribedRequest)
    case requestID(String)

    /// The longest input, in bytes.
    package static let limit = 64 << 10

    /// - Parameter knowsHost: Whether a word without a path is the name of a host. It is an id otherwise.
    package init(_ text: String, knowsHost: (String) -> Bool = { _ in false }) throws(UnusableInput) {
        guard text.utf8.count <= Self.limit else { throw UnusableInput("The input is larger than 64 KiB.") }
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

    private static func command(_ text: String) throws(UnusableInput) -> DescribedRequest {
        let split: ShellWords
        do throws(ShellWords.Failure) {
            // A prompt of root is a comment to a shell.
            split = try ShellWords(String(text.drop { $0 == "#" || $0.isWhitespace }))
        } catch {
            throw UnusableInput(words(for: error))
        }
        let words = split.words.drop { $0 != "curl" && !$0.hasSuffix("/curl") }.dropFirst()
        var request = try CurlCommand.request(words)
        request.remarks += remarks(on: split)
        return request
    }

    private init(words: [String], _ knowsHost: (String) -> Bool) throws(UnusableInput) {
        switch words.count {
        case 0: throw UnusableInput("There is nothing to explain: \(Self.usage)")
        case 1 where Self.isID(words[0]) && !Self.isHost(words[0], knowsHost): self = .requestID(words[0])
        case 1: self = .request(DescribedRequest(url: try RequestURL(words[0])))
        case 2 where Self.isMethod(words[0]):
            self = .request(DescribedRequest(method: words[0], url: try RequestURL(words[1])))
        default: throw UnusableInput("This is neither a URL nor a request: \(Self.usage)")
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
        case .openQuote(let mark): "The quotation mark \(mark) is never closed."
        }
    }

    private static func remarks(on split: ShellWords) -> [String] {
        var remarks: [String] = []
        if !split.variables.isEmpty {
            let names = split.variables.prefix(5).map { "$\(ShownText.clean($0, limit: 40))" }.joined(separator: ", ")
            remarks.append("\(names) is used literally: no shell has expanded it.")
        }
        if let end = split.end {
            let advice = end == "&" ? " Put the URL in quotation marks if the & belongs to it." : ""
            remarks.append("A shell would end the command at the \(end), so the rest was ignored.\(advice)")
        }
        return remarks
    }
}

/// A request that somebody asks about: from a URL, or from a curl command.
package struct DescribedRequest: Hashable, Sendable {
    package struct Field: Hashable, Sendable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// A part of the content, as curl puts it together.
    package enum Part: Hashable, Sendable {
        case text(String)
        /// - Parameter dropsLineBreaks: Whether line breaks are removed, as `-d @FILE` does and `--data-binary @FILE` does not.
        case file(String, dropsLineBreaks: Bool)
    }

    package var method = "GET"
    package var url: RequestURL
    /// Without `Host`, framing and what a proxy is told.
    package var fields: [Field] = []
    /// The host that is used instead of the URL's authority.
    package var host: String?
    /// The target that is used instead of the URL's path and query.
    package var target: String?
    package var content: [Part] = []
    var isHTTP10 = false
    /// The authority of the proxy that the client is told to use.
    package var proxy: String?
    /// The unix socket that the client is told to connect to.
    package var socket: String?
    /// What somebody should know of how the input was read.
    package var remarks: [String] = []

    /// nil where a file has to be read to know it.
    var body: [UInt8]? {
        var body: [UInt8] = []
        for part in content {
            guard case .text(let text) = part else { return nil }
            body += text.utf8
        }
        return body
    }

    /// nil where a file has to be read to know it.
    package var contentLength: Int? { body?.count }

    /// The files that the content is made of.
    package var files: [String] {
        content.compactMap { part in
            guard case .file(let path, _) = part else { return nil }
            return path
        }
    }
}

/// The parts of a URL that a request is made of.
package struct RequestURL: Hashable, Sendable {
    /// nil where none was written.
    package var scheme: Origin.Scheme?
    /// `host[:port]`, as it was written; empty where only a path was.
    package var authority: String
    /// Begins with `/`, or is empty.
    package var path: String
    /// With its `?`, or empty.
    package var query: String
    /// `user:password` before the host; clients send it as `Basic`.
    package var userInfo: String?

    /// - Throws: A sentence that says what is wrong.
    package init(_ text: String) throws(UnusableInput) {
        guard !text.isEmpty else { throw UnusableInput("There is no URL.") }
        guard text.unicodeScalars.allSatisfy({ $0.value > 0x20 && $0.value != 0x7F }) else {
            throw UnusableInput("A URL cannot contain spaces or control characters: write %20 for a space.")
        }
        var rest = text.prefix { $0 != "#" }
        if let end = rest.firstRange(of: "://") {
            let name = rest[..<end.lowerBound].lowercased()
            guard let known = Origin.Scheme(rawValue: name) else {
                throw UnusableInput("The gateway forwards http and https, not \(ShownText.clean(name)).")
            }
            scheme = known
            rest = rest[end.upperBound...]
        }
        var authority = rest.prefix { $0 != "/" && $0 != "?" }
        rest = rest[authority.endIndex...]
        if let at = authority.lastIndex(of: "@") {
            userInfo = String(authority[..<at])
            authority = authority[authority.index(after: at)...]
        }
        self.authority = String(authority)
        guard scheme == nil || !authority.isEmpty else { throw UnusableInput("The URL names no host.") }
        path = String(rest.prefix { $0 != "?" })
        query = String(rest.drop { $0 != "?" })
    }

    /// The host without its port and without brackets, in lower case; empty where only a path was written.
    package var host: String { origin?.host ?? "" }

    package var origin: Origin? { Origin(scheme: scheme ?? .http, authority: authority) }

    /// Without the query, which may hold a secret.
    package var shown: String {
        (scheme.map { "\($0.rawValue)://" } ?? "") + authority + path + (query.isEmpty ? "" : "?…")
    }
}
