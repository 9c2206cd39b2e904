import GatewayCore

/// Obtains an access token for an assertion that the gateway signs itself (RFC 7523 §2.1).
struct JWTBearerStrategy: AuthStrategy {
    static let kind = "oauth2_jwt_bearer"

    private let grant: JWTBearerGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let signer = fields.signer(key: "key")
        let client = OAuthClient(in: fields, own: ["assertion"]) { Self.authentication(in: fields, tokenURL: $0) }
        let claims = AssertionClaims(in: fields, tokenURL: client?.tokenURL)
        guard let client, let signer, let claims, fields.context.errorCount == errors else { return nil }
        grant = JWTBearerGrant(client: client, signer: signer, claims: claims)
    }

    var behavior: AuthBehavior { .token(grant) }

    /// Most authorities need none: the assertion says who asks.
    private static func authentication(in fields: ConfigFields, tokenURL: AuthorityURL?) -> ClientAuthentication? {
        guard fields.has("client_id") || fields.has("client_secret") || fields.has("client_auth") else { return nil }
        if fields.scalar("client_auth")?.scalar.text == ClientAuthentication.Method.privateKeyJWT.rawValue {
            fields.know("client_id")
            fields.error("client_auth", "the assertion is signed already; use body, basic or none")
            return nil
        }
        return ClientAuthentication(in: fields, tokenURL: tokenURL, allowsPublic: true, ownsKey: true)
    }
}

/// `claims` and `lifetime`: what an assertion says, apart from when and which.
private struct AssertionClaims: Hashable {
    private static let own: Set<String> = ["exp", "iat", "nbf", "jti"]

    let fixed: [String: JSONValue]
    let lifetime: Duration

    init?(in fields: ConfigFields, tokenURL: AuthorityURL?) {
        let errors = fields.context.errorCount
        lifetime = fields.duration("lifetime", in: .seconds(1) ... .seconds(3600)) ?? .seconds(60)
        var claims: [String: JSONValue] = tokenURL.map { ["aud": .string($0.text)] } ?? [:]
        if !fields.has("claims") {
            fields.missing("claims")
        } else if let own = fields.fields("claims") {
            for name in own.keys {
                if Self.own.contains(name) {
                    own.error(name, "is written by the strategy")
                } else if let value = Self.value(own.node(name), name, own) {
                    claims[name] = value
                }
            }
            if !own.has("iss") { own.missing("iss") }
        }
        guard fields.context.errorCount == errors else { return nil }
        fixed = claims
    }

    private static func value(_ node: ConfigNode?, _ name: String, _ fields: ConfigFields) -> JSONValue? {
        guard let node else { return nil }
        switch node.content {
        case .scalar(let scalar) where !scalar.isNull:
            guard !scalar.isQuoted else { return .string(scalar.text) }
            switch scalar.text {
            case "true": return .bool(true)
            case "false": return .bool(false)
            default: return Int32(scalar.text).map { .number(Double($0)) } ?? .string(scalar.text)
            }
        case .sequence:
            return fields.strings(name).map { .array($0.map { .string($0) }) }
        default:
            fields.error(name, "expected a text, a number, true, false or a list of texts")
            return nil
        }
    }

    func all(in attempt: GrantAttempt, at now: UnixTime) -> [String: JSONValue] {
        var claims = fixed
        claims["iat"] = .time(now)
        claims["exp"] = .time(now + lifetime)
        claims["jti"] = .string(attempt.assertionID)
        return claims
    }

    /// Whom the token speaks for.
    var subject: String? { fixed["sub"]?.string }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("claims", (try? JSONValue.object(fixed).bytes()).map { String(decoding: $0, as: UTF8.self) })
        identity.add("lifetime", "\(lifetime)")
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
        GrantStep { () throws(TokenFailure) in try request(in: attempt, at: attempt.now.wall) }
    }

    private func request(in attempt: GrantAttempt, at now: UnixTime) throws(TokenFailure) -> TokenRequest {
        let assertion = try signer.sign(claims.all(in: attempt, at: now))
        let form = [
            TokenRequest.Parameter("grant_type", Self.grantType), TokenRequest.Parameter("assertion", assertion),
        ]
        return try client.request(form + .scope(client.scopes), in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        AssertionRepair.answer(reply, in: &attempt, as: Self.errors) { attempt, now throws(TokenFailure) in
            try request(in: attempt, at: now)
        }
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
