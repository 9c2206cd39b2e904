/// The name in a certificate that proves a client (`access.clients.*.certificate`).
package enum CertificateName: Hashable, Sendable {
    /// This host name or URI.
    case exactly(PeerIdentity.Name)
    /// A URI that begins with this text, which ends with a slash, and has more behind it.
    case uriBelow(String)

    /// Reads a host name, a URI, or `URI/*` for all below it.
    package init?(_ text: String) {
        let prefix = text.hasSuffix("/*") ? String(text.dropLast()) : nil
        let plain = prefix ?? text
        guard !plain.contains("*") else { return nil }
        guard let separator = plain.firstRange(of: "://") else {
            guard prefix == nil, let name = PeerIdentity.Name(dns: plain.utf8) else { return nil }
            self = .exactly(name)
            return
        }
        let rest = plain[separator.upperBound...]
        guard let name = PeerIdentity.Name(uri: plain.utf8), separator.lowerBound > plain.startIndex, !rest.isEmpty,
            !rest.hasPrefix("/")
        else { return nil }
        self = prefix.map { .uriBelow($0) } ?? .exactly(name)
    }

    /// Whether a certificate with this name proves the client.
    package func matches(_ name: PeerIdentity.Name) -> Bool {
        switch (self, name) {
        case (.exactly(let own), _): own == name
        case (.uriBelow(let prefix), .uri(let uri)): uri.utf8.count > prefix.utf8.count && uri.hasPrefix(prefix)
        case (.uriBelow, .dns): false
        }
    }

    /// As the configuration has it.
    package var description: String {
        switch self {
        case .exactly(.dns(let name)): "dns: \(name)"
        case .exactly(.uri(let uri)): "uri: \(uri)"
        case .uriBelow(let prefix): "uri: \(prefix)*"
        }
    }

    /// Where several match one name, the client with the highest number has sent the request.
    package var precedence: Int {
        switch self {
        case .exactly: Int.max
        case .uriBelow(let prefix): prefix.utf8.count
        }
    }
}
