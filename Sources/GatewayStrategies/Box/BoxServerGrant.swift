import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// The app that asks Box for tokens. Its credentials stand in the form: Box refuses them as HTTP Basic.
struct BoxClient: Sendable {
    let id: String
    let secret: Secret

    var form: [TokenRequest.Parameter] {
        [TokenRequest.Parameter("client_id", id), TokenRequest.Parameter("client_secret", secret)]
    }

    /// Box ends either token of a pair with the other.
    func revocation(at url: AuthorityURL, in attempt: GrantAttempt) -> RevocationStep {
        guard let token = attempt.held?.access else { return .impossible("There is no token.") }
        return .request(TokenRequest(url: url, body: .form(form + [TokenRequest.Parameter("token", token)])))
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("client_id", id)
        identity.add("client_secret", secret: secret)
    }
}

/// Where Box, or what stands in for it, is asked.
struct BoxEndpoints: Hashable, Sendable {
    let tokenURL: AuthorityURL
    /// nil with a token URL of one's own and no revoke URL beside it.
    let revokeURL: AuthorityURL?

    /// Reads `token_url` and `revoke_url`.
    init?(in fields: ConfigFields) {
        let errors = fields.context.errorCount
        let tokenURL =
            fields.has("token_url") ? fields.authorityURL("token_url") : try? AuthorityURL(BoxAuthority.tokenURL)
        revokeURL = Self.revokeURL(in: fields, tokenURL: tokenURL)
        guard let tokenURL, fields.context.errorCount == errors else { return nil }
        self.tokenURL = tokenURL
    }

    /// Without a revoke URL revocations go nowhere, unless the token URL's path is Box's: a secret that is meant for a
    /// sandbox must not reach Box.
    private static func revokeURL(in fields: ConfigFields, tokenURL: AuthorityURL?) -> AuthorityURL? {
        if fields.has("revoke_url") { return fields.authorityURL("revoke_url") }
        guard let tokenURL, tokenURL.text.hasSuffix("/oauth2/token") else { return nil }
        return try? AuthorityURL(tokenURL.text.dropLast("token".count) + "revoke")
    }
}

/// A grant in which an app speaks for a subject, and asks anew each time.
protocol BoxServerGrant: BearerGrant, ExchangeableGrant {
    var client: BoxClient { get }
    var endpoints: BoxEndpoints { get }
    var subject: BoxSubject { get set }
}

extension BoxServerGrant {
    /// All but what a grant adds of its own.
    func identity(of kind: String) -> GrantIdentity {
        var identity = GrantIdentity(strategy: kind, subject: "\(subject.type):\(subject.id)")
        identity.add("token_url", endpoints.tokenURL.text)
        client.addInputs(to: &identity)
        identity.add("box_subject_type", subject.type)
        identity.add("box_subject_id", subject.id)
        return identity
    }

    func revocation(in attempt: GrantAttempt) -> RevocationStep {
        guard let url = endpoints.revokeURL else {
            return .impossible("The credential sets token_url, but no revoke_url; add it.")
        }
        return client.revocation(at: url, in: attempt)
    }

    var authorityEndpoints: [AuthorityEndpoint] { [AuthorityEndpoint](endpoints.tokenURL, endpoints.revokeURL) }

    var exchange: ExchangePoint? { ExchangePoint(url: endpoints.tokenURL, terms: .box) }
}

/// A strategy whose subject a route can switch.
protocol BoxServerStrategy: AuthStrategy {
    associatedtype Grant: BoxServerGrant
    var grant: Grant { get set }
}

extension BoxServerStrategy {
    static var hasSubject: Bool { true }
    static var userField: UserField? { BoxAuthority.userField }
    var behavior: AuthBehavior { .token(grant) }

    func switchingSubject(_ fields: ConfigFields) -> (any AuthStrategy)? {
        guard let subject = BoxSubject(in: fields) else { return nil }
        var copy = self
        copy.grant.subject = subject
        return copy
    }
}

/// Whom a Box token speaks for.
enum BoxSubject: Hashable {
    case enterprise(String)
    case user(String)

    /// Reads `subject: {enterprise: "12345"}` or `subject: {user: "11446498"}`.
    init?(in fields: ConfigFields) {
        guard fields.has("subject") else {
            fields.error("missing key \"subject\": {enterprise: \"…\"} or {user: \"…\"}")
            return nil
        }
        guard let subject = fields.fields("subject") else { return nil }
        defer { subject.refuseUnknownKeys() }
        subject.explain(SharedMeanings.subject)
        switch (subject.has("enterprise"), subject.has("user")) {
        case (true, false):
            guard let id = subject.string("enterprise") else { return nil }
            self = .enterprise(id)
        case (false, true):
            guard let id = subject.string("user") else { return nil }
            self = .user(id)
        case (false, false) where !subject.unknownKeys.isEmpty: return nil
        default:
            subject.error("a subject is exactly one of enterprise and user")
            return nil
        }
    }

    var type: String {
        switch self {
        case .enterprise: "enterprise"
        case .user: "user"
        }
    }

    var id: String {
        switch self {
        case .enterprise(let id), .user(let id): id
        }
    }
}

extension BoxEndpoints {
    /// Box's own addresses are the defaults.
    static let meanings: [String: KeyMeaning] = [
        "token_url": KeyMeaning(
            "Replaces Box's token endpoint, for a sandbox.",
            example: "https://box.example/oauth2/token"
        ),
        "revoke_url": KeyMeaning(
            "Replaces Box's revocation endpoint, for a sandbox.",
            example: "https://box.example/oauth2/revoke"
        ),
    ]
}

extension BoxSubject {
    static let meaning = KeyMeaning(
        "Who the token acts for: the service account of an enterprise, or a user.",
        example: "enterprise: \"12345\"\n# or: user: \"11446498\""
    )
}
