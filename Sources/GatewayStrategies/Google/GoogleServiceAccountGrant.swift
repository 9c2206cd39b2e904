import GatewayCore

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
                text: "the key is no longer one of the service account; download a new JSON key."
            ),
            OAuthErrors.Advice(
                code: "invalid_grant",
                text: "check that the service account and its key exist, and that subject is a user of the domain."
            ),
            OAuthErrors.Advice(
                code: "unauthorized_client",
                text: "with subject, an administrator must allow the client ID of the service account all of scopes"
                    + " (domain-wide delegation)."
            ),
            OAuthErrors.Advice(
                code: "access_denied",
                text: "the administrator of the domain does not allow this service account all of scopes."
            ),
        ]
    )
}
