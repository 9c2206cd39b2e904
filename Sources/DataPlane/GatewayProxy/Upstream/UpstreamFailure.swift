import GatewayCore
import NIOCore
import NIOPosix
import NIOSSL

#if canImport(Glibc)
    import Glibc
#else
    import Darwin
#endif

/// What a failed connection is called.
enum UpstreamFailure {
    /// - Parameters:
    ///   - isUnresolved: There was no address to dial yet.
    ///   - certificate: What the upstream has shown, where the handshake went that far.
    static func problem(
        _ error: any Error,
        _ origin: Origin,
        isUnresolved: Bool = false,
        certificate: NIOSSLCertificate? = nil
    ) -> GatewayProblem {
        switch error {
        case let error as NIOConnectionError: connectionProblem(error, origin)
        case ChannelError.connectTimeout where isUnresolved: nameTimeout(origin)
        case ChannelError.connectTimeout: timeout(origin)
        case let error as NIOSSLError: tlsProblem(error, origin, certificate)
        case is NIOSSLExtraError, is PeerNameMismatch:
            unreachable("The certificate of \(origin) does not name this host.", .certificateRefused)
        case let error as PinMismatch:
            unreachable(
                "The certificate of \(origin) has a key that tls.pin does not name: \(error.seen).",
                .certificateRefused
            )
        case is BoringSSLError: unreachable("The TLS handshake with \(origin) failed.", .handshakeFailed)
        default: unreachable("\(origin) refused the connection or reset it.", nil)
        }
    }

    private static func connectionProblem(_ error: NIOConnectionError, _ origin: Origin) -> GatewayProblem {
        if isResourceExhausted(error) {
            let detail = "The system has no more descriptors or memory for this process (ulimit -n)."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        guard !error.connectionErrors.isEmpty else {
            if [error.dnsAError, error.dnsAAAAError].contains(where: { $0 is NameLookup.AddressProhibited }) {
                let detail = "\(origin.host) resolves to an address that may not be dialled."
                return GatewayProblem(.destinationProhibited, detail)
            }
            return unreachable("The name \(origin.host) cannot be resolved.", .nameNotResolved)
        }
        let timedOut = error.connectionErrors.allSatisfy {
            if case .connectTimeout? = $0.error as? ChannelError { return true }
            return false
        }
        return timedOut ? timeout(origin) : unreachable("\(origin) does not accept connections; is it running?", nil)
    }

    /// The upstream was not even asked.
    private static func isResourceExhausted(_ error: NIOConnectionError) -> Bool {
        [error.dnsAError, error.dnsAAAAError].contains { $0 is NameLookup.ResourceExhausted }
            || error.connectionErrors.contains { ($0.error as? IOError)?.meansResourceExhausted ?? false }
    }

    private static func tlsProblem(
        _ error: NIOSSLError,
        _ origin: Origin,
        _ certificate: NIOSSLCertificate?
    ) -> GatewayProblem {
        let text = String(describing: error)
        guard text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") else {
            return unreachable("The TLS handshake with \(origin) failed.", .handshakeFailed)
        }
        return unreachable(fault(of: certificate).text(of: origin), .certificateRefused)
    }

    private static func fault(of certificate: NIOSSLCertificate?) -> CertificateFault {
        guard let certificate else { return .untrusted }
        return CertificateFault(
            validFrom: UnixTime(seconds: Int64(certificate.notValidBefore)),
            to: UnixTime(seconds: Int64(certificate.notValidAfter)),
            // The clock that the TLS library has judged by.
            now: UnixTime(seconds: Int64(time(nil)))
        )
    }

    private static func timeout(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) did not accept a connection in time."
        return GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)
    }

    private static func nameTimeout(_ origin: Origin) -> GatewayProblem {
        let detail = "The name \(origin.host) was not resolved in time; does the name server answer?"
        return GatewayProblem(.upstreamTimeout, detail, hopError: .nameTimeout)
    }

    private static func unreachable(_ detail: String, _ error: GatewayProblem.HopError?) -> GatewayProblem {
        GatewayProblem(.upstreamUnreachable, detail, hopError: error)
    }
}
