import GatewayHTTP

/// Where an authorization server sends the browser after the login (RFC 6749 §3.1.2). The server is sent it, and compares it exactly.
package enum LoginRedirect: Hashable, Sendable {
    /// An address of this machine; a listener waits there for as long as the login lasts (RFC 8252 §7.3).
    case loopback(LoopbackRedirect)
    /// A redirect to an address where the gateway has no listener: a person copies the address out of the browser.
    case elsewhere(String)

    /// The default: any free port of 127.0.0.1.
    package static let ephemeral = LoginRedirect.loopback(
        LoopbackRedirect(host: "127.0.0.1", port: nil, path: "/callback")
    )

    /// Why a `redirect_uri` cannot work.
    package enum Refusal: Error, Hashable, Sendable {
        case notAbsolute
        /// The code would cross a network in clear.
        case plaintext
        case hasFragment
        case hasQuery
    }

    /// Reads a `redirect_uri`: `http` is for loopback; `https` and schemes of apps end in a browser that is elsewhere.
    package init(_ text: String) throws(Refusal) {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), let colon = text.firstIndex(of: ":") else {
            throw .notAbsolute
        }
        guard !text.contains("#") else { throw .hasFragment }
        guard Self.isScheme(text[..<colon]), colon != text.indices.last else { throw .notAbsolute }
        guard text.lowercased().hasPrefix("http://") else {
            self = .elsewhere(text)
            return
        }
        let rest = text.dropFirst("http://".count)
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let path = rest[authority.endIndex...]
        guard !path.contains("?") else { throw .hasQuery }
        let isAnyPort = authority.hasSuffix(":0")
        let named = isAnyPort ? authority.dropLast(2) : authority
        guard !authority.contains("@"), let origin = Origin(scheme: .http, authority: String(named)) else {
            throw .notAbsolute
        }
        guard origin.host == "localhost" || origin.isLoopbackAddress else { throw .plaintext }
        self = .loopback(
            LoopbackRedirect(host: origin.host, port: isAnyPort ? nil : origin.port, path: String(path))
        )
    }

    /// RFC 3986 §3.1.
    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, (0x41...0x5A).contains(first) || (0x61...0x7A).contains(first) else {
            return false
        }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2B, 0x2D, 0x2E: true
            default: false
            }
        }
    }

    /// The URI that is sent to the authorization server.
    ///
    /// - Parameter port: The listener's, for a redirect to any port; without a meaning for others.
    package func uri(port: Int) -> String {
        switch self {
        case .loopback(let loopback): loopback.uri(port: port)
        case .elsewhere(let text): text
        }
    }
}

package struct LoopbackRedirect: Hashable, Sendable {
    /// `127.0.0.1`, `::1` without brackets, or `localhost`.
    package let host: String
    /// nil: any free port.
    package let port: Int?
    /// Empty, or from its slash on.
    package let path: String

    /// What a listener is bound to: never more than loopback, whatever `localhost` resolves to.
    package var address: String { host == "localhost" ? "127.0.0.1" : host }

    package func authority(port: Int) -> String { Origin(scheme: .http, host: host, port: self.port ?? port).authority }

    package func uri(port: Int) -> String { "http://\(authority(port: port))\(path)" }
}
