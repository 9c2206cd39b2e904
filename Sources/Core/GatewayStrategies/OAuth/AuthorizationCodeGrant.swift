import GatewayCore

/// A token that began with a person's login and is renewed by spending refresh tokens (RFC 6749 §6).
struct AuthorizationCodeGrant: TokenGrant {
    struct Seeds: Hashable {
        let access: Secret?
        let refresh: Secret?
    }

    let strategy: String
    /// Where the credential stands in the configuration; tells apart credentials that begin without tokens.
    let configPath: String
    let flow: AuthorizationCodeLogin
    let revokeURL: AuthorityURL?
    /// Whether the authority has a word for the kind of a token that is revoked (RFC 7009 §2.1).
    let hintsTokenType: Bool
    let seeds: Seeds

    let isRenewable = true
    let rotates = true
    var renewsSeed: Bool { seeds.refresh != nil }
    var login: (any LoginFlow)? { flow }

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
            return TokenSet(access: access, renewal: seeds.refresh, obtainedAt: now.wall)
        }
        return seeds.refresh.map {
            TokenSet(access: Secret(""), renewal: $0, obtainedAt: now.wall, expiresAt: now.wall)
        }
    }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        let held = attempt.held
        guard let renewal = held == nil ? seeds.refresh : held?.renewal else {
            return .impossible(loginRequired(hadToken: held != nil))
        }
        let form = [
            TokenRequest.Parameter("grant_type", "refresh_token"),
            TokenRequest.Parameter("refresh_token", renewal),
        ]
        return flow.client.step(form + flow.parameters, at: flow.tokenURL, in: attempt)
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        let held = attempt.held ?? seed(at: attempt.now)
        return GrantAnswer(flow.answers.refresh(reply, at: attempt.now, holding: held))
    }

    /// The refresh token where there is one: ending it ends what it could have bought (RFC 7009 §2.1).
    func revocation(of token: TokenSet) -> TokenRequest? {
        guard let revokeURL else { return nil }
        var form = [TokenRequest.Parameter("token", token.renewal ?? token.access)]
        if hintsTokenType {
            let kind = token.renewal == nil ? "access_token" : "refresh_token"
            form.append(TokenRequest.Parameter("token_type_hint", kind))
        }
        return flow.client.authenticateUndated(TokenRequest(url: revokeURL, body: .form(form)))
    }

    var revocationObstacle: String {
        revokeURL == nil
            ? "The credential has no revoke_url; add it."
            : "A client with client_auth: private_key_jwt cannot revoke yet; revoke the login at the authority."
    }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }

    private func loginRequired(hadToken: Bool) -> TokenFailure {
        let what =
            hadToken
            ? "The authority gave no refresh token with the last login, so the token cannot be renewed"
            : "Nobody has logged in yet"
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
