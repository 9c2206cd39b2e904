/// The `upstream` of a route: where its requests go, and what stands before their path.
package struct UpstreamURL {
    package let origin: Origin
    /// Empty, or with a slash at the beginning and none at the end.
    package let path: String

    package init(_ text: String) throws(UnusableInput) {
        guard let separator = text.firstRange(of: "://"),
            let scheme = Origin.Scheme(rawValue: text[..<separator.lowerBound].lowercased())
        else { throw UnusableInput("expected a URL such as https://api.example.com\(Suggestion.scheme(of: text))") }
        let rest = text[separator.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard !authority.contains("@") else {
            throw UnusableInput("must not contain a user name or password; use \"auth: {strategy: basic, …}\"")
        }
        guard let origin = Origin(scheme: scheme, authority: String(authority)) else {
            let host = authority.prefix { $0 != ":" }
            if let name = Punycode.hostName(String(host)) {
                let ascii = name + authority[host.endIndex...]
                throw UnusableInput("must have its host in ASCII, as in DNS: \(scheme.rawValue)://\(ascii)")
            }
            throw UnusableInput("has no valid host and port")
        }
        guard !origin.isRootedAddress else {
            throw UnusableInput("must not have a dot at the end of an address or a loopback name")
        }
        let path = rest[authority.endIndex...]
        guard !path.contains("?"), !path.contains("#") else {
            throw UnusableInput("must not contain a query or a fragment")
        }
        guard let canonical = RoutePath.canonical(String(path)) else {
            throw UnusableInput("has a path with empty segments, dot segments or percent-encoding")
        }
        self.origin = origin
        self.path = canonical == "/" ? "" : canonical
    }
}

/// Paths as they stand in the configuration.
package enum RoutePath {
    /// Without a slash at the end, `/` for the root; nil when two spellings could mean the same.
    package static func canonical(_ text: String) -> String? {
        guard !text.isEmpty, text != "/" else { return "/" }
        guard text.hasPrefix("/") else { return nil }
        let trimmed = text.hasSuffix("/") ? text.dropLast() : text[...]
        let segments = trimmed.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
        for segment in segments {
            guard !segment.isEmpty, segment != ".", segment != ".." else { return nil }
            // `;` and `*` mean something to servers and to rules.
            guard segment.utf8.allSatisfy({ $0.isPathCharacter && $0 != 0x2A && $0 != 0x3B }) else { return nil }
        }
        return String(trimmed)
    }
}

extension UInt8 {
    /// May stand in a path without being encoded (RFC 3986 section 3.3); the slash between segments included.
    package var isPathCharacter: Bool {
        switch self {
        // & ' ( ) * + , - . / and the digits, : and ;
        case 0x26...0x3B, 0x40...0x5A, 0x61...0x7A: true
        // ! $ = _ ~
        case 0x21, 0x24, 0x3D, 0x5F, 0x7E: true
        default: false
        }
    }
}

/// Which version of HTTP a route's upstream is spoken to in.
package enum UpstreamProtocol: String, CaseIterable, Sendable {
    /// HTTP/2 where the upstream chooses it during the TLS handshake, otherwise HTTP/1.1.
    case auto
    case http1
    /// HTTP/2 alone: chosen during the TLS handshake, or known beforehand where there is no TLS.
    case http2

    /// The names that are offered during the TLS handshake (ALPN), the preferred one first.
    package var offeredNames: [String] {
        switch self {
        case .auto: ["h2", "http/1.1"]
        case .http1: ["http/1.1"]
        case .http2: ["h2"]
        }
    }

    /// What a connection speaks once it is open.
    ///
    /// - Parameter chosen: What the upstream has chosen of ``offeredNames``; nil where it chose nothing, or without TLS.
    /// - Returns: nil where the upstream does not speak what the route asks for.
    package func version(chosen: String?, isEncrypted: Bool) -> HTTPVersion? {
        guard isEncrypted else { return self == .http2 ? .http2 : .http1 }
        switch self {
        case .auto: return chosen == "h2" ? .http2 : .http1
        case .http1: return .http1
        case .http2: return chosen == "h2" ? .http2 : nil
        }
    }

    package enum HTTPVersion: Hashable, Sendable {
        case http1
        case http2
    }
}

/// An absolute URL of an authority: `https`, or `http` on loopback.
package struct AuthorityURL: Hashable, Sendable, CustomStringConvertible {
    package let text: String
    package let origin: Origin
    private let shown: String?

    /// Why a text is not the URL of an authority. A caller adds advice to one of the reasons.
    package enum Refusal: Error, Hashable, Sendable {
        /// - Parameter hint: `; did you mean "https://"?`, or nothing.
        case notAbsolute(hint: String)
        case plaintext
        case hasUserInfo
        case hasFragment
        /// ``Origin/isRootedAddress``
        case rootedAddress

        /// Follows the key.
        package var message: String {
            switch self {
            case .notAbsolute(let hint): "expected an absolute https URL\(hint)"
            case .plaintext: "must be https: a secret would be sent in the clear (http is for loopback only)"
            case .hasUserInfo: "must not contain a user name or password"
            case .hasFragment: "must not contain a fragment"
            case .rootedAddress: "must not have a dot at the end of an address or a loopback name"
            }
        }
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

    /// The path and the query, as they are written; may be empty.
    package var target: Substring {
        let start = text.firstRange(of: "://")?.upperBound ?? text.startIndex
        return text[start...].drop { $0 != "/" && $0 != "?" }
    }

    /// The query is left out: it may carry a secret.
    package var description: String { String((shown ?? text).prefix { $0 != "?" }) }
}
