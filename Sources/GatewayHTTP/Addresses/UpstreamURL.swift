/// The `upstream` of a route: where its requests go, and what stands before their path.
package struct UpstreamURL {
    package let origin: Origin
    /// Empty, or with a slash at the beginning and none at the end.
    package let path: String

    package struct Refusal: Error {
        package let message: String
        package init(_ message: String) { self.message = message }
    }

    package init(_ text: String) throws(Refusal) {
        guard let separator = text.firstRange(of: "://"),
            let scheme = Origin.Scheme(rawValue: text[..<separator.lowerBound].lowercased())
        else { throw Refusal("expected a URL such as https://api.example.com\(Suggestion.scheme(of: text))") }
        let rest = text[separator.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard !authority.contains("@") else {
            throw Refusal("must not contain a user name or password; use \"auth: {strategy: basic, …}\"")
        }
        guard let origin = Origin(scheme: scheme, authority: String(authority)) else {
            let host = authority.prefix { $0 != ":" }
            if let name = Punycode.hostName(String(host)) {
                let ascii = name + authority[host.endIndex...]
                throw Refusal("must have its host in ASCII, as DNS has it: \(scheme.rawValue)://\(ascii)")
            }
            throw Refusal("has no valid host and port")
        }
        guard !origin.isRootedAddress else {
            throw Refusal("must not have a dot at the end of an address or a loopback name")
        }
        let path = rest[authority.endIndex...]
        guard !path.contains("?"), !path.contains("#") else {
            throw Refusal("must not contain a query or a fragment")
        }
        guard let canonical = RoutePath.canonical(String(path)) else {
            throw Refusal("has a path that is not plain: no empty or dot segments, no encodings")
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
