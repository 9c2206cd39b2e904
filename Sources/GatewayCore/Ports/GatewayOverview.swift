/// What a running gateway is and serves, apart from its credentials and routes. Holds no secret.
package struct GatewayOverview: Hashable, Sendable, Codable {
    /// What is known about the chain of the audit log without reading all of it.
    package enum AuditChain: String, Sendable, Codable {
        /// Nothing has been recomputed since the start.
        case notVerified = "not_verified"
        case intact
        case broken
    }

    package var version: String
    /// RFC 3339.
    package var startedAt: String
    /// Six hexadecimal digits that tell one configuration of this installation from another.
    package var configurationDigest: String
    /// RFC 3339.
    package var configurationLoadedAt: String
    package var auditChain: AuditChain
    /// When the chain was recomputed, RFC 3339; nil when it was not.
    package var auditVerifiedAt: String?
    /// Where clients find the gateway: URLs, and `unix:PATH`.
    package var listeners: [String]
    /// Whether requests need a client token.
    package var requiresClientToken: Bool
    /// The names of `access.clients`.
    package var clients: [String]
    /// When the tokens of the clients were last used.
    package var clientTokens: [ClientTokenStatus]
    /// The credentials with a token for each subject or scope, whether or not there is one now.
    package var perSubjectCredentials: [String]
    /// What clients can use as their proxy.
    package var proxy: ProxyOffer

    package init(
        version: String,
        startedAt: String,
        configurationDigest: String,
        configurationLoadedAt: String,
        auditChain: AuditChain = .notVerified,
        auditVerifiedAt: String? = nil,
        listeners: [String] = [],
        requiresClientToken: Bool = false,
        clients: [String] = [],
        clientTokens: [ClientTokenStatus] = [],
        perSubjectCredentials: [String] = [],
        proxy: ProxyOffer = ProxyOffer()
    ) {
        self.version = version
        self.startedAt = startedAt
        self.configurationDigest = configurationDigest
        self.configurationLoadedAt = configurationLoadedAt
        self.auditChain = auditChain
        self.auditVerifiedAt = auditVerifiedAt
        self.listeners = listeners
        self.requiresClientToken = requiresClientToken
        self.clients = clients
        self.clientTokens = clientTokens
        self.perSubjectCredentials = perSubjectCredentials
        self.proxy = proxy
    }
}
