import GatewayCore

/// A grant whose tokens can be exchanged where they come from.
protocol ExchangeableGrant: TokenGrant {
    /// nil when it does not know the place.
    var exchange: ExchangePoint? { get }
}

/// Where and how tokens are exchanged for weaker ones.
struct ExchangePoint: Sendable {
    let url: AuthorityURL
    /// How the client proves itself; nil when it need not.
    var client: ClientAuthentication?
    /// Box wants no client, and knows shared links.
    var isBox = false
    /// Whether the parent's own tokens come from here.
    var isParents = true
    /// Where exchanged tokens are ended, unless it is as the parent's are.
    var revocation: RevocationEndpoint?
}
