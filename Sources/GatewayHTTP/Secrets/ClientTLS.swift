/// What a client shows in a TLS handshake to say who it is (RFC 8446 §4.4.2), and whom it trusts there.
package struct ClientTLS: Hashable, Sendable {
    /// PEM: the client's own, then those that lead to an authority that the server knows.
    package let certificates: String
    package let privateKey: PrivateKeyDER
    /// PEM: the authorities that the server's certificate must come from; nil trusts the system's.
    package let authorities: String?

    package init(certificates: String, privateKey: PrivateKeyDER, authorities: String? = nil) {
        self.certificates = certificates
        self.privateKey = privateKey
        self.authorities = authorities
    }
}
