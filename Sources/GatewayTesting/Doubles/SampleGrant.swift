package import GatewayHTTP
package import GatewayTokens

/// A grant for tests that are about something else: answers are those of RFC 6749, and whether it rotates is a flag.
package struct SampleGrant: TokenGrant {
    package var identity: GrantIdentity
    package var isRenewable: Bool
    package var rotatesRefreshToken: Bool
    package var initial: TokenSet?
    package var renewsSeed = false
    package var login: (any LoginFlow)?
    package var deviceLogin: (any DeviceLoginFlow)?
    package var capture: (any CapturableLogin)?
    package var revokes: Bool
    package var keepsTokenUntilRevoked: Bool

    package init(
        identity: GrantIdentity = .sample(),
        isRenewable: Bool = true,
        rotatesRefreshToken: Bool = false,
        initial: TokenSet? = nil,
        revokes: Bool = false,
        keepsTokenUntilRevoked: Bool = true
    ) {
        self.identity = identity
        self.isRenewable = isRenewable
        self.rotatesRefreshToken = rotatesRefreshToken
        self.initial = initial
        self.revokes = revokes
        self.keepsTokenUntilRevoked = keepsTokenUntilRevoked
    }

    package func seed(at now: Moment) -> TokenSet? { initial }

    package func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard isRenewable else {
            let problem = GatewayProblem(.staticTokenExpired, "Give the gateway a new token.")
            return .impossible(TokenFailure(.loginRequired, problem: problem))
        }
        guard let url = try? AuthorityURL("https://authority.example/token") else {
            return .impossible(TokenFailure(.terminal, problem: GatewayProblem(.internalError, "no such URL")))
        }
        guard rotatesRefreshToken else {
            return .request(TokenRequest(url: url, body: .form([.init("grant_type", "client_credentials")])))
        }
        guard let refreshToken = attempt.held?.refreshToken else {
            let problem = GatewayProblem(.loginRequired, "Nobody has logged in yet.")
            return .impossible(TokenFailure(.loginRequired, problem: problem))
        }
        let form: [TokenRequest.Parameter] = [
            .init("grant_type", "refresh_token"), .init("refresh_token", refreshToken),
        ]
        return .request(TokenRequest(url: url, body: .form(form)))
    }

    package func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let now = attempt.now
        let json = JSONValue(reply.body)
        guard reply.status == 200 else { return .failure(failure(reply, code: json?["error"]?.string)) }
        guard let access = json?["access_token"]?.string, !access.isEmpty else {
            return .failure(
                TokenFailure(
                    .transient(retryAfter: nil),
                    problem: GatewayProblem(.tokenTemporarilyUnavailable, "The authorization server sent no token.")
                )
            )
        }
        var expiresAt: UnixTime?
        if case .number(let seconds) = json?["expires_in"], seconds.value > 0, seconds.value < 1e9 {
            expiresAt = now.wall + .seconds(seconds.value)
        }
        let refreshToken = json?["refresh_token"]?.string.map { Secret($0) } ?? attempt.held?.refreshToken
        return .token(
            TokenSet(access: Secret(access), refreshToken: refreshToken, obtainedAt: now.wall, expiresAt: expiresAt)
        )
    }

    private func failure(_ reply: TokenReply, code: String?) -> TokenFailure {
        let code = OAuthErrorCode.allowListed(code)
        let cause = GatewayProblem.Cause(code: code, httpStatus: reply.status)
        if reply.status == 429 || reply.status >= 500 {
            let wait = reply.field("Retry-After").flatMap { Int($0) }.map { Duration.seconds($0) }
            return TokenFailure(
                .transient(retryAfter: wait),
                problem: GatewayProblem(
                    .tokenTemporarilyUnavailable,
                    "The authorization server is busy.",
                    cause: cause,
                    retryAfter: wait
                )
            )
        }
        if code == "invalid_grant" {
            return TokenFailure(
                rotatesRefreshToken ? .loginRequired : .terminal,
                problem: GatewayProblem(.reauthorizationRequired, "The grant is no longer valid.", cause: cause)
            )
        }
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(
                .credentialMisconfigured,
                "The authorization server refused the client.",
                cause: cause
            )
        )
    }

    package func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard revokes, let token = attempt.held, let url = try? AuthorityURL("https://authority.example/revoke") else {
            return .impossible("The strategy sample has no revocation endpoint.")
        }
        return .request(TokenRequest(url: url, body: .form([.init("token", token.access)])))
    }

    package var authorityEndpoints: [AuthorityEndpoint] {
        ["token", "revoke"].flatMap { [AuthorityEndpoint](try? AuthorityURL("https://authority.example/\($0)")) }
    }

    package func injection(of token: TokenSet) -> Injection { .authorization(scheme: "Bearer", token.access) }
}

extension GrantIdentity {
    package static func sample(subject: String? = nil, secret: String = "canary-secret") -> GrantIdentity {
        var identity = GrantIdentity(strategy: "sample", subject: subject)
        identity.add("client_secret", secret: Secret(secret))
        return identity
    }
}

/// For tests of grants that ask once.
extension TokenGrant {
    package func firstStep(holding token: TokenSet?, at now: Moment = .sample) -> GrantStep {
        firstStep(of: .sample(holding: token, at: now))
    }

    /// What an answer to the first step means; a further step is a failure of the test.
    package func interpret(
        _ reply: TokenReply,
        holding token: TokenSet?,
        at now: Moment
    ) -> Result<TokenSet, TokenFailure> {
        var attempt = GrantAttempt.sample(holding: token, at: now)
        attempt.answers = 1
        switch interpret(reply, in: &attempt) {
        case .token(let token): return .success(token)
        case .failure(let failure), .parentRefused(let failure): return .failure(failure)
        case .next:
            return .failure(TokenFailure(.terminal, problem: GatewayProblem(.internalError, "asks for a further step")))
        }
    }
}

extension TokenGrant {
    /// What the revocation of a token begins with; nil when there is no endpoint.
    package func revocation(of token: TokenSet, at now: Moment = .sample) -> TokenRequest? {
        guard case .request(let request) = revocation(in: .sample(holding: token, at: now)) else { return nil }
        return request
    }
}

extension Moment {
    package static var sample: Moment {
        Moment(monotonic: MonotonicTime(nanoseconds: 5_000_000_000), wall: UnixTime(seconds: 1_772_357_400))
    }
}

extension GrantAttempt {
    /// With a nonce and a parent's token that are always the same.
    package static func sample(holding token: TokenSet?, at now: Moment) -> GrantAttempt {
        var attempt = GrantAttempt(holding: token, at: now, nonce: .sampleNonce)
        attempt.parentToken = Secret("canary-parent-token")
        return attempt
    }
}

extension String {
    package static var sampleNonce: String { "0123456789abcdef0123456789abcdef" }
}
