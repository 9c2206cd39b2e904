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
