import GatewayHTTP
import GatewayTokens

/// A login at an authorizer that ends on an address with both tokens in it. No listener can be reached there: a person
/// copies the address.
struct SessionLogin: LoginFlow {
    let loginURL: AuthorityURL
    /// Where the login ends, without its query; the first is the one to tell people.
    let landings: [AuthorityURL]
    let expiry: ExpiryRule
    let sessionLifetime: Duration?

    var redirect: LoginRedirect { .elsewhere(landings.first?.text ?? loginURL.text) }

    func page(of attempt: LoginAttempt) -> String { loginURL.text }

    /// By name, not by place: the authorization server does not promise an order in the query.
    func read(_ answer: LoginAnswer, of attempt: LoginAttempt, at now: Moment) -> LoginStep {
        let address =
            switch answer {
            case .redirect(let text), .pasted(let text): text
            }
        do throws(LoginRefusal) {
            let parameters = try parameters(of: address)
            guard let access = parameters["access_token"].flatMap({ IssuedToken.read($0) }) else {
                throw .incomplete(missing: "access_token")
            }
            guard let session = parameters["session_token"].flatMap({ IssuedToken.read($0) }) else {
                throw .incomplete(missing: "session_token")
            }
            return .token(
                TokenSet(
                    access: access,
                    refreshToken: session,
                    obtainedAt: now.wall,
                    expiresAt: expiry.end(of: access, issuedAt: now.wall),
                    refreshTokenExpiresAt: sessionLifetime.map { now.wall + $0 }
                )
            )
        } catch {
            return LoginStep(refusing: error)
        }
    }

    private func parameters(of address: String) throws(LoginRefusal) -> LoginParameters {
        guard address.contains("://") else { throw .unreadable }
        for landing in landings {
            do throws(LoginRefusal) {
                return try LoginParameters(address, expecting: landing.text)
            } catch {
                guard case .elsewhere = error else { throw error }
            }
        }
        throw .elsewhere(expected: landings.first?.text ?? loginURL.text)
    }

    func interpret(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure> {
        .failure(.init(.terminal, problem: GatewayProblem(.internalError, "This login makes no request.")))
    }
}
