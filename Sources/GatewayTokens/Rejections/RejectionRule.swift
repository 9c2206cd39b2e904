package import GatewayHTTP

/// Which responses say that a session is over although a 401 does not: `rejected_when`.
///
/// A location and a pattern are signs of their own, and the statuses say in which responses to look for them. Statuses alone are a
/// sign themselves.
package struct RejectionRule: Hashable, Sendable {
    /// Where a redirect leads to a login.
    package struct Location: Hashable, Sendable {
        /// nil: that of the upstream.
        package let origin: Origin?
        /// What the path of the location begins with, up to the end of a segment. It has no slash at its end, so the root is empty.
        package let path: String

        /// Reads `/path` or `https://host/path`; nil when it is anything else.
        package init?(_ text: String) {
            guard !text.contains(where: { "?#".contains($0) }), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
                return nil
            }
            var path = Substring(text)
            if let separator = text.firstRange(of: "://") {
                let rest = text[separator.upperBound...]
                let authority = rest.prefix { $0 != "/" }
                guard let scheme = Origin.Scheme(rawValue: text[..<separator.lowerBound].lowercased()),
                    let origin = Origin(scheme: scheme, authority: String(authority))
                else { return nil }
                self.origin = origin
                path = rest[authority.endIndex...]
            } else {
                guard text.hasPrefix("/"), !text.hasPrefix("//") else { return nil }
                origin = nil
            }
            while path.last == "/" { path = path.dropLast() }
            self.path = String(path)
        }

        /// The location as the configuration writes it.
        package var text: String { (origin?.description ?? "") + (path.isEmpty ? "/" : path) }
    }

    /// How much of a body is looked at. The response is held back until so much of it has come.
    package static let bodyLimit = 64 << 10
    /// The largest pattern for bodies: it runs on an event loop, for every response that is looked at.
    static let largestPattern = 128
    /// The steps of a search in one body: enough for 16 KiB with any pattern, and for all 64 KiB unless most of the text nearly
    /// fits a large one.
    package static let mostSteps = 2 << 20
    /// How long a body is held back. A client that follows a log would otherwise wait until ``bodyLimit`` is reached.
    package static let patience = Duration.seconds(1)

    /// Empty: any.
    package let statuses: [Int]
    package let location: Location?
    package let body: TextPattern?

    package init(statuses: [Int] = [], location: Location? = nil, body: TextPattern? = nil) {
        (self.statuses, self.location, self.body) = (statuses, location, body)
    }

    /// What says that the session is over.
    package enum Sign: Hashable, Sendable {
        /// A status of refusal: nothing was done.
        case status
        /// A redirect, a page, or another status of success. An application may send it after it has done what was asked.
        case content
    }
}
