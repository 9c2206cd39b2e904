import Crypto
import GatewayHTTP
import GatewayTokens

/// A login by browser: the authorization code flow (RFC 6749 §4.1) with PKCE (RFC 7636).
struct AuthorizationCodeLogin: LoginFlow {
    /// Where the browser comes back to, and what ties its answer to the question.
    struct Browser: Hashable {
        let redirect: LoginRedirect
        let usesPKCE: Bool
    }

    struct Issuer: Hashable {
        let name: String
        /// Whether a response that names no issuer is refused.
        let isRequired: Bool

        func accepts(_ named: String?) -> Bool { named.map { $0 == name } ?? !isRequired }
    }

    let authorizeURL: AuthorityURL
    let tokenURL: AuthorityURL
    let client: ClientAuthentication
    /// Those of the configuration.
    let scopes: [String]
    /// Scopes that a person requested in addition.
    var addedScopes: [String] = []
    let browser: Browser
    /// The issuer that the response must name (RFC 9207); nil accepts any.
    let issuer: Issuer?
    /// Stand in the address of the page.
    let pageParameters: [TokenRequest.Parameter]
    /// Stand in the form of every token request.
    let parameters: [TokenRequest.Parameter]
    let answers: TokenAnswers

    var redirect: LoginRedirect { browser.redirect }

    func page(of attempt: LoginAttempt) -> String {
        var query = [
            TokenRequest.Parameter("response_type", "code"),
            TokenRequest.Parameter("client_id", client.clientID),
            TokenRequest.Parameter("redirect_uri", attempt.redirectURI),
            TokenRequest.Parameter("state", attempt.state),
        ]
        query += .scope(scopes + addedScopes)
        if browser.usesPKCE {
            query.append(TokenRequest.Parameter("code_challenge", PKCE.challenge(of: attempt.verifier)))
            query.append(TokenRequest.Parameter("code_challenge_method", "S256"))
        }
        query += pageParameters
        let separator = authorizeURL.text.contains("?") ? "&" : "?"
        return authorizeURL.text + separator + String(decoding: FormEncoding.encode(query), as: UTF8.self)
    }

    func read(_ answer: LoginAnswer, of attempt: LoginAttempt, at now: Moment) -> LoginStep {
        let code: Secret
        do throws(LoginRefusal) {
            code = try self.code(in: answer, of: attempt)
        } catch {
            return LoginStep(refusing: error)
        }
        switch exchange(code, of: attempt, at: now) {
        case .request(let request): return .exchange(request)
        case .impossible(let failure): return .refused(failure.problem, reason: "not_asked")
        case .run, .token:
            let detail = "Only the authorization server exchanges a code."
            return .refused(GatewayProblem(.internalError, detail), reason: "not_asked")
        }
    }

    private func code(in answer: LoginAnswer, of attempt: LoginAttempt) throws(LoginRefusal) -> Secret {
        switch answer {
        case .redirect(let address):
            return try code(in: address, of: attempt)
        case .pasted(let text):
            guard text.contains("=") || text.contains("://") else { return try bareCode(text) }
            return try code(in: text, of: attempt)
        }
    }

    private func code(in address: String, of attempt: LoginAttempt) throws(LoginRefusal) -> Secret {
        let answer = try LoginParameters(address, expecting: attempt.redirectURI)
        // First of all: what does not belong to this login says nothing about it.
        guard let state = answer["state"] else { throw .missingState }
        guard attempt.state.matches(Array(state.utf8)) else { throw .wrongState }
        if let issuer, !issuer.accepts(answer["iss"]) { throw .wrongIssuer }
        if let error = OAuthErrorCode.allowListed(answer["error"]) { throw .denied(error) }
        guard let code = answer["code"] else { throw .incomplete(missing: "code") }
        return Secret(code)
    }

    /// Some authorization servers show a code to be copied. Nothing but the verifier ties it to this login then.
    private func bareCode(_ text: String) throws(LoginRefusal) -> Secret {
        guard FieldSyntax.isValue(text), !text.contains(" "), text.utf8.count <= LoginAnswer.limitBytes else {
            throw .unreadable
        }
        guard browser.usesPKCE else { throw .addressNeeded }
        return Secret(text)
    }

    private func exchange(_ code: Secret, of attempt: LoginAttempt, at now: Moment) -> GrantStep {
        var form = [
            TokenRequest.Parameter("grant_type", "authorization_code"),
            TokenRequest.Parameter("code", code),
            TokenRequest.Parameter("redirect_uri", attempt.redirectURI),
        ]
        if browser.usesPKCE { form.append(TokenRequest.Parameter("code_verifier", attempt.verifier)) }
        let grant = GrantAttempt(holding: nil, at: now, nonce: attempt.nonce)
        return client.step(form + parameters, at: tokenURL, in: grant)
    }

    func interpret(_ reply: TokenReply, at now: Moment) -> Result<TokenSet, TokenFailure> {
        answers.exchange(reply, at: now, addedScopes: addedScopes)
    }

    var requestedScopes: [String]? { scopes }

    func asking(alsoFor scopes: [String]) -> any LoginFlow {
        var login = self
        login.addedScopes = scopes.filter { !self.scopes.contains($0) }
        return login
    }
}

/// A login that a client begins by itself. The gateway exchanges its code, as itself.
struct CapturedCodeLogin: CapturableLogin {
    let flow: AuthorizationCodeLogin
    let revocationURL: AuthorityURL?

    var clientID: String { flow.client.clientID }
    var tokenURL: AuthorityURL { flow.tokenURL }

    /// What the configuration sets replaces what the client has sent.
    func exchange(_ form: [TokenRequest.Parameter], nonce: String, at now: Moment) -> GrantStep {
        let own = Set(flow.parameters.map(\.name))
        let attempt = GrantAttempt(holding: nil, at: now, nonce: nonce)
        return flow.client.step(
            form.filter { !own.contains($0.name) } + flow.parameters,
            at: flow.tokenURL,
            in: attempt
        )
    }
}

/// Proof key for code exchange, method S256 (RFC 7636 §4.2).
enum PKCE {
    static func challenge(of verifier: Secret) -> String {
        verifier.withValue { Base64.encodeURL(SHA256.hash(data: Array($0.utf8))) }
    }
}
