import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A token for a service account of Google, from the JSON key that its console hands out.
///
/// "Using OAuth 2.0 for Server to Server Applications", developers.google.com/identity/protocols/oauth2/service-account.
struct GoogleServiceAccountStrategy: AuthStrategy {
    static let kind = "google_service_account"
    static let otherNames = ["service_account"]

    private let grant: GoogleServiceAccountGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let file = GoogleKeyFile(in: fields)
        let purpose = Self.purpose(in: fields)
        guard let file, let purpose, fields.context.errorCount == errors else { return nil }
        grant = GoogleServiceAccountGrant(file: file, purpose: purpose)
    }

    var behavior: AuthBehavior { .token(grant) }

    private static func purpose(in fields: ConfigFields) -> GoogleServiceAccountGrant.Purpose? {
        let scopes = fields.scopes()
        let subject = fields.string("subject")
        let audience = fields.string("audience")
        let target = fields.string("target_audience")
        let given = ["scopes", "audience", "target_audience"].filter { fields.has($0) }
        guard given.count == 1, let kind = given.first else {
            fields.error(
                "a token of a service account is for exactly one of scopes (an access token), audience (signed here) and"
                    + " target_audience (an ID token)"
            )
            return nil
        }
        if fields.has("subject"), kind != "scopes" {
            fields.error("subject", "is for scopes: only an access token can be for another user")
        }
        switch kind {
        case "scopes":
            if scopes.isEmpty { fields.error("scopes", "names no scope") }
            return .access(scopes: scopes, subject: subject)
        case "audience": return audience.map { .selfSigned(audience: $0) }
        default: return target.map { .identity(audience: $0) }
        }
    }
}

extension GoogleServiceAccountStrategy {
    static let meanings: [String: KeyMeaning] = [
        "service_account": KeyMeaning(
            "The JSON key of the service account, or a secret that holds its contents.",
            type: "a path, or a secret",
            example: "service-account.json"
        ),
        "scopes": KeyMeaning(
            "The scopes of the access token, sent as the claim scope.",
            example: "[https://www.googleapis.com/auth/drive.readonly]"
        ),
        "subject": KeyMeaning(
            "The user whose data the token gives access to (domain-wide delegation).",
            example: "ada@example.com"
        ),
        "audience": KeyMeaning(
            "The API that accepts a token signed by the gateway itself, without a request to Google.",
            example: "https://pubsub.googleapis.com/"
        ),
        "target_audience": KeyMeaning(
            "The audience of an ID token: a Cloud Run service, or an IAP client ID.",
            example: "https://service-abc.a.run.app"
        ),
    ]
}

/// The JSON key of a service account, as Google's console hands it out.
struct GoogleKeyFile {
    private static let key = "service_account"

    let clientEmail: String
    let signer: JWTSigner
    /// Where Google exchanges assertions; also whom they are meant for.
    let tokenURL: AuthorityURL

    /// Reads `service_account`: a path, or a secret that holds the file's text. nil after a mistake.
    init?(in fields: ConfigFields) {
        guard let text = fields.fileOrSecret(Self.key) else { return nil }
        guard let file = text.withValue({ JSONValue(Array($0.utf8)) }), case .object = file else {
            fields.error(
                Self.key,
                "is not the JSON key of a service account (Google Cloud console, Service Accounts, Keys)"
            )
            return nil
        }
        if let refusal = Self.refusal(of: file["type"]?.string) {
            fields.error(Self.key, refusal)
            return nil
        }
        guard let email = file["client_email"]?.string, !email.isEmpty, let key = file["private_key"]?.string else {
            fields.error(Self.key, "there is no client_email or no private_key in it; download a new JSON key")
            return nil
        }
        guard let address = file["token_uri"]?.string, let tokenURL = try? AuthorityURL(address) else {
            fields.error(Self.key, "there is no token_uri in it that is an https URL; download a new JSON key")
            return nil
        }
        let keyID = file["private_key_id"]?.string
        guard let signer = fields.signer(Secret(key), from: Self.key, algorithm: .rs256, keyID: keyID) else {
            return nil
        }
        self.clientEmail = email
        self.signer = signer
        self.tokenURL = tokenURL
    }

    /// What other files of Google hold, and what to write for them; nil for a service account.
    private static func refusal(of type: String?) -> String? {
        switch type {
        case "service_account": nil
        case "authorized_user":
            "is the login of a person (authorized_user); use the strategy oauth2_authorization_code with the client_id,"
                + " client_secret and refresh_token of this file"
        case "external_account", "external_account_authorized_user", "impersonated_service_account":
            "points to other credentials (\(type ?? "")) and contains no key; use the strategy exec with the command"
                + " [gcloud, auth, application-default, print-access-token] and format: text"
        default: "is not the key of a service account; its \"type\" is not service_account"
        }
    }
}

struct GoogleServiceAccountGrant: BearerGrant {
    /// What the token is for.
    enum Purpose: Sendable {
        /// An access token; of another user with domain-wide delegation.
        case access(scopes: [String], subject: String?)
        /// A token that the gateway signs, for APIs that accept one.
        case selfSigned(audience: String)
        /// An ID token (OpenID Connect Core section 2).
        case identity(audience: String)
    }

    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let assertionLifetime: Duration = .seconds(60)
    /// Google accepts no longer one.
    private static let selfSignedLifetime: Duration = .seconds(3600)

    let file: GoogleKeyFile
    let purpose: Purpose

    let sendsSecrets = false

    var identity: GrantIdentity {
        var subject = file.clientEmail
        if case .access(_, let user?) = purpose { subject = user }
        var identity = GrantIdentity(strategy: GoogleServiceAccountStrategy.kind, subject: subject)
        identity.add("client_email", file.clientEmail)
        identity.add("token_uri", file.tokenURL.text)
        file.signer.addInputs(to: &identity)
        switch purpose {
        case .access(let scopes, let subject):
            identity.add("scope", scopes.joined(separator: " "))
            identity.add("subject", subject)
        case .selfSigned(let audience): identity.add("audience", audience)
        case .identity(let audience): identity.add("target_audience", audience)
        }
        return identity
    }

    var authorityEndpoints: [AuthorityEndpoint] {
        if case .selfSigned = purpose { [] } else { [AuthorityEndpoint](file.tokenURL) }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        if case .selfSigned = purpose {
            return .signed { () throws(TokenFailure) in try signed(at: attempt.now.wall) }
        }
        return GrantStep { () throws(TokenFailure) in
            let form = [
                TokenRequest.Parameter("grant_type", Self.grantType),
                TokenRequest.Parameter("assertion", try file.signer.sign(claims(at: attempt.now.wall))),
            ]
            return TokenRequest(url: file.tokenURL, body: .form(form))
        }
    }

    private func claims(at now: UnixTime) -> [String: JSONValue] {
        var claims: [String: JSONValue] = [
            "iss": .string(file.clientEmail), "aud": .string(file.tokenURL.text), "iat": .time(now),
            "exp": .time(now + Self.assertionLifetime),
        ]
        switch purpose {
        case .access(let scopes, let subject):
            claims["scope"] = .string(scopes.joined(separator: " "))
            claims["sub"] = subject.map { .string($0) }
        case .identity(let audience):
            claims["target_audience"] = .string(audience)
        case .selfSigned(let audience):
            claims["sub"] = claims["iss"]
            claims["aud"] = .string(audience)
            claims["exp"] = .time(now + Self.selfSignedLifetime)
        }
        return claims
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let errors = Self.errors
        if let repair = AssertionRepair.grant.answer(to: reply, in: attempt, from: errors.authority, sign: firstStep) {
            return repair
        }
        guard case .identity = purpose, RefreshError(reply) == nil else { return errors.answer(reply, in: &attempt) }
        return GrantAnswer(identityToken(in: reply, at: attempt.now.wall))
    }

    private func signed(at now: UnixTime) throws(TokenFailure) -> TokenSet {
        let token = try file.signer.sign(claims(at: now))
        return TokenSet(access: token, obtainedAt: now, expiresAt: now + Self.selfSignedLifetime)
    }

    private func identityToken(in reply: TokenReply, at now: UnixTime) -> Result<TokenSet, TokenFailure> {
        guard let text = reply.document?["id_token"]?.string, let token = IssuedToken.read(text),
            let content = UnverifiedJWT(token)
        else {
            let broken = BrokenAnswer(reason: "there is no id_token in it that is a JSON web token")
            return .failure(broken.failure(of: Self.errors.authority, status: reply.status))
        }
        return .success(TokenSet(access: token, obtainedAt: now, expiresAt: content.expiry(issuedAt: now)))
    }

    private static let errors = OAuthErrors(
        authority: "Google",
        advice: [
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "account not found",
                text: "the service account no longer exists; check client_email in the file."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                marker: "signature",
                text: "the key no longer belongs to the service account; download a new JSON key."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                text: "check that the service account and its key exist, and that subject is a user of the domain."
            ),
            OAuthErrors.Advice(
                code: "unauthorized_client",
                text: "with subject, an administrator must grant all of scopes to the client ID of the service account"
                    + " (domain-wide delegation)."
            ),
            OAuthErrors.Advice(
                code: "access_denied",
                text: "the administrator of the domain has not granted all of scopes to this service account."
            ),
        ]
    )
}
