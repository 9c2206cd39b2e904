package import GatewayLocalAuthority
package import GatewayProxy
package import GatewayTokens

/// What a running gateway is and serves, apart from its credentials and routes. Holds no secret.
package struct GatewayOverview: Hashable, Sendable, Codable {
    /// What is known about the chain of the audit log without reading all of it.
    enum AuditChain: String, Sendable, Codable {
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
    var configurationLoadedAt: String
    var auditChain: AuditChain = .notVerified
    /// When the chain was recomputed, RFC 3339; nil when it was not.
    var auditVerifiedAt: String?
    /// Where clients find the gateway: URLs, and `unix:PATH`.
    package var listeners: [String] = []
    /// Whether requests need a client token.
    package var requiresClientToken = false
    /// The names of `access.clients`.
    package var clients: [String] = []
    /// When the tokens of the clients were last used.
    package var clientTokens: [ClientTokenStatus] = []
    /// The credentials with a token for each subject or scope, whether or not there is one now.
    package var perSubjectCredentials: [String] = []
    /// How many requests wait for an operator's approval; nil for none.
    package var heldRequests: Int?
    /// What clients can use as their proxy.
    package var proxy = ProxyOffer()
}

/// What a running gateway says of itself, as `status` shows it.
package struct StatusReport: Hashable, Sendable, Encodable {
    package var readiness: Readiness
    package var tokens: [TokenStatus]
    package var expirations: [Expiration]
    package var routes: [RouteStatus]
    package var clientTokens: [ClientTokenStatus]
    /// Whether it is about the gateway, not about one credential or route.
    private var isWhole = true

    private enum CodingKeys: String, CodingKey {
        case readiness, tokens, expirations, routes, clientTokens
    }

    package init(
        readiness: Readiness,
        tokens: [TokenStatus],
        expirations: [Expiration],
        routes: [RouteStatus],
        clientTokens: [ClientTokenStatus] = []
    ) {
        self.readiness = readiness
        self.tokens = tokens
        self.expirations = expirations
        self.routes = routes
        self.clientTokens = clientTokens
    }

    /// What needs a person, the worst first; the page counts the same.
    package var needing: [String] {
        // Reasons may be about other credentials.
        let readiness = isWhole ? readiness : Readiness(.ready)
        let items = Attention.items(readiness: readiness, tokens: tokens, expirations: expirations)
        return items.filter(\.needsPerson).map(\.name)
    }

    /// The names of credentials and routes.
    package var names: [String] { tokens.map(\.credential) + routes.map(\.name) }

    /// The part about one credential, with those made from it, or about one route and its credential.
    ///
    /// A name that both have means both. nil when neither has it.
    package func narrowed(to name: String) -> StatusReport? {
        let ownRoutes = routes.filter { $0.name == name || Self.isPart($0.credential ?? "", of: name) }
        let credentials = Set(ownRoutes.filter { $0.name == name }.compactMap(\.credential))
        func isMeant(_ credential: String) -> Bool {
            Self.isPart(credential, of: name) || credentials.contains { Self.isPart(credential, of: $0) }
        }
        let own = tokens.filter { isMeant($0.credential) }
        guard !own.isEmpty || !ownRoutes.isEmpty else { return nil }
        var report = self
        report.tokens = own
        report.routes = ownRoutes
        report.clientTokens = []
        report.isWhole = false
        report.expirations = expirations.filter { isMeant($0.of) }
        return report
    }

    /// `box[user 42]` belongs to `box`.
    private static func isPart(_ credential: String, of name: String) -> Bool {
        credential == name || credential.hasPrefix("\(name)[")
    }
}
