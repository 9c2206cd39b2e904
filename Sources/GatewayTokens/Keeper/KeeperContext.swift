package import GatewayEvents
package import GatewayHTTP
package import Logging
import Metrics
import Synchronization

/// What a keeper lets others read without its lock.
final class PublishedToken: Sendable {
    private let offered = Mutex<Credential?>(nil)
    private let knownRevision = Atomic<Int64>(0)

    /// A copy of the machine's answer, so that the request path never takes a lock that may be held for long.
    var credential: Credential? { offered.withLock { $0 } }

    /// The revision that the record has, as far as the keeper knows.
    var revision: TokenRevision {
        get { TokenRevision(knownRevision.load(ordering: .acquiring)) }
        set { knownRevision.store(newValue.value, ordering: .releasing) }
    }

    /// Event loops that have kept another one ask again from now on. Called with the keeper's lock.
    func offer(_ servable: Credential?) {
        offered.withLock { offered in
            guard offered !== servable else { return }
            offered?.withdraw()
            servable?.offer()
            offered = servable
        }
    }
}

/// The grant and the ports of one keeper. A class, so that passing it on is cheap.
package final class KeeperContext: Sendable {
    let name: String
    let strategyKind: String
    let grant: any TokenGrant
    /// The subject of the tokens. Kept, because every event needs it and the grant computes its whole identity to tell.
    let subject: String?
    let policy: RenewalPolicy
    let key: CredentialKey
    let store: any TokenStore
    let endpoint: any TokenEndpoint
    let programs: any ProgramRunner
    let audit: any AuditLog
    let onAuditFailure: AuditPlan.OnFailure
    let clock: any GatewayClock
    let logger: Logger
    let metrics: KeeperMetrics
    let nonce: @Sendable () -> String
    /// Keeps the token that this one is made from; nil for a grant that needs none.
    let parent: TokenKeeper?
    /// Why the keys of a parent without a token of its own may not be used now; nil if they may, and for other grants.
    let parentProblem: @Sendable () -> GatewayProblem?
    let callLimit: SubjectCallLimit?
    /// Where the client's secret comes from; nil if unknown.
    let secretOrigin: SecretOrigin?
    let published = PublishedToken()

    /// - Parameters:
    ///   - parent: Keeps the token that this one is made from; nil for a grant that needs none.
    ///   - parentProblem: Why the keys of a parent that has no token of its own may not be used now.
    ///   - callLimit: Shared by all subjects of a credential whose requests name the subject; nil for any other credential.
    ///   - nonce: 128 random bits in hexadecimal; see ``GrantAttempt/nonce``.
    package init(
        name: String,
        strategyKind: String,
        grant: any TokenGrant,
        policy: RenewalPolicy,
        key: CredentialKey,
        store: any TokenStore,
        endpoint: any TokenEndpoint,
        programs: any ProgramRunner = NoPrograms(),
        audit: any AuditLog,
        onAuditFailure: AuditPlan.OnFailure,
        clock: any GatewayClock,
        logger: Logger,
        parent: TokenKeeper? = nil,
        parentProblem: @escaping @Sendable () -> GatewayProblem? = { nil },
        callLimit: SubjectCallLimit? = nil,
        secretOrigin: SecretOrigin? = nil,
        nonce: @escaping @Sendable () -> String = TokenKeeper.randomNonce
    ) {
        self.name = name
        self.strategyKind = strategyKind
        self.grant = grant
        subject = grant.identity.subject
        self.policy = policy
        self.key = key
        self.store = store
        self.endpoint = endpoint
        self.programs = programs
        self.audit = audit
        self.onAuditFailure = onAuditFailure
        self.clock = clock
        self.logger = logger
        self.nonce = nonce
        self.parent = parent
        self.parentProblem = parentProblem
        self.callLimit = callLimit
        self.secretOrigin = secretOrigin
        metrics = KeeperMetrics(credential: callLimit?.name ?? name, strategy: strategyKind)
    }

    /// The ports of another keeper, for a token that is made from its token and not stored. The calls count as the other keeper's.
    ///
    /// - Parameter parent: The other keeper.
    init(_ other: KeeperContext, exchangingBy grant: any TokenGrant, from parent: TokenKeeper) {
        name = "\(other.name).downscope"
        let identity = grant.identity
        strategyKind = identity.strategy
        subject = identity.subject
        self.grant = grant
        policy = other.policy
        key = other.key
        store = NoTokenStore()
        endpoint = other.endpoint
        programs = other.programs
        audit = other.audit
        onAuditFailure = other.onAuditFailure
        clock = other.clock
        logger = other.logger
        metrics = other.metrics
        nonce = other.nonce
        self.parent = parent
        parentProblem = { nil }
        callLimit = other.callLimit
        secretOrigin = other.secretOrigin
    }

    /// Whether the gateway gets the next token without a person.
    var isRenewable: Bool { grant.isRenewable && policy.isAutomatic }

    func rules(begunBy trigger: TokenEvent.Trigger) -> TokenKeeper.Machine.Rules {
        TokenKeeper.Machine.Rules(
            name: name,
            isRenewable: isRenewable,
            renewsAhead: grant.renewsAhead,
            canAcquireAnew: grant.canAcquireAnew,
            loginCommand: loginCommand,
            policy: policy,
            begunBy: trigger
        )
    }

    func attempt(holding token: TokenSet?) -> GrantAttempt {
        var attempt = GrantAttempt(holding: token, at: clock.now(), nonce: nonce())
        attempt.holdsSeed = token != nil && token?.access == grant.seed(at: attempt.now)?.access
        return attempt
    }

    /// What a person types to log in; nil for a credential without a login.
    var loginCommand: String? { loginCommand(with: []) }

    /// - Parameter scopes: Scopes to request in addition to the usual ones.
    func loginCommand(with scopes: [String]) -> String? {
        grant.login.map { _ in GatewayCommand.line(["login", name] + scopes.flatMap { ["--scope", $0] }) }
    }

    var refreshCommand: String { GatewayCommand.line("token", "refresh", name) }
    var importCommand: String { GatewayCommand.line("token", "import", name) }

    /// Why only a person gets the next token, although the grant is renewable; nil when it is not so.
    var manualRenewal: TokenFailure? {
        guard grant.isRenewable, !policy.isAutomatic else { return nil }
        let detail =
            "The token of \(name) has expired or was rejected, and is not renewed automatically (renew: false)."
        return TokenFailure(.terminal, problem: GatewayProblem(.staticTokenExpired, detail, command: refreshCommand))
    }

    /// See ``FreshToken/lacksRefreshToken``.
    func lacksRefreshToken(_ token: TokenSet) -> Bool {
        isRenewable && grant.login != nil && grant.rotatesRefreshToken && !grant.canAcquireAnew
            && token.refreshToken == nil
    }

    /// Why the refresh token of a restored record is not sent without an operator: see ``RenewalRecord/Hold/restored``.
    var restored: TokenFailure {
        let detail =
            "The refresh token of \(name) comes from a backup and may have been used since, so the gateway does not send"
            + " it. A new login is needed. If nothing has used the token since the backup, refresh it:"
            + " \(refreshCommand)."
        return TokenFailure(.loginRequired, problem: GatewayProblem(.reauthorizationRequired, detail))
    }

    /// The problem if an operator had it sent and the server refused it.
    var restoredAndRefused: String {
        "The refresh token of \(name) comes from a backup, and the authorization server no longer accepts it: it was used after the"
            + " backup, or it has expired. A new login is needed."
    }

    /// Names the command that a person types, and how the credential works again.
    func advised(_ failure: TokenFailure) -> TokenFailure {
        failure.advised(
            login: loginCommand,
            refresh: refreshCommand,
            importing: importCommand,
            secret: secretOrigin
        )
    }

    /// Why a credential without any token gets none by itself; nil when it does.
    var missingLogin: GatewayProblem? {
        // Nothing is sent, and random bits cost a call of the system for each of many credentials.
        let attempt = GrantAttempt(holding: nil, at: clock.now(), nonce: String(repeating: "0", count: 32))
        guard case .impossible(let failure) = grant.firstStep(of: attempt),
            failure.class.asksForLogin
        else { return nil }
        return advised(failure).problem
    }

    /// What an answer without success says, without the secrets of the request and the attempt.
    func said(_ reply: TokenReply, to secrets: [Secret], in attempt: GrantAttempt) -> AuthorityError? {
        AuthorityError(reply, hiding: secrets + attempt.secrets + grant.hiddenSecrets)
    }

    func event(_ name: TokenEvent.Name, generation: Int? = nil, trigger: TokenEvent.Trigger? = nil) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: self.name,
            strategy: strategyKind,
            subject: subject,
            generation: generation,
            trigger: trigger
        )
    }

    /// Writes an event that must be committed before what it speaks of is done.
    ///
    /// - Returns: nil when it may be done; with `audit.on_failure: degrade` that is always.
    func commit(_ event: TokenEvent) async -> TokenFailure? {
        guard await obstacle(to: event) != nil else { return nil }
        return TokenFailure(
            .transient(retryAfter: nil),
            problem: GatewayProblem(
                .auditUnavailable,
                "The audit log cannot be written, so no new token of the credential \(name) is used."
            )
        )
    }

    /// Writes an event as ``commit(_:)`` does.
    ///
    /// - Returns: Why it must not be done.
    func obstacle(to event: TokenEvent) async -> AuditError? {
        do throws(AuditError) {
            try await audit.record(event)
            return nil
        } catch {
            metrics.auditFailed()
            logger.error(
                "Token event could not be recorded",
                metadata: [
                    "gateway.credential": "\(name)", "gateway.event": "\(event.name.rawValue)",
                    "gateway.reason": "\(error.reason)", "gateway.on_failure": "\(onAuditFailure.rawValue)",
                ]
            )
            return onAuditFailure == .block ? error : nil
        }
    }

    /// Says once what was odd about an answer.
    func log(_ remarks: inout [String]) {
        for remark in remarks {
            logger.warning(
                "Unexpected token response",
                metadata: ["gateway.credential": "\(name)", "gateway.remark": "\(remark)"]
            )
        }
        remarks = []
    }

    /// Writes an event whose loss does not stop anything.
    ///
    /// - Returns: Why it is not recorded. What takes a right away is recorded later.
    @discardableResult
    func note(_ event: TokenEvent) async -> AuditError? {
        let isWithdrawal = event.name.isWithdrawal
        do throws(AuditError) {
            if !isWithdrawal {
                try await audit.record(event)
            } else if let error = await audit.recordSoon(event) {
                throw error
            }
            return nil
        } catch {
            metrics.auditFailed()
            // EventQueue logs once that it has no room for what requests cause.
            guard event.name.priority > .traffic else { return error }
            logger.warning(
                isWithdrawal ? "Token event is not recorded yet" : "Token event was lost",
                metadata: [
                    "gateway.credential": "\(name)", "gateway.event": "\(event.name.rawValue)",
                    "gateway.reason": "\(error.reason)",
                ]
            )
            return error
        }
    }
}

/// Labels are names from the configuration and fixed words only.
struct KeeperMetrics: Sendable {
    private let labels: [(String, String)]

    init(credential: String, strategy: String) {
        labels = [("credential", credential), ("strategy", strategy)]
    }

    func called(outcome: String, took duration: Duration) {
        Counter(label: "gateway_token_calls_total", dimensions: labels + [("outcome", outcome)]).increment()
        Timer(label: "gateway_token_call_seconds", dimensions: labels).recordNanoseconds(duration.wholeNanoseconds)
    }

    func vended() { Counter(label: "gateway_tokens_vended_total", dimensions: labels).increment() }
    func rejected() { Counter(label: "gateway_token_rejections_total", dimensions: labels).increment() }
    func storeFailed() { Counter(label: "gateway_token_store_failures_total", dimensions: labels).increment() }
    func auditFailed() { Counter(label: "gateway_token_audit_failures_total", dimensions: labels).increment() }
    func noteDropped() { Counter(label: "gateway_token_notes_dropped_total", dimensions: labels).increment() }
    func storm() { Counter(label: "gateway_token_storms_total", dimensions: labels).increment() }
}
