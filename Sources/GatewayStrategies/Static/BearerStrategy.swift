import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Sends one token that never changes (RFC 6750 §2.1).
struct BearerStrategy: AuthStrategy {
    static let kind = "bearer"
    static let otherNames = ["token", "static"]

    private let token: Secret

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        guard let token = fields.bearerToken("token", isRequired: true) else { return nil }
        self.token = token
    }

    var behavior: AuthBehavior { .fixed(.bearer(token)) }
    var injectedSecret: (key: String, secret: Secret)? { ("token", token) }
}

extension BearerStrategy {
    static let meanings = ["token": KeyMeaning("The fixed bearer token.", example: "{env: API_TOKEN}")]
}
