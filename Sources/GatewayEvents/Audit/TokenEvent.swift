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
        /// An upstream misses a scope in the token, which a login would have to ask for.
        case scopeMissing = "scope_missing"
        case loginStarted = "login_started"
        case loginCompleted = "login_completed"
        case loginFailed = "login_failed"
        /// A client got phantoms of a login that it began itself.
        case phantomsIssued = "phantoms_issued"
        case phantomsRevoked = "phantoms_revoked"
        case expiringSoon = "expiring_soon"
        case revealed
        case vended
        case locked
        case unlocked
        case storeFailed = "store_failed"
        case clientDenied = "client_denied"
        case requestFailed = "request_failed"
        /// A request waits for an operator's approval.
        case requestHeld = "request_held"
        case requestApproved = "request_approved"
        case requestDenied = "request_denied"
        /// One that was approved is sent: its approval is used.
        case requestReleased = "request_released"
        /// It was not approved in time.
        case requestExpired = "request_expired"
        /// It ended for another reason before it was sent.
        case requestDropped = "request_dropped"
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
        /// By itself, after a failure whose cause may have been fixed.
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

    /// How many of the requests were answered with the three statuses that say most about a credential: they are counted beside the
    /// class, so that they can be told apart without a row for each status.
    package struct Refusals: Hashable, Sendable {
        /// 401
        package private(set) var unauthorized = 0
        /// 403
        package private(set) var forbidden = 0
        /// 429
        package private(set) var tooMany = 0

        package init() {}

        /// For requests that were all answered with the same status.
        package init(status: Int, requests: Int) {
            switch status {
            case 401: unauthorized = requests
            case 403: forbidden = requests
            case 429: tooMany = requests
            default: break
            }
        }

        package mutating func add(_ other: Refusals) {
            unauthorized += other.unauthorized
            forbidden += other.forbidden
            tooMany += other.tooMany
        }
    }

    package let key: Key
    package var requests: Int
    package var refusals: Refusals
    package var bytesReceived: Int
    package var bytesSent: Int

    package init(key: Key, requests: Int, refusals: Refusals = Refusals(), bytesReceived: Int, bytesSent: Int) {
        self.key = key
        self.requests = requests
        self.refusals = refusals
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
    }
}

/// Who needs a credential; ends up in the audit log.
package struct CredentialRequest: Hashable, Sendable {
    package let route: String
    package let client: String?
    package let requestID: String
    /// The client's own id of the request, where it sent one.
    package let clientRequestID: String?
    /// The engine that asked on behalf of the client; nil where the gateway sends the request itself.
    package let engine: String?

    package init(
        route: String,
        client: String?,
        requestID: String,
        clientRequestID: String? = nil,
        engine: String? = nil
    ) {
        self.engine = engine
        self.route = route
        self.client = client
        self.requestID = requestID
        self.clientRequestID = clientRequestID
    }
}

extension CredentialRequest {
    /// What a first use is counted by: each engine is one for all routes.
    package var use: String { engine.map { "authz/\($0)" } ?? route }
}

/// Which rows the audit log goes without first when it runs out of room, lowest first.
package enum AuditPriority: Int, CaseIterable, Comparable, Sendable {
    /// What requests cause and what stops nothing when it is missing: denials, uses, counts.
    case traffic
    /// What happens to tokens. With `audit.on_failure: block` no token is used without it.
    case token
    /// What operators do, and the gateway itself. Without it a gateway could neither start nor be repaired.
    case `operator`

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension TokenEvent.Name {
    package var priority: AuditPriority {
        switch self {
        case .injected, .replayed, .withheld, .clientDenied, .requestFailed, .requestHeld, .requestExpired,
            .requestDropped:
            .traffic
        case .acquiring, .acquired, .acquisitionFailed, .renewing, .renewed, .renewalFailed, .loaded, .rejected,
            .expired, .downscoped, .adopted, .loginRequired, .scopeMissing, .phantomsIssued, .expiringSoon, .vended,
            .handedOut,
            .storeFailed:
            .token
        case .gatewayStarted, .gatewayStopped, .configLoaded, .configRefused, .operatorRequest, .imported, .revoked,
            .revocationFailed,
            .cleared, .loginStarted, .loginCompleted, .loginFailed, .phantomsRevoked, .revealed, .locked, .unlocked,
            .keyRotating, .keyRotated, .authorityRotated, .stateBackedUp, .stateRestored, .auditRecreated,
            .requestApproved, .requestDenied, .requestReleased:
            .operator
        }
    }

    /// Whether it takes a right away. That is done first, whatever the audit log does, and recorded as soon as possible.
    /// What gives a right is recorded first.
    package var isWithdrawal: Bool {
        switch self {
        case .locked, .cleared, .revoked, .revocationFailed, .phantomsRevoked: true
        default: false
        }
    }
}

/// What a gateway records of credentials that are unlocked because the shared store no longer has their locks.
///
/// An operator of another gateway may have unlocked them, and then that gateway has recorded it. Or somebody has changed the store.
package enum SharedUnlocks {
    /// The maximum for one look at the store. One more event counts the rest, so that a changed store cannot fill the audit log.
    package static let maximumEvents = 100

    /// - Parameters:
    ///   - names: As operators use them: `box`, or `app-user[42]`.
    ///   - strategies: Those of the credentials in the configuration. Their events come first.
    package static func events(of names: Set<String>, strategies: [String: String], at now: UnixTime) -> [TokenEvent] {
        let strategy: (String) -> String? = { name in strategies[String(name.prefix { $0 != "[" })] }
        let known = names.filter { strategies[$0] != nil }
        let sorted = known.sorted() + names.subtracting(known).sorted()
        var events = sorted.prefix(maximumEvents).map { event($0, strategy($0), now) }
        if sorted.count > events.count {
            var rest = event(nil, nil, now)
            rest.detail["credentials"] = String(sorted.count - events.count)
            events.append(rest)
        }
        return events
    }

    private static func event(_ credential: String?, _ strategy: String?, _ now: UnixTime) -> TokenEvent {
        var event = TokenEvent(at: now, name: .unlocked, credential: credential, strategy: strategy)
        event.detail = ["from": "store"]
        return event
    }
}
