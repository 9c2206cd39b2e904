import GatewayCore

/// Obtains an access token with the client's own credentials and sends it as a bearer token.
///
/// Grant: RFC 6749 §4.4. Header: RFC 6750 §2.1.
struct ClientCredentialsStrategy: AuthStrategy {
    static let kind = "oauth2_client_credentials"

    private let grant: ClientCredentialsGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let tokenURL = fields.requiredAuthorityURL("token_url")
        let client = ClientAuthentication(in: fields, tokenURL: tokenURL)
        let scopes = fields.scopes()
        let parameters = fields.extraParameters()
        guard let tokenURL, let client, fields.context.errorCount == errors else { return nil }
        grant = ClientCredentialsGrant(tokenURL: tokenURL, client: client, scopes: scopes, parameters: parameters)
    }

    var behavior: AuthBehavior { .token(grant) }
}

private struct ClientCredentialsGrant: TokenGrant {
    let tokenURL: AuthorityURL
    let client: ClientAuthentication
    let scopes: [String]
    let parameters: [TokenRequest.Parameter]

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: ClientCredentialsStrategy.kind, subject: nil)
        identity.add("token_url", tokenURL.text)
        client.addInputs(to: &identity)
        identity.add("scope", scopes.joined(separator: " "))
        identity.add(parameters)
        return identity
    }

    let isRenewable = true
    let rotates = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let form = [TokenRequest.Parameter("grant_type", "client_credentials")] + .scope(scopes) + parameters
        return client.step(form, at: tokenURL, in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        GrantAnswer(OAuthErrors.standard.interpret(reply, at: attempt.now))
    }

    func revocation(of token: TokenSet) -> TokenRequest? { nil }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension ClientCredentialsGrant: ExchangeableGrant {
    var exchange: ExchangePoint? { ExchangePoint(url: tokenURL, client: client) }
}
