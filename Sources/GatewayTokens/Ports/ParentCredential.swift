package import GatewayEvents
package import GatewayHTTP

/// Where a token that is made from another credential's token finds that one.
package protocol ParentCredential: AnyObject, Sendable {
    var name: String { get }

    /// The token as it is used now; waits for one at most for `limit`.
    func liveToken(for demand: CredentialRequest, within limit: Duration) async -> Result<LiveToken, GatewayProblem>

    /// The authority said that this generation is not valid. Repeating it has no effect.
    func rejected(generation: Int, by demand: CredentialRequest)
}

/// A token that may be used now.
package struct LiveToken: Hashable, Sendable {
    package let generation: Int
    package let access: Secret
    package let expiresAt: UnixTime?

    package init(generation: Int, access: Secret, expiresAt: UnixTime?) {
        self.generation = generation
        self.access = access
        self.expiresAt = expiresAt
    }
}
