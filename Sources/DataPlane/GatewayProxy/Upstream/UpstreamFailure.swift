import GatewayCore
import NIOCore
import NIOPosix
import NIOSSL

/// What a failed connection is called.
enum UpstreamFailure {
    /// - Parameter isUnresolved: There was no address to dial yet.
    static func problem(_ error: any Error, _ origin: Origin, isUnresolved: Bool = false) -> GatewayProblem {
        switch error {
        case let error as NIOConnectionError: connectionProblem(error, origin)
        case ChannelError.connectTimeout where isUnresolved: nameTimeout(origin)
        case ChannelError.connectTimeout: timeout(origin)
        case let error as NIOSSLError: tlsProblem(error, origin)
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

    private static func tlsProblem(_ error: NIOSSLError, _ origin: Origin) -> GatewayProblem {
        let text = String(describing: error)
        guard text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") else {
            return unreachable("The TLS handshake with \(origin) failed.", .handshakeFailed)
        }
        let advice = "If it comes from an authority of your own, name it in the route's tls.ca."
        return unreachable("The certificate of \(origin) is not trusted. \(advice)", .certificateRefused)
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
