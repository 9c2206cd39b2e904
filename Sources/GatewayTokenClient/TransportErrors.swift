package import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOHTTP1
import NIOHTTPCompression
import NIOPosix
package import NIOSSL

/// Sorts what NIO and its TLS throw into the few reasons that the gateway tells apart.
enum TransportErrors {
    /// There is no connection yet.
    ///
    /// - Parameter proxy: What is dialled instead of the server.
    static func whileConnecting(_ error: any Error, _ proxy: ParentProxy?) -> TokenTransportFailure {
        let reason: TokenTransportFailure.Reason =
            switch error {
            case let error as NIOConnectionError: reason(error)
            case is OutgoingExchange.Overdue, ChannelError.connectTimeout: .connectTimeout
            default: .connectionRefused
            }
        guard let proxy else { return TokenTransportFailure(reason, mayHaveBeenProcessed: false) }
        let what =
            switch reason {
            case .nameNotResolved: "has a name that cannot be resolved"
            case .connectTimeout: "did not accept a connection in time"
            default: "does not accept connections"
            }
        return unreachable(proxy, what, reason)
    }

    /// - Parameter proxy: It has accepted the connection, and has not opened a tunnel yet.
    static func failure(for error: any Error, at proxy: ParentProxy?) -> TokenTransportFailure {
        if let problem = error as? ProxyProblem { return TokenTransportFailure(problem) }
        guard let proxy else { return whileConnecting(error, nil) }
        if error is OutgoingExchange.Overdue {
            return unreachable(proxy, "did not open a tunnel in time", .connectTimeout)
        }
        if let alert = TLSAlert(error) {
            return unreachable(proxy, "refused the TLS connection with the alert \(alert.name)", .tlsFailed)
        }
        guard isOfTLS(error) else { return TokenTransportFailure(proxy.lost) }
        let what =
            switch tlsError(error) {
            case .certificateNamesOther: "has a certificate that does not name it"
            case .certificateUntrusted:
                "has a certificate that is not trusted; see \"ca\" of proxy in the configuration"
            default: "did not complete the TLS handshake"
            }
        return unreachable(proxy, what, .tlsFailed)
    }

    private static func unreachable(
        _ proxy: ParentProxy,
        _ what: String,
        _ reason: TokenTransportFailure.Reason
    ) -> TokenTransportFailure {
        TokenTransportFailure(.init("The proxy \(proxy) \(what).", .proxyUnreachable), reason: reason)
    }

    /// The handshake with the server is under way.
    static func whileSecuring(_ error: any Error) -> TokenTransportFailure {
        if let alert = TLSAlert(error) {
            return TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: false, alert: alert)
        }
        guard isOfTLS(error) || error is OutgoingExchange.Overdue else {
            return TokenTransportFailure(.connectionRefused, mayHaveBeenProcessed: false)
        }
        var failure = TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: false)
        failure.tlsError = error is OutgoingExchange.Overdue ? .handshakeTimeout : tlsError(error)
        return failure
    }

    /// - Parameter codings: The content codings of the response; nil if it has none.
    static func afterSending(_ error: any Error, codings: String?) -> TokenTransportFailure {
        // A server may decide about the client certificate when the request is on its way already (TLS 1.3).
        if let alert = TLSAlert(error) {
            return TokenTransportFailure(.tlsFailed, mayHaveBeenProcessed: true, alert: alert)
        }
        let reason: TokenTransportFailure.Reason =
            switch error {
            case AnswerCollector.Refusal.tooLarge, HTTPParserError.headerOverflow: .answerTooLarge
            case NIOHTTPDecompression.DecompressionError.limit: .answerTooLarge
            case is NIOHTTPDecompression.DecompressionError, is NIOHTTPDecompression.ExtraDecompressionError:
                .invalidAnswer
            case HTTPParserError.invalidEOFState: .connectionLost
            case is AnswerCollector.Refusal, is HTTPParserError: .invalidAnswer
            case is OutgoingExchange.Overdue: .responseTimeout
            default: .connectionLost
            }
        var failure = TokenTransportFailure(reason, mayHaveBeenProcessed: true)
        if reason == .invalidAnswer, isAboutCoding(error) { failure.unreadableCoding = codings ?? "unknown" }
        return failure
    }

    private static func isOfTLS(_ error: any Error) -> Bool {
        error is NIOSSLError || error is NIOSSLExtraError || error is BoringSSLError || error is ForeignCertificate
    }

    private static func tlsError(_ error: any Error) -> GatewayProblem.HopError? {
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

/// The certificate is trusted and names another server.
package struct ForeignCertificate: Error {
    package init() {}
}

extension PeerName {
    /// - Parameter certificate: One that the library trusts. The library also accepts one for the address that was dialled.
    package func check(_ certificate: NIOSSLCertificate) throws(ForeignCertificate) {
        let names = certificate._subjectAlternativeNames().map { name -> Alternative in
            switch name.nameType {
            case .dnsName: .name(Array(name.contents))
            case .ipAddress: .address(Array(name.contents))
            default: .other
            }
        }
        guard isNamed(by: names) else { throw ForeignCertificate() }
    }
}
