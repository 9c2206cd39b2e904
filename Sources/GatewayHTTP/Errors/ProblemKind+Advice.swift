/// What a person who meets an error code needs to know: what happened, who can fix it, and how.
package struct ErrorAdvice: Hashable, Sendable, Encodable {
    /// Who can fix it. The raw value ends the sentence "who can fix it: ...".
    package enum Person: String, Sendable, Encodable {
        case client = "the developer or user of the client"
        case `operator` = "the operator of the gateway"
        case upstream = "the operator of the upstream"
        case authority = "the operator of the authorization server"
        case time = "no action needed; this resolves itself"
    }

    package let happened: String
    package let person: Person
    package let remedy: String
    /// Commands to type. `NAME` stands for the credential, `ID` for the request, `URL` for the request's address.
    package let commands: [String]

    init(_ happened: String, _ person: Person, _ remedy: String, _ commands: String...) {
        self.happened = happened
        self.person = person
        self.remedy = remedy
        self.commands = commands
    }
}

/// The advice for each kind.
extension ProblemKind {
    /// The text of `authgateway explain-error` and of docs/errors.md.
    package var advice: ErrorAdvice {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .routeForbidden,
            .approvalRequired, .subjectRequired,
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
                "The gateway is stopping, or a reload interrupted this request. A lock can, too, if another request used the same"
                    + " connection to the upstream.",
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
                "An internal error occurred in the gateway.",
                .operator,
                "Send the request again. If it fails again, report it with the log lines of this request.",
                "authgateway explain ID"
            )
        }
    }

    /// Who may use the gateway, and for what.
    private var accessAdvice: ErrorAdvice {
        switch self {
        case .clientAuthRequired:
            ErrorAdvice(
                "The request has no client token (access.clients), or an unknown one.",
                .client,
                "Send the client token in Authorization: Bearer, or in Proxy-Authorization: Bearer.",
                "authgateway config explain access.clients"
            )
        case .proxyAuthRequired:
            ErrorAdvice(
                "The client uses the gateway as its proxy, and sent no client token or an unknown one.",
                .client,
                "Put the name and the token into the proxy's URL: http://CLIENT:TOKEN@127.0.0.1:8080.",
                "authgateway exec --client CLIENT -- PROGRAM"
            )
        case .routeForbidden:
            ErrorAdvice(
                "The route is for other clients, or its allow list does not permit this method, path or MCP tool.",
                .operator,
                "Compare the request with clients and allow of the route.",
                "authgateway explain URL --client CLIENT"
            )
        case .approvalRequired:
            ErrorAdvice(
                "No operator approved the request, which a rule with approve holds.",
                .operator,
                "Ask an operator to approve it, then send it again.",
                "authgateway approve"
            )
        case .subjectRequired:
            ErrorAdvice(
                "The credential has a token for each user, and the request names no user.",
                .client,
                "Send the user's ID in the header field that unique_id.header of the credential names.",
                "authgateway explain URL"
            )
        case .misdirected:
            ErrorAdvice(
                "The Host header matches neither the gateway's own names nor the host of a route.",
                .client,
                "Use one of the gateway's own names, or add the host to match.hosts of a route.",
                "authgateway routes"
            )
        case .engineAuthRequired:
            ErrorAdvice(
                "An engine called a listener in listeners.authz without the listener's token, or with a wrong one.",
                .operator,
                "Make the engine send the listener's token in X-Gw-Engine-Token.",
                "authgateway config explain listeners.authz"
            )
        case .adminAuthRequired:
            ErrorAdvice(
                "A request to the admin listener has no operator's token, or a wrong one.",
                .operator,
                "Send the token in admin.token of the state directory, or a user's, in Authorization: Bearer. Commands on this machine read that file.",
                "authgateway config explain listeners.admin.users",
                "authgateway audit query --event client_denied"
            )
        case .originRefused:
            ErrorAdvice(
                "A web page of another site sent the request, or its Origin is the gateway's own and the client is unknown.",
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
                "Retry after the seconds in Retry-After, or raise that limit.",
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
                "The request is not valid HTTP, or two servers could read it differently.",
                .client,
                "Fix what the detail names. docs/internals/http-strictness.md lists what is refused.",
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
                "The request did not arrive completely in time.",
                .client,
                "Send it faster, or raise limits.header_timeout or limits.body_idle_timeout.",
                "authgateway config explain limits.header_timeout"
            )
        case .contentTooLarge:
            ErrorAdvice(
                "The body of the request is larger than the limit that the detail names.",
                .operator,
                "Send less, or raise that limit.",
                "authgateway config explain limits"
            )
        case .targetTooLong:
            ErrorAdvice(
                "The path and query of the request are longer than the limit that the detail names.",
                .client,
                "Send long values in the body.",
                "authgateway config explain limits"
            )
        case .fieldsTooLarge:
            ErrorAdvice(
                "The header is larger than the limit that the detail names, or does not fit into an HTTP/2 frame to the upstream.",
                .client,
                "Send fewer or shorter header fields. Large cookies are a common cause.",
                "authgateway config explain limits.header_bytes"
            )
        default:
            ErrorAdvice(
                "The gateway does not support the HTTP version of the request.",
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
                "The gateway could not connect to the upstream, or lost the connection before the response was complete. The detail says which.",
                .operator,
                "Check the name, the network and the certificate; doctor tries each. If the connection was lost, read the upstream's log.",
                "authgateway doctor",
                "authgateway explain ID"
            )
        case .upstreamInvalidResponse:
            ErrorAdvice(
                "The upstream's response is not valid HTTP, or too long for the client's version of HTTP. The detail says how.",
                .upstream,
                "Fix the upstream. A wrong port in the upstream's URL is a common cause.",
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
                "Too many requests wait for connections to the upstream, or it refused the request unread (REFUSED_STREAM).",
                .operator,
                "Send fewer requests at once, or raise the limit that the detail names. A refused request can be sent again.",
                "authgateway config explain limits"
            )
        case .destinationProhibited:
            ErrorAdvice(
                "The upstream's name resolves to an address that the gateway does not connect to.",
                .operator,
                "Check what the name resolves to. Link-local addresses, such as those of cloud metadata services, are prohibited.",
                "authgateway doctor"
            )
        case .loop:
            ErrorAdvice(
                "The upstream of the route is this gateway.",
                .operator,
                "Fix upstream of the route.",
                "authgateway routes"
            )
        default:
            ErrorAdvice(
                "The upstream did not switch to the protocol that the client asked for.",
                .upstream,
                "Check that this path of the upstream speaks WebSocket. The detail has its response.",
                "authgateway explain ID"
            )
        }
    }
}

extension ProblemKind {
    /// Tokens, and who hands them out.
    var credentialAdvice: ErrorAdvice {
        switch self {
        case .tokenEndpointUnreachable:
            ErrorAdvice(
                "The gateway got no valid response from the token endpoint. The detail names the host and what went wrong.",
                .operator,
                "Check the name, the network and the certificate; doctor tries each. If you have your own CA, add it to this machine's (update-ca-certificates).",
                "authgateway doctor",
                "authgateway status NAME"
            )
        case .tokenEndpointTimeout:
            ErrorAdvice(
                "The token endpoint did not respond within 15 s, or the request waited for a token for longer than limits.credential_timeout.",
                .authority,
                "The gateway retries by itself. The 15 s cannot be raised, but limits.credential_timeout (20s) can.",
                "authgateway status NAME",
                "authgateway config explain limits.credential_timeout"
            )
        case .tokenTemporarilyUnavailable:
            ErrorAdvice(
                "The authorization server is failing or sends no usable token, and no valid token is left.",
                .authority,
                "The gateway retries by itself, after 1 to 60 seconds. This command retries at once.",
                "authgateway token refresh NAME"
            )
        case .storeUnavailable:
            ErrorAdvice(
                "The token store is unavailable, so a refresh token that is valid only once is not sent.",
                .operator,
                "Fix the store that the log names. The gateway then continues by itself.",
                "authgateway status"
            )
        case .reauthorizationRequired:
            ErrorAdvice(
                "The authorization server no longer accepts the refresh token or the grant.",
                .operator,
                "Log in again, or import a new token.",
                "authgateway login NAME",
                "authgateway token import NAME"
            )
        case .credentialMisconfigured:
            ErrorAdvice(
                "The authorization server says that the ID, secret, scope or URL of the credential is wrong.",
                .operator,
                "Read the server's message, fix the configuration or the secret, then try again.",
                "authgateway status NAME",
                "authgateway reload",
                "authgateway token refresh NAME"
            )
        case .loginRequired:
            ErrorAdvice(
                "The credential acts for a person who has not logged in.",
                .operator,
                "Log in with a browser.",
                "authgateway login NAME"
            )
        case .loginFailed:
            ErrorAdvice(
                "A login ended without a token. The event login_failed has the reason.",
                .operator,
                "Read the reason, then log in again.",
                "authgateway audit query --event login_failed",
                "authgateway login NAME"
            )
        case .staticTokenExpired:
            ErrorAdvice(
                "The token has expired, and the gateway cannot renew it.",
                .operator,
                "Get a new token from the service, and import it.",
                "authgateway token import NAME"
            )
        case .locked:
            ErrorAdvice(
                "Somebody locked the credential. It is neither sent nor renewed.",
                .operator,
                "Find out why it was locked. Then unlock it.",
                "authgateway audit query --credential NAME",
                "authgateway token unlock NAME"
            )
        default:
            ErrorAdvice(
                "A new token could not be recorded in the audit log, so it is not used.",
                .operator,
                "Make room on the disk, or end the process that locks the database.",
                "authgateway status",
                "authgateway doctor"
            )
        }
    }
}
