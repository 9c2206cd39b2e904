/// What can go wrong between the gateway and the next server.
extension GatewayProblem {
    /// What happened on the way to the next hop or to the client. The raw value is a ``FailureReason``.
    package enum HopError: String, CaseIterable, Sendable {
        case nameNotResolved = "name_not_resolved"
        case nameTimeout = "name_timeout"
        case connectionRefused = "connection_refused"
        case hostUnreachable = "host_unreachable"
        /// The other end has closed or reset the connection.
        case connectionTerminated = "connection_lost"
        case connectionTimeout = "connect_timeout"
        case handshakeTimeout = "tls_timeout"
        case handshakeFailed = "tls_handshake_failed"
        /// The certificate is not trusted, and the reason is not known.
        case certificateRefused = "certificate_refused"
        case certificateExpired = "certificate_expired"
        case certificateNotYetValid = "certificate_not_yet_valid"
        case certificateUntrusted = "certificate_untrusted"
        case certificateNamesOther = "certificate_names_other_host"
        case certificateNotPinned = "certificate_not_pinned"
        case responseTimeout = "response_timeout"
        /// The next hop takes no more of the request.
        case requestNotTaken = "request_not_taken"
        /// The client takes no more of the response.
        case responseNotTaken = "response_not_taken"
        case tunnelTimeout = "tunnel_timeout"
        case protocolError = "protocol_error"
        /// The proxy before the upstream (`proxy`) cannot be reached, or is not trusted.
        case proxyUnreachable = "proxy_unreachable"
        /// That proxy did not connect to the upstream.
        case proxyRefused = "proxy_refused"
        /// That proxy refused the login, or requires one.
        case proxyLoginRefused = "proxy_login_refused"
    }
}

/// The name of each error in `Proxy-Status`.
extension GatewayProblem.HopError {
    /// The `error` parameter of `Proxy-Status` (RFC 9209 section 2.3).
    package var proxyStatusError: String {
        switch self {
        case .nameNotResolved: "dns_error"
        case .nameTimeout: "dns_timeout"
        case .connectionRefused: "connection_refused"
        case .hostUnreachable: "destination_ip_unroutable"
        case .connectionTerminated: "connection_terminated"
        case .connectionTimeout, .handshakeTimeout: "connection_timeout"
        case .handshakeFailed: "tls_protocol_error"
        case .certificateRefused, .certificateExpired, .certificateNotYetValid, .certificateUntrusted,
            .certificateNamesOther, .certificateNotPinned:
            "tls_certificate_error"
        case .responseTimeout, .tunnelTimeout: "http_response_timeout"
        case .requestNotTaken, .responseNotTaken: "connection_write_timeout"
        case .protocolError: "http_protocol_error"
        case .proxyUnreachable, .proxyRefused: "destination_unavailable"
        case .proxyLoginRefused: "proxy_configuration_error"
        }
    }
}

/// The advice for each error.
extension GatewayProblem.HopError {
    /// The text of `authgateway explain-error` and of docs/errors.md.
    package var advice: ErrorAdvice {
        switch self {
        case .nameNotResolved:
            ErrorAdvice(
                "The name of the upstream (in a credential's event, of the token endpoint) does not resolve.",
                .operator,
                "Fix the name in upstream or in the credential's URL, or the machine's name server.",
                "authgateway doctor"
            )
        case .nameTimeout:
            ErrorAdvice(
                "The name server did not answer in time.",
                .operator,
                "Check the machine's name server.",
                "authgateway doctor"
            )
        case .connectionRefused:
            ErrorAdvice(
                "Nothing listens at the address and port of the upstream (in a credential's event, of the token endpoint).",
                .upstream,
                "Start it, or fix the port in upstream or in the credential's URL.",
                "authgateway doctor"
            )
        case .hostUnreachable:
            ErrorAdvice(
                "The network has no route to the upstream's address.",
                .operator,
                "Check the network and the firewall.",
                "authgateway doctor"
            )
        case .connectionTimeout:
            ErrorAdvice(
                "The upstream (in a credential's event, the token endpoint) did not accept a connection in time. A firewall that drops packets is a common cause.",
                .operator,
                "Check the network and the firewall.",
                "authgateway doctor"
            )
        case .connectionTerminated:
            ErrorAdvice(
                "The upstream (in a credential's event, the token endpoint) closed the connection before its response was complete.",
                .upstream,
                "Read that server's log. A request that is safe to repeat can be sent again.",
                "authgateway explain ID"
            )
        case .handshakeTimeout, .handshakeFailed, .certificateRefused, .certificateExpired, .certificateNotYetValid,
            .certificateUntrusted, .certificateNamesOther, .certificateNotPinned:
            tlsAdvice
        case .responseTimeout, .tunnelTimeout, .requestNotTaken, .responseNotTaken, .protocolError:
            exchangeAdvice
        case .proxyUnreachable, .proxyRefused, .proxyLoginRefused:
            proxyAdvice
        }
    }

    private var proxyAdvice: ErrorAdvice {
        switch self {
        case .proxyUnreachable:
            ErrorAdvice(
                "The proxy cannot be reached.",
                .operator,
                "Start it, or fix its URL or proxy.ca.",
                "authgateway doctor",
                "authgateway config explain routes.*.proxy"
            )
        case .proxyLoginRefused:
            ErrorAdvice(
                "The proxy did not accept the login, or requires one.",
                .operator,
                "Fix the login in proxy. Only Basic and Bearer are supported.",
                "authgateway config explain routes.*.proxy"
            )
        default:
            ErrorAdvice(
                "The proxy did not connect to the upstream.",
                .operator,
                "Allow the upstream there, or list it in no_proxy.",
                "authgateway explain ID",
                "authgateway config explain routes.*.proxy"
            )
        }
    }

    private var tlsAdvice: ErrorAdvice {
        switch self {
        case .handshakeTimeout:
            ErrorAdvice(
                "The upstream accepted the connection, but did not answer the TLS handshake in time.",
                .upstream,
                "Check that the port speaks TLS.",
                "authgateway doctor"
            )
        case .certificateExpired:
            ErrorAdvice(
                "The upstream's certificate has expired.",
                .upstream,
                "Renew the upstream's certificate. Check this machine's clock, too.",
                "authgateway doctor"
            )
        case .certificateNotYetValid:
            ErrorAdvice(
                "The upstream's certificate is not valid yet.",
                .operator,
                "Set this machine's clock.",
                "authgateway doctor"
            )
        case .certificateUntrusted:
            ErrorAdvice(
                "No CA that the gateway trusts has signed the upstream's certificate.",
                .operator,
                "Name the file with that CA in tls.ca of the route.",
                "authgateway config explain routes.*.tls"
            )
        case .certificateNamesOther:
            ErrorAdvice(
                "The upstream's certificate is for another name.",
                .operator,
                "Use the certificate's name in upstream.",
                "authgateway doctor"
            )
        case .certificateNotPinned:
            ErrorAdvice(
                "The upstream's certificate is not among those that the route pins.",
                .operator,
                "If the upstream was given a new key, add its pin to the route.",
                "authgateway config explain routes.*.tls"
            )
        case .certificateRefused:
            ErrorAdvice(
                "The upstream's certificate is not accepted, and no other code describes why.",
                .operator,
                "Look at the certificate.",
                "authgateway doctor"
            )
        default:
            ErrorAdvice(
                "The upstream and the gateway could not agree on TLS. The explanation has the upstream's TLS alert, or the library's reason.",
                .upstream,
                "Check that the port speaks TLS 1.2 or 1.3. If it requires a client certificate, set one in tls of the route.",
                "authgateway explain ID",
                "authgateway config explain routes.*.tls"
            )
        }
    }

    private var exchangeAdvice: ErrorAdvice {
        switch self {
        case .responseTimeout:
            ErrorAdvice(
                "The upstream was silent for longer than the route's timeouts or limits.response_timeout. In a credential's event, the token endpoint did not respond within 15 s.",
                .upstream,
                "If the upstream needs longer, set timeouts.response of the route, or timeouts.idle for a response that pauses. Calls to token endpoints are retried.",
                "authgateway config explain routes.*.timeouts"
            )
        case .tunnelTimeout:
            ErrorAdvice(
                "Nothing was sent through the tunnel for longer than timeouts.idle of the route, or limits.response_timeout.",
                .client,
                "Make the client send something from time to time, such as WebSocket pings, or set timeouts.idle of the route.",
                "authgateway explain ID",
                "authgateway config explain routes.*.timeouts"
            )
        case .requestNotTaken:
            ErrorAdvice(
                "The upstream stopped reading the request.",
                .upstream,
                "Read the upstream's log.",
                "authgateway explain ID"
            )
        case .responseNotTaken:
            ErrorAdvice(
                "The client stopped reading the response.",
                .client,
                "Make the client read faster, or close the connection when it is done.",
                "authgateway explain ID"
            )
        default:
            ErrorAdvice(
                "The other side violated HTTP. The explanation says how.",
                .upstream,
                "Fix the upstream.",
                "authgateway explain ID"
            )
        }
    }
}

/// Why a request failed, in one word of a bounded set: labels metrics, stands in the log, and merges events.
package struct FailureReason: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    private init(word: String) { description = word }

    /// The upstream answered with a status of 500 or more.
    package static let upstreamStatus = FailureReason(word: "upstream_status")
    /// The upstream rejected the credential that was injected, and no other one helped.
    package static let credentialRejected = FailureReason(word: "credential_rejected")

    /// The gateway answered by itself, or cut a response.
    ///
    /// What happened on the way to the upstream is told apart. On the way to a token endpoint the kind says enough, and whose way it was.
    package init(_ problem: GatewayProblem) {
        let error = problem.nextHop == nil ? problem.hopError : nil
        self.init(word: error?.rawValue ?? problem.kind.rawValue)
    }
}

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

    /// - Parameter error: An error of the TLS library.
    package init?(_ error: any Error) { self.init(in: String(describing: error)) }

    /// - Parameters:
    ///   - server: The server that sent it.
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
        case "certificate_required": "It requires a client certificate (\(key))."
        case "handshake_failure":
            "It may require a client certificate (\(key)), or share no cipher suite with the gateway."
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
