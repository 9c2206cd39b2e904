import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// What the grants of one token endpoint have in common: where it is, who asks, for what, and where tokens are ended.
struct OAuthClient: Sendable {
    let tokenURL: AuthorityURL
    /// nil where the authorization server wants none.
    let authentication: ClientAuthentication?
    let scopes: [String]
    let parameters: [TokenRequest.Parameter]
    /// The parameters of a refresh: `parameters`, with those of `refresh_parameters` in place of the same names.
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

/// Where a client ends its tokens (RFC 7009).
struct RevocationEndpoint: Sendable {
    let url: AuthorityURL
    /// Whether the authorization server has a word for the kind of a token (RFC 7009 §2.1).
    var hintsTokenType = true

    /// The refresh token where there is one: ending it ends what it could have bought (RFC 7009 §2.1).
    fileprivate func step(as client: ClientAuthentication?, in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held else { return .impossible("There is no token.") }
        var form = [TokenRequest.Parameter("token", token.refreshToken ?? token.access)]
        if hintsTokenType {
            let kind = token.refreshToken == nil ? "access_token" : "refresh_token"
            form.append(TokenRequest.Parameter("token_type_hint", kind))
        }
        let request = TokenRequest(url: url, body: .form(form))
        do throws(TokenFailure) {
            return .request(try client?.authenticate(request, in: attempt) ?? request)
        } catch {
            return .impossible(error.problem.detail)
        }
    }
}

extension RevocationEndpoint? {
    /// - Parameter client: Who asks; nil where the authorization server knows no clients.
    func step(as client: ClientAuthentication?, in attempt: GrantAttempt) -> RevocationStep {
        self?.step(as: client, in: attempt) ?? .impossible("The credential has no revoke_url; add it.")
    }
}

extension ClientAuthentication? {
    /// What the answer to a revocation means.
    ///
    /// - Parameter sign: Makes the request anew in an attempt whose time is that of the authorization server.
    func answerToRevocation(
        _ reply: TokenReply,
        in attempt: GrantAttempt,
        sign: (GrantAttempt) -> RevocationStep
    ) -> RevocationAnswer {
        switch self?.repair(after: reply, in: attempt, sign: { GrantStep(sign($0)) }) {
        case .next(let request): .next(request)
        case .failure(let failure): .failure(failure.problem)
        case .token, .parentRefused, nil: RevocationAnswer(reply)
        }
    }
}

extension GrantStep {
    fileprivate init(_ step: RevocationStep) {
        switch step {
        case .request(let request): self = .request(request)
        case .impossible(let reason):
            self = .impossible(TokenFailure(.terminal, problem: GatewayProblem(.requestRefused, reason)))
        }
    }
}

extension ConfigFields {
    /// `revoke_url`.
    func revocationEndpoint() -> RevocationEndpoint? { authorityURL("revoke_url").map { RevocationEndpoint(url: $0) } }
}

extension ConfigFields {
    /// `scopes`; empty when there are none.
    func scopes() -> [String] {
        let scopes = strings("scopes") ?? []
        for scope in scopes where !Self.isScope(scope) {
            error("scopes", "a scope is visible ASCII without spaces; write each as a separate list element")
        }
        return scopes
    }

    /// RFC 6749 appendix A.4.
    private static func isScope(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }

    /// `parameters`: whatever else the authorization server wants in the form.
    ///
    /// - Parameters:
    ///   - own: What the strategy writes itself, besides what every one of them writes.
    ///   - refreshes: Whether there is `refresh_parameters` as well.
    func extraParameters(own: Set<String> = [], refreshes: Bool = false) -> [TokenRequest.Parameter] {
        let scopeKey = refreshes ? "scopes, or refresh_parameters for the scope of a refresh" : "scopes"
        return parameters("parameters", own: own.union(["scope"])) { name in
            name == "scope" ? "use \(scopeKey)" : "use its own key"
        }
    }

    /// `refresh_parameters`: whatever else the authorization server wants in the form of a refresh. Some want a scope, which no refresh has
    /// otherwise (RFC 6749 section 6).
    func refreshParameters() -> [TokenRequest.Parameter] {
        parameters("refresh_parameters", own: ["refresh_token"]) { _ in "use its own key" }
    }

    private func parameters(
        _ key: String,
        own: Set<String>,
        advice: (String) -> String
    ) -> [TokenRequest.Parameter] {
        let parameters = valueMap(key) ?? []
        // Some authorization servers want a second secret there, and nothing but its name would tell.
        if let node = node(key) { context.hide(node) }
        for (name, _) in parameters where own.union(Self.ownParameters).contains(name) {
            error(key, "\"\(name)\" is set by the strategy; \(advice(name))")
        }
        return parameters.map { TokenRequest.Parameter($0.name, $0.value) }
    }

    private static let ownParameters: Set<String> = [
        "grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type",
    ]
}

extension GrantIdentity {
    mutating func add(_ parameters: [TokenRequest.Parameter]) {
        for parameter in parameters { add("parameters.\(parameter.name)", secret: parameter.value) }
    }
}

extension [TokenRequest.Parameter] {
    /// `scope`, when there are any.
    static func scope(_ scopes: [String]) -> Self {
        scopes.isEmpty ? [] : [TokenRequest.Parameter("scope", scopes.joined(separator: " "))]
    }
}
