extension ProblemKind {
    /// The text of `authgateway explain-error` and of docs/errors.md.
    package var advice: ErrorAdvice {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .routeForbidden, .subjectRequired,
            .misdirected, .originRefused,
            .noRoute, .clientLimitReached:
            accessAdvice
        case .requestRefused, .methodRefused, .requestTimeout, .contentTooLarge, .targetTooLong, .fieldsTooLarge,
            .versionNotSupported:
            requestAdvice
        case .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable, .storeUnavailable,
            .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .loginFailed, .staticTokenExpired,
            .locked, .auditUnavailable:
            credentialAdvice
        case .upstreamUnreachable, .upstreamInvalidResponse, .upstreamTimeout, .upstreamBusy, .destinationProhibited,
            .loop, .upgradeFailed:
            upstreamAdvice
        case .draining:
            ErrorAdvice(
                "The gateway is stopping and takes no new request.",
                .time,
                "Send the request again after the seconds that Retry-After names.",
                "authgateway status"
            )
        case .overloaded:
            ErrorAdvice(
                "The gateway has reached one of its limits. The detail names it.",
                .operator,
                "Send fewer requests at once, or raise that key of limits.",
                "authgateway config explain limits"
            )
        case .internalError:
            ErrorAdvice(
                "The gateway failed at something that should not fail.",
                .operator,
                "Send the request again. If it fails again, report it with the lines of the log for this request.",
                "authgateway explain ID"
            )
        }
    }

    /// Who may use the gateway, and for what.
    private var accessAdvice: ErrorAdvice {
        switch self {
        case .clientAuthRequired:
            ErrorAdvice(
                "The request has no token of access.clients, or a wrong one.",
                .client,
                "Send the client token as Authorization: Bearer, or as Proxy-Authorization: Bearer.",
                "authgateway config explain access.clients"
            )
        case .proxyAuthRequired:
            ErrorAdvice(
                "The client uses the gateway as its proxy and sent no token of access.clients, or a wrong one.",
                .client,
                "Put name and token into the proxy's URL: http://CLIENT:TOKEN@127.0.0.1:8080.",
                "authgateway exec --client CLIENT -- PROGRAM"
            )
        case .routeForbidden:
            ErrorAdvice(
                "The route is for other clients, or its allow list has neither this method nor this path.",
                .operator,
                "Compare the request with clients and allow of the route.",
                "authgateway explain URL --client CLIENT"
            )
        case .subjectRequired:
            ErrorAdvice(
                "The credential has a token for each user, and the request names no user.",
                .client,
                "Send the user's id in the field that unique_id.header of the credential names.",
                "authgateway explain URL"
            )
        case .misdirected:
            ErrorAdvice(
                "The Host of the request is neither a name of the gateway nor one of a route.",
                .client,
                "Use one of the gateway's own names, or add the host to match.hosts of a route.",
                "authgateway routes"
            )
        case .engineAuthRequired:
            ErrorAdvice(
                "A proxy asked a listener of listeners.authz without the token of its engine, or with a wrong one.",
                .operator,
                "Have the proxy send the token of its listener in X-Gw-Engine-Token.",
                "authgateway config explain listeners.authz"
            )
        case .originRefused:
            ErrorAdvice(
                "A page of another site sent the request, or its Origin is the gateway's own and no client is known.",
                .operator,
                "Add the origin to access.allow_origins, or to allow_origins of the route. A program can send a client token instead.",
                "authgateway config explain access.allow_origins"
            )
        case .noRoute:
            ErrorAdvice(
                "No route has this path or this host.",
                .client,
                "Compare the URL with the list of routes.",
                "authgateway routes",
                "authgateway explain URL"
            )
        default:
            ErrorAdvice(
                "The client has reached one of its own limits. The detail names it.",
                .client,
                "Retry after the number of seconds in Retry-After, or raise the limit that the detail names.",
                "authgateway config explain access.clients",
                "authgateway config explain limits.upload_memory"
            )
        }
    }

    /// What the request itself is like.
    private var requestAdvice: ErrorAdvice {
        switch self {
        case .requestRefused:
            ErrorAdvice(
                "The request is not valid HTTP, or two recipients could read it in different ways.",
                .client,
                "Correct what the detail names. docs/http-strictness.md lists what is refused.",
                "authgateway explain ID"
            )
        case .methodRefused:
            ErrorAdvice(
                "The listener does not support this method.",
                .client,
                "TRACE is never supported. CONNECT needs a listener with intercept: true.",
                "authgateway config explain listeners.proxy"
            )
        case .requestTimeout:
            ErrorAdvice(
                "The request did not arrive whole in time.",
                .client,
                "Send it faster, or raise limits.header_timeout or limits.body_idle_timeout.",
                "authgateway config explain limits.header_timeout"
            )
        case .contentTooLarge:
            ErrorAdvice(
                "The content of the request is larger than the limit that the detail names.",
                .operator,
                "Send less, or raise that limit.",
                "authgateway config explain limits"
            )
        case .targetTooLong:
            ErrorAdvice(
                "Path and query of the request are longer than the limit that the detail names.",
                .client,
                "Send what is long as content of the request.",
                "authgateway config explain limits"
            )
        case .fieldsTooLarge:
            ErrorAdvice(
                "The header section is larger than the limit that the detail names, or does not fit in a frame of HTTP/2 to the upstream.",
                .client,
                "Send fewer or shorter fields. Large cookies are a common reason.",
                "authgateway config explain limits.header_bytes"
            )
        default:
            ErrorAdvice(
                "The request has a version of HTTP that the gateway does not support.",
                .client,
                "Use HTTP/1.0, HTTP/1.1 or HTTP/2.",
                "authgateway explain ID"
            )
        }
    }

    /// The way to the service behind the gateway.
    private var upstreamAdvice: ErrorAdvice {
        switch self {
        case .upstreamUnreachable:
            ErrorAdvice(
                "The gateway cannot connect to the upstream. The detail names the host.",
                .operator,
                "Check the name, the network and the certificate. doctor tries each of them.",
                "authgateway doctor",
                "authgateway explain ID"
            )
        case .upstreamInvalidResponse:
            ErrorAdvice(
                "The upstream's response is not valid HTTP, or too long for the client's version of HTTP. The detail says how.",
                .upstream,
                "Correct the upstream. An upstream URL with the wrong port is a common reason.",
                "authgateway explain ID"
            )
        case .upstreamTimeout:
            ErrorAdvice(
                "The upstream sent nothing in time. The detail names the limit.",
                .upstream,
                "If the upstream needs longer, set timeouts.response of the route.",
                "authgateway config explain routes.*.timeouts"
            )
        case .upstreamBusy:
            ErrorAdvice(
                "All connections to the upstream are in use, and too many requests wait for one.",
                .operator,
                "Send fewer requests at once, or raise the limit that the detail names.",
                "authgateway config explain limits"
            )
        case .destinationProhibited:
            ErrorAdvice(
                "The upstream's name leads to an address that the gateway never connects to.",
                .operator,
                "Check where the name leads. Link-local addresses, as of cloud metadata, are prohibited.",
                "authgateway doctor"
            )
        case .loop:
            ErrorAdvice(
                "The upstream of the route is this gateway.",
                .operator,
                "Correct upstream of the route.",
                "authgateway routes"
            )
        default:
            ErrorAdvice(
                "The upstream did not switch to the protocol that the client asked for.",
                .upstream,
                "Check that this path of the upstream speaks WebSocket. The detail says what it answered.",
                "authgateway explain ID"
            )
        }
    }
}
