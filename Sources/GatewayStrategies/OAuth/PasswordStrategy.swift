import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Obtains an access token with a person's user name and password (RFC 6749 §4.3). Renews it with the refresh token,
/// if the authorization server issued one.
struct PasswordStrategy: AuthStrategy {
    static let kind = "oauth2_password"
    static let otherNames = ["password", "ropc"]

    private let grant: PasswordGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let username = fields.requiredString("username")
        let password = fields.requiredSecret("password")
        let client = OAuthClient(in: fields, own: ["username", "password", "refresh_token"], refreshes: true) {
            ClientAuthentication(in: fields, tokenURL: $0, allowsPublic: true)
        }
        fields.warning(
            "strategy",
            "the gateway holds a person's password, and OAuth 2.1 has no such grant; if the server allows it, use "
                + "oauth2_authorization_code or oauth2_client_credentials"
        )
        guard let username, let password, let client, fields.context.errorCount == errors else { return nil }
        grant = PasswordGrant(client: client, username: username, password: password)
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.client.authentication?.clientTLS }
}

/// Refresh tokens are spent here, but nothing is lost with one: the password brings the next.
private struct PasswordGrant: OAuthGrant {
    let client: OAuthClient
    let username: String
    let password: Secret

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: PasswordStrategy.kind, subject: username)
        identity.add("username", username)
        identity.add("password", secret: password)
        client.addInputs(to: &identity)
        return identity
    }

    let canAcquireAnew = true
    let sendsSecrets = true

    func sendsRefreshToken(in attempt: GrantAttempt) -> Bool { spent(in: attempt) != nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        GrantStep { () throws(TokenFailure) in
            guard let refreshToken = spent(in: attempt) else { return try passwordRequest(in: attempt) }
            return try refreshRequest(refreshToken, in: attempt)
        }
    }

    /// The refresh token that the last request spends; nil when it holds the password.
    private func spent(in attempt: GrantAttempt) -> Secret? {
        guard attempt.restartedAfterStep == nil, !attempt.isRefreshTokenUncertain else { return nil }
        return attempt.held?.refreshToken
    }

    private func passwordRequest(in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let form = [
            TokenRequest.Parameter("grant_type", "password"), TokenRequest.Parameter("username", username),
            TokenRequest.Parameter("password", password),
        ]
        return try client.request(form + .scope(client.scopes), in: attempt)
    }

    private func refreshRequest(_ refreshToken: Secret, in attempt: GrantAttempt) throws(TokenFailure) -> TokenRequest {
        let form = [
            TokenRequest.Parameter("grant_type", "refresh_token"),
            TokenRequest.Parameter("refresh_token", refreshToken),
        ]
        return try client.request(form, isRefresh: true, in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let repair = client.authentication?.repair(after: reply, in: attempt, sign: firstStep) { return repair }
        let refreshed = spent(in: attempt)
        switch Self.errors.advising(client.authentication).read(reply, in: &attempt, isRefresh: refreshed != nil) {
        case .success(let answer):
            var token = answer.tokenSet(at: attempt.now)
            // An answer without a refresh token leaves the old one valid (RFC 6749 §6).
            token.refreshToken = answer.refreshToken ?? refreshed
            return .token(token)
        case .failure(let failure):
            guard refreshed != nil else { return .failure(refused(failure, reply)) }
            guard let error = RefreshError(reply), error.acquiresAnew(in: attempt) else { return .failure(failure) }
            attempt.beginAnew(after: error)
            do throws(TokenFailure) {
                return .next(try passwordRequest(in: attempt))
            } catch {
                return .failure(error)
            }
        }
    }

    /// A password that may be wrong is not sent again by itself: directories lock accounts.
    private func refused(_ failure: TokenFailure, _ reply: TokenReply) -> TokenFailure {
        var failure = failure
        failure.isRetried = failure.isRetried && RefreshError(reply)?.blamesConfiguration == true
        return failure
    }

    private static let errors = OAuthErrors(
        authority: "The authorization server",
        advice: [
            OAuthErrors.Advice(
                code: "invalid_grant",
                text: "username or password is wrong, or the account needs more than a password."
            )
        ]
    )
}

extension PasswordStrategy {
    static let meanings = ClientCredentialsStrategy.meanings.merging([
        "username": KeyMeaning("The user's name.", example: "svc@example.com"),
        "password": KeyMeaning("The user's password.", example: "{env: USER_PASSWORD}"),
    ]) { own, _ in own }
    .merging(SharedMeanings.of("refresh_parameters")) { own, _ in own }
}
