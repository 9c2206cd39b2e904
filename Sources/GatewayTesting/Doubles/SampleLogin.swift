package import GatewayHTTP
package import GatewayTokens

/// A login whose answer is the word `code`, to be exchanged at the sample authority.
package struct SampleLogin: LoginFlow {
    package var redirect: LoginRedirect
    package var requestedScopes: [String]?
    private var addedScopes: [String] = []

    package init(redirect: LoginRedirect = .ephemeral, scopes: [String]? = nil) {
        self.redirect = redirect
        requestedScopes = scopes
    }

    package func page(of attempt: LoginAttempt) -> String {
        let scope = ((requestedScopes ?? []) + addedScopes).map { "&scope=\($0)" }.joined()
        return attempt.state.withValue {
            "https://authority.example/authorize?state=\($0)&to=\(attempt.redirectURI)\(scope)"
        }
    }

    package func asking(alsoFor scopes: [String]) -> any LoginFlow {
        var login = self
        login.addedScopes = scopes
        return login
    }

    package func read(_ answer: LoginAnswer, of attempt: LoginAttempt, at now: Moment) -> LoginStep {
        let text =
            switch answer {
            case .redirect(let text), .pasted(let text): text
            }
        let isGood = text == "code" || text == "\(attempt.redirectURI)?code"
        guard isGood, let url = try? AuthorityURL("https://authority.example/token") else {
            return LoginStep(refusing: .wrongState)
        }
        return .exchange(TokenRequest(url: url, body: .form([.init("grant_type", "authorization_code")])))
    }

    package func interpret(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure> {
        guard reply.status == 200 else {
            return .failure(
                TokenFailure(.loginRequired, problem: GatewayProblem(.loginFailed, "The code was refused."))
            )
        }
        var token = TokenSet(
            access: Secret("access-of-login"),
            refreshToken: Secret("renewal-of-login"),
            obtainedAt: now.wall,
            expiresAt: now.wall + .seconds(3600)
        )
        token.addedScopes = addedScopes
        return .success(token)
    }
}

/// A login on another device: 200 gives the code and the token, 400 means that the person has not entered it yet.
package struct SampleDeviceLogin: DeviceLoginFlow {
    package init() {}

    package func begin(nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem> { Self.request }

    package func code(in reply: TokenReply, at now: Moment) -> Result<DeviceCode, GatewayProblem> {
        .success(
            DeviceCode(
                deviceCode: Secret("device"),
                userCode: "AB-12",
                page: "https://authority.example/go",
                lifetime: .seconds(60),
                interval: .seconds(5)
            )
        )
    }

    package func poll(_ code: DeviceCode, nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem> {
        Self.request
    }

    package func interpret(_ reply: TokenReply, at now: Moment) -> DeviceLoginStep {
        guard reply.status == 200 else { return .pending }
        return .token(
            TokenSet(
                access: Secret("access-of-login"),
                refreshToken: Secret("renewal-of-login"),
                obtainedAt: now.wall,
                expiresAt: now.wall + .seconds(3600)
            )
        )
    }

    private static var request: Result<TokenRequest, GatewayProblem> {
        guard let url = try? AuthorityURL("https://authority.example/device") else {
            return .failure(GatewayProblem(.internalError, "no URL"))
        }
        return .success(TokenRequest(url: url))
    }
}

/// A login that clients begin by themselves, as the client `sample`.
package struct SampleCapture: CapturableLogin {
    package let clientID = "sample"
    package let tokenURL: AuthorityURL
    package var revocationURL: AuthorityURL?

    package init() throws { tokenURL = try AuthorityURL("https://authority.example/token") }

    package func exchange(_ form: [TokenRequest.Parameter], nonce: String, at now: Moment) -> GrantStep {
        .request(TokenRequest(url: tokenURL, body: .form(form + [.init("client_secret", "of the gateway")])))
    }
}
