package import GatewayHTTP

/// What an operator can do with a token.
package enum TokenOperation: Sendable {
    /// Renews now, whatever the age of the token.
    case refresh
    /// Has the authority forget the token, then forgets it here.
    case revoke
    /// Forgets the token here and in the store; the authority is not told. What the configuration holds counts again.
    case clear
    /// Takes this token in place of any other.
    case `import`(ImportedToken)
    /// Stops injecting, over restarts too.
    case lock
    case unlock

    /// Gateways that share the token store follow it.
    package var concernsOtherGateways: Bool {
        switch self {
        case .refresh: false
        case .revoke, .clear, .import, .lock, .unlock: true
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
