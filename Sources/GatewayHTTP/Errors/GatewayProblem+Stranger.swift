extension GatewayProblem {
    /// The same problem for somebody who may not learn names from the configuration (``NameDisclosure``).
    ///
    /// The detail is the one of the kind, and there is no command and no next hop. What the authority answered is left out,
    /// too.
    package var withoutNames: GatewayProblem {
        GatewayProblem(
            kind,
            kind.detailForStrangers ?? detail,
            cause: kind.concernsClientToken ? cause : nil,
            retryAfter: retryAfter,
            hopError: hopError
        )
    }
}

extension ProblemKind {
    fileprivate var concernsClientToken: Bool { self == .clientAuthRequired || self == .proxyAuthRequired }

    /// A detail that names nothing of the configuration; nil where every detail of the kind is like that.
    fileprivate var detailForStrangers: String? {
        switch self {
        // About the request alone, and the keys of `access` and `limits`.
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .misdirected, .originRefused,
            .requestRefused, .methodRefused, .contentTooLarge, .targetTooLong, .fieldsTooLarge, .versionNotSupported,
            .loop,
            .clientLimitReached:
            nil
        case .routeForbidden: "This request is not allowed."
        case .subjectRequired: "The request does not say for whom it is made."
        case .noRoute: "No route matches."
        case .requestTimeout: "The request took too long, or its memory was needed for newer requests."
        case .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable, .storeUnavailable,
            .auditUnavailable,
            .locked:
            "There is no credential for this request at the moment."
        case .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .loginFailed, .staticTokenExpired:
            "There is no credential for this request. The operator of the gateway has to act."
        case .upstreamUnreachable: "The upstream cannot be reached."
        case .upstreamInvalidResponse, .upgradeFailed: "The upstream's answer is not valid."
        case .upstreamTimeout: "The upstream did not answer in time."
        case .upstreamBusy: "Too many requests wait for the upstream."
        case .destinationProhibited: "The gateway does not connect to the upstream's address."
        case .draining: "The gateway or the route is changing. Send the request again."
        case .overloaded: "The gateway has no capacity left. Send the request again later."
        case .internalError: "The gateway failed."
        }
    }
}
