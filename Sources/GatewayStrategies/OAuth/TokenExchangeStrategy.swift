import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Obtains a token by exchanging another credential's token (RFC 8693): at Box, a weaker one for a browser or an app.
struct TokenExchangeStrategy: DownscopingStrategy {
    static let kind = "oauth2_token_exchange"
    static let otherNames = ["token_exchange", "urn:ietf:params:oauth:grant-type:token-exchange", "downscope"]
    static let maySendRequests: Bool? = true

    let parent: CredentialReference?
    private let options: ExchangeOptions
    private let tokenURL: AuthorityURL?
    private let client: ClientAuthentication?
    private let revocation: RevocationEndpoint?
    private let grant: TokenExchangeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let parent = fields.has("subject_token") ? nil : Self.parent(in: fields)
        let subject = fields.has("subject_token") ? SubjectToken(in: fields) : nil
        if !fields.has("subject_token"), fields.has("subject_token_type") {
            fields.error("subject_token_type", "is for subject_token; the parent's token is an access token")
        }
        let tokenURL = fields.authorityURL("token_url")
        let client =
            ClientAuthentication.isNamed(in: fields)
            ? ClientAuthentication(in: fields, tokenURL: tokenURL, allowsPublic: true) : nil
        let options = ExchangeOptions(
            in: fields,
            parameters: fields.extraParameters(own: ExchangeOptions.ownParameters)
        )
        revocation = fields.revocationEndpoint()
        guard parent != nil || subject != nil, let options, fields.context.errorCount == errors else { return nil }
        self.parent = parent
        self.tokenURL = tokenURL
        self.client = client
        self.options = options
        guard let subject, let tokenURL else {
            grant = TokenExchangeGrant(options: options)
            return
        }
        let point = ExchangePoint(url: tokenURL, client: client, revocation: revocation)
        grant = TokenExchangeGrant(options: options, subject: subject, point: point)
    }

    private static func parent(in fields: ConfigFields) -> CredentialReference? {
        guard let name = fields.requiredString("parent"), let span = fields.node("parent")?.span else { return nil }
        return CredentialReference(name: name, span: span, path: fields.path.appending("parent"))
    }

    init?(downscope fields: ConfigFields) {
        fields.explain(Self.termMeanings)
        let errors = fields.context.errorCount
        let options = ExchangeOptions(in: fields, parameters: [])
        if !fields.has("scopes") { fields.missing("scopes") }
        guard let options, fields.context.errorCount == errors else { return nil }
        self.options = options
        parent = nil
        tokenURL = nil
        client = nil
        revocation = nil
        grant = TokenExchangeGrant(options: options)
    }

    private init(_ strategy: TokenExchangeStrategy, made grant: TokenExchangeGrant) {
        parent = strategy.parent
        options = strategy.options
        tokenURL = strategy.tokenURL
        client = strategy.client
        revocation = strategy.revocation
        self.grant = grant
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { client?.clientTLS }

    func made(from parent: any TokenGrant) throws(UnusableInput) -> any AuthStrategy {
        let known = (parent as? any ExchangeableGrant)?.exchange
        guard let url = tokenURL ?? known?.url else {
            throw UnusableInput(
                "\(parent.identity.strategy) has no known URL for exchanging its tokens; set token_url"
            )
        }
        // The parent's secret goes where the parent's own requests go, and nowhere else.
        let isParents = tokenURL == nil || tokenURL == known?.url
        let inherited = isParents ? known?.client : nil
        if client == nil, inherited != nil, let revocation, revocation.url.origin != url.origin {
            throw UnusableInput(
                "revoke_url is on another host than the parent's token URL; set client_id and its secret"
            )
        }
        let terms = known?.terms ?? ExchangeTerms()
        if terms.requiresScopes, options.scopes.isEmpty {
            throw UnusableInput("\(terms.authority) requires scopes; set scopes")
        }
        if !terms.takesSharedLinks, options.sharedLink != nil {
            throw UnusableInput("shared_link is for Box tokens")
        }
        let point = ExchangePoint(
            url: url,
            client: client ?? inherited,
            terms: terms,
            isParents: isParents,
            revocation: revocation
        )
        return TokenExchangeStrategy(self, made: TokenExchangeGrant(options: options, parent: parent, point: point))
    }
}

/// What is asked for: scopes, and the one thing that they are for.
struct ExchangeOptions: Sendable {
    static let ownParameters: Set<String> = [
        "subject_token", "subject_token_type", "resource", "box_shared_link",
    ]

    let scopes: [String]
    let resource: String?
    /// The URL of a shared item at Box; anyone with the URL may see the item.
    let sharedLink: Secret?
    let parameters: [TokenRequest.Parameter]

    init(scopes: [String], resource: String?, sharedLink: Secret?) {
        self.scopes = scopes
        self.resource = resource
        self.sharedLink = sharedLink
        parameters = []
    }

    init?(in fields: ConfigFields, parameters: [TokenRequest.Parameter]) {
        let errors = fields.context.errorCount
        scopes = fields.scopes()
        resource = fields.string("resource")
        sharedLink = fields.string("shared_link").map { Secret($0) }
        self.parameters = parameters
        if let resource, !Self.isURI(resource) {
            fields.error("resource", "expected an absolute URL, such as https://api.box.com/2.0/files/1")
        }
        if let sharedLink, !sharedLink.withValue(Self.isURI) {
            fields.error("shared_link", "expected the URL of a shared item")
        }
        if resource != nil, sharedLink != nil {
            fields.error("shared_link", "cannot be combined with resource: a token is for one of them")
        }
        guard fields.context.errorCount == errors else { return nil }
    }

    /// RFC 8693 §2.1: absolute, without a fragment.
    fileprivate static func isURI(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":"), colon != text.startIndex, text.first?.isLetter == true else {
            return false
        }
        return !text.contains("#") && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && text.last != ":"
    }

    var form: [TokenRequest.Parameter] {
        var form: [TokenRequest.Parameter] = .scope(scopes)
        if let resource { form.append(TokenRequest.Parameter("resource", resource)) }
        if let sharedLink { form.append(TokenRequest.Parameter("box_shared_link", sharedLink)) }
        return form + parameters
    }

    func addInputs(to identity: inout GrantIdentity) {
        identity.add("scope", scopes.joined(separator: " "))
        identity.add("resource", resource)
        identity.add("shared_link", secret: sharedLink)
        identity.add(parameters)
    }
}

/// A token that others issue, to be exchanged (RFC 8693 section 2.1).
struct SubjectToken: Sendable {
    private static let jwt = "urn:ietf:params:oauth:token-type:jwt"

    let source: AssertionSource
    let type: String

    /// Reads `subject_token` and `subject_token_type`, which stand instead of `parent`. nil after a mistake.
    init?(in fields: ConfigFields) {
        if fields.has("parent") {
            fields.error("subject_token", "cannot be combined with parent: one token is exchanged")
        }
        if !fields.has("token_url") { fields.missing("token_url", orAnother: true) }
        if fields.has("shared_link") { fields.error("shared_link", "is for Box tokens") }
        let type = fields.string("subject_token_type")
        if let type, !ExchangeOptions.isURI(type) {
            fields.error("subject_token_type", "expected a URI such as \(Self.jwt)")
        }
        guard let source = fields.requiredAssertion("subject_token") else { return nil }
        self.source = source
        self.type = type ?? Self.jwt
    }
}

extension TokenExchangeStrategy {
    static let meanings = ClientCredentialsStrategy.meanings.merging(termMeanings) { _, own in own }
        .merging([
            "parent": KeyMeaning("The name of the credential whose token is exchanged.", example: "box-service"),
            "subject_token": KeyMeaning(
                "A token from another issuer, instead of parent. It is read again for each token request.",
                example: "{file: /var/run/secrets/tokens/federation}"
            ),
            "subject_token_type": KeyMeaning(
                "The type of subject_token (RFC 8693 section 3).",
                default: "urn:ietf:params:oauth:token-type:jwt",
                example: "urn:ietf:params:oauth:token-type:id_token"
            ),
        ]) { own, _ in own }

    /// What a `downscope` takes as well.
    static let termMeanings: [String: KeyMeaning] = [
        "scopes": KeyMeaning("The scopes of the weaker token.", example: "[item_preview]"),
        "resource": KeyMeaning(
            "What the token is for (RFC 8693 section 2.1); at Box, one file or folder.",
            example: "https://api.box.com/2.0/files/1"
        ),
        "shared_link": KeyMeaning(
            "The shared link of the item that the token is for (Box).",
            example: "https://app.box.com/s/abc"
        ),
    ]
}
