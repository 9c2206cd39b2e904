import GatewayCore

/// Box's login for people: a preset of `oauth2_authorization_code`.
struct BoxOAuthStrategy: AuthStrategy {
    static let kind = "box_oauth"

    private let grant: AuthorizationCodeGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let redirect = fields.loginRedirect("redirect_uri") ?? .ephemeral
        let scopes = fields.scopes()
        let usesPKCE = fields.bool("pkce") ?? true
        let authorizeURL =
            fields.has("authorize_url")
            ? fields.authorityURL("authorize_url") : try? AuthorityURL(BoxAuthority.authorizeURL)
        let tokenURL =
            fields.has("token_url") ? fields.authorityURL("token_url") : try? AuthorityURL(BoxAuthority.tokenURL)
        let revokeURL = BoxAuthority.revokeURL(in: fields, tokenURL: tokenURL)
        if fields.has("client_auth") { fields.error("client_auth", "Box takes the client's credentials in the form") }
        let client = ClientAuthentication(in: fields, tokenURL: tokenURL)
        let seeds = AuthorizationCodeGrant.Seeds(in: fields)
        guard let client, let authorizeURL, let tokenURL, fields.context.errorCount == errors else {
            return nil
        }
        grant = AuthorizationCodeGrant(
            strategy: Self.kind,
            configPath: fields.path.description,
            flow: AuthorizationCodeLogin(
                authorizeURL: authorizeURL,
                tokenURL: tokenURL,
                client: client,
                scopes: scopes,
                redirect: redirect,
                usesPKCE: usesPKCE,
                issuer: nil,
                pageParameters: [],
                parameters: [],
                answers: TokenAnswers(errors: BoxAuthority.loginErrors, refreshLifetime: .seconds(60 * 86_400))
            ),
            revokeURL: revokeURL,
            // Box knows client_id, client_secret and token alone.
            hintsTokenType: false,
            seeds: seeds
        )
    }

    var behavior: AuthBehavior { .token(grant) }
}
