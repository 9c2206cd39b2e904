import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A person logs in with a browser; from then on the gateway renews (RFC 6749 §4.1 and §6, PKCE by RFC 7636).
struct AuthorizationCodeStrategy: AuthStrategy {
    static let kind = "oauth2_authorization_code"
    static let otherNames = ["authorization_code", "refresh_token", "pkce", "oidc", "openid_connect"]

    private let grant: AuthorizationCodeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let authorizeURL = fields.requiredAuthorityURL("authorize_url")
        let deviceURL = fields.authorityURL("device_authorization_url")
        let isRegistered = fields.authorityURL("registration_url") != nil
        let login = OAuthClient(
            in: fields,
            own: ["code", "redirect_uri", "code_verifier", "refresh_token", "device_code"],
            refreshes: true
        ) {
            ClientAuthentication(in: fields, tokenURL: $0, allowsPublic: true)
        }
        let browser = AuthorizationCodeLogin.Browser(in: fields)
        let issuer = AuthorizationCodeLogin.Issuer(in: fields)
        let pageParameters = Self.pageParameters(in: fields)
        let refreshLifetime = fields.duration(
            "refresh_token_lifetime",
            in: .seconds(60)...OAuthTokenResponse.longestLifetime
        )
        let seeds = AuthorizationCodeGrant.Seeds(in: fields)
        let isCaptured = fields.bool("capture") ?? false
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
                answers: TokenAnswers(
                    errors: .standard.advising(client),
                    refreshLifetime: refreshLifetime,
                    isRegistered: isRegistered
                )
            ),
            deviceURL: deviceURL,
            refreshParameters: login.refreshParameters,
            revocation: login.revocation,
            seeds: seeds,
            isCaptured: isCaptured
        )
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { grant.flow.client.clientTLS }

    /// `authorize_parameters`: whatever else the authorization server wants in the address of the page.
    private static func pageParameters(in fields: ConfigFields) -> [TokenRequest.Parameter] {
        let parameters = fields.stringMap("authorize_parameters") ?? []
        for (name, _) in parameters where ownPageParameters.contains(name) {
            fields.error("authorize_parameters", "\"\(name)\" is set by the strategy; use its own key")
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

extension AuthorizationCodeLogin.Issuer {
    /// Reads `issuer` and `issuer_required`; nil without the first.
    init?(in fields: ConfigFields) {
        let isRequired = fields.bool("issuer_required")
        guard let name = fields.string("issuer") else {
            if isRequired != nil { fields.error("issuer_required", "has no effect without issuer") }
            return nil
        }
        self.init(name: name, isRequired: isRequired ?? true)
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
            case .plaintext: self.error(key, "must be https or on loopback: the code would be sent in the clear")
            case .hasFragment: self.error(key, "must not contain a fragment (RFC 6749 §3.1.2)")
            case .hasQuery: self.error(key, "must not contain a query")
            }
            return nil
        }
    }
}

/// A token that began with a person's login and is renewed by spending refresh tokens (RFC 6749 §6).
struct AuthorizationCodeGrant: TokenGrant {
    struct Seeds: Hashable {
        let access: Secret?
        let refresh: Secret?

        /// Reads `access_token` and `refresh_token`; both may be absent.
        init(in fields: ConfigFields) {
            access = fields.bearerToken("access_token")
            refresh = fields.secret("refresh_token")
        }
    }

    let strategy: String
    /// Where the credential stands in the configuration; tells apart credentials that begin without tokens.
    let configPath: String
    let flow: AuthorizationCodeLogin
    /// Where logins on another device begin.
    var deviceURL: AuthorityURL?
    /// See ``OAuthClient/refreshParameters``.
    var refreshParameters: [TokenRequest.Parameter] = []
    let revocation: RevocationEndpoint?
    let seeds: Seeds
    /// Clients begin logins by themselves, and get phantoms.
    var isCaptured = false
    /// Where its tokens are exchanged, for a vendor that deviates from RFC 8693.
    var vendorExchange: ExchangePoint?

    let isRenewable = true
    let rotatesRefreshToken = true
    var renewsSeed: Bool { seeds.refresh != nil }
    var login: (any LoginFlow)? { flow }
    var capture: (any CapturableLogin)? {
        isCaptured ? CapturedCodeLogin(flow: flow, revocationURL: revocation?.url) : nil
    }
    var deviceLogin: (any DeviceLoginFlow)? {
        deviceURL.map { url in
            DeviceLogin(
                url: url,
                tokenURL: flow.tokenURL,
                client: flow.client,
                scopes: flow.scopes,
                parameters: flow.parameters,
                answers: flow.answers
            )
        }
    }

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: strategy, subject: nil)
        identity.add("authorize_url", flow.authorizeURL.text)
        identity.add("token_url", flow.tokenURL.text)
        flow.client.addInputs(to: &identity)
        identity.add("scope", flow.scopes.joined(separator: " "))
        for parameter in flow.pageParameters {
            identity.add("authorize_parameters.\(parameter.name)", secret: parameter.value)
        }
        identity.add(flow.parameters)
        identity.add("access_token", secret: seeds.access)
        identity.add("refresh_token", secret: seeds.refresh)
        // Without seeds nothing else says whose login it will be.
        if seeds.access == nil, seeds.refresh == nil { identity.add("credential", configPath) }
        return identity
    }

    /// A refresh token alone begins as a pair whose access token is over.
    func seed(at now: Moment) -> TokenSet? {
        if let access = seeds.access {
            return completing(TokenSet(access: access, refreshToken: seeds.refresh, obtainedAt: now.wall))
        }
        return seeds.refresh.map {
            TokenSet(access: Secret(""), refreshToken: $0, obtainedAt: now.wall, expiresAt: now.wall)
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let held = attempt.held
        guard let refreshToken = held == nil ? seeds.refresh : held?.refreshToken else {
            return .impossible(loginRequired(holding: held))
        }
        let form = [
            TokenRequest.Parameter("grant_type", "refresh_token"),
            TokenRequest.Parameter("refresh_token", refreshToken),
        ]
        return flow.client.step(form + refreshParameters, at: flow.tokenURL, in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        if let repair = flow.client.repair(after: reply, in: attempt, sign: firstStep) { return repair }
        let held = attempt.held ?? seed(at: attempt.now)
        return GrantAnswer(flow.answers.refresh(reply, in: &attempt, holding: held))
    }

    func revocation(in attempt: GrantAttempt) -> RevocationStep { revocation.step(as: flow.client, in: attempt) }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        ClientAuthentication?(flow.client).answerToRevocation(reply, in: attempt, sign: revocation(in:))
    }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](flow.tokenURL, revocation?.url, deviceURL) }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }

    private func loginRequired(holding held: TokenSet?) -> TokenFailure {
        let what =
            switch held?.access.isEmpty {
            case nil: "Nobody has logged in yet"
            // What is left of a token after a revocation (``StoredToken/revoked(generation:at:)``): no answer of the authority
            // ends a token of this grant for good.
            case true?: "The token was revoked by an operator"
            case false?:
                "The authorization server issued no refresh token with the last login, so the token cannot be renewed"
            }
        return TokenFailure(
            .loginRequired,
            problem: GatewayProblem(.loginRequired, "\(what): a person must log in at \(flow.authorizeURL).")
        )
    }
}

extension AuthorizationCodeGrant: ExchangeableGrant {
    var exchange: ExchangePoint? {
        vendorExchange ?? ExchangePoint(url: flow.tokenURL, client: flow.client)
    }
}

extension AuthorizationCodeStrategy {
    static let meanings = ClientCredentialsStrategy.meanings
        .merging(
            SharedMeanings.of(
                "authorize_url",
                "redirect_uri",
                "pkce",
                "access_token",
                "refresh_token",
                "refresh_parameters"
            )
        ) { own, _ in own }
        .merging([
            "authorize_parameters": KeyMeaning(
                "Additional query parameters for the login page.",
                default: "{}",
                example: "prompt: consent\naudience: https://api.example.com"
            ),
            "capture": KeyMeaning(
                "Answers logins that clients begin by themselves: they get phantom tokens, and the gateway keeps and renews the real ones.",
                default: "false",
                example: "true"
            ),
            "device_authorization_url": KeyMeaning(
                "Where a login on another device begins (RFC 8628), for login --device.",
                example: "https://id.example.com/oauth2/device"
            ),
            "issuer": KeyMeaning(
                "The issuer that the response to a login must name (RFC 9207).",
                example: "https://id.example.com"
            ),
            "issuer_required": KeyMeaning(
                "With false, a response to a login that names no issuer is accepted, and one that names another is refused. For servers "
                    + "that do not announce authorization_response_iss_parameter_supported.",
                default: "true",
                example: "false"
            ),
            "registration_url": KeyMeaning(
                "Where authgateway add mcp has registered the client (RFC 7591). If the authorization server no longer knows it, the next "
                    + "authgateway login registers it again, once, and writes the new client_id.",
                example: "https://id.example.com/register"
            ),
            "refresh_token_lifetime": KeyMeaning(
                "The lifetime of a refresh token, if the authorization server does not state it. For the "
                    + "countdown in status.",
                example: "90d"
            ),
        ]) { own, _ in own }
}
