/// What becomes of the fields that tell an upstream where a request came from: `Forwarded` (RFC 7239) and `X-Forwarded-*`.
package enum ForwardedPolicy: String, CaseIterable, Sendable {
    /// What the client sends is forwarded, nothing is added.
    case pass
    /// Nothing of it is forwarded: the upstream learns neither who asked nor through what.
    case remove
    /// The gateway's own take the place of what the client sends.
    case replace
    /// The gateway's own follow what the client sends, for a gateway behind a proxy that is trusted.
    case append

    /// In lower case.
    package static let names = [
        "forwarded", "x-forwarded-by", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix",
        "x-forwarded-proto", "x-forwarded-protocol", "x-forwarded-scheme", "x-forwarded-server", "x-forwarded-ssl",
        "x-original-forwarded-for", "x-real-ip",
    ]

    /// Without a setting: an upstream may trust what a client says of itself there.
    package static let standard = ForwardedPolicy.remove

    package var dropsTheClients: Bool { self == .remove || self == .replace }
    package var addsOurs: Bool { self == .replace || self == .append }

    /// The lines that the gateway adds, each with its CRLF.
    ///
    /// `X-Forwarded-Host` and `-Proto` are no lists: where the client's stay, they say what the first proxy saw.
    ///
    /// - Parameters:
    ///   - client: The address that the connection came from; nil on a unix socket.
    ///   - host: As the client named it.
    package func lines(client: String?, host: String, isTLS: Bool) -> String {
        let client = client.map(Self.withoutMapping)
        let scheme = isTLS ? "https" : "http"
        let node = client.map { $0.contains(":") ? "\"[\($0)]\"" : $0 } ?? "unknown"
        // Requests of HTTP/1.0 may name none.
        let named = host.isEmpty ? "" : "host=\"\(host)\";"
        var lines = "Forwarded: for=\(node);\(named)proto=\(scheme)\r\n"
        if let client { lines += "X-Forwarded-For: \(client)\r\n" }
        guard self == .replace else { return lines }
        if !host.isEmpty { lines += "X-Forwarded-Host: \(host)\r\n" }
        return lines + "X-Forwarded-Proto: \(scheme)\r\n"
    }

    /// A client of IPv4 on a listener of both versions has an address like `::ffff:192.0.2.7`.
    private static func withoutMapping(_ address: String) -> String {
        address.hasPrefix("::ffff:") && address.contains(".") ? String(address.dropFirst(7)) : address
    }
}
