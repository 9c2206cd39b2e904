import GatewayHTTP
import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// What a failed connection is called.
enum UpstreamFailure {
    /// - Parameters:
    ///   - isUnresolved: There was no address to dial yet.
    ///   - certificate: What the upstream has shown, where it has.
    ///   - authorities: The file that `key` names; nil for those of the system.
    ///   - key: What names certificate authorities.
    static func problem(
        _ error: any Error,
        _ origin: Origin,
        isUnresolved: Bool = false,
        certificate: NIOSSLCertificate? = nil,
        authorities: String? = nil,
        key: String = "tls.ca of the route"
    ) -> GatewayProblem {
        switch error {
        case let error as NIOConnectionError: connectionProblem(error, origin)
        case ChannelError.connectTimeout where isUnresolved: nameTimeout(origin)
        case ChannelError.connectTimeout: timeout(origin)
        case let error as PinMismatch:
            unreachable(
                "The certificate of \(origin) has a key that tls.pin does not name: \(error.seen).",
                .certificateNotPinned
            )
        case is NIOSSLExtraError, is PeerNameMismatch:
            unreachable("The certificate of \(origin) does not name this host.", .certificateNamesOther)
        case is NIOSSLError, is BoringSSLError:
            handshakeProblem(String(describing: error), origin, certificate, authorities, key)
        default: unreachable("\(origin) refused the connection or reset it.", .connectionTerminated)
        }
    }

    private static func connectionProblem(_ error: NIOConnectionError, _ origin: Origin) -> GatewayProblem {
        let lookups = [error.dnsAError, error.dnsAAAAError].map { $0 as? NameLookup.Failure }
        if lookups.contains(.exhausted) || error.connectionErrors.contains(where: isOfThisProcess) {
            let detail = "No file descriptors or memory are left for this process (ulimit -n)."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        if lookups.contains(.tooManyWait) {
            let detail = "Too many lookups are already waiting for the name server."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        guard !error.connectionErrors.isEmpty else {
            if lookups.contains(.prohibited) {
                let detail = "\(origin.host) resolves to an address that the gateway may not connect to."
                return GatewayProblem(.destinationProhibited, detail)
            }
            return unreachable("The name \(origin.host) cannot be resolved.", .nameNotResolved)
        }
        let errors = error.connectionErrors.map(\.error)
        let timedOut = errors.allSatisfy {
            if case .connectTimeout? = $0 as? ChannelError { return true }
            return false
        }
        if timedOut { return timeout(origin) }
        let codes = errors.compactMap { ($0 as? IOError)?.errnoCode }
        if !codes.isEmpty, codes.allSatisfy({ [EHOSTUNREACH, ENETUNREACH, EHOSTDOWN, ENETDOWN].contains($0) }) {
            return unreachable("The network has no route to \(origin).", .hostUnreachable)
        }
        return unreachable("\(origin) does not accept connections; is it running?", .connectionRefused)
    }

    /// The upstream was not even asked.
    private static func isOfThisProcess(_ failure: SingleConnectionFailure) -> Bool {
        (failure.error as? IOError)?.meansResourceExhausted ?? false
    }

    private static func timeout(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) did not accept a connection in time."
        return GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)
    }

    private static func nameTimeout(_ origin: Origin) -> GatewayProblem {
        let detail = "The name \(origin.host) was not resolved in time; does the name server answer?"
        return GatewayProblem(.upstreamTimeout, detail, hopError: .nameTimeout)
    }

    private static func unreachable(_ detail: String, _ error: GatewayProblem.HopError) -> GatewayProblem {
        GatewayProblem(.upstreamUnreachable, detail, hopError: error)
    }

    // MARK: TLS

    /// The upstream has asked for another handshake on an open connection, which the TLS library refuses.
    static func isRenegotiation(_ error: any Error) -> Bool {
        (error is NIOSSLError || error is BoringSSLError) && String(describing: error).contains("NO_RENEGOTIATION")
    }

    static let renegotiation =
        "It asked for another TLS handshake on the open connection (renegotiation of TLS 1.2), which the gateway refuses."
        + " Servers do that to ask for a client certificate on some paths only: have it ask at the start, or use TLS 1.3."

    static func problem(_ alert: TLSAlert, _ origin: Origin) -> GatewayProblem {
        unreachable(alert.detail(of: "\(origin)", owner: "the route"), .handshakeFailed)
    }

    private static func handshakeProblem(
        _ text: String,
        _ origin: Origin,
        _ certificate: NIOSSLCertificate?,
        _ authorities: String?,
        _ key: String
    ) -> GatewayProblem {
        if let alert = TLSAlert(in: text) { return problem(alert, origin) }
        guard text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") else {
            let reason = reason(in: text).map { ": \($0)" } ?? ""
            return unreachable(
                "The TLS handshake with \(origin) failed\(reason)\(reason.hasSuffix("?") ? "" : ".")",
                .handshakeFailed
            )
        }
        let now = time(nil)
        if let end = certificate?.notValidAfter, end < now {
            return unreachable("The certificate of \(origin) has expired: \(date(end)).", .certificateExpired)
        }
        if let start = certificate?.notValidBefore, start > now {
            let advice = "Is the clock of this machine right?"
            return unreachable(
                "The certificate of \(origin) is not valid before \(date(start)). \(advice)",
                .certificateNotYetValid
            )
        }
        if let authorities {
            let file = authorities.split(separator: "/").last.map(String.init) ?? authorities
            return unreachable(
                "The certificate of \(origin) is not signed by a certificate authority in \(file) (\(key)),"
                    + " which replaces those of the system.",
                .certificateUntrusted
            )
        }
        let advice = "If your own certificate authority issued it, name that authority in \(key)."
        return unreachable("The certificate of \(origin) is not trusted. \(advice)", .certificateUntrusted)
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
}
