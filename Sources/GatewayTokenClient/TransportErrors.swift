import AsyncHTTPClient
import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOPosix
import NIOSSL

/// Sorts what async-http-client and NIO throw into the few reasons that the gateway tells apart.
enum TransportErrors {
    /// - Parameter codings: The content codings of the response; nil if it has none.
    static func failure(
        for error: any Error,
        requestWasSent: Bool,
        codings: String? = nil,
        through proxy: ParentProxy? = nil
    ) -> TokenTransportFailure {
        if let proxy, !requestWasSent, let failure = proxyFailure(error, proxy) { return failure }
        // A server may decide about the client certificate when the request is on its way already (TLS 1.3).
        if let alert = TLSAlert(error) {
            return TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: requestWasSent, alert: alert)
        }
        var failure = TokenTransportFailure(
            requestWasSent ? reasonAfterSending(error) : reasonBeforeSending(error),
            mayHaveBeenProcessed: requestWasSent
        )
        if failure.reason == .tlsFailed { failure.tlsError = tlsError(error) }
        if failure.reason == .invalidAnswer, isAboutCoding(error) { failure.unreadableCoding = codings ?? "unknown" }
        return failure
    }

    /// - Returns: nil for what went wrong behind the proxy: TLS with the authorization server.
    private static func proxyFailure(_ error: any Error, _ proxy: ParentProxy) -> TokenTransportFailure? {
        func unreachable(_ what: String, _ reason: TokenTransportFailure.Reason) -> TokenTransportFailure {
            TokenTransportFailure(.init("The proxy \(proxy) \(what).", .proxyUnreachable), reason: reason)
        }
        func refused(_ what: String, _ error: GatewayProblem.HopError = .proxyRefused) -> TokenTransportFailure {
            TokenTransportFailure(.init("The proxy \(proxy) \(what).", error))
        }
        switch error {
        case let error as NIOConnectionError:
            let reason = reason(error)
            return switch reason {
            case .nameNotResolved: unreachable("has a name that cannot be resolved", reason)
            case .connectTimeout: unreachable("did not accept a connection in time", reason)
            default: unreachable("does not accept connections", reason)
            }
        case ChannelError.connectTimeout: return unreachable("did not accept a connection in time", .connectTimeout)
        case let error as HTTPClientError:
            if error == .proxyAuthenticationRequired {
                return refused(proxy.loginRefusal(status: 407), .proxyLoginRefused)
            }
            if error == .invalidProxyResponse { return refused("refuses connections to it; do its rules allow that?") }
            if error == .remoteConnectionClosed {
                return refused("closed the connection before it had opened a tunnel")
            }
            if error == .tlsHandshakeTimeout { return nil }
            return timeouts.contains(error) || error == .httpProxyHandshakeTimeout
                ? unreachable("did not open a tunnel in time", .connectTimeout) : nil
        case is HTTPParserError: return refused("did not answer CONNECT with valid HTTP")
        default: return nil
        }
    }

    private static func reasonBeforeSending(_ error: any Error) -> TokenTransportFailure.Reason {
        switch error {
        case let error as HTTPClientError where error == .tlsHandshakeTimeout: .tlsFailed
        case let error as HTTPClientError where timeouts.contains(error): .connectTimeout
        case let error as NIOConnectionError: reason(error)
        case ChannelError.connectTimeout: .connectTimeout
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError, is ForeignCertificate: .tlsFailed
        case let error as HTTPClientError where rejections.contains(error.shortDescription): .unsendable
        default: .connectionRefused
        }
    }

    private static func reasonAfterSending(_ error: any Error) -> TokenTransportFailure.Reason {
        switch error {
        case AnswerCollector.Refusal.tooLarge, HTTPParserError.headerOverflow: .answerTooLarge
        case NIOHTTPDecompression.DecompressionError.limit: .answerTooLarge
        case is NIOHTTPDecompression.DecompressionError, is NIOHTTPDecompression.ExtraDecompressionError: .invalidAnswer
        case HTTPParserError.invalidEOFState: .connectionLost
        case is AnswerCollector.Refusal, is HTTPParserError: .invalidAnswer
        case let error as HTTPClientError where timeouts.contains(error): .responseTimeout
        default: .connectionLost
        }
    }

    private static func tlsError(_ error: any Error) -> GatewayProblem.HopError? {
        if let error = error as? HTTPClientError, error == .tlsHandshakeTimeout { return .handshakeTimeout }
        if error is NIOSSLExtraError || error is ForeignCertificate { return .certificateNamesOther }
        let text = String(describing: error)
        if text.contains("CERTIFICATE_VERIFY_FAILED") || text.contains("unableToValidateCertificate") {
            return .certificateUntrusted
        }
        return text.contains("WRONG_VERSION_NUMBER") || text.contains("HTTP_REQUEST") ? .handshakeFailed : nil
    }

    private static func isAboutCoding(_ error: any Error) -> Bool {
        switch error {
        case AnswerCollector.Refusal.encoded: true
        case is NIOHTTPDecompression.DecompressionError, is NIOHTTPDecompression.ExtraDecompressionError: true
        default: false
        }
    }

    private static let timeouts: [HTTPClientError] = [
        .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .getConnectionFromPoolTimeout, .cancelled,
    ]

    /// async-http-client's own checks of a request, by the text that stays the same whatever they found.
    private static let rejections: Set<String> = [
        HTTPClientError.invalidURL.shortDescription,
        HTTPClientError.emptyHost.shortDescription,
        HTTPClientError.emptyScheme.shortDescription,
        HTTPClientError.invalidHeaderFieldNames([]).shortDescription,
        HTTPClientError.invalidHeaderFieldValues([]).shortDescription,
    ]

    private static func reason(_ error: NIOConnectionError) -> TokenTransportFailure.Reason {
        if error.connectionErrors.isEmpty, error.dnsAError != nil || error.dnsAAAAError != nil {
            return .nameNotResolved
        }
        let timedOut = error.connectionErrors.contains {
            if case ChannelError.connectTimeout = $0.error { return true }
            return false
        }
        return timedOut ? .connectTimeout : .connectionRefused
    }
}
