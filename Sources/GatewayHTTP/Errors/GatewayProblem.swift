/// A failure that a client may be told about: what it is, whose fault, and what to do.
///
/// Everything in it is safe to send: fixed text, names from the configuration, allow-listed error codes.
///
/// Files that need one particular problem extend it with that; `HopError` is long and has a file of its own.
package struct GatewayProblem: Error, Hashable, Sendable {
    package var kind: ProblemKind { facts.kind }
    /// One sentence that says what happened and, where it helps, what to do.
    package var detail: String {
        get { facts.detail }
        set { facts.detail = newValue }
    }
    /// What the authority or the upstream answered, when it did.
    package var cause: Cause? {
        get { facts.cause }
        set { facts.cause = newValue }
    }
    package var retryAfter: Duration? {
        get { facts.retryAfter }
        set { facts.retryAfter = newValue }
    }
    /// A command for the person who runs the gateway, for example `authgateway login campus`.
    package var command: String? {
        get { facts.command }
        set { facts.command = newValue }
    }
    /// An operation of an operator has failed, and taken the token away all the same: other gateways have that to follow.
    package var hasTakenAway: Bool {
        get { facts.hasTakenAway }
        set { facts.hasTakenAway = newValue }
    }
    /// What happened on the way, where the kind leaves several possibilities.
    package var hopError: HopError? {
        get { facts.hopError }
        set { facts.hopError = newValue }
    }
    /// Who failed, as `Proxy-Status` names it, where that is not the route's upstream: the token endpoint.
    package var nextHop: String? {
        get { facts.nextHop }
        set { facts.nextHop = newValue }
    }
    /// The response to a JSON-RPC call; nil for `application/problem+json`. It contains no names from the configuration.
    package var rpc: RPCRefusal? {
        get { facts.rpc }
        set { facts.rpc = newValue }
    }
    /// The answer to a client whose login is captured; nil for everything else. It has no names from the configuration.
    package var oauth: OAuthAnswer? {
        get { facts.oauth }
        set { facts.oauth = newValue }
    }

    private struct Facts: Hashable, Sendable {
        let kind: ProblemKind
        var detail: String
        var cause: Cause?
        var retryAfter: Duration?
        var command: String?
        var hasTakenAway = false
        var hopError: HopError?
        var nextHop: String?
        var rpc: RPCRefusal?
        var oauth: OAuthAnswer?
    }

    /// Every request asks a dozen rules for a problem and gets none. With the facts behind a pointer, that answer is one word.
    private indirect enum Box: Hashable, Sendable { case facts(Facts) }

    private var box: Box
    private var facts: Facts {
        get {
            switch box {
            case .facts(let facts): facts
            }
        }
        set { box = .facts(newValue) }
    }

    /// The same problem, answered in JSON-RPC.
    ///
    /// - Parameter id: nil if the request was not read.
    package func inRPC(id: String? = nil, code: Int) -> GatewayProblem {
        var problem = self
        problem.rpc = RPCRefusal(.init(id: id, code: code, message: detail), status: kind.status)
        return problem
    }

    /// The status of the answer.
    package var status: Int { rpc?.status ?? oauth?.status ?? kind.status }

    /// What happened in a few words: that of the kind, unless more is known.
    package var title: String {
        let wasConnected = kind == .upstreamUnreachable && hopError == .connectionTerminated
        return wasConnected ? "The connection to the upstream was lost" : kind.title
    }

    /// What somebody can do about it: that of the kind, unless more is known.
    package var recovery: ProblemRecovery {
        guard kind == .upstreamUnreachable || kind == .tokenEndpointUnreachable else { return kind.recovery }
        return switch hopError {
        // Waiting changes none of them.
        case .nameNotResolved, .certificateRefused, .certificateUntrusted, .certificateNamesOther,
            .certificateNotPinned, .handshakeFailed, .proxyLoginRefused:
            .fixConfiguration
        default: kind.recovery
        }
    }

    /// The `error` parameter of `Proxy-Status`.
    package var proxyStatusError: String { hopError?.proxyStatusError ?? kind.proxyStatusError }

    package struct Cause: Hashable, Sendable {
        /// An OAuth error code from the allow-list (``OAuthErrorCode``); never free text of the authority.
        package let code: String?
        package let httpStatus: Int?

        package init(code: String? = nil, httpStatus: Int? = nil) {
            self.code = code
            self.httpStatus = httpStatus
        }
    }

    package init(
        _ kind: ProblemKind,
        _ detail: String,
        cause: Cause? = nil,
        retryAfter: Duration? = nil,
        command: String? = nil,
        hopError: HopError? = nil,
        nextHop: String? = nil
    ) {
        box = .facts(
            Facts(
                kind: kind,
                detail: detail,
                cause: cause,
                retryAfter: retryAfter,
                command: command,
                hopError: hopError,
                nextHop: nextHop
            )
        )
    }
}

extension GatewayProblem {
    /// - Parameter credential: What has to be unlocked.
    package static func locked(_ credential: String) -> GatewayProblem {
        GatewayProblem(
            .locked,
            "An operator has locked the credential \(credential).",
            command: GatewayCommand.line("token", "unlock", credential)
        )
    }
}

extension GatewayProblem {
    /// The same problem for somebody who may not learn names from the configuration (``NameDisclosure``).
    ///
    /// The detail is the one of the kind, and there is no command and no next hop. What the authority answered is left out,
    /// too.
    package var withoutNames: GatewayProblem {
        var problem = GatewayProblem(
            kind,
            kind.detailForStrangers ?? detail,
            cause: kind.concernsClientToken ? cause : nil,
            retryAfter: retryAfter,
            hopError: hopError
        )
        problem.rpc = rpc
        problem.oauth = oauth
        return problem
    }
}

/// What a problem may tell somebody who may not learn names.
extension ProblemKind {
    fileprivate var concernsClientToken: Bool { self == .clientAuthRequired || self == .proxyAuthRequired }

    /// A detail that names nothing of the configuration; nil where every detail of the kind is like that.
    fileprivate var detailForStrangers: String? {
        switch self {
        // About the request alone, and the keys of `access` and `limits`.
        case .clientAuthRequired, .proxyAuthRequired, .engineAuthRequired, .adminAuthRequired, .misdirected,
            .originRefused,
            .requestRefused, .methodRefused, .contentTooLarge, .targetTooLong, .fieldsTooLarge, .versionNotSupported,
            .loop,
            .clientLimitReached:
            nil
        case .routeForbidden: "This request is not allowed."
        case .approvalRequired: "An operator has not approved this request."
        case .subjectRequired: "The request does not say on whose behalf it is made."
        case .noRoute: "No route matches."
        case .requestTimeout: "The request took too long, or its memory was needed for newer requests."
        case .tokenEndpointUnreachable, .tokenEndpointTimeout, .tokenTemporarilyUnavailable, .storeUnavailable,
            .auditUnavailable,
            .locked:
            "There is no credential for this request at the moment."
        case .reauthorizationRequired, .credentialMisconfigured, .loginRequired, .loginFailed, .staticTokenExpired:
            "There is no credential for this request. The operator of the gateway has to act."
        case .upstreamUnreachable: "The upstream cannot be reached."
        case .upstreamInvalidResponse, .upgradeFailed: "The upstream's response is not valid."
        case .upstreamTimeout: "The upstream did not answer in time."
        case .upstreamBusy: "Too many requests are waiting for the upstream."
        case .destinationProhibited: "The gateway does not connect to the upstream's address."
        case .draining: "The gateway cannot complete the request at the moment. Send the request again."
        case .overloaded: "The gateway has no capacity left. Send the request again later."
        case .internalError: "The gateway failed."
        }
    }
}
