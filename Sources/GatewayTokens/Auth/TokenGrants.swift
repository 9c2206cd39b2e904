package import GatewayHTTP

/// The grants of one credential that has many tokens, each with a key.
package protocol TokenGrants: Sendable {
    /// What the tokens have in common.
    var identity: GrantIdentity { get }

    /// How a request says which token it goes with.
    var naming: TokenNaming { get }

    /// What each token is for, in a message.
    var keyName: String { get }

    /// The maximum number of tokens at a time.
    var limit: Int { get }

    /// The key of the configuration that says so; nil where none does.
    var limitKey: String? { get }

    var isRenewable: Bool { get }

    /// Whether tokens outlive the process.
    var storesTokens: Bool { get }

    /// Where the requests of all of them go.
    var authorityEndpoints: [AuthorityEndpoint] { get }

    /// Why there is no token with this key, which comes from outside; nil where there is one.
    func refusal(of key: String, credential: String) -> GatewayProblem?

    /// - Parameter key: One that was not refused.
    func grant(for key: String) -> any TokenGrant
}

extension TokenGrants {
    package var storesTokens: Bool { true }
    package var authorityEndpoints: [AuthorityEndpoint] { [] }
}
