package import GatewayHTTP

/// Makes what an authorization server wrote fit for operators: one printable line, bounded, without secrets.
///
/// Authorization servers repeat what they were sent, and they write tokens into sentences. Three rules apply:
/// - A secret of the request is hidden wherever it stands, also percent-encoded, in base64 or in another case. So is a long part of it:
///   authorization servers cut what they repeat.
/// - A run of 20 or more characters that tokens are made of is hidden, unless it reads like words or is the number of a trace.
/// - What stands behind a name such as `token=` or `password` is hidden if it looks like a secret.
///
/// If a secret could be guessed from the gap that it leaves, nothing of the text is shown.
package struct AuthorityText: Sendable {
    package static let limit = 256
    package static let hidden = "‹hidden›"
    static let allHidden = "‹hidden: it repeats a secret›"

    /// How much of a text is looked at.
    static let inputLimit = 4096

    private let secrets: [HiddenSecret]
    /// So much of the end of a text that was cut may be the beginning of a secret.
    private let longest: Int

    package init(hiding secrets: [Secret]) {
        self.secrets = secrets.compactMap { HiddenSecret($0) }
        longest = self.secrets.map(\.longest).max() ?? 0
    }

    /// - Parameters:
    ///   - limit: The number of characters that are shown at most.
    ///   - isCut: The text went on.
    /// - Returns: nil when there is nothing to show.
    package func shown(_ text: String, limit: Int = limit, isCut: Bool = false) -> String? {
        let words = words(text, isCut: isCut)
        guard !words.isEmpty else { return nil }
        guard !isRepeated(in: words.joined(separator: " "), where: \.isGuessable) else { return Self.allHidden }
        let masked = Self.maskingRuns(in: words.map { isRepeated(in: $0) ? Self.hidden : $0 })
        let line = masked.joined(separator: " ")
        // One that has spaces in it, or that only the whole spells.
        guard !isRepeated(in: line) else { return Self.allHidden }
        return line.count > limit ? line.prefix(limit) + "…" : line
    }

    private func isRepeated(in text: String, where isMeant: (HiddenSecret) -> Bool = { _ in true }) -> Bool {
        guard let variants = HiddenSecret.variants(of: text) else { return true }
        return secrets.contains { isMeant($0) && $0.isRepeated(in: variants) }
    }

    /// The text without what is not printable. At the end of one that was cut, all words are dropped that may be a part of a secret.
    private func words(_ text: String, isCut: Bool) -> [String] {
        let scalars = text.unicodeScalars.prefix(Self.inputLimit)
        var words: [String] = [""]
        var whole = 0
        let end = scalars.count - longest
        for (index, scalar) in scalars.enumerated() {
            if scalar.properties.isWhitespace || !scalar.isHarmless || scalar == "\u{FFFD}" {
                if words.last != "" { words.append("") }
            } else {
                if words.last == "", index < end { whole = words.count }
                words[words.count - 1].unicodeScalars.append(scalar)
            }
        }
        if isCut || scalars.endIndex < text.unicodeScalars.endIndex {
            // The last word may be a part of one that is no secret, too.
            words.removeSubrange(min(whole, words.count - 1)...)
        }
        return words.filter { !$0.isEmpty }
    }
}

/// A secret in the forms in which a text may repeat it.
struct HiddenSecret: Sendable {
    /// Folded, as ``fold(_:)`` does it.
    private let forms: [SecretBytes]
    /// Each longer part of a form contains one of these.
    private let parts: [SecretBytes]
    /// Short, or a word: its gap in a sentence would tell it.
    let isGuessable: Bool
    /// So short that it stands in many words by chance.
    private let isWholeWord: Bool

    /// The length of the longest form in characters, percent-encoded.
    let longest: Int

    init?(_ secret: Secret) {
        guard !secret.isEmpty else { return nil }
        let bytes = secret.withValue { Array($0.utf8) }
        let encoded = [Base64.encode(bytes), Base64.encodeURL(bytes)].map { Self.fold(Array($0.utf8)) }
        let unpadded = encoded.map { Array($0.reversed().drop { $0 == UInt8(ascii: "=") }.reversed()) }
        let inMarkup = secret.withValue { Self.fold(Array(Self.escaped($0).utf8)) }
        let forms = [Self.fold(bytes), inMarkup] + (bytes.count < 4 ? [] : unpadded)
        self.forms = forms.map { SecretBytes($0) }
        longest = 3 * (forms.map(\.count).max() ?? 0)
        parts = Self.isAddress(forms[0]) ? [] : forms.flatMap(Self.parts).map { SecretBytes($0) }
        isGuessable = bytes.count < 8 || bytes.allSatisfy(\.isLetter)
        isWholeWord = bytes.count < 4
    }

    /// The text as HTML and XML write it.
    private static func escaped(_ text: String) -> String {
        [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;")].reduce(text) { $0.replacing($1.0, with: $1.1) }
    }

    /// Many texts name the same host.
    private static func isAddress(_ form: [UInt8]) -> Bool { form.starts(with: "http".utf8) && form.contains(0x3A) }

    /// Parts of a form with 16 bytes or more: as long as a quarter to a half of it, each begun in the middle of the one before. What
    /// could be words is left out.
    private static func parts(of form: [UInt8]) -> [[UInt8]] {
        guard form.count >= 16 else { return [] }
        let length = form.count < 32 ? 8 : 12
        return stride(from: 0, through: form.count - length, by: length / 2)
            .map { Array(form[$0..<($0 + length)]) }
            .filter { !$0.allSatisfy { $0.isLetter || $0 == 0x20 || "-_.".utf8.contains($0) } }
    }

    func isRepeated(in variants: [[UInt8]]) -> Bool {
        (forms + parts).contains { form in
            form.withValue { form in variants.contains { Self.contains(form, in: $0, isWholeWord: isWholeWord) } }
        }
    }

    private static func contains(_ word: [UInt8], in text: [UInt8], isWholeWord: Bool) -> Bool {
        guard word.count <= text.count, let first = word.first else { return false }
        return (0...text.count - word.count).contains { start in
            guard text[start] == first, text[start...].starts(with: word) else { return false }
            guard isWholeWord else { return true }
            let end = start + word.count
            return (start == 0 || !text[start - 1].isWordByte) && (end == text.count || !text[end].isWordByte)
        }
    }

    /// Who encodes a text more often than this hides something.
    static let maximumDecodings = 8

    /// The text as it is, and with its percent-encoding undone as often as there is one; nil when that is too often.
    static func variants(of text: String) -> [[UInt8]]? {
        var bytes = Array(text.utf8)
        var variants = [fold(bytes)]
        for _ in 0..<maximumDecodings {
            let decoded = PercentEncoding.decodeLeniently(bytes.span, 0..<bytes.count)
            guard decoded.count < bytes.count else { return variants }
            bytes = decoded
            variants.append(fold(bytes))
        }
        return nil
    }

    /// Lower case, `+` as the space that it can mean in a form, and without the backslashes of a quoted string.
    static func fold(_ text: [UInt8]) -> [UInt8] {
        text.filter { $0 != UInt8(ascii: "\\") }.map { $0 == UInt8(ascii: "+") ? 0x20 : $0.asciiLowercased }
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { (0x61...0x7A).contains(asciiLowercased) }
    fileprivate var isWordByte: Bool { isLetter || isDigit || self == UInt8(ascii: "_") || self >= 0x80 }
}

/// Finds in the words of a text what may be a token or another secret that the gateway does not know.
extension AuthorityText {
    /// Shorter runs are no tokens by themselves.
    static let runLimit = 20

    private static func maskingRuns(in words: [String]) -> [String] {
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

    /// The word without punctuation, in lower case.
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
        // The code of a login is a secret; that of an error is mostly a number.
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
