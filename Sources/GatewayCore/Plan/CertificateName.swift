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
        case (.uriBelow(let prefix), .uri(let uri)): Self.isBelow(prefix, uri)
        case (.uriBelow, .dns): false
        }
    }

    /// Whether a name begins with `prefix`, which ends with a slash, and stays below it: no segment is `.` or `..`, whether as it stands,
    /// percent-decoded once or twice, or without its path parameters.
    static func isBelow(_ prefix: String, _ name: String) -> Bool {
        guard name.utf8.count > prefix.utf8.count, name.utf8.starts(with: prefix.utf8) else { return false }
        var reading = Array(name.utf8.dropFirst(prefix.utf8.count))
        for _ in 0...2 {
            let segments = reading.split { $0 == 0x2F || $0 == 0x5C }.map { $0.prefix { !";?#".utf8.contains($0) } }
            guard !segments.contains(where: { $0.elementsEqual([0x2E]) || $0.elementsEqual([0x2E, 0x2E]) }) else {
                return false
            }
            let decoded = PercentEncoding.decodeLeniently(reading.span, reading.indices)
            reading = decoded
        }
        return true
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
