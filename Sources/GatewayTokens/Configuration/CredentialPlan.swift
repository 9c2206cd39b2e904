package import GatewayConfiguration
package import GatewayHTTP

/// A credential as the configuration declares it.
///
/// Decoding, digests and `whoami` extend it in their own files: they belong to other targets or to longer concerns.
package struct CredentialPlan: Sendable {
    package var name: String
    package var strategyKind: String
    package var strategy: any AuthStrategy
    package var policy: RenewalPolicy
    /// The index into `Plan.credentials` of the one whose token it is made from.
    package var parent: Int?
    /// When the secret that it is made from ends, as far as the configuration says.
    package var expires: UnixTime?
    /// Where the secret comes from that it sends as it is; nil for one with a token.
    package var secretOrigin: SecretOrigin?
    /// Where the secret comes from with which it asks for tokens; nil where it has none.
    package var clientSecretOrigin: SecretOrigin?
    /// What the configuration says of it, word for word: equal for a credential that a reload leaves as it was.
    package var definition: [Secret] = []
    /// Its own `proxy`.
    var ownProxy: ProxySetting?
    /// The proxy for its requests to authorization servers: its own, or an inherited one; nil for none.
    package var proxy: ProxyRule?
    /// nil: the token is for routes alone.
    package var vend: VendPlan?
    package var span: SourceSpan
}

/// To which clients a credential's token is handed out, and which token that is.
package struct VendPlan: Hashable, Sendable {
    /// Names in `access.clients`.
    package var clients: [String]
    /// The index into `Plan.credentials`: of the credential itself, or of the weaker one that is made from it.
    package var credential: Int
}

/// The user for whom the upstream is told to act.
package struct ActingUser: Hashable, Sendable {
    package var id: String
    /// What names the user on a request.
    package var field: UserField
}
