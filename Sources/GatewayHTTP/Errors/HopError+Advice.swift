extension GatewayProblem.HopError {
    /// The text of `authgateway explain-error` and of docs/errors.md.
    package var advice: ErrorAdvice {
        switch self {
        case .nameNotResolved:
            ErrorAdvice(
                "No address is known for the upstream's name.",
                .operator,
                "Correct the name in upstream, or the name server of the machine.",
                "authgateway doctor"
            )
        case .nameTimeout:
            ErrorAdvice(
                "The name server did not answer in time.",
                .operator,
                "Check the name server of the machine.",
                "authgateway doctor"
            )
        case .connectionRefused:
            ErrorAdvice(
                "Nothing listens at the upstream's address and port.",
                .upstream,
                "Start the upstream, or correct the port in upstream.",
                "authgateway doctor"
            )
        case .hostUnreachable:
            ErrorAdvice(
                "The network has no way to the upstream's address.",
                .operator,
                "Check the network and the firewall.",
                "authgateway doctor"
            )
        case .connectionTimeout:
            ErrorAdvice(
                "The upstream's address did not answer in time. A firewall that drops packets is a common reason.",
                .operator,
                "Check the network and the firewall.",
                "authgateway doctor"
            )
        case .connectionTerminated:
            ErrorAdvice(
                "The upstream closed the connection before its response was whole.",
                .upstream,
                "Read the log of the upstream. A request that is safe to repeat can be sent again.",
                "authgateway explain ID"
            )
        case .handshakeTimeout, .handshakeFailed, .certificateRefused, .certificateExpired, .certificateNotYetValid,
            .certificateUntrusted, .certificateNamesOther, .certificateNotPinned:
            tlsAdvice
        case .responseTimeout, .tunnelTimeout, .requestNotTaken, .responseNotTaken, .protocolError:
            exchangeAdvice
        }
    }

    private var tlsAdvice: ErrorAdvice {
        switch self {
        case .handshakeTimeout:
            ErrorAdvice(
                "The upstream accepted the connection, and then did not answer TLS in time.",
                .upstream,
                "Check that the port speaks TLS.",
                "authgateway doctor"
            )
        case .certificateExpired:
            ErrorAdvice(
                "The upstream's certificate has ended.",
                .upstream,
                "Renew the certificate of the upstream. Check the clock of this machine, too.",
                "authgateway doctor"
            )
        case .certificateNotYetValid:
            ErrorAdvice(
                "The upstream's certificate is not valid yet.",
                .operator,
                "Set the clock of this machine.",
                "authgateway doctor"
            )
        case .certificateUntrusted:
            ErrorAdvice(
                "No authority that the gateway trusts has signed the upstream's certificate.",
                .operator,
                "Name the file with that authority in tls.ca of the route.",
                "authgateway config explain routes.*.tls"
            )
        case .certificateNamesOther:
            ErrorAdvice(
                "The upstream's certificate is for another name.",
                .operator,
                "Use the name of the certificate in upstream.",
                "authgateway doctor"
            )
        case .certificateNotPinned:
            ErrorAdvice(
                "The upstream's certificate is not one of those that the route pins.",
                .operator,
                "If the upstream has a new key on purpose, add its pin to the route.",
                "authgateway config explain routes.*.tls"
            )
        case .certificateRefused:
            ErrorAdvice(
                "The upstream's certificate is not accepted, for no reason that is known better.",
                .operator,
                "Look at the certificate.",
                "authgateway doctor"
            )
        default:
            ErrorAdvice(
                "The upstream and the gateway did not agree on TLS. The explanation has the upstream's TLS alert, or the library's reason.",
                .upstream,
                "Check that the port speaks TLS 1.2 or 1.3. If it wants a certificate, set one in tls of the route.",
                "authgateway explain ID",
                "authgateway config explain routes.*.tls"
            )
        }
    }

    private var exchangeAdvice: ErrorAdvice {
        switch self {
        case .responseTimeout:
            ErrorAdvice(
                "The upstream was silent for longer than timeouts of the route allows, or limits.response_timeout.",
                .upstream,
                "If the upstream needs longer, set timeouts.response of the route, or timeouts.idle for a response that pauses.",
                "authgateway config explain routes.*.timeouts"
            )
        case .tunnelTimeout:
            ErrorAdvice(
                "Nothing went through the tunnel for longer than timeouts.idle of the route, or limits.response_timeout.",
                .client,
                "Let the client send something from time to time, such as pings of WebSocket, or set timeouts.idle of the route.",
                "authgateway explain ID",
                "authgateway config explain routes.*.timeouts"
            )
        case .requestNotTaken:
            ErrorAdvice(
                "The upstream stopped reading the request.",
                .upstream,
                "Read the log of the upstream.",
                "authgateway explain ID"
            )
        case .responseNotTaken:
            ErrorAdvice(
                "The client stopped reading the response.",
                .client,
                "Let the client read faster, or close the connection when it needs no more.",
                "authgateway explain ID"
            )
        default:
            ErrorAdvice(
                "The other side broke a rule of HTTP. The explanation says which.",
                .upstream,
                "Correct the upstream.",
                "authgateway explain ID"
            )
        }
    }
}
