import GatewayCore

/// Obtains an access token for an assertion that the gateway signs itself (RFC 7523 §2.1).
struct JWTBearerStrategy: AuthStrategy {
    static let kind = "oauth2_jwt_bearer"

    private let grant: JWTBearerGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let tokenURL = fields.requiredAuthorityURL("token_url")
        let signer = fields.signer(key: "key")
        let claims = AssertionClaims(in: fields, tokenURL: tokenURL)
        let client = Self.client(in: fields, tokenURL: tokenURL)
        let scopes = fields.scopes()
        let parameters = fields.extraParameters(own: ["assertion"])
        guard let tokenURL, let signer, let claims, fields.context.errorCount == errors else { return nil }
        grant = JWTBearerGrant(
            tokenURL: tokenURL,
            signer: signer,
            claims: claims,
            client: client,
            scopes: scopes,
            parameters: parameters
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    /// Most authorities need none: the assertion says who asks.
    private static func client(in fields: ConfigFields, tokenURL: AuthorityURL?) -> ClientAuthentication? {
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

private struct JWTBearerGrant: TokenGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    let tokenURL: AuthorityURL
    let signer: JWTSigner
    let claims: AssertionClaims
    let client: ClientAuthentication?
    let scopes: [String]
    let parameters: [TokenRequest.Parameter]

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: JWTBearerStrategy.kind, subject: claims.subject)
        identity.add("token_url", tokenURL.text)
        signer.addInputs(to: &identity)
        claims.addInputs(to: &identity)
        client?.addInputs(to: &identity)
        identity.add("scope", scopes.joined(separator: " "))
        identity.add(parameters)
        return identity
    }

    let isRenewable = true
    let rotates = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        do throws(TokenFailure) {
            return .request(try request(in: attempt, at: attempt.now.wall))
        } catch {
            return .impossible(error)
        }
    }

    private func request(in attempt: GrantAttempt, at now: UnixTime) throws(TokenFailure) -> TokenRequest {
        let assertion = try signer.sign(claims.all(in: attempt, at: now))
        let own = [
            TokenRequest.Parameter("grant_type", Self.grantType), TokenRequest.Parameter("assertion", assertion),
        ]
        let request = TokenRequest(url: tokenURL, body: .form(own + .scope(scopes) + parameters))
        guard let client else { return request }
        return try client.authenticate(request, in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        guard let complaint = AssertionRepair.complaint(in: reply) else {
            return GrantAnswer(Self.errors.interpret(reply, at: attempt.now))
        }
        let begun = attempt
        let repaired = AssertionRepair.next(after: complaint, in: begun) { now throws(TokenFailure) in
            try request(in: begun, at: now)
        }
        return repaired ?? .failure(AssertionRepair.failure(after: complaint, from: "The authority", at: attempt.now))
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

    func revocation(of token: TokenSet) -> TokenRequest? { nil }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension JWTBearerGrant: ExchangeableGrant {
    var exchange: ExchangePoint? { ExchangePoint(url: tokenURL, client: client) }
}
