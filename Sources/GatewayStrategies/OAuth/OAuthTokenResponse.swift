import GatewayHTTP
import GatewayTokens

/// The answer of a token endpoint (RFC 6749 §5.1), read leniently where authorization servers differ.
///
/// `expires_in` may be missing, null, a fraction or a number in quotes.
struct OAuthTokenResponse {
    /// No token is kept for longer; larger numbers are capped here.
    static let longestLifetime: Duration = .seconds(10 * 365 * 86_400)

    let accessToken: Secret
    /// nil when neither the authorization server nor the token itself says it.
    let expiresAt: UnixTime?
    let refreshToken: Secret?
    /// There is a `refresh_token`, and no request could carry it.
    let hasUnusableRefreshToken: Bool
    /// `refresh_token_expires_in` or `refresh_expires_in`, which no RFC defines and several authorization servers send.
    let refreshLifetime: Duration?
    /// See ``GrantAttempt/remarks``.
    let remarks: [String]

    /// - Parameters:
    ///   - answer: See ``TokenReply/document``.
    ///   - rotatesRefreshToken: Whether it comes for something that can be presented only once.
    init(_ answer: JSONValue?, at now: UnixTime, rotatesRefreshToken: Bool = false) throws(BrokenAnswer) {
        guard let answer else { throw BrokenAnswer(reason: "the body is not JSON") }
        switch answer["access_token"] {
        case .array?, .conflict?: throw BrokenAnswer(reason: "access_token is given twice, or is a list")
        default: break
        }
        guard let text = answer["access_token"]?.string, !text.isEmpty else {
            throw BrokenAnswer(reason: "there is no access_token in it")
        }
        guard let token = IssuedToken.read(text) else {
            throw BrokenAnswer(reason: "the access_token is too long or contains characters that no token may contain")
        }
        accessToken = token
        // A token without a known end is still a token, and a pair that rotates must not be lost for it: some write 0
        // for a token without an end.
        var remarks: [String] = []
        expiresAt = try StatedTimes.end(
            of: token,
            at: nil,
            after: answer["expires_in"],
            usually: nil,
            from: now,
            isForgiving: rotatesRefreshToken,
            remarks: &remarks
        )
        refreshToken = Self.refreshToken(in: answer)
        // The access token beside it is good, and asking again would spend the refresh token once more.
        hasUnusableRefreshToken = refreshToken == nil && ![nil, .null, .string("")].contains(answer["refresh_token"])
        if hasUnusableRefreshToken {
            remarks.append(
                "ignored refresh_token: it has conflicting values, is too long, or contains invalid characters"
            )
        }
        self.remarks = remarks
        // Some write 0 for a refresh token without an end.
        refreshLifetime =
            (try? Self.lifetime(answer["refresh_token_expires_in"], at: now))
            ?? (try? Self.lifetime(answer["refresh_expires_in"], at: now))
    }

    /// nil for one that is given twice with other values, or that no request could carry.
    static func refreshToken(in answer: JSONValue) -> Secret? {
        answer["refresh_token"]?.string.flatMap(IssuedToken.read)
    }

    /// A number of seconds. Some authorization servers write the time of the end in its place.
    static func lifetime(_ value: JSONValue?, at now: UnixTime) throws(BrokenAnswer) -> Duration? {
        var seconds: Double?
        switch value {
        case .number(let number): seconds = number.value
        case .string(let text): seconds = Double(text)
        default: seconds = nil
        }
        // A number in the past is a very long lifetime rather than a token that is over for long.
        if let end = value.flatMap({ StatedTimes.instant($0) }), seconds == nil || end > now + .seconds(-86_400) {
            seconds = (end - now) / .seconds(1)
        }
        guard let seconds, !seconds.isNaN else { return nil }
        // A token that is dead on arrival must not be injected, and asking again at once would be a storm.
        guard seconds > 0 else { throw BrokenAnswer(reason: "the token had expired when it was issued") }
        let longest = Double(longestLifetime.components.seconds)
        return .milliseconds(Int64(min(seconds, longest) * 1000))
    }

    func tokenSet(at now: Moment) -> TokenSet {
        TokenSet(access: accessToken, obtainedAt: now.wall, expiresAt: expiresAt)
    }
}

/// What the answers of one token endpoint mean to a grant that began with a login.
struct TokenAnswers: Sendable {
    let errors: OAuthErrors
    /// How long a refresh token lives when the authorization server does not say.
    var refreshLifetime: Duration?
    /// Whether the client was registered by this program (`registration_url`), so that a login can register it again.
    var isRegistered = false

    /// The answer to the code.
    ///
    /// The code is spent. If the answer brings a refresh token and no access token that can be used, the result is the refresh
    /// token alone: it is the login.
    ///
    /// - Parameter addedScopes: See ``TokenSet/addedScopes``.
    func exchange(
        _ reply: TokenReply,
        at now: Moment,
        addedScopes: [String] = []
    ) -> Result<TokenSet, TokenFailure> {
        login(reply, at: now).map { token in
            var token = token
            token.addedScopes = addedScopes
            return token
        }
    }

    private func login(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure> {
        let result = read(errors.read(reply, at: now, rotatesRefreshToken: true), at: now, holding: nil)
        if case .failure = result, let refreshToken = nextRefreshToken(reply) {
            var token = TokenSet(
                access: Secret(""),
                refreshToken: refreshToken,
                obtainedAt: now.wall,
                expiresAt: now.wall
            )
            token.refreshTokenExpiresAt = refreshLifetime.map { now.wall + $0 }
            return .success(token)
        }
        return result.mapError { failure in
            if isRegistered, let lost = errors.lostRegistration(failure) { return lost }
            guard let code = failure.problem.cause?.code, Self.refusalsOfCodes.contains(code) else { return failure }
            return TokenFailure(
                .loginRequired,
                problem: GatewayProblem(
                    .loginFailed,
                    "\(errors.authority) did not accept the code (\(code)): it was used before, is too old, or"
                        + " belongs to another client or redirect_uri. Nothing was changed; begin a new login.",
                    cause: failure.problem.cause
                )
            )
        }
    }

    /// `bad_verification_code` is GitHub's.
    private static let refusalsOfCodes: Set<String> = ["invalid_grant", "bad_verification_code"]

    /// The answer to a refresh token. One that brings no new refresh token leaves the old one valid (RFC 6749 §6).
    func refresh(
        _ reply: TokenReply,
        in attempt: inout GrantAttempt,
        holding token: TokenSet?
    ) -> Result<TokenSet, TokenFailure> {
        attempt.nextRefreshToken = nextRefreshToken(reply)
        let answer = errors.read(reply, in: &attempt, rotatesRefreshToken: true, isRefresh: true)
        if case .success(let token) = answer { attempt.isRefreshTokenSpent = token.hasUnusableRefreshToken }
        let mayEndLogin = RefreshError(reply)?.mayEndLogin(in: attempt) == true
        return read(answer, at: attempt.now, holding: token).mapError { failure in
            if isRegistered, let lost = errors.lostRegistration(failure) { return lost }
            return mayEndLogin ? errors.orLogin(failure, reply) : failure
        }
    }

    /// What the refresh token was spent for, also when the access token beside it cannot be used. An error may name the
    /// member too, for example `{"error":"invalid_grant","refresh_token":"is invalid"}`.
    private func nextRefreshToken(_ reply: TokenReply) -> Secret? {
        guard (200..<300).contains(reply.status), RefreshError(reply) == nil else { return nil }
        return reply.document.flatMap(OAuthTokenResponse.refreshToken)
    }

    private func read(
        _ answer: Result<OAuthTokenResponse, TokenFailure>,
        at now: Moment,
        holding token: TokenSet?
    ) -> Result<TokenSet, TokenFailure> {
        answer.map { answer in
            var fresh = answer.tokenSet(at: now)
            fresh.addedScopes = token?.addedScopes ?? []
            guard let refreshToken = answer.refreshToken else {
                fresh.refreshToken = token?.refreshToken
                fresh.refreshTokenExpiresAt = token?.refreshTokenExpiresAt
                fresh.refreshTokenObtainedAt = token?.refreshTokenObtainedAt ?? token?.obtainedAt
                if answer.hasUnusableRefreshToken { fresh.endLoginWithAccess() }
                return fresh
            }
            fresh.refreshToken = refreshToken
            fresh.refreshTokenExpiresAt = (answer.refreshLifetime ?? refreshLifetime).map { now.wall + $0 }
            if let token, let earlier = token.refreshTokenExpiresAt, let end = fresh.refreshTokenExpiresAt,
                end < earlier + Self.tolerance
            {
                fresh.refreshTokenObtainedAt = token.refreshTokenObtainedAt ?? token.obtainedAt
            }
            return fresh
        }
    }

    /// An end that moves by less has not moved: authorization servers round, and answers take their time.
    private static let tolerance: Duration = .seconds(5)
}
