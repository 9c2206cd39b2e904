import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Signs a JSON web token (RFC 7519) that is itself the token for the upstream. No authorization server is asked.
struct JWTStrategy: AuthStrategy {
    static let kind = "jwt"
    static let otherNames = ["self_signed_jwt"]
    static let maySendRequests: Bool? = false

    /// What a claim may hold in double braces.
    private static let fingerprint = "fingerprint"

    private let grant: JWTGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        fields.hints = StandardNames.claims
        let errors = fields.context.errorCount
        let signer = fields.signerOrShared(key: "key", secret: "secret")
        let hasID = fields.bool("jti") ?? false
        let use = AssertionClaims.Use(
            maximumLifetime: .seconds(366 * 86_400),
            defaultLifetime: .seconds(300),
            requiresIssuer: false,
            hasID: hasID
        )
        let claims = AssertionClaims(in: fields, audience: nil, for: use)
        let placement = TokenPlacement(in: fields)
        guard let signer, var claims, let placement, fields.context.errorCount == errors else { return nil }
        var scope = TemplateScope()
        scope.constants[Self.fingerprint] = signer.fingerprint
        guard claims.settle(scope, in: fields) != nil else { return nil }
        grant = JWTGrant(
            signer: signer,
            claims: claims,
            hasID: hasID,
            placement: placement
        )
    }

    var behavior: AuthBehavior { .token(grant) }
}

private struct JWTGrant: TokenGrant {
    let signer: JWTSigner
    let claims: AssertionClaims
    let hasID: Bool
    let placement: TokenPlacement

    let isRenewable = true
    let rotatesRefreshToken = false
    let sendsSecrets = false

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: JWTStrategy.kind, subject: claims.subject)
        signer.addInputs(to: &identity)
        claims.addInputs(to: &identity)
        identity.add("jti", "\(hasID)")
        placement.addInputs(to: &identity)
        return identity
    }

    func seed(at now: Moment) -> TokenSet? { nil }
    func injection(of token: TokenSet) -> Injection { placement.injection(of: token) }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        .signed { () throws(TokenFailure) in
            let now = attempt.now.wall
            let token = TokenSet(
                access: try signer.sign(claims.all(in: attempt)),
                obtainedAt: now,
                expiresAt: claims.end(from: now)
            )
            guard let obstacle = placement.obstacle(to: token) else { return token }
            let detail = "The signed token cannot be applied: \(obstacle)."
            throw TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        }
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let detail = "The gateway signs this token itself and makes no token request."
        return .failure(TokenFailure(.terminal, problem: GatewayProblem(.internalError, detail)))
    }
}

extension JWTStrategy {
    static let meanings = SharedMeanings.of("passphrase", "key_id", "apply").merging([
        "key": KeyMeaning("The private key that tokens are signed with, in PEM.", example: "{file: key.p8}"),
        "secret": KeyMeaning(
            "The shared secret that tokens are signed with, for HS256, HS384 and HS512.",
            example: "{env: SIGNING_SECRET}"
        ),
        "algorithm": KeyMeaning("How tokens are signed.", default: "RS256", example: "ES256"),
        "claims": KeyMeaning(
            "The claims of the token. {{fingerprint}} stands for SHA256: and the digest of the public key. "
                + "exp and iat are added.",
            example: "iss: reporting\naud: https://api.example.com"
        ),
        "lifetime": KeyMeaning("How long a token is valid.", default: "5m", example: "20m"),
        "jti": KeyMeaning("Whether each token has a unique ID (the jti claim).", default: "false", example: "true"),
    ]) { _, own in own }
}
