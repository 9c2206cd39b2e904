import GatewayCore

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

    let isRenewable = true
    let rotatesRefreshToken = true
    var renewsSeed: Bool { seeds.refresh != nil }
    var login: (any LoginFlow)? { flow }
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
            case nil: "No person has logged in yet"
            // What is left of a token after a revocation (``StoredToken/revoked(generation:at:)``): no answer of the authority
            // ends a token of this grant for good.
            case true?: "The token was revoked by an operator"
            case false?: "The authority gave no refresh token with the last login, so the token cannot be renewed"
            }
        return TokenFailure(
            .loginRequired,
            problem: GatewayProblem(.loginRequired, "\(what): a person must log in at \(flow.authorizeURL).")
        )
    }
}

extension AuthorizationCodeGrant: ExchangeableGrant {
    var exchange: ExchangePoint? {
        let isBox = strategy == BoxOAuthStrategy.kind
        return ExchangePoint(url: flow.tokenURL, client: isBox ? nil : flow.client, isBox: isBox)
    }
}
