import GatewayCore

/// Obtains a token by exchanging another credential's token (RFC 8693): at Box, a weaker one for a browser or an app.
struct TokenExchangeStrategy: DerivedStrategy {
    static let kind = "oauth2_token_exchange"

    let parent: ParentReference?
    private let terms: ExchangeTerms
    private let tokenURL: AuthorityURL?
    private let client: ClientAuthentication?
    private let revocation: RevocationEndpoint?
    private let grant: TokenExchangeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let name = fields.requiredString("parent")
        let span = fields.node("parent")?.span
        let tokenURL = fields.authorityURL("token_url")
        let client =
            ClientAuthentication.isNamed(in: fields)
            ? ClientAuthentication(in: fields, tokenURL: tokenURL, allowsPublic: true) : nil
        let terms = ExchangeTerms(in: fields, parameters: fields.extraParameters(own: ExchangeTerms.ownParameters))
        revocation = fields.revocationEndpoint()
        guard let name, let span, let terms, fields.context.errorCount == errors else { return nil }
        parent = ParentReference(name: name, span: span, path: fields.path.appending("parent"))
        self.tokenURL = tokenURL
        self.client = client
        self.terms = terms
        grant = TokenExchangeGrant(terms: terms)
    }

    init?(downscope fields: ConfigFields) {
        fields.explain(Self.termMeanings)
        let errors = fields.context.errorCount
        let terms = ExchangeTerms(in: fields, parameters: [])
        if !fields.has("scopes") { fields.missing("scopes") }
        guard let terms, fields.context.errorCount == errors else { return nil }
        self.terms = terms
        parent = nil
        tokenURL = nil
        client = nil
        revocation = nil
        grant = TokenExchangeGrant(terms: terms)
    }

    private init(_ strategy: TokenExchangeStrategy, made grant: TokenExchangeGrant) {
        parent = strategy.parent
        terms = strategy.terms
        tokenURL = strategy.tokenURL
        client = strategy.client
        revocation = strategy.revocation
        self.grant = grant
    }

    var behavior: AuthBehavior { .token(grant) }
    var clientTLS: ClientTLS? { client?.clientTLS }

    func made(from parent: any TokenGrant) throws(ParentRefusal) -> any AuthStrategy {
        let known = (parent as? any ExchangeableGrant)?.exchange
        guard let url = tokenURL ?? known?.url else {
            throw ParentRefusal(
                "\(parent.identity.strategy) does not say where its tokens are exchanged; set token_url"
            )
        }
        // The parent's secret goes where the parent's own requests go, and nowhere else.
        let isParents = tokenURL == nil || tokenURL == known?.url
        let inherited = isParents ? known?.client : nil
        if client == nil, inherited != nil, let revocation, revocation.url.origin != url.origin {
            throw ParentRefusal(
                "revoke_url is on another host than the parent's token URL; set client_id and its secret"
            )
        }
        let isBox = known?.isBox ?? false
        if isBox, terms.scopes.isEmpty { throw ParentRefusal("Box wants to know which scopes; set scopes") }
        if !isBox, terms.sharedLink != nil { throw ParentRefusal("shared_link is for tokens of Box") }
        let point = ExchangePoint(
            url: url,
            client: client ?? inherited,
            isBox: isBox,
            isParents: isParents,
            revocation: revocation
        )
        return TokenExchangeStrategy(self, made: TokenExchangeGrant(terms: terms, parent: parent, point: point))
    }
}

/// What is asked for: scopes, and the one thing that they are for.
struct ExchangeTerms: Sendable {
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
            fields.error("shared_link", "has no place beside resource: a token is for one of them")
        }
        guard fields.context.errorCount == errors else { return nil }
    }

    /// RFC 8693 §2.1: absolute, without a fragment.
    private static func isURI(_ text: String) -> Bool {
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
