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
        /// Not trusted, without a reason that is known.
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
    }
}

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
        }
    }
}
