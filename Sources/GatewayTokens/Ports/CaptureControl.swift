package import GatewayEvents
package import GatewayHTTP

/// Answers in the place of authorization servers whose logins are captured (`capture`), and knows the phantoms that clients got.
package protocol CaptureControl: AnyObject, Sendable {
    /// Whether the client may use the credential with this phantom. Returns at once.
    func admits(_ phantom: [UInt8], of client: String?, to credential: CapturedCredential) -> Bool

    /// - Parameter done: Called exactly once, on any thread, perhaps before this method returns.
    func answer(_ message: CapturedMessage, _ done: @escaping @Sendable (OAuthAnswer) -> Void)
}

/// A credential with `capture`.
package struct CapturedCredential: Hashable, Sendable {
    package let name: String
    /// Another one where the configuration changes which token it is: its phantoms end then.
    package let key: CredentialKey

    package init(name: String, key: CredentialKey) { (self.name, self.key) = (name, key) }
}

/// A request to an authorization server whose logins are captured. Its head was judged.
package struct CapturedMessage: Sendable {
    package let credential: CapturedCredential
    package let endpoint: CapturedRequest.Endpoint
    package let body: SecretBytes
    /// The value of `Authorization`.
    package let authorization: Secret?
    /// Its client at the gateway, and where it came.
    package let demand: CredentialRequest

    package init(
        to credential: CapturedCredential,
        at endpoint: CapturedRequest.Endpoint,
        body: SecretBytes,
        authorization: Secret?,
        demand: CredentialRequest
    ) {
        self.credential = credential
        self.endpoint = endpoint
        self.body = body
        self.authorization = authorization
        self.demand = demand
    }
}

/// What a grant knows of a login whose code a client exchanges.
package protocol CapturableLogin: Sendable {
    var clientID: String { get }
    var tokenURL: AuthorityURL { get }
    /// nil where phantoms cannot be revoked.
    var revocationURL: AuthorityURL? { get }

    /// - Parameters:
    ///   - form: What the client has sent, without what identifies it.
    ///   - nonce: See ``GrantAttempt/nonce``.
    func exchange(_ form: [TokenRequest.Parameter], nonce: String, at now: Moment) -> GrantStep
}

extension CapturableLogin {
    /// Where a client is answered by the gateway.
    package var endpoints: [(CapturedRequest.Endpoint, AuthorityEndpoint)] {
        [(.token, AuthorityEndpoint(tokenURL))] + (revocationURL.map { [(.revocation, AuthorityEndpoint($0))] } ?? [])
    }
}
