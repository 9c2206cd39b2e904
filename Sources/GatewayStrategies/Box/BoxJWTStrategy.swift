import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Box's server authentication with a signed assertion: a token for the service account of an enterprise, or for one
/// user.
struct BoxJWTStrategy: BoxServerStrategy {
    static let kind = "box_jwt"

    var grant: BoxJWTGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
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
        let endpoints = BoxEndpoints(in: fields)
        guard let clientID, let clientSecret, let signer, let subject, let endpoints,
            fields.context.errorCount == errors
        else { return nil }
        let client = BoxClient(id: clientID, secret: clientSecret)
        grant = BoxJWTGrant(client: client, endpoints: endpoints, subject: subject, signer: signer)
    }

    private static let otherKeys = [
        "client_id", "client_secret", "key_id", "private_key", "passphrase", "algorithm", "subject", "token_url",
        "revoke_url",
    ]

    /// What stands beside `app_settings` takes the place of what the file says.
    private static func signer(in fields: ConfigFields, _ settings: BoxAppSettings?) -> JWTSigner? {
        var defaults = SigningKey.Defaults()
        if let settings {
            defaults.keyID = settings.keyID
            defaults.passphrase = settings.passphrase
            if !fields.has("private_key"), let key = settings.privateKey {
                defaults.key = (text: key, place: "app_settings")
            }
        }
        return fields.signer(key: "private_key", algorithms: [.rs256, .rs384, .rs512], defaults: defaults)
    }
}

struct BoxJWTGrant: BoxServerGrant {
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    /// What Box wants to read, whatever the URL that the request goes to.
    private static let audience = "https://api.box.com/oauth2/token"
    /// Box refuses more than 60 seconds, counted on its own clock.
    private static let lifetime: Duration = .seconds(30)

    let client: BoxClient
    let endpoints: BoxEndpoints
    var subject: BoxSubject
    let signer: JWTSigner

    var identity: GrantIdentity {
        var identity = identity(of: BoxJWTStrategy.kind)
        signer.addInputs(to: &identity)
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in try request(in: attempt) }
    }

    /// There is no `iat` and no `nbf`: Box allows no skew on them.
    private func request(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let assertion = try signer.sign([
            "iss": .string(client.id),
            "sub": .string(subject.id),
            "box_sub_type": .string(subject.type),
            "aud": .string(Self.audience),
            "jti": .string(attempt.assertionID),
            "exp": .time(attempt.now.wall + Self.lifetime),
        ])
        let form = [
            TokenRequest.Parameter("grant_type", Self.grantType), TokenRequest.Parameter("assertion", assertion),
        ]
        return TokenRequest(url: endpoints.tokenURL, body: .form(form + client.form))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let errors = BoxAuthority.jwtErrors
        return AssertionRepair.box.answer(to: reply, in: attempt, from: errors.authority, sign: firstStep)
            ?? errors.answer(reply, in: &attempt)
    }
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
                text: "the audience is not Box's: is token_url really a URL of Box?"
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

/// The JSON file that Box's developer console hands out with a new key pair. Every member may be missing.
struct BoxAppSettings {
    private static let console = "the Box developer console"

    let clientID: String?
    let clientSecret: Secret?
    let keyID: String?
    let privateKey: Secret?
    let passphrase: Secret?
    let enterpriseID: String?
    let userID: String?

    /// Reads `app_settings`: a path, or a secret that holds the file's text. nil after a mistake.
    init?(in fields: ConfigFields) {
        guard let text = fields.fileOrSecret("app_settings") else { return nil }
        guard let file = text.withValue({ JSONValue(Array($0.utf8)) }), case .object? = file["boxAppSettings"] else {
            fields.error("app_settings", "is not the JSON file that \(Self.console) hands out with a key pair")
            return nil
        }
        let app = file["boxAppSettings"]
        clientID = Self.text(app?["clientID"])
        clientSecret = Self.text(app?["clientSecret"]).map { Secret($0) }
        keyID = Self.text(app?["appAuth"]?["publicKeyID"])
        privateKey = Self.text(app?["appAuth"]?["privateKey"]).map { Secret($0) }
        passphrase = Self.text(app?["appAuth"]?["passphrase"]).map { Secret($0) }
        enterpriseID = Self.text(file["enterpriseID"])
        userID = Self.text(file["userID"])
        if privateKey == nil, !fields.has("private_key") {
            let advice = "generate a key pair in \(Self.console), or set private_key and key_id here"
            fields.error("app_settings", "there is no appAuth.privateKey in it; \(advice)")
            return nil
        }
    }

    /// Box leaves what it does not know empty.
    private static func text(_ value: JSONValue?) -> String? {
        switch value {
        case .string(let text) where !text.isEmpty: text
        case .number(let number): number.whole.map(String.init)
        default: nil
        }
    }

    /// Whom the file speaks for, when it names one only.
    func subject(in fields: ConfigFields) -> BoxSubject? {
        switch (enterpriseID, userID) {
        case (let id?, nil): return .enterprise(id)
        case (nil, let id?): return .user(id)
        case (nil, nil):
            fields.error("missing key \"subject\": the file names neither enterpriseID nor userID")
        default:
            fields.error("missing key \"subject\": the file names both enterpriseID and userID, so say which one")
        }
        return nil
    }
}

extension BoxJWTStrategy {
    static let meanings = BoxCCGStrategy.meanings
        .merging(SharedMeanings.of("private_key", "passphrase", "key_id", "algorithm")) { own, _ in own }
        .merging([
            "app_settings": KeyMeaning(
                "The JSON file that Box's console creates with a key pair, or a secret that holds its contents.",
                type: "a path, or a secret",
                example: "box-app.json"
            )
        ]) { own, _ in own }
}
