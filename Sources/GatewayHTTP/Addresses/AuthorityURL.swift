/// An absolute URL of an authority: `https`, or `http` on loopback.
package struct AuthorityURL: Hashable, Sendable, CustomStringConvertible {
    package let text: String
    package let origin: Origin
    private let shown: String?

    package enum Refusal: Error, Hashable, Sendable {
        /// - Parameter hint: `; did you mean "https://"?`, or nothing.
        case notAbsolute(hint: String)
        case plaintext
        case hasUserInfo
        case hasFragment
        /// ``Origin/isRootedAddress``
        case rootedAddress
    }

    /// - Parameter shown: What is printed in its place, when `text` may hold a secret outside of the query.
    package init(_ text: String, shownAs shown: String? = nil) throws(Refusal) {
        func notAbsolute() -> Refusal { .notAbsolute(hint: Suggestion.scheme(of: text)) }
        guard let separator = text.firstRange(of: "://") else { throw notAbsolute() }
        let scheme = text[..<separator.lowerBound].lowercased()
        guard scheme == "https" || scheme == "http" else { throw notAbsolute() }
        let rest = text[separator.upperBound...]
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw notAbsolute()
        }
        guard !text.contains("#") else { throw .hasFragment }
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        guard !authority.contains("@") else { throw .hasUserInfo }
        guard let origin = Origin(scheme: scheme == "https" ? .https : .http, authority: String(authority)) else {
            throw notAbsolute()
        }
        guard !origin.isRootedAddress else { throw .rootedAddress }
        guard scheme == "https" || origin.isLoopback else { throw .plaintext }
        self.text = text
        self.origin = origin
        self.shown = shown
    }

    /// ``text`` without the dot of the root behind the host: neither certificates nor TLS have it (RFC 6066 section 3).
    package var unrootedText: String {
        guard origin.lookupName != origin.host, let start = text.firstRange(of: "://")?.upperBound else { return text }
        let end = text[start...].firstIndex { $0 == ":" || $0 == "/" || $0 == "?" } ?? text.endIndex
        return String(text[..<end].dropLast()) + text[end...]
    }

    /// The query is left out: it may carry a secret.
    package var description: String { String((shown ?? text).prefix { $0 != "?" }) }
}
