import GatewayCore

/// The answer of a token endpoint (RFC 6749 §5.1), read leniently where authorities differ.
///
/// The content type is not looked at, and `expires_in` may be missing, null, a fraction or a number in quotes.
struct OAuthTokenResponse {
    /// No token is kept for longer; larger numbers are capped here.
    static let longestLifetime: Duration = .seconds(10 * 365 * 86_400)

    let accessToken: Secret
    /// nil when the authority did not say, or not in a number.
    let lifetime: Duration?
    let refreshToken: Secret?
    /// `refresh_token_expires_in` or `refresh_expires_in`, which no RFC defines and several authorities send.
    let refreshLifetime: Duration?
    /// See ``GrantAttempt/remarks``.
    let remarks: [String]

    /// - Parameters:
    ///   - answer: The body as JSON; nil when it is none.
    ///   - rotatesRefreshToken: Whether it comes for something that can be presented only once.
    init(_ answer: JSONValue?, rotatesRefreshToken: Bool = false) throws(BrokenAnswer) {
        guard let answer else { throw BrokenAnswer(reason: "the body is not JSON") }
        guard let text = answer["access_token"]?.string, !text.isEmpty else {
            throw BrokenAnswer(reason: "there is no access_token in it")
        }
        guard let token = IssuedToken.read(text) else {
            throw BrokenAnswer(reason: "the access_token is too long or holds characters that no token may hold")
        }
        accessToken = token
        let stated = answer["expires_in"]
        // A token without a known end is still a token, and a pair that rotates must not be lost for it: some write 0
        // for a token without an end.
        lifetime = rotatesRefreshToken ? (try? Self.lifetime(stated)) : (try Self.lifetime(stated))
        let isOdd = lifetime == nil && stated.map { $0 != .null } ?? false
        remarks =
            isOdd ? ["expires_in is not a positive number of seconds; the token is used until it is rejected"] : []
        refreshToken = try Self.refreshToken(in: answer)
        // Some write 0 for a refresh token without an end.
        refreshLifetime =
            (try? Self.lifetime(answer["refresh_token_expires_in"]))
            ?? (try? Self.lifetime(answer["refresh_expires_in"]))
    }

    static func refreshToken(in answer: JSONValue) throws(BrokenAnswer) -> Secret? {
        guard let text = answer["refresh_token"]?.string, !text.isEmpty else { return nil }
        guard let token = IssuedToken.read(text) else {
            throw BrokenAnswer(reason: "the refresh_token is too long or holds characters that no token may hold")
        }
        return token
    }

    static func lifetime(_ value: JSONValue?) throws(BrokenAnswer) -> Duration? {
        let seconds: Double?
        switch value {
        case .number(let number): seconds = number.value
        case .string(let text): seconds = Double(text)
        default: seconds = nil
        }
        guard let seconds, !seconds.isNaN else { return nil }
        // A token that is dead on arrival must not be injected, and asking again at once would be a storm.
        guard seconds > 0 else { throw BrokenAnswer(reason: "the token had expired when it was issued") }
        let longest = Double(longestLifetime.components.seconds)
        return .milliseconds(Int64(min(seconds, longest) * 1000))
    }

    func tokenSet(at now: Moment) -> TokenSet {
        TokenSet(access: accessToken, obtainedAt: now.wall, expiresAt: lifetime.map { now.wall + $0 })
    }
}
