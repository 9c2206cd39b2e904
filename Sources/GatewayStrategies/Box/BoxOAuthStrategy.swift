import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Box's login for people: a preset of `oauth2_authorization_code`.
struct BoxOAuthStrategy: AuthStrategy {
    static let kind = "box_oauth"

    private let grant: AuthorizationCodeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let browser = AuthorizationCodeLogin.Browser(in: fields)
        let scopes = fields.scopes()
        let authorizeURL =
            fields.has("authorize_url")
            ? fields.authorityURL("authorize_url") : try? AuthorityURL(BoxAuthority.authorizeURL)
        let endpoints = BoxEndpoints(in: fields)
        if fields.has("client_auth") { fields.error("client_auth", "Box expects the client's credentials in the form") }
        let client = ClientAuthentication(in: fields, tokenURL: endpoints?.tokenURL)
        let seeds = AuthorizationCodeGrant.Seeds(in: fields)
        guard let client, let authorizeURL, let endpoints, fields.context.errorCount == errors else { return nil }
        grant = AuthorizationCodeGrant(
            strategy: Self.kind,
            configPath: fields.path.description,
            flow: AuthorizationCodeLogin(
                authorizeURL: authorizeURL,
                tokenURL: endpoints.tokenURL,
                client: client,
                scopes: scopes,
                browser: browser,
                issuer: nil,
                pageParameters: [],
                parameters: [],
                answers: TokenAnswers(errors: BoxAuthority.loginErrors, refreshLifetime: .seconds(60 * 86_400))
            ),
            // Box knows client_id, client_secret and token alone.
            revocation: endpoints.revokeURL.map { RevocationEndpoint(url: $0, hintsTokenType: false) },
            seeds: seeds,
            vendorExchange: ExchangePoint(url: endpoints.tokenURL, terms: .box)
        )
    }

    static var userField: UserField? { BoxAuthority.userField }
    var behavior: AuthBehavior { .token(grant) }
}

extension BoxOAuthStrategy {
    static let meanings = SharedMeanings.client
        .merging(SharedMeanings.of("redirect_uri", "pkce", "access_token", "refresh_token", "scopes")) { own, _ in own }
        .merging(BoxEndpoints.meanings) { _, own in own }
        .merging([
            "authorize_url": KeyMeaning(
                "Replaces Box's login page, for a sandbox.",
                example: "https://box.example/oauth2/authorize"
            )
        ]) { own, _ in own }
}
