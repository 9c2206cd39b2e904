import GatewayCore

/// What the grants of one token endpoint have in common: where it is, who asks, for what, and where tokens are ended.
struct OAuthClient: Sendable {
    let tokenURL: AuthorityURL
    /// nil where the authority wants none.
    let authentication: ClientAuthentication?
    let scopes: [String]
    let parameters: [TokenRequest.Parameter]
    /// Of a refresh: `parameters`, with those of `refresh_parameters` in the place of the same names.
    ///
    /// They are no part of the identity: the token stays the same one when an operator adds what a refresh lacks.
    let refreshParameters: [TokenRequest.Parameter]
    let revocation: RevocationEndpoint?

    /// Reads `token_url`, `scopes`, `parameters` and `revoke_url`.
    ///
    /// - Parameters:
    ///   - own: The parameters that the strategy writes itself, besides what every one of them writes.
    ///   - refreshes: Reads `refresh_parameters` as well.
    ///   - authentication: Reads who asks; records a problem where that is missing and must not be.
    init?(
        in fields: ConfigFields,
        own: Set<String> = [],
        refreshes: Bool = false,
        authentication: (AuthorityURL?) -> ClientAuthentication?
    ) {
        let errors = fields.context.errorCount
        let tokenURL = fields.requiredAuthorityURL("token_url")
        self.authentication = authentication(tokenURL)
        scopes = fields.scopes()
        let parameters = fields.extraParameters(own: own, refreshes: refreshes)
        let changed = refreshes ? fields.refreshParameters() : []
        refreshParameters = parameters.filter { common in !changed.contains { $0.name == common.name } } + changed
        self.parameters = parameters
        revocation = fields.revocationEndpoint()
        guard let tokenURL, fields.context.errorCount == errors else { return nil }
        self.tokenURL = tokenURL
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("token_url", tokenURL.text)
        authentication?.addInputs(to: &identity)
        identity.add("scope", scopes.joined(separator: " "))
        identity.add(parameters)
    }

    /// A request for a token; `form` is what the grant adds.
    func request(
        _ form: [TokenRequest.Parameter],
        isRefresh: Bool = false,
        in attempt: GrantAttempt
    ) throws(TokenFailure) -> TokenRequest {
        let body = form + (isRefresh ? refreshParameters : parameters)
        let request = TokenRequest(url: tokenURL, body: .form(body))
        return try authentication?.authenticate(request, in: attempt) ?? request
    }
}

/// A grant of one token endpoint, whose tokens are ended and exchanged where they come from.
protocol OAuthGrant: BearerGrant, ExchangeableGrant {
    var client: OAuthClient { get }
}

extension OAuthGrant {
    /// What `parameters` holds may be one.
    var sendsSecrets: Bool { client.authentication?.sendsSecret ?? false || !client.parameters.isEmpty }

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        client.revocation.step(as: client.authentication, in: attempt)
    }

    func interpretRevocation(_ reply: TokenReply, in attempt: inout GrantAttempt) -> RevocationAnswer {
        client.authentication.answerToRevocation(reply, in: attempt, sign: revocation(in:))
    }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](client.tokenURL, client.revocation?.url) }

    var exchange: ExchangePoint? { ExchangePoint(url: client.tokenURL, client: client.authentication) }
}
