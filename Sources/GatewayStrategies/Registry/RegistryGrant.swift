import GatewayCore

/// One token of a registry's token server.
struct RegistryGrant: BearerGrant {
    /// Of a token whose end is not said: what the specification says then.
    private static let defaultLifetime: Duration = .seconds(60)

    let common: GrantIdentity
    let account: RegistryAccount?
    /// nil for a text that is no URL of a token server.
    let url: AuthorityURL?

    /// A client of a registry asks for many tokens, and uses each for minutes.
    var renewsAhead: Bool { false }
    var sendsSecrets: Bool { account != nil }

    var identity: GrantIdentity {
        var identity = common
        identity.add("url", url?.text)
        return identity
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        guard let url else {
            let problem = GatewayProblem(
                .credentialMisconfigured,
                "This is no address of a token server in realm_hosts."
            )
            return .impossible(TokenFailure(.terminal, problem: problem))
        }
        return .request(TokenRequest(method: .get, url: url, fields: account?.fields ?? []))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let error = RefreshError(reply) { return .failure(failure(error, reply, at: attempt.now)) }
        do throws(BrokenAnswer) {
            let answer = Self.tokenResponse(reply.document)
            var token = try OAuthTokenResponse(answer, at: attempt.now.wall).tokenSet(at: attempt.now)
            token.expiresAt = token.expiresAt ?? attempt.now.wall + Self.defaultLifetime
            return .token(token)
        } catch {
            return .failure(error.failure(of: Self.authority, status: reply.status))
        }
    }

    private static let authority = "The registry's token server"

    /// The token is `token`, or `access_token` as in OAuth; servers that know both send the same twice.
    private static func tokenResponse(_ answer: JSONValue?) -> JSONValue? {
        guard case .object(var members)? = answer, let token = members["token"]?.string, !token.isEmpty else {
            return answer
        }
        members["access_token"] = .string(token)
        return .object(members)
    }

    private func failure(_ error: RefreshError, _ reply: TokenReply, at now: Moment) -> TokenFailure {
        let cause = GatewayProblem.Cause(httpStatus: reply.status)
        guard error != .transient else {
            return .transient(authority: Self.authority, status: reply.status, wait: reply.retryAfter(at: now))
        }
        let advice =
            switch reply.status {
            case 401, 403: account == nil ? "it wants username and password." : "check username and password."
            case 300..<400: "it answered with a redirect, which is never followed."
            default: "check realm_hosts and the repository."
            }
        let detail = "\(Self.authority) refused the token request (status \(reply.status)): \(advice)"
        // Accounts are locked after too many wrong passwords.
        return TokenFailure(
            .terminal,
            problem: GatewayProblem(.credentialMisconfigured, detail, cause: cause),
            isRetried: account == nil || reply.status != 401
        )
    }
}
