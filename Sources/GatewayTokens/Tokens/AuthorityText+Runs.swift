import GatewayHTTP

/// Finds in the words of a text what may be a token or another secret that the gateway does not know.
extension AuthorityText {
    /// Shorter runs are no tokens by themselves.
    static let runLimit = 20

    static func maskingRuns(in words: [String]) -> [String] {
        var shown: [String] = []
        var before: [String] = []
        for word in words {
            shown.append(masked(word, after: before))
            before = (before + [word]).suffix(2)
        }
        return shown
    }

    /// - Parameter before: The two words before it.
    private static func masked(_ word: String, after before: [String]) -> String {
        let names = before.map(name)
        if let last = before.last, isSecret(word, namedBy: name(last), isAssigned: isAssigned(by: last)) {
            return hidden
        }
        var (result, run) = ("", "")
        // The run before a sign of assignment, and whether there was such a sign.
        var (key, isAssigned) = ("", false)
        func end() {
            guard !run.isEmpty else { return }
            let isValue = isAssigned && isSecret(run, namedBy: key.lowercased(), isAssigned: true)
            result += !isValue && shows(run, after: names + [key.lowercased()]) ? run : hidden
            (key, isAssigned, run) = (run, false, "")
        }
        for character in word {
            if let byte = character.asciiValue, byte.isRunByte {
                run.append(character)
            } else {
                end()
                if character == "=" || character == ":" { isAssigned = true }
                result.append(character)
            }
        }
        end()
        return result
    }

    /// Without punctuation, in lower case.
    private static func name(_ word: String) -> String {
        String(
            String.UnicodeScalarView(
                word.lowercased().unicodeScalars.filter { $0.properties.isAlphabetic || $0 == "_" }
            )
        )
    }

    /// `"password": x` and `password= x` assign; `invalid token: x` explains.
    private static func isAssigned(by word: String) -> Bool {
        ["\":", "':", "="].contains { word.hasSuffix($0) }
    }

    /// - Parameter isAssigned: Whether it is the value of the name, as in `token=x`.
    private static func isSecret(_ text: String, namedBy name: String, isAssigned: Bool) -> Bool {
        // That of a login is one; that of an error mostly is a number.
        if name == "code" { return isAssigned && looksLikeSecret(text) }
        return isSecretName(name) && (isAssigned || looksLikeSecret(text))
    }

    private static func isSecretName(_ name: String) -> Bool {
        SecretMask.isSensitive(name) || secretNames.contains(name)
    }

    private static let secretNames: Set<String> = [
        "basic", "digest", "jwt", "signature", "sig", "session", "sid",
    ]

    /// Letters and digits together: a word has no digits, and a number tells nothing.
    private static func looksLikeSecret(_ text: String) -> Bool {
        let bytes = text.utf8.filter { $0.isDigit || $0.isASCIILetter }
        return bytes.count >= 6 && bytes.contains(where: \.isDigit) && bytes.contains(where: \.isASCIILetter)
            && !bytes.starts(with: "AADSTS".utf8)
    }

    private static func shows(_ run: String, after names: [String]) -> Bool {
        run.utf8.count < runLimit || readsLikeWords(run) || isTrace(run, after: names)
    }

    // MARK: Exceptions

    /// `unsupported_grant_type`, `login.example.com/oauth2/token`, `InvalidAuthenticationToken`: words of at most 15 letters,
    /// with at most two digits behind each.
    ///
    /// A word begins at a separator, or with a capital and three small letters. No random text is made of such words only.
    private static func readsLikeWords(_ run: String) -> Bool {
        let parts = run.utf8.split { $0.isSeparator }
        return !parts.isEmpty && parts.allSatisfy { isWords($0) }
    }

    private static func isWords(_ part: Substring.UTF8View) -> Bool {
        var rest = part
        while let word = word(at: rest, isFirst: rest.startIndex == part.startIndex) { rest = rest.dropFirst(word) }
        return rest.isEmpty
    }

    /// The length of the word that `text` begins with; nil where it begins with none.
    private static func word(at text: Substring.UTF8View, isFirst: Bool) -> Int? {
        let upper = text.prefix { $0.isUpper }.count
        let lower = text.dropFirst(upper).prefix { $0.isLower }.count
        let digits = text.dropFirst(upper + lower).prefix { $0.isDigit }.count
        let isWord =
            switch (upper, lower) {
            case (1, 3...15): true
            case (0...1, 1...15), (1...10, 0): isFirst
            case (0, 0): isFirst && digits > 0
            default: false
            }
        return isWord && digits <= 2 ? upper + lower + digits : nil
    }

    /// A GUID that the words before call the number of a trace, a request, an application or a tenant. Another can be a token.
    private static func isTrace(_ run: String, after names: [String]) -> Bool {
        let groups = run.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        guard groups.map(\.count) == [8, 4, 4, 4, 12], groups.allSatisfy({ $0.allSatisfy(\.isHexDigit) }) else {
            return false
        }
        let near = names.filter { !$0.isEmpty }.suffix(2)
        return near.contains(where: traceWords.contains) && !near.contains(where: isSecretName)
    }

    private static let traceWords: Set<String> = [
        "trace", "correlation", "request", "app", "application", "tenant", "directory", "identifier", "client_id",
        "trace_id", "correlation_id", "request_id", "traceid", "correlationid", "requestid",
    ]
}

extension UInt8 {
    fileprivate var isUpper: Bool { (0x41...0x5A).contains(self) }
    fileprivate var isLower: Bool { (0x61...0x7A).contains(self) }
    fileprivate var isASCIILetter: Bool { isUpper || isLower }
    fileprivate var isSeparator: Bool { "-._/~".utf8.contains(self) }
    fileprivate var isRunByte: Bool { isASCIILetter || isDigit || isSeparator || "+%".utf8.contains(self) }
}
