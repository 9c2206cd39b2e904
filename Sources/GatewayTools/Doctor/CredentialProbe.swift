import GatewayApp
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokenStores
import GatewayTokens
import Logging

/// Finds out whether each credential can give a token, and spends no refresh token for it.
///
/// A running gateway is asked. Without one, a token is fetched where that spends nothing, and the store is read elsewhere.
struct CredentialProbe: Sendable {
    let plan: Plan
    let running: RunningGatewayProbe.Answer
    let reader: StoredTokenReader?
    let isOffline: Bool
    /// Whether a token is fetched for each, however many there are.
    let triesAll: Bool

    /// How many tokens are fetched otherwise. An authority that has as many calls as credentials may refuse them all.
    private static let few = 100

    func findings() async -> [DoctorFinding] {
        let locked = LockedCredentials(plan)
        var observations: [Int: CredentialRule.Observation] = [:]
        var tried: Set<Int> = []
        for index in plan.credentials.indices {
            if let known = await look(at: index, locked) {
                observations[index] = known
            } else if triesAll || tried.count < Self.few {
                tried.insert(index)
            } else {
                observations[index] = .notTried(
                    "more than \(Self.few) tokens would be fetched; authgateway doctor --all fetches all"
                )
            }
        }
        for (index, result) in await attempt(tried) { observations[index] = result }
        let now = SystemClock().now().wall
        return plan.credentials.indices.compactMap { index in
            observations[index].map { CredentialRule.finding(of: plan.credentials[index].name, $0, at: now) }
        }
    }

    /// - Returns: nil for one whose token is to be fetched.
    private func look(at index: Int, _ locked: LockedCredentials) async -> CredentialRule.Observation? {
        let credential = plan.credentials[index]
        switch credential.strategy.behavior {
        case .none: return .fixed
        case .fixed, .onChallenge, .signed:
            if let status = running.tokens?[credential.name] { return .status(status) }
            return lock(of: credential, locked) ?? .fixed
        case .tokens:
            return lock(of: credential, locked) ?? .perSubject
        case .token(let grant):
            if let tokens = running.tokens { return look(at: tokens[credential.name], grant) }
            if running.observation == .hidden { return .notTried("this user may not read the state directory") }
            if running.isRunning { return .notTried("a gateway holds the state directory and does not answer") }
            if let lock = lock(of: credential, locked) { return lock }
            return await look(at: grant)
        }
    }

    private func lock(of credential: CredentialPlan, _ locked: LockedCredentials) -> CredentialRule.Observation? {
        locked.unknown.map { .notTried($0) } ?? (locked.contains(credential.name) ? .locked : nil)
    }

    /// What the running gateway says. One that no request has needed is tried, if that spends nothing of the gateway's.
    private func look(at status: TokenStatus?, _ grant: any TokenGrant) -> CredentialRule.Observation? {
        guard let status else { return .notTried("the running gateway does not have it; run authgateway reload") }
        let isUnknown = status.state == .empty && status.lastError == nil && status.failing == nil
        return isUnknown && isFree(grant) && !isOffline ? nil : .status(status)
    }

    private func look(at grant: any TokenGrant) async -> CredentialRule.Observation? {
        guard !isFree(grant) else { return isOffline ? .notTried("--offline") : nil }
        let stored = await reader?.stored(grant) ?? .nothing
        if stored == .nothing, let seed = grant.seed(at: SystemClock().now()) {
            return .configured(end: seed.expiresAt)
        }
        return .stored(stored, canLogIn: grant.login != nil)
    }

    /// A token can be fetched without spending one.
    private func isFree(_ grant: any TokenGrant) -> Bool { grant.isRenewable && !grant.rotatesRefreshToken }

    private func attempt(_ indices: Set<Int>) async -> [(Int, CredentialRule.Observation)] {
        guard !indices.isEmpty else { return [] }
        let endpoint = OutgoingHTTP(version: GatewayVersion.current)
        let logger = LogOutput.standardError.logger("authgateway.tokens", level: .critical)
        let trial = AcquireTrial(plan, only: indices, endpoint: endpoint, logger: logger)
        // As long as a request would wait for it.
        let outcomes = await Deadline.value(within: plan.limits.credentialTimeout) { await trial.run() }
        return indices.map { ($0, Self.observation(outcomes?[$0], plan.limits.credentialTimeout)) }
    }

    private static func observation(_ result: AcquireTrial.Result?, _ limit: Duration) -> CredentialRule.Observation {
        switch result {
        case .obtained?: .obtained
        case .notTried(let reason)?: .notTried(reason)
        case .failed(let problem)?: .failed(problem)
        case nil:
            .failed(GatewayProblem(.tokenEndpointTimeout, "No answer within \(ConfigUnits.text(limit))."))
        }
    }
}

/// Reads what a token store keeps for a credential. Nothing is written, and nothing is sent to an authority.
struct StoredTokenReader: Sendable {
    private let key: InstallationKey
    private let load: @Sendable (CredentialKey) async throws(TokenStoreError) -> StoredToken?
    /// The program that keeps the tokens; nil for a file.
    let program: TokenProgram?

    init(_ reader: SQLiteTokenReader, key: InstallationKey) {
        self.key = key
        program = nil
        load = { (name) throws(TokenStoreError) in try reader.load(name) }
    }

    init(_ store: PostgreSQLTokenStore, key: InstallationKey) {
        self.key = key
        program = nil
        load = { (name) throws(TokenStoreError) in try await store.load(name).token }
    }

    /// - Returns: nil without a program.
    init?(program: TokenProgram?, key: InstallationKey) {
        guard let program else { return nil }
        self.key = key
        self.program = program
        let subkey = key.derived(for: .tokenStore)
        let store = CommandTokenStore(program: program, runner: SystemProgramRunner(), key: subkey)
        load = { (name) throws(TokenStoreError) in try await store.load(name).token }
    }

    func stored(_ grant: any TokenGrant) async -> CredentialRule.Stored {
        do throws(TokenStoreError) {
            return try await load(key.credentialKey(for: grant.identity)).map { Self.facts(of: $0, grant) }
                ?? .nothing
        } catch {
            return .unreadable(error.reason)
        }
    }

    private static func facts(of stored: StoredToken, _ grant: any TokenGrant) -> CredentialRule.Stored {
        if stored.isRevoked { return .revoked }
        if stored.knownRefusal != nil { return .refused }
        if stored.isRestored, !grant.canAcquireAnew,
            stored.isRefreshTokenUncertain(rotates: grant.rotatesRefreshToken)
        {
            return .restored
        }
        if stored.attempt != nil { return .rotationUncertain }
        return .token(
            end: stored.isRejected ? stored.token.obtainedAt : stored.token.expiresAt,
            renewalEnd: stored.token.refreshTokenExpiresAt,
            hasRefreshToken: stored.token.refreshToken != nil
        )
    }
}
