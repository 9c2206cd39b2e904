import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A token that somebody copied from the Box developer console: it lives for 60 minutes, and nothing renews it.
struct BoxDeveloperTokenStrategy: AuthStrategy {
    static let kind = "box_developer_token"

    private let grant: BoxDeveloperTokenGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let token = fields.bearerToken("token", isRequired: true)
        var obtainedAt: UnixTime?
        if let text = fields.string("obtained_at") {
            obtainedAt = UnixTime(rfc3339: text)
            if obtainedAt == nil {
                fields.error("obtained_at", "expected a time such as 2026-03-01T09:30:00Z (RFC 3339)")
            }
        }
        let clientID = fields.string("client_id")
        let clientSecret = fields.secret("client_secret")
        if fields.has("client_id") != fields.has("client_secret") {
            fields.error("client_id and client_secret go together: both are needed to revoke the token")
        }
        let revokeURL =
            fields.has("revoke_url") ? fields.authorityURL("revoke_url") : try? AuthorityURL(BoxAuthority.revokeURL)
        guard let token, fields.context.errorCount == errors else { return nil }
        let client = clientID.flatMap { id in clientSecret.map { BoxClient(id: id, secret: $0) } }
        grant = BoxDeveloperTokenGrant(token: token, obtainedAt: obtainedAt, client: client, revokeURL: revokeURL)
    }

    static var userField: UserField? { BoxAuthority.userField }
    var behavior: AuthBehavior { .token(grant) }
}

private struct BoxDeveloperTokenGrant: TokenGrant {
    static let lifetime: Duration = .seconds(3600)

    let token: Secret
    /// nil: the hour begins when the gateway first sees the token.
    let obtainedAt: UnixTime?
    let client: BoxClient?
    let revokeURL: AuthorityURL?

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: BoxDeveloperTokenStrategy.kind, subject: nil)
        identity.add("token", secret: token)
        identity.add("obtained_at", obtainedAt?.rfc3339)
        client?.addInputs(to: &identity)
        return identity
    }

    let isRenewable = false
    let rotatesRefreshToken = false
    let tokenPlace: String? = "the Box developer console (https://app.box.com/developers/console)"

    func seed(at now: Moment) -> TokenSet? {
        let start = min(obtainedAt ?? now.wall, now.wall)
        return TokenSet(access: token, obtainedAt: start, expiresAt: start + Self.lifetime)
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep { .impossible(failure(of: attempt)) }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        .failure(failure(of: attempt))
    }

    private func failure(of attempt: GrantAttempt) -> TokenFailure {
        let end = attempt.held.flatMap(\.expiresAt).flatMap { $0 <= attempt.now.wall ? $0 : nil }
        let what = end.map { "expired at \($0.rfc3339)" } ?? "was rejected or revoked"
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .staticTokenExpired,
                "The Box developer token \(what). Get a new one (https://app.box.com/developers/console, the app's Configuration tab),"
                    + " and import it; such a token is valid for 60 minutes."
            )
        )
    }

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard let revokeURL, let client else {
            return .impossible(
                "A developer token is revoked with the client_id and client_secret of its app: add both to the credential,"
                    + " or revoke the token in the Box developer console (https://app.box.com/developers/console)."
            )
        }
        return client.revocation(at: revokeURL, in: attempt)
    }

    func completing(_ token: TokenSet) -> TokenSet {
        var token = token
        if token.expiresAt == nil { token.expiresAt = token.obtainedAt + Self.lifetime }
        return token
    }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](exchange?.url, revokeURL) }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}

extension BoxDeveloperTokenGrant: ExchangeableGrant {
    /// Where it is revoked says where it came from.
    var exchange: ExchangePoint? {
        guard let revokeURL, revokeURL.text.hasSuffix("/oauth2/revoke"),
            let url = try? AuthorityURL(revokeURL.text.dropLast("revoke".count) + "token")
        else { return nil }
        return ExchangePoint(url: url, terms: .box)
    }
}

extension BoxDeveloperTokenStrategy {
    static let meanings: [String: KeyMeaning] = [
        "token": KeyMeaning(
            "The developer token of Box's console. It is valid for 60 minutes.",
            example: "{env: BOX_TOKEN}"
        ),
        "obtained_at": KeyMeaning(
            "When the token was generated.",
            default: "when the gateway first sees it",
            type: "a time with its zone",
            example: "2026-03-01T09:30:00Z"
        ),
        "client_id": KeyMeaning("The app's client ID, to revoke the token.", example: "abc"),
        "client_secret": KeyMeaning("The app's client secret, to revoke the token.", example: "{env: BOX_SECRET}"),
    ].merging(["revoke_url": BoxEndpoints.meanings["revoke_url"]].compactMapValues(\.self)) { own, _ in own }
}
