import GatewayCore

/// Obtains an access token with the client's own credentials and sends it as a bearer token.
///
/// Grant: RFC 6749 §4.4. Header: RFC 6750 §2.1.
struct ClientCredentialsStrategy: AuthStrategy {
    static let kind = "oauth2_client_credentials"

    private let grant: ClientCredentialsGrant

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        let tokenURL = fields.requiredAuthorityURL("token_url")
        let clientID = fields.requiredString("client_id")
        let clientSecret = fields.requiredSecret("client_secret")
        let clientAuth = Self.clientAuth(in: fields)
        let scopes = fields.strings("scopes") ?? []
        for scope in scopes where !Self.isScope(scope) {
            fields.error("scopes", "a scope is visible ASCII without spaces; write each as an element of its own")
        }
        let parameters = fields.stringMap("parameters") ?? []
        for (name, _) in parameters where Self.ownParameters.contains(name) {
            fields.error("parameters", "\"\(name)\" is written by the strategy; it has a key of its own")
        }
        guard let tokenURL, let clientID, let clientSecret, fields.context.errorCount == errors else { return nil }
        grant = ClientCredentialsGrant(
            tokenURL: tokenURL,
            clientID: clientID,
            clientSecret: clientSecret,
            clientAuth: clientAuth,
            scopes: scopes,
            parameters: parameters.map { TokenRequest.Parameter($0.name, $0.value) }
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    private static let ownParameters: Set<String> = ["grant_type", "client_id", "client_secret", "scope"]

    private static func clientAuth(in fields: ConfigFields) -> ClientCredentialsGrant.ClientAuth {
        if fields.scalar("client_auth")?.scalar.text == "private_key_jwt" {
            fields.error("client_auth", "\"private_key_jwt\" is not supported by this version")
            return .body
        }
        return fields.choice("client_auth", of: ClientCredentialsGrant.ClientAuth.self) ?? .body
    }

    /// RFC 6749 appendix A.4.
    private static func isScope(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }
}

private struct ClientCredentialsGrant: TokenGrant {
    enum ClientAuth: String, CaseIterable {
        /// `client_secret_post`.
        case body
        /// `client_secret_basic`.
        case basic
    }

    let tokenURL: AuthorityURL
    let clientID: String
    let clientSecret: Secret
    let clientAuth: ClientAuth
    let scopes: [String]
    let parameters: [TokenRequest.Parameter]

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: ClientCredentialsStrategy.kind, subject: nil)
        identity.add("token_url", tokenURL.text)
        identity.add("client_id", clientID)
        identity.add("client_secret", secret: clientSecret)
        identity.add("client_auth", clientAuth.rawValue)
        identity.add("scope", scopes.joined(separator: " "))
        for parameter in parameters { identity.add("parameters.\(parameter.name)", secret: parameter.value) }
        return identity
    }

    let isRenewable = true
    let rotates = false

    func seed(at now: Moment) -> TokenSet? { nil }

    func firstStep(of attempt: GrantAttempt) -> GrantStep {
        var fields: [Injection.Field] = []
        var form = [TokenRequest.Parameter("grant_type", "client_credentials")]
        switch clientAuth {
        case .body:
            form.append(TokenRequest.Parameter("client_id", clientID))
            form.append(TokenRequest.Parameter("client_secret", clientSecret))
        case .basic:
            fields.append(basicAuthorization)
        }
        if !scopes.isEmpty { form.append(TokenRequest.Parameter("scope", scopes.joined(separator: " "))) }
        form.append(contentsOf: parameters)
        return .request(TokenRequest(url: tokenURL, fields: fields, body: .form(form)))
    }

    /// Both halves are form-encoded before they are joined (RFC 6749 §2.3.1).
    private var basicAuthorization: Injection.Field {
        let id = FormEncoding.encode(clientID)
        let value = clientSecret.withValue { Base64.encode("\(id):\(FormEncoding.encode($0))".utf8) }
        return Injection.Field(name: "Authorization", value: Secret("Basic \(value)"))
    }

    func interpret(_ reply: TokenReply, in attempt: inout GrantAttempt) -> GrantAnswer {
        GrantAnswer(OAuthErrors(authority: "The authority", advice: []).interpret(reply, at: attempt.now))
    }

    func revocation(of token: TokenSet) -> TokenRequest? { nil }

    func injection(of token: TokenSet) -> Injection { .bearer(token.access) }
}
