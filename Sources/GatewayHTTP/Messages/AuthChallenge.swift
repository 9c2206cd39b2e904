/// One challenge of a `WWW-Authenticate` field (RFC 9110 §11.6.1).
package struct AuthChallenge: Hashable, Sendable {
    /// Lower case: `basic`.
    package let scheme: String
    /// Names in lower case; a `token68` is left out.
    package var parameters: [String: String] = [:]

    package init(scheme: String, parameters: [String: String] = [:]) {
        self.scheme = scheme
        self.parameters = parameters
    }

    /// Every challenge of an answer, in order.
    package static func all(in head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> [AuthChallenge] {
        var challenges: [AuthChallenge] = []
        for field in head.fields where field.kind == .wwwAuthenticate {
            challenges += list(bytes.array(field.value))
        }
        return challenges
    }

    /// The scopes that the token of a request would need (RFC 6750 section 3.1): those of the first bearer challenge that says
    /// `insufficient_scope`. nil if there is none, or if it does not list scopes.
    ///
    /// A challenge may name `resource_metadata` as well. It is not used here: a client that follows it has to compare `resource` with
    /// what it asked for (RFC 9728 section 3.3), which happens when an MCP server is added, not while requests are answered.
    package static func missingScopes(in head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> [String]? {
        let challenge = all(in: head, bytes).first { $0.scheme == "bearer" && $0.isForScope }
        return challenge?.parameters["scope"].flatMap(ScopeToken.list)
    }

    /// The token lacks a scope (RFC 6750 section 3.1).
    package var isForScope: Bool { parameters["error"] == "insufficient_scope" }

    /// The challenges of one field value, up to what cannot be read.
    ///
    /// A field may hold several: a comma stands between challenges as well as between the parameters of one.
    package static func list(_ value: [UInt8]) -> [AuthChallenge] {
        var reader = ChallengeReader(value)
        return reader.read()
    }

    /// A challenge and where it stands in the field value, without the commas around it.
    struct Placed {
        let challenge: AuthChallenge
        let range: Range<Int>
    }

    /// The challenges of one field value; nil if a part of it cannot be read.
    static func placed(_ value: [UInt8]) -> [Placed]? {
        var reader = ChallengeReader(value)
        let challenges = reader.read()
        guard reader.isWellFormed else { return nil }
        return zip(challenges, reader.ranges).map { Placed(challenge: $0, range: $1) }
    }

    /// Every scheme that some reader could find in one field value, in lower case.
    ///
    /// What cannot be read is passed over.
    static func possibleSchemes(in value: [UInt8]) -> [String] {
        var reader = ChallengeReader(value, isLenient: true)
        return reader.read().map(\.scheme)
    }

    /// The first `error` of one field value, in lower case (RFC 6750 section 3).
    ///
    /// Also of a value that is not well formed: what cannot be read is passed over, and no scheme has to stand before.
    package static func errorCode(in value: [UInt8]) -> String? {
        var reader = ChallengeReader(value, isLenient: true)
        guard let error = reader.read().lazy.compactMap({ $0.parameters["error"] }).first else { return nil }
        let code = error.utf8.drop(while: \.isOptionalWhitespace).prefix(while: \.isTokenByte)
        return String(decoding: code, as: UTF8.self).lowercased()
    }
}

/// A scope as OAuth writes it (RFC 6749 section 3.3).
package enum ScopeToken {
    /// How many scopes a list may have, and how many bytes each of them.
    package static let (maximumCount, maximumBytes) = (64, 256)

    /// Visible ASCII without a quote and a backslash.
    package static func isValid(_ text: String) -> Bool {
        (1...maximumBytes).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
            }
    }

    /// The scopes of a list, without repetitions. nil if there are none, if there are too many, or if one of them is not a scope.
    package static func list(_ text: String) -> [String]? {
        let names = text.split(separator: " ").map(String.init)
        guard (1...maximumCount).contains(names.count), names.allSatisfy(isValid) else { return nil }
        return names.addingNew([])
    }
}

extension [String] {
    /// These and the others, each once and in the order in which they came.
    package func addingNew(_ others: [String]) -> [String] {
        var seen: Set<String> = []
        return (self + others).filter { seen.insert($0).inserted }
    }
}

private struct ChallengeReader {
    private let bytes: [UInt8]
    /// Passes over what it cannot read instead of ending there.
    private let isLenient: Bool
    private var position = 0
    /// Where the challenges that were read stand.
    private(set) var ranges: [Range<Int>] = []
    /// The value was read to its end.
    private(set) var isWellFormed = false

    init(_ bytes: [UInt8], isLenient: Bool = false) {
        self.bytes = bytes
        self.isLenient = isLenient
    }

    private var next: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func read() -> [AuthChallenge] {
        var challenges: [AuthChallenge] = []
        while true {
            skip(Self.isSeparator)
            let start = position
            guard let name = token() else {
                isWellFormed = next == nil
                guard isLenient, !isWellFormed else { return challenges }
                skipToSeparator()
                continue
            }
            let afterName = position
            skip(\.isOptionalWhitespace)
            if next == UInt8(ascii: "=") {
                if isLenient, challenges.isEmpty { add(AuthChallenge(scheme: ""), at: start, to: &challenges) }
                guard let last = challenges.indices.last, let value = parameterValue() else { return challenges }
                // The first of a name counts: a repetition must not change what was said.
                if challenges[last].parameters[name] == nil { challenges[last].parameters[name] = value }
            } else {
                add(AuthChallenge(scheme: name), at: start, to: &challenges)
                position = afterName
                skipToken68()
            }
            if let last = ranges.indices.last { ranges[last] = ranges[last].lowerBound..<position }
        }
    }

    private mutating func add(_ challenge: AuthChallenge, at start: Int, to challenges: inout [AuthChallenge]) {
        challenges.append(challenge)
        ranges.append(start..<position)
    }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while let next, isSkipped(next) { position += 1 }
    }

    private static func isSeparator(_ byte: UInt8) -> Bool { byte.isOptionalWhitespace || byte == UInt8(ascii: ",") }

    /// To the next separator outside of quotes.
    private mutating func skipToSeparator() {
        while let next, !Self.isSeparator(next) {
            if next == UInt8(ascii: "\"") { _ = quotedString() } else { position += 1 }
        }
    }

    private mutating func token() -> String? {
        let start = position
        skip(\.isTokenByte)
        return position == start ? nil : String(decoding: bytes[start..<position], as: UTF8.self).lowercased()
    }

    /// Behind a parameter's name: `=`, and a token or a quoted string.
    private mutating func parameterValue() -> String? {
        position += 1
        skip(\.isOptionalWhitespace)
        guard next != UInt8(ascii: "\"") else { return quotedString() }
        let start = position
        skip(\.isTokenByte)
        return position == start && !isLenient ? nil : String(decoding: bytes[start..<position], as: UTF8.self)
    }

    private mutating func quotedString() -> String? {
        position += 1
        var content: [UInt8] = []
        while let byte = next {
            position += 1
            if byte == UInt8(ascii: "\"") { return String(decoding: content, as: UTF8.self) }
            if byte == UInt8(ascii: "\\"), let quoted = next {
                content.append(quoted)
                position += 1
            } else {
                content.append(byte)
            }
        }
        return isLenient ? String(decoding: content, as: UTF8.self) : nil
    }

    /// `Negotiate YII…==`: characters of base 64 up to the next comma.
    private mutating func skipToken68() {
        let start = position
        skip(\.isOptionalWhitespace)
        let first = position
        skip { $0.isTokenByte || $0 == UInt8(ascii: "/") }
        skip { $0 == UInt8(ascii: "=") }
        let end = position
        skip(\.isOptionalWhitespace)
        guard end > first, next == nil || next == UInt8(ascii: ",") else { return position = start }
    }
}

/// Schemes that authenticate a connection instead of each request on it (RFC 4559, MS-NTHT).
///
/// Upstream connections are pooled: the next client would be answered as the one that authenticated.
package enum ConnectionAuthentication {
    /// In lower case.
    private static let words: [StaticString] = ["ntlm", "negotiate", "kerberos", "nego2", "pku2u", "credssp"]
    private static let schemes = Set(words.map { "\($0)" })

    // MARK: Answers

    /// A value of `WWW-Authenticate` or `Proxy-Authenticate` without the challenges of these schemes.
    ///
    /// A value that names one of them and cannot be read is dropped.
    package static func rewrite(challenges value: [UInt8]) -> FieldRewrite {
        guard names(value) else { return .unchanged }
        guard let challenges = AuthChallenge.placed(value) else { return .dropped }
        // What stands as the name of a parameter is a scheme to some readers.
        let isAmbiguous = challenges.contains { !schemes.isDisjoint(with: $0.challenge.parameters.keys) }
        guard !isAmbiguous else { return .dropped }
        let kept = challenges.filter { !schemes.contains($0.challenge.scheme) }
        guard kept.count < challenges.count else { return .unchanged }
        guard !kept.isEmpty else { return .dropped }
        return .replaced(Array(kept.map { value[$0.range] }.joined(separator: ", ".utf8)))
    }

    // MARK: Requests

    /// Whether `Authorization` or `Proxy-Authorization` has credentials of such a scheme.
    package static func isUsed(by head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        guard head.present.contains(.authorization) || head.present.contains(.proxyAuthorization) else { return false }
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            guard field.kind == .authorization || field.kind == .proxyAuthorization else { continue }
            if isUsed(by: bytes.array(field.value)) { return true }
        }
        return false
    }

    /// - Parameter credentials: The value of one field.
    package static func isUsed(by credentials: [UInt8]) -> Bool {
        guard names(credentials) else { return false }
        return AuthChallenge.possibleSchemes(in: credentials).contains { schemes.contains($0) }
    }

    // MARK: Both

    /// Whether a scheme's name stands anywhere in the value: without it, no reader can find the scheme.
    private static func names(_ value: [UInt8]) -> Bool {
        let span = value.span
        for word in words where span.containsLowercased(value.indices, word) { return true }
        return false
    }
}
