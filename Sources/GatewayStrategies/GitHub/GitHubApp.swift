import GatewayCore

/// An app that is registered with GitHub, and where it asks.
///
/// "Generating a JSON Web Token (JWT) for a GitHub App" and "REST API endpoints for GitHub Apps", docs.github.com.
struct GitHubApp: Sendable {
    private static let publicAPI = "https://api.github.com"

    /// GitHub's clock may be behind ours.
    private static let backdate: Duration = .seconds(-60)
    /// GitHub accepts no token of an app that ends more than ten minutes from now.
    private static let lifetime: Duration = .seconds(540)

    /// The client ID, or the ID of the app.
    let issuer: String
    let signer: JWTSigner
    /// Without a slash at its end.
    let api: String

    /// Reads `app_id` or `client_id`, `private_key` and `api_url`.
    init?(in fields: ConfigFields) {
        let errors = fields.context.errorCount
        let issuers = [fields.string("app_id"), fields.string("client_id")].compactMap(\.self)
        if fields.has("app_id") == fields.has("client_id") {
            fields.error("an app says who it is with exactly one of app_id and client_id")
        }
        let signer = fields.privateKey("private_key").flatMap {
            fields.signer($0, at: "private_key", algorithm: .rs256, keyID: nil)
        }
        let api = fields.authorityURL("api_url")?.text ?? Self.publicAPI
        if api.contains("?") { fields.error("api_url", "must not contain a query") }
        guard let issuer = issuers.first, let signer, fields.context.errorCount == errors else { return nil }
        self.issuer = issuer
        self.signer = signer
        self.api = api.hasSuffix("/") ? String(api.dropLast()) : api
    }

    func url(_ path: String) -> AuthorityURL? { try? AuthorityURL(api + path) }

    /// A request in the name of the app.
    func request(
        _ method: TokenRequest.Method,
        _ path: String,
        body: TokenRequest.Body = .none,
        at now: UnixTime
    ) throws(TokenFailure) -> TokenRequest {
        let token = try signer.sign([
            "iss": .string(issuer), "iat": .time(now + Self.backdate), "exp": .time(now + Self.lifetime),
        ])
        return try request(method, path, body: body, with: token)
    }

    /// A request with a token.
    func request(
        _ method: TokenRequest.Method,
        _ path: String,
        body: TokenRequest.Body = .none,
        with token: Secret
    ) throws(TokenFailure) -> TokenRequest {
        guard let url = url(path) else {
            let detail = "The address of GitHub's API cannot be written: check api_url."
            throw TokenFailure(.terminal, problem: GatewayProblem(.credentialMisconfigured, detail))
        }
        let fields = [
            Injection.Field(name: "Accept", value: Secret("application/vnd.github+json")),
            Injection.Field(name: "X-GitHub-Api-Version", value: Secret("2022-11-28")),
        ]
        return TokenRequest(method: method, url: url, fields: Injection.bearer(token).fields + fields, body: body)
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("app", issuer)
        identity.add("api_url", api)
        signer.addInputs(to: &identity)
    }
}
