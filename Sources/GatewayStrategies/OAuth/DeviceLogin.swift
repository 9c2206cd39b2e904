import GatewayHTTP
import GatewayTokens

/// A login on another device (RFC 8628).
struct DeviceLogin: DeviceLoginFlow {
    static let grantType = "urn:ietf:params:oauth:grant-type:device_code"

    let url: AuthorityURL
    let tokenURL: AuthorityURL
    let client: ClientAuthentication
    let scopes: [String]
    /// See ``AuthorizationCodeLogin/addedScopes``.
    var addedScopes: [String] = []
    /// Stand in the form of every token request.
    let parameters: [TokenRequest.Parameter]
    let answers: TokenAnswers

    func begin(nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem> {
        request(.scope(scopes + addedScopes) + parameters, at: url, nonce, now)
    }

    func poll(_ code: DeviceCode, nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem> {
        let form = [
            TokenRequest.Parameter("grant_type", Self.grantType),
            TokenRequest.Parameter("device_code", code.deviceCode),
        ]
        return request(form + parameters, at: tokenURL, nonce, now)
    }

    func asking(alsoFor scopes: [String]) -> any DeviceLoginFlow {
        var login = self
        login.addedScopes = scopes.filter { !self.scopes.contains($0) }
        return login
    }

    private func request(
        _ form: [TokenRequest.Parameter],
        at url: AuthorityURL,
        _ nonce: String,
        _ now: Moment
    ) -> Result<TokenRequest, GatewayProblem> {
        switch client.step(form, at: url, in: GrantAttempt(holding: nil, at: now, nonce: nonce)) {
        case .request(let request): .success(request)
        case .impossible(let failure): .failure(failure.problem)
        case .run, .token:
            .failure(GatewayProblem(.internalError, "Only an authorization server issues a device code."))
        }
    }

    // MARK: The code

    static let longest: Duration = .seconds(86_400)

    func code(in reply: TokenReply, at now: Moment) -> Result<DeviceCode, GatewayProblem> {
        let answer = reply.document
        guard RefreshError(reply) == nil else {
            let code = OAuthErrorCode.allowListed(RefreshError.code(in: reply))
            let said = [code, "status \(reply.status)"].compactMap(\.self).joined(separator: ", ")
            let advice =
                "check device_authorization_url, client_id and scopes, and whether the client may log in on devices."
            return .failure(refused("The authorization server issued no device code (\(said)): \(advice)", code, reply))
        }
        let secret = answer?["device_code"]?.string.flatMap(IssuedToken.read)
        // Some call it verification_url.
        let page = answer?["verification_uri"]?.string ?? answer?["verification_url"]?.string
        guard let secret, let userCode = answer?["user_code"]?.string, Self.isShort(userCode, 64),
            let page, Self.isShort(page, 1024), (try? AuthorityURL(page)) != nil
        else {
            return .failure(
                refused(
                    "The authorization server's response has no code, or no https address to enter it at.",
                    nil,
                    reply
                )
            )
        }
        let stated = { (name: String) in
            (try? OAuthTokenResponse.lifetime(answer?[name], at: now.wall)).flatMap(\.self)
        }
        let (interval, lifetime) = (stated("interval") ?? .seconds(5), stated("expires_in") ?? .seconds(600))
        return .success(
            DeviceCode(
                deviceCode: secret,
                userCode: userCode,
                page: page,
                lifetime: min(lifetime, Self.longest),
                interval: min(max(interval, .seconds(1)), .seconds(60))
            )
        )
    }

    /// It is shown on a terminal.
    private static func isShort(_ text: String, _ limit: Int) -> Bool {
        !text.isEmpty && text.utf8.count <= limit && FieldSyntax.isValue(text)
    }

    private func refused(_ detail: String, _ code: String?, _ reply: TokenReply) -> GatewayProblem {
        GatewayProblem(.loginFailed, detail, cause: GatewayProblem.Cause(code: code, httpStatus: reply.status))
    }

    // MARK: The token

    func interpret(_ reply: TokenReply, at now: Moment) -> DeviceLoginStep {
        let code = RefreshError.code(in: reply)
        switch code {
        case "authorization_pending": return .pending
        case "slow_down": return .slowDown
        case "access_denied":
            return .refused(
                refused("The login was denied at the authorization server (access_denied).", code, reply),
                reason: "denied"
            )
        case "expired_token":
            let words = "The code was not entered in time (expired_token). Nothing was changed; begin a new login."
            return .refused(refused(words, code, reply), reason: "timeout")
        default: break
        }
        switch answers.exchange(reply, at: now, addedScopes: addedScopes) {
        case .success(let token): return .token(token)
        case .failure(let failure):
            if failure.mayPass { return .unclear(failure) }
            return .refused(failure.problem, reason: "exchange_refused")
        }
    }
}
