import GatewayCore
import NIOCore
import NIOPosix
import NIOSSL

/// What a failed connection is called.
enum UpstreamFailure {
    /// - Parameters:
    ///   - isUnresolved: There was no address to dial yet.
    ///   - certificate: What the upstream has shown, where it has.
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
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError, is PeerNameMismatch, is PinMismatch:
            TLSFailure.problem(error, origin, certificate: certificate)
        default: unreachable("\(origin) refused the connection or reset it.", .connectionTerminated)
        }
    }

    private static func connectionProblem(_ error: NIOConnectionError, _ origin: Origin) -> GatewayProblem {
        if isResourceExhausted(error) {
            let detail = "The system has no more descriptors or memory for this process (ulimit -n)."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        if [error.dnsAError, error.dnsAAAAError].contains(where: { $0 is NameLookup.TooManyWait }) {
            let detail = "Too many names already wait for an answer of the name server."
            return GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
        }
        guard !error.connectionErrors.isEmpty else {
            if [error.dnsAError, error.dnsAAAAError].contains(where: { $0 is NameLookup.AddressProhibited }) {
                let detail = "\(origin.host) resolves to an address that may not be dialled."
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
            return unreachable("The network has no way to \(origin).", .hostUnreachable)
        }
        return unreachable("\(origin) does not accept connections; is it running?", .connectionRefused)
    }

    /// The upstream was not even asked.
    private static func isResourceExhausted(_ error: NIOConnectionError) -> Bool {
        [error.dnsAError, error.dnsAAAAError].contains { $0 is NameLookup.ResourceExhausted }
            || error.connectionErrors.contains { ($0.error as? IOError)?.meansResourceExhausted ?? false }
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
}
