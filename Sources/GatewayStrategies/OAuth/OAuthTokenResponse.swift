import GatewayCore

/// The answer of a token endpoint (RFC 6749 §5.1), read leniently where authorities differ.
///
/// `expires_in` may be missing, null, a fraction or a number in quotes.
struct OAuthTokenResponse {
    /// No token is kept for longer; larger numbers are capped here.
    static let longestLifetime: Duration = .seconds(10 * 365 * 86_400)

    let accessToken: Secret
    /// nil when neither the authority nor the token itself says it.
    let expiresAt: UnixTime?
    let refreshToken: Secret?
    /// There is a `refresh_token`, and no request could carry it.
    let hasUnusableRefreshToken: Bool
    /// `refresh_token_expires_in` or `refresh_expires_in`, which no RFC defines and several authorities send.
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
            throw BrokenAnswer(reason: "the access_token is too long or holds characters that no token may hold")
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

    /// A number of seconds. Some authorities write the time of the end in its place.
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
