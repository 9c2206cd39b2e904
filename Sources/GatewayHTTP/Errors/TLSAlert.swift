/// The alert with which the other end of a TLS connection refused it (RFC 8446 section 6).
///
/// In TLS 1.3 a server may send it after its part of the handshake, so it can also come in place of a response.
package struct TLSAlert: Hashable, Sendable {
    /// As RFC 8446 names it, such as `certificate_required`.
    package let name: String

    /// - Parameter text: An error of the TLS library. It calls a received alert `OPENSSL_internal:TLSV1_ALERT_UNKNOWN_CA`.
    /// - Returns: nil for any other error.
    package init?(in text: String) {
        guard let range = text.firstRange(of: "OPENSSL_internal:") else { return nil }
        let word = text[range.upperBound...].prefix { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") }
        let alert = ["SSLV3_ALERT_", "TLSV1_ALERT_"].lazy.filter(word.hasPrefix).map { word.dropFirst($0.count) }.first
        guard let alert, !alert.isEmpty, alert.utf8.count < 64 else { return nil }
        name = alert.lowercased()
    }

    /// - Parameter error: Of the TLS library.
    package init?(_ error: any Error) { self.init(in: String(describing: error)) }

    /// - Parameters:
    ///   - server: Who sent it.
    ///   - owner: Whose `tls.certificate` the server is shown: "the route".
    package func detail(of server: String, owner: String) -> String {
        let meaning = meaning(owner: owner).map { " \($0)" } ?? ""
        return "\(server) refused the TLS connection with the alert \(name).\(meaning)"
    }

    /// What the server most likely wants.
    ///
    /// - Parameter owner: Whose `tls.certificate` the server is shown.
    /// - Returns: nil where the name says all that is known.
    package func meaning(owner: String) -> String? {
        let key = "tls.certificate of \(owner)"
        return switch name {
        case "certificate_required": "It wants a client certificate (\(key))."
        case "handshake_failure":
            "It may want a client certificate (\(key)), or has no cipher suite in common with the gateway."
        case "unknown_ca": "It does not trust the certificate authority of the client certificate (\(key))."
        case "bad_certificate", "unsupported_certificate", "certificate_revoked", "certificate_expired",
            "certificate_unknown", "access_denied":
            "It does not accept the client certificate (\(key))."
        case "protocol_version", "insufficient_security": "The gateway speaks TLS 1.2 and 1.3."
        case "unrecognized_name": "It does not serve this host."
        default: nil
        }
    }
}
