import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Obtains an access token with the client's own credentials and sends it as a bearer token.
///
/// Grant: RFC 6749 §4.4. Header: RFC 6750 §2.1.
struct ClientCredentialsStrategy: AuthStrategy {
    static let kind = "oauth2_client_credentials"
    static let otherNames = [
        "client_credentials", "oauth2", "client_secret_basic", "client_secret_post", "client_secret_jwt",
        "private_key_jwt", "tls_client_auth",
    ]

    private let grant: ClientCredentialsGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let client = OAuthClient(in: fields) { ClientAuthentication(in: fields, tokenURL: $0) }
        guard let client else { return nil }
        grant = ClientCredentialsGrant(client: client)
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.client.authentication?.clientTLS }
}

private struct ClientCredentialsGrant: OAuthGrant {
    let client: OAuthClient

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: ClientCredentialsStrategy.kind, subject: nil)
        client.addInputs(to: &identity)
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let form = [TokenRequest.Parameter("grant_type", "client_credentials")] + .scope(client.scopes)
        return GrantStep { () throws(TokenFailure) in try client.request(form, in: attempt) }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        client.authentication?.repair(after: reply, in: attempt, sign: firstStep)
            ?? OAuthErrors.standard.advising(client.authentication).answer(reply, in: &attempt)
    }
}

extension ClientCredentialsStrategy {
    static let meanings = SharedMeanings.client
        .merging(SharedMeanings.of("token_url", "revoke_url", "scopes", "parameters")) { own, _ in own }
}
