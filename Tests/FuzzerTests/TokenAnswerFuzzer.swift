import GatewayHTTP
import GatewayTokens

#if !FUZZER
    @testable import GatewayStrategies
#endif

/// Whatever an authority answers, no token breaks a header field, and each end lies between now and ten years from now.
///
/// The first byte of the input chooses the status, the first line the header fields; the rest is the body.
func fuzzTokenAnswer(_ bytes: [UInt8]) {
    guard let first = bytes.first else { return }
    let line = bytes.dropFirst().prefix { $0 != 0x0A }
    let value = String(decoding: line, as: UTF8.self)
    let reply = TokenReply(
        status: [200, 201, 204, 301, 400, 401, 429, 503][Int(first % 8)],
        fields: [
            TokenReply.Field(name: "retry-after", value: value), TokenReply.Field(name: "Set-Cookie", value: value),
        ],
        body: Array(bytes.dropFirst(line.count + 2))
    )
    checkOAuth(reply)
    checkTimes(value)
    checkExtractions(reply)
}

private let now = Moment(monotonic: MonotonicTime(nanoseconds: 1), wall: UnixTime(seconds: 1_790_000_000))
private let end = now.wall + OAuthTokenResponse.longestLifetime

private func checkOAuth(_ reply: TokenReply) {
    let json = JSONValue(reply.body)
    if let json, let written = try? json.bytes() { precondition(JSONValue(written) == json) }
    for rotatesRefreshToken in [false, true] {
        switch OAuthErrors.standard.read(reply, at: now, rotatesRefreshToken: rotatesRefreshToken) {
        case .success(let answer):
            check(answer.accessToken)
            check(answer.tokenSet(at: now))
            precondition((200..<300).contains(reply.status))
            // The token is the one that the answer names.
            if let json {
                precondition(json["access_token"]?.string.map { answer.accessToken.matches($0.utf8) } == true)
            }
        case .failure(let failure): check(failure)
        }
    }
    let held = TokenSet(access: Secret("old"), refreshToken: Secret("old-renewal"), obtainedAt: now.wall)
    let answers = TokenAnswers(errors: .standard, refreshLifetime: .seconds(60))
    var attempt = GrantAttempt(holding: held, at: now, nonce: "0")
    for result in [answers.exchange(reply, at: now), answers.refresh(reply, in: &attempt, holding: held)] {
        switch result {
        case .success(let token): check(token)
        case .failure(let failure): check(failure)
        }
    }
    if let next = attempt.nextRefreshToken { check(next) }
    // A refresh token that was spent is never lost for what stands beside its successor (RFC 6749 section 6).
    if case .success(let token) = answers.refresh(reply, in: &attempt, holding: held) {
        precondition(token.refreshToken != nil)
        precondition(attempt.nextRefreshToken == nil || attempt.nextRefreshToken == token.refreshToken)
    }
}

private func check(_ token: TokenSet) {
    // A login may bring a refresh token alone.
    if token.access.isEmpty { precondition(token.refreshToken != nil && token.expiresAt == now.wall) }
    if !token.access.isEmpty { check(token.access) }
    if let refreshToken = token.refreshToken { check(refreshToken) }
    for time in [token.expiresAt, token.refreshTokenExpiresAt].compactMap(\.self) {
        precondition(time >= now.wall && time <= end)
    }
}

/// RFC 6749 appendix A.12: visible ASCII.
private func check(_ token: Secret) {
    token.withValue { text in
        precondition(!text.isEmpty && text.utf8.count <= 16 << 10)
        precondition(text.utf8.allSatisfy { (0x20...0x7E).contains($0) })
    }
    _ = UnverifiedJWT(token)?.expiry(issuedAt: now.wall)
}

private func check(_ failure: TokenFailure) {
    if case .transient(let wait?) = failure.class { precondition(wait >= .zero && wait <= .seconds(3600)) }
    precondition(failure.problem.detail.utf8.allSatisfy { (0x20...0x7E).contains($0) })
}

private func checkTimes(_ text: String) {
    if let instant = StatedTimes.instant(text) {
        // Years have four digits.
        precondition(abs(instant.milliseconds) < 300_000_000_000_000 || Double(text) != nil)
        _ = instant.rfc3339
    }
    _ = UnixTime(cookieDate: text)
    for value in [JSONValue.string(text), .number(.init(Double(text) ?? .nan))] {
        if let lifetime = try? OAuthTokenResponse.lifetime(value, at: now.wall), Double(text) != nil {
            precondition(lifetime >= .zero && lifetime <= OAuthTokenResponse.longestLifetime)
        }
    }
    _ = UnverifiedJWT(Secret(text))?.expiry(issuedAt: now.wall)
}

private let sources: [Extraction.Source] =
    [.header("Retry-After"), .cookie("a"), .body]
    + ["/access_token", "/a/0/b", "/"].compactMap { JSONPointer($0) }.map { .json($0) }

private func checkExtractions(_ reply: TokenReply) {
    let json = JSONValue(reply.body)
    for source in sources {
        guard let found = try? Extraction(source: source).value(in: reply, json: json, from: nil, at: now.wall) else {
            continue
        }
        found.withValue { text in
            precondition(!text.isEmpty && text.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F })
        }
    }
}
