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
        /// - Parameter dropsLineBreaks: As `-d @FILE` does, other than `--data-binary @FILE`.
        case file(String, dropsLineBreaks: Bool)
    }

    package var method: String
    package var url: RequestURL
    /// Without `Host`, framing and what a proxy is told.
    package var fields: [Field] = []
    /// In the place of the URL's authority.
    package var host: String?
    /// In the place of the URL's path and query.
    package var target: String?
    package var content: [Part] = []
    package var isHTTP10 = false
    /// The authority of the proxy that the client is told to use.
    package var proxy: String?
    /// The unix socket that the client is told to connect to.
    package var socket: String?
    /// What somebody should know of how the input was read.
    package var remarks: [String] = []

    package init(method: String = "GET", url: RequestURL) {
        self.method = method
        self.url = url
    }

    /// nil where a file has to be read to know it.
    package var contentLength: Int? {
        var length = 0
        for part in content {
            guard case .text(let text) = part else { return nil }
            length += text.utf8.count
        }
        return length
    }

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
    package init(_ text: String) throws(ExplainInputError) {
        guard !text.isEmpty else { throw ExplainInputError("There is no URL.") }
        guard text.unicodeScalars.allSatisfy({ $0.value > 0x20 && $0.value != 0x7F }) else {
            throw ExplainInputError("A URL has no blanks and no control characters: write %20 for a blank.")
        }
        var rest = text.prefix { $0 != "#" }
        if let end = rest.firstRange(of: "://") {
            let name = rest[..<end.lowerBound].lowercased()
            guard let known = Origin.Scheme(rawValue: name) else {
                throw ExplainInputError("The gateway forwards http and https, not \(ShownText.clean(name)).")
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
        guard scheme == nil || !authority.isEmpty else { throw ExplainInputError("The URL names no host.") }
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

/// Why an input cannot be explained: one sentence.
package struct ExplainInputError: Error, Hashable, Sendable {
    package let message: String
    package init(_ message: String) { self.message = message }
}
