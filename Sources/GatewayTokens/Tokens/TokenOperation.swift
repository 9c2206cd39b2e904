package import GatewayHTTP

/// What a keeper does with its token for an operator, between two calls of the authorization server.
///
/// Locks are not among these: they hold at once (``TokenKeeper/change(isLocked:)``).
package enum TokenOperation: Sendable {
    /// Renews now, whatever the age of the token.
    case refresh
    /// Has the authorization server forget the token, then forgets it here.
    case revoke
    /// Forgets the token here and in the store; the authorization server is not told. What the configuration holds counts again.
    case clear
    /// Takes this token in place of any other.
    case `import`(ImportedToken)
    /// Takes what a person's login has just brought, in place of any other.
    case login(TokenSet)
    /// The token that this one was made from is forgotten, and this one with it.
    case drop

    /// Gateways that share the token store follow it, and the operator is told whether they have.
    package var concernsOtherGateways: Bool {
        switch self {
        case .refresh, .login, .drop: false
        case .revoke, .clear, .import: true
        }
    }

    /// Whether it takes a right away. If so, it is carried out even after its caller has given up, and even if it cannot be recorded.
    package var isWithdrawal: Bool {
        switch self {
        case .revoke, .clear, .drop: true
        case .refresh, .import, .login: false
        }
    }
}

/// The result of an operation.
package struct OperationReport: Hashable, Sendable, Codable {
    /// One sentence for the person who asked.
    package var message: String
    package var token: TokenStatus
    /// nil where no other gateway shares the token store.
    package var fleet: FleetFollowing?

    package init(message: String, token: TokenStatus) {
        self.message = message
        self.token = token
    }

    package mutating func tell(of following: FleetFollowing) {
        fleet = following
        if let sentence = following.sentence { message += " \(sentence)" }
    }
}

/// An access token on its way to the operator who asked for it.
package struct RevealedToken: Hashable, Sendable {
    package let credential: String
    package let generation: Int
    package let access: Secret
    package let expiresAt: UnixTime?
}
