import GatewayCore

/// Box's server authentication with a signed assertion: a token for the service account of an enterprise, or for one
/// user.
struct BoxJWTStrategy: AuthStrategy {
    static let kind = "box_jwt"
    static let hasSubject = true

    private var grant: BoxJWTGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        var settings: BoxAppSettings?
        if fields.has("app_settings") {
            settings = BoxAppSettings(in: fields)
            guard settings != nil else {
                // Without the file nothing can be said about what is missing beside it.
                Self.otherKeys.forEach { fields.know($0) }
                return nil
            }
        }
        let clientID = fields.has("client_id") ? fields.string("client_id") : settings?.clientID
        if clientID == nil, !fields.has("client_id") { fields.missing("client_id") }
        let clientSecret = fields.has("client_secret") ? fields.secret("client_secret") : settings?.clientSecret
        if clientSecret == nil, !fields.has("client_secret") { _ = fields.requiredSecret("client_secret") }
        let signer = Self.signer(in: fields, settings)
        let subject =
            if let settings, !fields.has("subject") { settings.subject(in: fields) } else { BoxSubject(in: fields) }
        let tokenURL =
            fields.has("token_url") ? fields.authorityURL("token_url") : try? AuthorityURL(BoxAuthority.tokenURL)
        let revokeURL = BoxAuthority.revokeURL(in: fields, tokenURL: tokenURL)
        guard let clientID, let clientSecret, let signer, let subject, let tokenURL,
            fields.context.errorCount == errors
        else { return nil }
        grant = BoxJWTGrant(
            tokenURL: tokenURL,
            revokeURL: revokeURL,
            clientID: clientID,
            clientSecret: clientSecret,
            signer: signer,
            subject: subject
        )
    }

    private static let otherKeys = [
        "client_id", "client_secret", "key_id", "private_key", "passphrase", "algorithm", "subject", "token_url",
        "revoke_url",
    ]

    var behavior: AuthBehavior { .token(grant) }

    func switchingSubject(_ fields: ConfigFields) -> (any AuthStrategy)? {
        guard let subject = BoxSubject(in: fields) else { return nil }
        var copy = self
        copy.grant.subject = subject
        return copy
    }

    /// What stands beside `app_settings` takes the place of what the file says.
    private static func signer(in fields: ConfigFields, _ settings: BoxAppSettings?) -> JWTSigner? {
        let algorithm = fields.signingAlgorithm(of: [.rs256, .rs384, .rs512], otherwise: .rs256)
        let keyID = fields.string("key_id") ?? settings?.keyID
        let passphrase = fields.secret("passphrase") ?? settings?.passphrase
        let isInline = settings == nil || fields.has("private_key")
        guard let text = isInline ? fields.requiredSecretText("private_key") : settings?.privateKey else { return nil }
        let place = isInline ? "private_key" : "app_settings"
        do throws(SigningKey.Refusal) {
            let key = try SigningKey.open(text, passphrase: passphrase, with: fields.context.secrets)
            guard let algorithm else { return nil }
            return fields.signer(key, at: place, algorithm: algorithm, keyID: keyID)
        } catch {
            fields.error(error.isAboutPassphrase && fields.has("passphrase") ? "passphrase" : place, error.message)
            return nil
        }
    }
}

private struct BoxJWTGrant: TokenGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    /// What Box wants to read, whatever the URL that the request goes to.
    private static let audience = "https://api.box.com/oauth2/token"
    /// Box refuses more than 60 seconds, counted on its own clock.
    private static let lifetime: Duration = .seconds(30)

    let tokenURL: AuthorityURL
    let revokeURL: AuthorityURL?
    let clientID: String
    let clientSecret: Secret
    let signer: JWTSigner
    var subject: BoxSubject

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: BoxJWTStrategy.kind, subject: "\(subject.type):\(subject.id)")
        identity.add("token_url", tokenURL.text)
        identity.add("client_id", clientID)
        identity.add("client_secret", secret: clientSecret)
        identity.add("box_subject_type", subject.type)
        identity.add("box_subject_id", subject.id)
        signer.addInputs(to: &identity)
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

    /// - Parameter now: The time by the clock that counts. There is no `iat` and no `nbf`: Box allows no skew on them.
    private func request(in attempt: GrantAttempt, at now: UnixTime) throws(TokenFailure) -> TokenRequest {
        let assertion = try signer.sign([
            "iss": .string(clientID),
            "sub": .string(subject.id),
            "box_sub_type": .string(subject.type),
            "aud": .string(Self.audience),
            "jti": .string(attempt.assertionID),
            "exp": .time(now + Self.lifetime),
        ])
        let form = [
            TokenRequest.Parameter("grant_type", Self.grantType),
            TokenRequest.Parameter("assertion", assertion),
            TokenRequest.Parameter("client_id", clientID),
            TokenRequest.Parameter("client_secret", clientSecret),
        ]
        return TokenRequest(url: tokenURL, body: .form(form))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        guard let complaint = AssertionRepair.complaint(in: reply) else {
            return GrantAnswer(BoxAuthority.jwtErrors.interpret(reply, at: attempt.now))
        }
        let begun = attempt
        let repaired = AssertionRepair.next(after: complaint, in: begun) { now throws(TokenFailure) in
            try request(in: begun, at: now)
        }
        return repaired ?? .failure(AssertionRepair.failure(after: complaint, from: "Box", at: attempt.now))
    }

    func revocation(of token: TokenSet) -> TokenRequest? {
        revokeURL.map {
            BoxAuthority.revocation(of: token.access, at: $0, clientID: clientID, clientSecret: clientSecret)
        }
    }

    var revocationObstacle: String {
        "The credential has a token_url of its own and no revoke_url; add it."
    }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension BoxJWTGrant: ExchangeableGrant {
    var exchange: ExchangePoint? { ExchangePoint(url: tokenURL, isBox: true) }
}

extension BoxAuthority {
    private static let jwtConsole =
        "Server Authentication (with JWT) in the Box developer console (https://app.box.com/developers/console)"

    /// ``errors`` with what is different for assertions before it.
    fileprivate static let jwtErrors = OAuthErrors(
        authority: "Box",
        advice: [
            OAuthErrors.Advice(
                code: "unauthorized_client",
                marker: "grant type is unauthorized",
                text: "the app has not enabled this grant; choose \(jwtConsole)."
            ),
            OAuthErrors.Advice(
                code: "invalid_request",
                marker: "grant type is unauthorized",
                text: "the app has not enabled this grant; choose \(jwtConsole)."
            ),
            OAuthErrors.Advice(
                code: "invalid_request",
                marker: "grant_type parameter",
                text: "the form did not arrive: check token_url, and that nothing redirects it."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "'sub'",
                text:
                    "Box does not know the subject: check its ID and whether it is an enterprise or a user; user subjects "
                    + "need \"Generate user access tokens\", and then a new authorization by an admin."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "'aud'",
                text: "the audience is not Box's: is token_url really a Box?"
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "signature",
                text: "the key does not belong to key_id, or Box no longer has its public half: compare both with the "
                    + "Configuration tab of the app."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "'kid'",
                text: "Box has no public key with this key_id: compare it with the Configuration tab of the app."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                text:
                    "check client_id, client_secret, key_id and the subject's ID; \"Generate user access tokens\" must be "
                    + "on for user subjects, and an admin must authorize the app again after each change."
            ),
        ] + errors.advice
    )
}
