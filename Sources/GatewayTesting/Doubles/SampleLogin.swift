package import GatewayCore

/// A login whose answer is the word `code`, to be exchanged at the sample authority.
package struct SampleLogin: LoginFlow {
    package var redirect: LoginRedirect

    package init(redirect: LoginRedirect = .ephemeral) { self.redirect = redirect }

    package func page(of attempt: LoginAttempt) -> String {
        attempt.state.withValue { "https://authority.example/authorize?state=\($0)&to=\(attempt.redirectURI)" }
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
        return .success(
            TokenSet(
                access: Secret("access-of-login"),
                refreshToken: Secret("renewal-of-login"),
                obtainedAt: now.wall,
                expiresAt: now.wall + .seconds(3600)
            )
        )
    }
}
