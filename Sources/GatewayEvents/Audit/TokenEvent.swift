package import GatewayHTTP

/// One row of the audit table `token_events`, as its author knows it; the log adds id, instance, fingerprint and chain.
package struct TokenEvent: Hashable, Sendable {
    package enum Name: String, CaseIterable, Sendable {
        case gatewayStarted = "gateway_started"
        case gatewayStopped = "gateway_stopped"
        case configLoaded = "config_loaded"
        case configRefused = "config_refused"
        /// A user of the admin listener asks for something that only operators may.
        case operatorRequest = "operator_request"
        case acquiring
        case acquired
        case acquisitionFailed = "acquisition_failed"
        case renewing
        case renewed
        case renewalFailed = "renewal_failed"
        case loaded
        case imported
        case injected
        case handedOut = "handed_out"
        case rejected
        case replayed
        case withheld
        case expired
        case revoked
        case revocationFailed = "revocation_failed"
        case cleared
        case downscoped
        case adopted
        case loginRequired = "login_required"
        case loginStarted = "login_started"
        case loginCompleted = "login_completed"
        case loginFailed = "login_failed"
        case expiringSoon = "expiring_soon"
        case revealed
        case vended
        case locked
        case unlocked
        case storeFailed = "store_failed"
        case clientDenied = "client_denied"
        case requestFailed = "request_failed"
        case keyRotating = "key_rotating"
        case keyRotated = "key_rotated"
        case authorityRotated = "authority_rotated"
        /// Recorded before the copy is made, so that it is in it.
        case stateBackedUp = "state_backed_up"
        case stateRestored = "state_restored"
        /// The first row of a log that was begun because its database was gone.
        case auditRecreated = "audit_recreated"
    }

    package enum Trigger: String, CaseIterable, Sendable {
        case startup
        case demand
        case aheadOfExpiry = "ahead_of_expiry"
        case rejected
        case `operator`
        case reload
        /// By itself, after a failure that somebody may have mended.
        case retry
    }

    package enum Outcome: String, Sendable {
        case ok
        case failed
    }

    package var at: UnixTime
    package var name: Name
    package var credential: String?
    package var strategy: String?
    package var subject: String?
    package var generation: Int?
    package var trigger: Trigger?
    package var demand: CredentialRequest?
    package var outcome: Outcome
    package var httpStatus: Int?
    /// From the allow-list of ``OAuthErrorCode``, a ``TokenTransportFailure/Reason``, a ``ProgramFailure/Reason``, a
    /// ``ProblemKind`` or a ``FailureReason``.
    package var errorCode: String?
    package var expiresAt: UnixTime?
    package var duration: Duration?
    package var waiters: Int?
    /// The token itself, for its fingerprint; the log never stores it.
    package var token: Secret?
    /// Small extras without secrets; stored as one JSON object.
    package var detail: [String: String]

    package init(
        at: UnixTime,
        name: Name,
        credential: String? = nil,
        strategy: String? = nil,
        subject: String? = nil,
        generation: Int? = nil,
        trigger: Trigger? = nil,
        demand: CredentialRequest? = nil,
        outcome: Outcome = .ok,
        httpStatus: Int? = nil,
        errorCode: String? = nil,
        expiresAt: UnixTime? = nil,
        duration: Duration? = nil,
        waiters: Int? = nil,
        token: Secret? = nil,
        detail: [String: String] = [:]
    ) {
        self.at = at
        self.name = name
        self.credential = credential
        self.strategy = strategy
        self.subject = subject
        self.generation = generation
        self.trigger = trigger
        self.demand = demand
        self.outcome = outcome
        self.httpStatus = httpStatus
        self.errorCode = errorCode
        self.expiresAt = expiresAt
        self.duration = duration
        self.waiters = waiters
        self.token = token
        self.detail = detail
    }
}

/// Uses of one token generation in one minute, as an event loop has counted them.
package struct TokenUse: Hashable, Sendable {
    package struct Key: Hashable, Sendable {
        /// The start of the minute.
        package let minute: UnixTime
        package let route: String
        package let client: String?
        package let credential: String
        package let generation: Int
        /// 2 for 2xx and so on; 0 when no response was sent.
        package let statusClass: Int

        package init(
            minute: UnixTime,
            route: String,
            client: String?,
            credential: String,
            generation: Int,
            statusClass: Int
        ) {
            self.minute = minute
            self.route = route
            self.client = client
            self.credential = credential
            self.generation = generation
            self.statusClass = statusClass
        }
    }

    package let key: Key
    package var requests: Int
    package var bytesReceived: Int
    package var bytesSent: Int

    package init(key: Key, requests: Int, bytesReceived: Int, bytesSent: Int) {
        self.key = key
        self.requests = requests
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
    }
}
