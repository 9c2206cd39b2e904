import GatewayCore

/// Obtains an access token for an assertion that the gateway signs itself (RFC 7523 §2.1).
struct JWTBearerStrategy: AuthStrategy {
    static let kind = "oauth2_jwt_bearer"

    private let grant: JWTBearerGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        fields.hints = StandardNames.claims
        let errors = fields.context.errorCount
        let signer = fields.signer(key: "key")
        let client = OAuthClient(in: fields, own: ["assertion"]) { Self.authentication(in: fields, tokenURL: $0) }
        let claims = AssertionClaims(in: fields, audience: client?.tokenURL.text)
        guard let client, let signer, let claims, fields.context.errorCount == errors else { return nil }
        grant = JWTBearerGrant(client: client, signer: signer, claims: claims)
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.client.authentication?.clientTLS }

    /// Most authorities need none: the assertion says who asks.
    private static func authentication(in fields: ConfigFields, tokenURL: AuthorityURL?) -> ClientAuthentication? {
        guard ClientAuthentication.isNamed(in: fields, ownsKey: true) else { return nil }
        if fields.scalar("client_auth")?.scalar.text == ClientAuthentication.Method.privateKeyJWT.rawValue {
            fields.know("client_id")
            fields.error("client_auth", "the assertion is signed already; use body, basic or none")
            return nil
        }
        return ClientAuthentication(in: fields, tokenURL: tokenURL, allowsPublic: true, ownsKey: true)
    }
}

private struct JWTBearerGrant: OAuthGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    let client: OAuthClient
    let signer: JWTSigner
    let claims: AssertionClaims

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: JWTBearerStrategy.kind, subject: claims.subject)
        signer.addInputs(to: &identity)
        claims.addInputs(to: &identity)
        client.addInputs(to: &identity)
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in try request(in: attempt) }
    }

    private func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let assertion = try signer.sign(claims.all(in: attempt))
        let form = [
            TokenRequest.Parameter("grant_type", Self.grantType), TokenRequest.Parameter("assertion", assertion),
        ]
        return try client.request(form + .scope(client.scopes), in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        AssertionRepair.grant.answer(to: reply, in: attempt, from: Self.errors.authority, sign: firstStep)
            ?? Self.errors.answer(reply, in: &attempt)
    }

    private static let errors = OAuthErrors(
        authority: "The authority",
        advice: [
            OAuthErrors.Advice(
                code: "invalid_grant",
                text:
                    "it does not accept the assertion; check key, key_id and algorithm, and iss, sub and aud in claims."
            )
        ]
    )
}
