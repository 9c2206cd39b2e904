/// Every kind of failure that the gateway answers by itself. The raw value ends the `type` URI of its problem
/// document (RFC 9457), labels metrics and stands in the log: a bounded set.
package enum ProblemKind: String, CaseIterable, Sendable {
    case clientAuthRequired = "client-auth-required"
    case proxyAuthRequired = "proxy-auth-required"
    case engineAuthRequired = "engine-auth-required"
    case adminAuthRequired = "admin-auth-required"
    case routeForbidden = "route-forbidden"
    case approvalRequired = "approval-required"
    case subjectRequired = "subject-required"
    case misdirected
    case originRefused = "origin-refused"
    case noRoute = "no-route"
    case requestRefused = "request-refused"
    case methodRefused = "method-refused"
    case requestTimeout = "request-timeout"
    case contentTooLarge = "content-too-large"
    case targetTooLong = "target-too-long"
    case fieldsTooLarge = "fields-too-large"
    case versionNotSupported = "version-not-supported"
    case clientLimitReached = "client-limit-reached"
    case tokenEndpointUnreachable = "token-endpoint-unreachable"
    case tokenEndpointTimeout = "token-endpoint-timeout"
    case tokenTemporarilyUnavailable = "token-temporarily-unavailable"
    case storeUnavailable = "store-unavailable"
    case reauthorizationRequired = "reauthorization-required"
    case credentialMisconfigured = "credential-misconfigured"
    case loginRequired = "login-required"
    case loginFailed = "login-failed"
    case staticTokenExpired = "static-token-expired"
    case auditUnavailable = "audit-unavailable"
    case upstreamUnreachable = "upstream-unreachable"
    case upstreamInvalidResponse = "upstream-invalid-response"
    case upstreamTimeout = "upstream-timeout"
    case upstreamBusy = "upstream-busy"
    case destinationProhibited = "destination-prohibited"
    case loop
    case upgradeFailed = "upgrade-failed"
    case locked
    case draining
    case overloaded
    case internalError = "internal-error"
}

/// What somebody can do about a failure.
package enum ProblemRecovery: String, CaseIterable, Sendable {
    case fixRequest = "fix_request"
    case retryLater = "retry_later"
    case reauthorize
    case fixConfiguration = "fix_configuration"
    case askOperator = "ask_operator"

    /// For docs/errors.md.
    var meaning: String {
        switch self {
        case .fixRequest: "The same request will fail again. Change it."
        case .retryLater: "The same request may succeed later, after `retry_after` seconds if given."
        case .reauthorize: "Somebody has to log in again, or import a new token."
        case .fixConfiguration: "Somebody has to fix the configuration, a certificate or a name."
        case .askOperator: "An operator did this on purpose. Ask them."
        }
    }
}

/// What each kind means: for clients, for connections and for the person who has to act.
extension ProblemKind {
    /// A client was not let in: the audit log records it.
    package var isDenial: Bool {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .routeForbidden: true
        default: false
        }
    }

    /// A request that no route was meant for: the access log counts it.
    package var isStray: Bool { self == .noRoute || self == .methodRefused || self == .misdirected }

    /// The client can avoid it: its request or its number of requests is the reason.
    package var isOfClient: Bool {
        switch self {
        case .requestTimeout, .clientLimitReached: true
        case .upgradeFailed: false
        default: recovery == .fixRequest
        }
    }

    package var status: Int {
        switch self {
        case .requestRefused, .subjectRequired, .loginFailed: 400
        case .clientAuthRequired, .engineAuthRequired, .adminAuthRequired: 401
        case .routeForbidden, .approvalRequired, .originRefused: 403
        case .noRoute: 404
        case .methodRefused: 405
        case .proxyAuthRequired: 407
        case .requestTimeout: 408
        case .contentTooLarge: 413
        case .targetTooLong: 414
        case .misdirected: 421
        case .clientLimitReached: 429
        case .fieldsTooLarge: 431
        case .credentialMisconfigured, .internalError: 500
        case .tokenEndpointUnreachable, .upstreamUnreachable, .upstreamInvalidResponse, .destinationProhibited, .loop,
            .upgradeFailed:
            502
        case .tokenTemporarilyUnavailable, .storeUnavailable, .reauthorizationRequired, .loginRequired,
            .staticTokenExpired, .auditUnavailable, .upstreamBusy, .locked, .draining, .overloaded:
            503
        case .tokenEndpointTimeout, .upstreamTimeout: 504
        case .versionNotSupported: 505
        }
    }

    /// The short, fixed title of the problem document.
    package var title: String {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired: "The gateway needs a client token"
        case .engineAuthRequired: "The gateway needs the engine's token"
        case .adminAuthRequired: "The admin listener needs an operator's token"
        case .routeForbidden: "This client is not allowed to do this"
        case .approvalRequired: "An operator has not approved this"
        case .subjectRequired: "The request must name a subject"
        case .misdirected: "Not a host of this gateway"
        case .originRefused: "Cross-site browser requests are refused"
        case .noRoute: "No route matches"
        case .requestRefused: "The request was refused"
        case .methodRefused: "The method is not supported"
        case .requestTimeout: "The request took too long to arrive"
        case .contentTooLarge: "The body is too large"
        case .targetTooLong: "The request target is too long"
        case .fieldsTooLarge: "The header section is too large"
        case .clientLimitReached: "This client has reached its limit"
        case .versionNotSupported: "The HTTP version is not supported"
        case .tokenEndpointUnreachable: "The token endpoint cannot be reached"
        case .tokenEndpointTimeout: "The token endpoint did not answer in time"
        case .tokenTemporarilyUnavailable: "No token at the moment"
        case .storeUnavailable: "The token store is unavailable"
        case .reauthorizationRequired: "The grant is no longer valid"
        case .credentialMisconfigured: "The credential is misconfigured"
        case .loginRequired: "A login is required"
        case .loginFailed: "The login failed"
        case .staticTokenExpired: "The token has expired"
        case .auditUnavailable: "The audit log cannot be written"
        case .upstreamUnreachable: "The upstream cannot be reached"
        case .upstreamInvalidResponse: "The upstream sent an invalid response"
        case .upstreamTimeout: "The upstream did not answer in time"
        case .upstreamBusy: "Too many requests are waiting for this upstream"
        case .destinationProhibited: "The destination address is prohibited"
        case .loop: "The request has come back to this gateway"
        case .upgradeFailed: "The protocol upgrade failed"
        case .locked: "The credential is locked"
        case .draining: "The gateway is stopping, its configuration has changed, or a lock ended the request"
        case .overloaded: "The gateway has no capacity left"
        case .internalError: "The gateway failed"
        }
    }

    /// The `error` parameter of `Proxy-Status` (RFC 9209 §2.3).
    package var proxyStatusError: String {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .routeForbidden,
            .approvalRequired, .misdirected,
            .originRefused, .requestRefused, .methodRefused, .requestTimeout, .contentTooLarge, .targetTooLong,
            .fieldsTooLarge, .versionNotSupported, .subjectRequired, .loginFailed, .locked, .draining, .overloaded,
            .clientLimitReached:
            "http_request_denied"
        case .noRoute: "destination_not_found"
        case .tokenEndpointUnreachable, .upstreamUnreachable: "connection_refused"
        case .tokenEndpointTimeout, .upstreamTimeout: "http_response_timeout"
        case .tokenTemporarilyUnavailable, .storeUnavailable, .auditUnavailable: "destination_unavailable"
        case .upstreamBusy: "connection_limit_reached"
        case .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .staticTokenExpired:
            "proxy_configuration_error"
        case .upstreamInvalidResponse: "http_protocol_error"
        case .destinationProhibited: "destination_ip_prohibited"
        case .loop: "proxy_loop_detected"
        case .upgradeFailed: "http_upgrade_failed"
        case .internalError: "proxy_internal_error"
        }
    }

    /// The upstream was asked, or was to be: it is the next hop of `Proxy-Status` (RFC 9209 §2.1.2).
    package var concernsUpstream: Bool {
        switch self {
        case .upstreamUnreachable, .upstreamInvalidResponse, .upstreamTimeout, .upstreamBusy, .destinationProhibited,
            .upgradeFailed:
            true
        default: false
        }
    }

    /// The request could be read in two ways: nothing that follows it on its connection is to be trusted.
    package var leavesConnectionDubious: Bool { self == .requestRefused }

    package var recovery: ProblemRecovery {
        switch self {
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .routeForbidden,
            .misdirected,
            .originRefused, .noRoute, .requestRefused, .methodRefused, .contentTooLarge, .targetTooLong,
            .fieldsTooLarge, .versionNotSupported,
            .upgradeFailed, .subjectRequired:
            .fixRequest
        case .reauthorizationRequired, .loginRequired, .loginFailed, .staticTokenExpired: .reauthorize
        case .credentialMisconfigured, .destinationProhibited, .loop, .auditUnavailable: .fixConfiguration
        case .locked, .approvalRequired: .askOperator
        case .requestTimeout, .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable,
            .storeUnavailable, .upstreamUnreachable, .upstreamInvalidResponse, .upstreamTimeout, .upstreamBusy,
            .draining,
            .overloaded, .internalError, .clientLimitReached:
            .retryLater
        }
    }
}
