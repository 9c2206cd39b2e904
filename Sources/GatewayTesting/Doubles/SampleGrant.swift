package import GatewayCore

/// A grant for tests that are about something else: answers are those of RFC 6749, and whether it rotates is a flag.
package struct SampleGrant: TokenGrant {
    package var identity: GrantIdentity
    package var isRenewable: Bool
    package var rotatesRefreshToken: Bool
    package var initial: TokenSet?
    package var renewsSeed = false
    package var login: (any LoginFlow)?
    package var deviceLogin: (any DeviceLoginFlow)?
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
            let problem = GatewayProblem(.loginRequired, "No person has logged in yet.")
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
                    problem: GatewayProblem(.tokenTemporarilyUnavailable, "The authority sent no token.")
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
                    "The authority is busy.",
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
            problem: GatewayProblem(.credentialMisconfigured, "The authority refused the client.", cause: cause)
        )
    }

    package func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard revokes, let token = attempt.held, let url = try? AuthorityURL("https://authority.example/revoke") else {
            return .impossible("The strategy sample knows no endpoint that revokes a token.")
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
