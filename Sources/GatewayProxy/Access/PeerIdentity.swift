/// Who is at the other end of a TLS connection, by the certificate whose key the peer has shown to hold.
///
/// Read once for each connection. The subject's common name is not looked at: RFC 9525 section 2 leaves it out of identities.
package final class PeerIdentity: Sendable {
    /// A name of the certificate's `subjectAltName` (RFC 5280 section 4.2.1.6). Other kinds of names prove no client.
    package enum Name: Hashable, Sendable {
        /// In lower case, without a dot at the end.
        case dns(String)
        /// As the certificate has it. SPIFFE ids are such names.
        case uri(String)

        /// - Returns: nil for what no configuration can name: too long, empty, or with bytes that are not visible ASCII.
        package init?(dns bytes: some Collection<UInt8>) {
            guard let text = Self.text(bytes) else { return nil }
            let name = text.lowercased()
            self = .dns(name.hasSuffix(".") ? String(name.dropLast()) : name)
        }

        /// - Returns: As for ``init(dns:)``.
        package init?(uri bytes: some Collection<UInt8>) {
            guard let text = Self.text(bytes) else { return nil }
            self = .uri(text)
        }

        private static func text(_ bytes: some Collection<UInt8>) -> String? {
            guard !bytes.isEmpty, bytes.count <= PeerIdentity.maximumBytes, bytes.allSatisfy({ (0x21...0x7E) ~= $0 })
            else { return nil }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    /// The longest SPIFFE id (SPIFFE-ID section 2.3).
    package static let maximumBytes = 2048
    /// A certificate with more names has none here: what is left out could be the name of another client.
    static let maximumNames = 64

    package let names: [Name]

    package init(_ names: [Name]) { self.names = names.count <= Self.maximumNames ? names : [] }
}
