import GatewayCore
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What a failed TLS handshake with an upstream is called.
enum TLSFailure {
    static func problem(_ error: any Error, _ origin: Origin, certificate: NIOSSLCertificate?) -> GatewayProblem {
        switch error {
        case let error as PinMismatch:
            problem(
                "The certificate of \(origin) has a key that tls.pin does not name: \(error.seen).",
                .certificateNotPinned
            )
        case is NIOSSLExtraError, is PeerNameMismatch:
            problem("The certificate of \(origin) does not name this host.", .certificateNamesOther)
        default: handshakeProblem(String(describing: error), origin, certificate)
        }
    }

    /// The upstream has asked for another handshake on an open connection, which the TLS library refuses.
    static func isRenegotiation(_ error: any Error) -> Bool {
        (error is NIOSSLError || error is BoringSSLError) && String(describing: error).contains("NO_RENEGOTIATION")
    }

    static let renegotiation =
        "It asked for another TLS handshake on the open connection (renegotiation of TLS 1.2), which the gateway refuses."
        + " Servers do that to ask for a client certificate on some paths only: have it ask at the start, or use TLS 1.3."

    static func problem(_ alert: TLSAlert, _ origin: Origin) -> GatewayProblem {
        problem(alert.detail(of: "\(origin)", owner: "the route"), .handshakeFailed)
    }

    private static func handshakeProblem(
        _ text: String,
        _ origin: Origin,
        _ certificate: NIOSSLCertificate?
    ) -> GatewayProblem {
        if let alert = TLSAlert(in: text) { return problem(alert, origin) }
        guard text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") else {
            let reason = reason(in: text).map { ": \($0)" } ?? ""
            return problem("The TLS handshake with \(origin) failed\(reason).", .handshakeFailed)
        }
        let now = time(nil)
        if let end = certificate?.notValidAfter, end < now {
            return problem("The certificate of \(origin) has expired: \(date(end)).", .certificateExpired)
        }
        if let start = certificate?.notValidBefore, start > now {
            let advice = "Is the clock of this machine right?"
            return problem(
                "The certificate of \(origin) is not valid before \(date(start)). \(advice)",
                .certificateNotYetValid
            )
        }
        let advice = "If it comes from an authority of your own, name it in the route's tls.ca."
        return problem("The certificate of \(origin) is not trusted. \(advice)", .certificateUntrusted)
    }

    private static func date(_ time: time_t) -> String { UnixTime(seconds: Int64(time)).rfc3339 }

    /// The TLS library's own word for it: `WRONG_VERSION_NUMBER` as `wrong version number`.
    private static func reason(in text: String) -> String? {
        if text.contains("EOF during handshake") { return "it closed the connection" }
        guard let range = text.firstRange(of: "OPENSSL_internal:") else { return nil }
        let word = text[range.upperBound...].prefix { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") }
        guard !word.isEmpty, word.utf8.count < 64 else { return nil }
        let speaksNoTLS = word == "WRONG_VERSION_NUMBER" || word == "HTTP_REQUEST"
        let words = word.lowercased().replacing("_", with: " ")
        return speaksNoTLS ? "\(words); does it speak TLS on this port?" : words
    }

    private static func problem(_ detail: String, _ error: GatewayProblem.HopError) -> GatewayProblem {
        GatewayProblem(.upstreamUnreachable, detail, hopError: error)
    }
}
