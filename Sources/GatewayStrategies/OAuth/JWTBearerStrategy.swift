import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Obtains an access token for an assertion that the gateway signs itself, or that others issue (RFC 7523 §2.1).
struct JWTBearerStrategy: AuthStrategy {
    static let kind = "oauth2_jwt_bearer"
    static let otherNames = ["jwt_bearer", "urn:ietf:params:oauth:grant-type:jwt-bearer"]

    private let grant: JWTBearerGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        fields.hints = StandardNames.claims
        let errors = fields.context.errorCount
        let isIssued = fields.has("assertion")
        let signer = isIssued ? nil : fields.signer(key: "key")
        let client = OAuthClient(in: fields, own: ["assertion"]) { Self.authentication(in: fields, tokenURL: $0) }
        let assertion =
            isIssued
            ? Self.issuedAssertion(in: fields)
            : Self.signedAssertion(in: fields, by: signer, audience: client?.tokenURL.text)
        guard let client, let assertion, fields.context.errorCount == errors else { return nil }
        grant = JWTBearerGrant(client: client, assertion: assertion)
    }

    private static func signedAssertion(
        in fields: ConfigFields,
        by signer: JWTSigner?,
        audience: String?
    ) -> GrantAssertion? {
        let claims = AssertionClaims(in: fields, audience: audience)
        guard let signer, let claims else { return nil }
        return .signed(signer, claims)
    }

    private static func issuedAssertion(in fields: ConfigFields) -> GrantAssertion? {
        for key in ["key", "passphrase", "key_id", "algorithm", "claims", "lifetime"] where fields.has(key) {
            if let node = fields.node(key) { fields.context.hide(node) }
            fields.error(key, "is for an assertion that the gateway signs; it cannot be combined with assertion")
        }
        return fields.requiredAssertion("assertion").map { .issued($0) }
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.client.authentication?.clientTLS }

    /// Most authorization servers need none: the assertion says who asks.
    private static func authentication(in fields: ConfigFields, tokenURL: AuthorityURL?) -> ClientAuthentication? {
        guard ClientAuthentication.isNamed(in: fields, ownsKey: true) else { return nil }
        let method = fields.scalar("client_auth")?.scalar.text
        if method == ClientAuthentication.Method.privateKeyJWT.rawValue {
            fields.know("client_id")
            fields.error("client_auth", "the assertion is signed already; use body, basic, tls or none")
            return nil
        }
        if method == ClientAuthentication.Method.assertion.rawValue {
            fields.know("client_id")
            fields.error("client_auth", "here the token is issued for the assertion; use body, basic, tls or none")
            return nil
        }
        return ClientAuthentication(in: fields, tokenURL: tokenURL, allowsPublic: true, ownsKey: true)
    }
}

/// What the token is given for.
private enum GrantAssertion {
    case signed(JWTSigner, AssertionClaims)
    case issued(AssertionSource)
}

private struct JWTBearerGrant: OAuthGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    let client: OAuthClient
    let assertion: GrantAssertion

    var identity: GrantIdentity {
        switch assertion {
        case .signed(let signer, let claims):
            var identity = GrantIdentity(strategy: JWTBearerStrategy.kind, subject: claims.subject)
            signer.addInputs(to: &identity)
            claims.addInputs(to: &identity)
            client.addInputs(to: &identity)
            return identity
        case .issued(let source):
            var identity = GrantIdentity(strategy: JWTBearerStrategy.kind, subject: nil)
            source.addInputs(to: &identity, as: "assertion")
            client.addInputs(to: &identity)
            return identity
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in try request(in: attempt) }
    }

    private func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let grantType = TokenRequest.Parameter("grant_type", Self.grantType)
        switch assertion {
        case .signed(let signer, let claims):
            let assertion = TokenRequest.Parameter("assertion", try signer.sign(claims.all(in: attempt)))
            return try client.request([grantType, assertion] + .scope(client.scopes), in: attempt)
        case .issued(let source):
            var request = try client.request([grantType] + .scope(client.scopes), in: attempt)
            request.issuedParameters.append(TokenRequest.IssuedParameter("assertion", from: source))
            return request
        }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        switch assertion {
        case .signed:
            AssertionRepair.grant.answer(to: reply, in: attempt, from: Self.errors.authority, sign: firstStep)
                ?? Self.errors.advising(client.authentication).answer(reply, in: &attempt)
        case .issued: Self.issuedErrors.advising(client.authentication).answer(reply, in: &attempt)
        }
    }

    private static let errors = OAuthErrors(
        authority: "The authorization server",
        advice: [
            OAuthErrors.Advice(
                code: "invalid_grant",
                text:
                    "it does not accept the assertion; check key, key_id and algorithm, and iss, sub and aud in claims."
            )
        ]
    )

    private static let issuedErrors = OAuthErrors(
        authority: "The authorization server",
        advice: [
            OAuthErrors.Advice(
                code: "invalid_grant",
                text:
                    "it does not accept the assertion; has it expired, and does the server trust its iss, sub and aud?"
            )
        ]
    )
}

extension JWTBearerStrategy {
    static let meanings = SharedMeanings.of(
        "token_url",
        "revoke_url",
        "scopes",
        "parameters",
        "client_id",
        "client_secret",
        "client_auth",
        "client_auth_encoding",
        "tls",
        "passphrase",
        "key_id",
        "algorithm"
    ).merging([
        "key": KeyMeaning("The private key that assertions are signed with, in PEM.", example: "{file: key.pem}"),
        "assertion": KeyMeaning(
            "An assertion from another issuer, instead of key and claims. It is read again for each token request.",
            example: "{file: /var/run/secrets/tokens/federation}"
        ),
        "claims": KeyMeaning(
            "The claims of the assertion. iss is required, and aud defaults to token_url.",
            example: "iss: mailer\nsub: postmaster@example.com"
        ),
        "lifetime": KeyMeaning("How long an assertion is valid; at most 1h.", default: "60s", example: "5m"),
    ]) { own, _ in own }
}
