import GatewayCore

/// A person logs in with a browser; from then on the gateway renews (RFC 6749 §4.1 and §6, PKCE by RFC 7636).
struct AuthorizationCodeStrategy: AuthStrategy {
    static let kind = "oauth2_authorization_code"

    private let grant: AuthorizationCodeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let authorizeURL = fields.requiredAuthorityURL("authorize_url")
        let deviceURL = fields.authorityURL("device_authorization_url")
        let login = OAuthClient(
            in: fields,
            own: ["code", "redirect_uri", "code_verifier", "refresh_token", "device_code"],
            refreshes: true
        ) {
            ClientAuthentication(in: fields, tokenURL: $0, allowsPublic: true)
        }
        let browser = AuthorizationCodeLogin.Browser(in: fields)
        let issuer = fields.string("issuer")
        let pageParameters = Self.pageParameters(in: fields)
        let refreshLifetime = fields.duration(
            "refresh_token_lifetime",
            in: .seconds(60)...OAuthTokenResponse.longestLifetime
        )
        let seeds = AuthorizationCodeGrant.Seeds(in: fields)
        guard let authorizeURL, let login, let client = login.authentication, fields.context.errorCount == errors else {
            return nil
        }
        grant = AuthorizationCodeGrant(
            strategy: Self.kind,
            configPath: fields.path.description,
            flow: AuthorizationCodeLogin(
                authorizeURL: authorizeURL,
                tokenURL: login.tokenURL,
                client: client,
                scopes: login.scopes,
                browser: browser,
                issuer: issuer,
                pageParameters: pageParameters,
                parameters: login.parameters,
                answers: TokenAnswers(errors: .standard.advising(client), refreshLifetime: refreshLifetime)
            ),
            deviceURL: deviceURL,
            refreshParameters: login.refreshParameters,
            revocation: login.revocation,
            seeds: seeds
        )
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.flow.client.clientTLS }

    /// `authorize_parameters`: whatever else the authority wants in the address of the page.
    private static func pageParameters(in fields: ConfigFields) -> [TokenRequest.Parameter] {
        let parameters = fields.stringMap("authorize_parameters") ?? []
        for (name, _) in parameters where ownPageParameters.contains(name) {
            fields.error("authorize_parameters", "\"\(name)\" is written by the strategy; it has a key of its own")
        }
        return parameters.map { TokenRequest.Parameter($0.name, $0.value) }
    }

    private static let ownPageParameters: Set<String> = [
        "response_type", "client_id", "redirect_uri", "state", "scope", "code_challenge", "code_challenge_method",
    ]
}

extension AuthorizationCodeLogin.Browser {
    /// Reads `redirect_uri` and `pkce`.
    init(in fields: ConfigFields) {
        redirect = fields.loginRedirect("redirect_uri") ?? .ephemeral
        usesPKCE = fields.bool("pkce") ?? true
    }
}

extension ConfigFields {
    fileprivate func loginRedirect(_ key: String) -> LoginRedirect? {
        guard let text = string(key) else { return nil }
        do throws(LoginRedirect.Refusal) {
            return try LoginRedirect(text)
        } catch {
            switch error {
            case .notAbsolute: self.error(key, "expected an absolute URI such as http://127.0.0.1:8765/callback")
            case .plaintext: self.error(key, "must be https or on loopback: the code would be sent in clear")
            case .hasFragment: self.error(key, "must not contain a fragment (RFC 6749 §3.1.2)")
            case .hasQuery: self.error(key, "must not contain a query")
            }
            return nil
        }
    }
}
