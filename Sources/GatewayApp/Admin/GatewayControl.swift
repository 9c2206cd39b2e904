package import GatewayEvents
package import GatewayHTTP
package import GatewayProxy
package import GatewayTokens

/// What an operator can see and do, for the admin listener and the commands that speak to it.
package protocol GatewayControl: Sendable {
    func tokens() async -> [TokenStatus]
    /// What ends at a known time and needs a person then, the nearest end first.
    func expirations() async -> [Expiration]
    func routes() async -> [RouteStatus]
    /// The traffic of each route, in the order of ``routes()``.
    func traffic() async -> [TrafficStatus]
    func overview() async -> GatewayOverview
    func readiness() async -> Readiness

    /// The gateways that share the token store with this one.
    func fleet() async -> Result<FleetReport, GatewayProblem>

    /// - Parameter credential: The name in the configuration; several names may share a token.
    func token(_ credential: String) async -> Result<TokenStatus, GatewayProblem>

    /// Does what an operator asks for. Audited with trigger `operator`.
    func perform(_ operation: TokenOperation, on credential: String) async -> Result<OperationReport, GatewayProblem>

    /// Hands out the access token itself, once the event `revealed` is committed.
    func reveal(_ credential: String) async -> Result<RevealedToken, GatewayProblem>

    /// Hands out a weaker token made from the credential's, once the event `downscoped` is committed.
    func downscope(_ credential: String, _ options: DownscopeOptions) async -> Result<RevealedToken, GatewayProblem>

    /// Replaces the key of the token store and encrypts all tokens anew. Audited.
    func rotateKey() async -> Result<KeyRotationReport, GatewayProblem>

    /// Makes a new local authority in the place of the present one. Audited.
    func rotateAuthority() async -> Result<AuthorityRotationReport, GatewayProblem>

    /// Records that the state is about to be copied.
    ///
    /// - Parameter includesKeys: Whether the copy has the keys, too.
    func noteBackup(includesKeys: Bool) async -> Result<BackupNote, GatewayProblem>

    /// Reads the configuration again; returns when the new one is served, or refused.
    func reload() async -> ReloadReport

    /// nil when the plan came from no file.
    func servedPlan() async -> ServedPlan?
}

/// What came of a rotation of the token store's key.
package struct KeyRotationReport: Hashable, Sendable, Codable {
    /// How many were encrypted anew.
    package var tokens: Int
    /// Where the new key is.
    package var file: String
}

/// What the gateway says to a copy of its state.
package struct BackupNote: Hashable, Sendable, Codable {
    /// Which gateway it is, as the audit log names it.
    package var instance: String
}

/// What came of a rotation of the local authority.
package struct AuthorityRotationReport: Hashable, Sendable, Codable {
    /// The hosts and suffixes that it can sign for.
    package var scopes: [String]
    /// Its certificates, which have to be trusted.
    package var file: String

    package init(scopes: [String], file: String) {
        self.scopes = scopes
        self.file = file
    }
}

package struct RouteStatus: Hashable, Sendable, Codable {
    package var name: String
    package var upstream: String
    package var path: String
    package var hosts: [String]
    /// nil when the route forwards without authentication.
    package var credential: String?
    package var strategy: String
    /// What the route still needs from a person before it works; nil when nothing.
    package var needs: String?
    /// How its upstream has answered lately; nil before the first request.
    package var health: UpstreamHealth?
    /// The engines that are handed its credential; nil where none is.
    package var authz: [String]?
}

/// What became of a reload.
package struct ReloadReport: Hashable, Sendable, Codable {
    package enum Cause: String, Sendable, Codable {
        /// A hang-up signal.
        case signal
        /// The files changed.
        case files
        /// A program printed another secret when its `ttl` had ended.
        case secret
        case `operator`
    }

    package enum Outcome: String, Sendable, Codable {
        case loaded
        /// The configuration has a problem, or changes what needs a restart.
        case refused
        /// Something else stood in the way, such as an address in use.
        case failed
    }

    package var cause: Cause
    package var outcome: Outcome
    /// The problems as people read them; empty if it was loaded.
    package var problems = ""
    package var changes: [PlanChange] = []
    package var warnings = ""
}

/// The plan that is served, to be compared with another one in another process.
package struct ServedPlan: Hashable, Sendable, Codable {
    package var digest: PlanDigest
    /// Hexadecimal, of the digests in it; new with every process.
    package var key: String

    package init(digest: PlanDigest, key: String) {
        self.digest = digest
        self.key = key
    }
}
