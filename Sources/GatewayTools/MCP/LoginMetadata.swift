package import GatewayHTTP

/// What an MCP server wants of somebody who has no token: the challenge of its 401 (RFC 6750 section 3, RFC 9728 section 5.1).
package struct LoginChallenge: Hashable, Sendable {
    /// `resource_metadata`, not checked yet.
    package let metadata: String?
    package let scopes: [String]?

    /// - Parameter fields: The values of `WWW-Authenticate`.
    package init(_ fields: [String]) throws(UnusableInput) {
        let challenges = fields.flatMap { AuthChallenge.list(Array($0.utf8)) }
        let challenge =
            challenges.first { $0.scheme == "bearer" && $0.parameters["resource_metadata"] != nil }
            ?? challenges.first { $0.scheme == "bearer" }
        metadata = challenge?.parameters["resource_metadata"]
        scopes = try challenge?.parameters["scope"].map { text throws(UnusableInput) in
            try LoginScopes.read(text.split(separator: " ").map(String.init), named: "scope of WWW-Authenticate")
        }
    }
}

/// What a protected resource says about itself (RFC 9728 section 2).
package struct ResourceMetadata: Hashable, Sendable {
    static let maximumIssuers = 16

    /// As it is written there: authorization servers compare it byte by byte.
    package let resource: String
    /// Not empty.
    package let issuers: [String]
    package let scopes: [String]?

    /// - Parameters:
    ///   - server: The URL that a person typed.
    ///   - place: Where the document was found, for messages.
    /// - Throws: When it is about another resource (RFC 9728 section 3.3), or names no authorization server.
    package init(_ document: JSONValue, of server: AuthorityURL, at place: String) throws(UnusableInput) {
        guard let text = document["resource"]?.string else { throw UnusableInput("\(place) does not name a resource") }
        guard let resource = try? AuthorityURL(text), resource.covers(server) else {
            let shown = JSONString.quoted(text, limit: 200) { $0.isHarmless }
            throw UnusableInput("\(place) is about another resource: \(shown), not \(server)")
        }
        self.resource = text
        issuers = try document.strings("authorization_servers", at: place, atMost: Self.maximumIssuers) ?? []
        guard !issuers.isEmpty else { throw UnusableInput("\(place) names no authorization server") }
        let named = try document.strings("scopes_supported", at: place, atMost: LoginScopes.maximum)
        scopes = try named.map { names throws(UnusableInput) in
            try LoginScopes.read(names, named: "scopes_supported of \(place)")
        }
    }
}

extension AuthorityURL {
    /// Whether a token for this resource is for the server, too: it is the server, or what stands above its path. Root documents name the
    /// host alone, as the SDKs of MCP accept. A slash at the end makes no difference.
    fileprivate func covers(_ server: AuthorityURL) -> Bool {
        guard origin == server.origin, !hasQuery else { return false }
        let path = resourcePath
        return server.resourcePath == path || server.resourcePath.hasPrefix(path + "/")
    }
}

/// What an authorization server says about itself (RFC 8414 section 2), as far as a login needs it.
package struct AuthorizationServer: Hashable, Sendable {
    /// As it is written there: `iss` is compared with it byte by byte (RFC 9207 section 2.4).
    package let issuer: String
    package let authorizeURL: AuthorityURL
    package let tokenURL: AuthorityURL
    package let registrationURL: AuthorityURL?
    package let revokeURL: AuthorityURL?
    /// Whether each answer to a login names the issuer (RFC 9207 section 3).
    package let namesIssuer: Bool
    /// Whether a client ID may be the URL of a document about the client (draft-ietf-oauth-client-id-metadata-document section 5).
    package let acceptsDocuments: Bool
    /// How clients may authenticate, of what the gateway can register for; the preferred one first.
    package let methods: [ClientMethod]
    /// Whether the scope `offline_access` brings a refresh token.
    package let offersOfflineAccess: Bool

    /// - Parameters:
    ///   - issuer: Whose metadata was asked for.
    ///   - place: Where the document was found, for messages.
    /// - Throws: When another issuer describes itself there (RFC 8414 section 3.3), when a login is impossible or would be unsafe, or when
    ///   a URL may not be used.
    package init(
        _ document: JSONValue,
        of issuer: AuthorityURL,
        at place: String,
        _ rule: DiscoveryRule
    ) throws(UnusableInput) {
        guard let name = document["issuer"]?.string, Self.isSame(name, as: issuer) else {
            let found = document["issuer"]?.string.map { JSONString.quoted($0, limit: 200) { $0.isHarmless } } ?? "none"
            throw UnusableInput("\(place) is about another issuer: \(found), not \(issuer)")
        }
        self.issuer = name
        func url(_ key: String) throws(UnusableInput) -> AuthorityURL? {
            guard let value = document[key], value != .null else { return nil }
            guard let text = value.string else { throw UnusableInput("\(key) of \(place) is not a string") }
            return try rule.url(text, named: "\(key) of \(place)")
        }
        func required(_ key: String) throws(UnusableInput) -> AuthorityURL {
            guard let url = try url(key) else { throw UnusableInput("\(place) has no \(key)") }
            return url
        }
        authorizeURL = try required("authorization_endpoint")
        tokenURL = try required("token_endpoint")
        registrationURL = try url("registration_endpoint")
        revokeURL = try url("revocation_endpoint")
        // "MCP clients MUST refuse to proceed" (the specification of MCP of 2025-06-18 and later, "Authorization Code Protection").
        let challenges = try document.strings("code_challenge_methods_supported", at: place, atMost: 16)
        guard challenges?.contains("S256") == true else {
            throw UnusableInput("\(place) does not offer PKCE with S256, which protects the login (RFC 7636)")
        }
        namesIssuer = document["authorization_response_iss_parameter_supported"] == .bool(true)
        acceptsDocuments = document["client_id_metadata_document_supported"] == .bool(true)
        let named = try document.strings("token_endpoint_auth_methods_supported", at: place, atMost: 64)
        methods = ClientMethod.allCases.filter { named?.contains($0.rawValue) ?? true }
        let scopes = try document.strings("scopes_supported", at: place, atMost: 10_000)
        offersOfflineAccess = scopes?.contains("offline_access") == true
    }

    /// An origin is the same with and without the slash of an empty path (RFC 3986 section 6.2.3); anything else is compared byte by byte.
    private static func isSame(_ name: String, as issuer: AuthorityURL) -> Bool {
        guard name != issuer.text else { return true }
        return issuer.resourcePath.isEmpty && !issuer.hasQuery
            && (name == issuer.text + "/" || name + "/" == issuer.text)
    }

    /// What a login asks for: what the server's challenge says, else what its metadata says (the specification of MCP, "Scope Selection
    /// Strategy"), and `offline_access` (that of 2026-07-28, "Refresh Tokens").
    package func scopes(_ challenge: LoginChallenge, _ resource: ResourceMetadata?) -> [String] {
        let scopes = challenge.scopes ?? resource?.scopes ?? []
        guard offersOfflineAccess, !scopes.isEmpty, !scopes.contains("offline_access") else { return scopes }
        return scopes + ["offline_access"]
    }
}

/// How a registered client proves to the token endpoint who it is, the preferred one first.
package enum ClientMethod: String, CaseIterable, Sendable {
    case none
    case post = "client_secret_post"
    case basic = "client_secret_basic"

    /// `client_auth`
    var key: String {
        switch self {
        case .none: "none"
        case .post: "body"
        case .basic: "basic"
        }
    }

    /// - Parameter key: The value of `client_auth`.
    init?(key: String) {
        guard let method = Self.allCases.first(where: { $0.key == key }) else { return nil }
        self = method
    }
}

/// A client as an authorization server knows it.
package struct LoginClient: Hashable, Sendable {
    package let id: String
    package let method: ClientMethod
    /// For a method with one.
    package let secret: Secret?

    /// What a person typed. A secret of it is read from where that person says.
    package init(typed id: String) throws(UnusableInput) {
        try self.init(id: id, method: .none, secret: nil)
        guard isDocument else { return }
        do throws(AuthorityURL.Refusal) {
            let url = try AuthorityURL(id)
            guard !url.resourcePath.isEmpty else { throw .notAbsolute(hint: " with a path") }
        } catch {
            throw UnusableInput("a client ID that is a URL is that of a document about the client: \(error.message)")
        }
    }

    /// The client with a secret that the configuration reads itself.
    func authenticating(by method: ClientMethod) -> LoginClient { LoginClient(id, method) }

    private init(_ id: String, _ method: ClientMethod) { (self.id, self.method, secret) = (id, method, nil) }

    /// Whether the ID is the URL of a document about the client (draft-ietf-oauth-client-id-metadata-document section 3).
    package var isDocument: Bool { id.lowercased().hasPrefix("https://") }

    /// The answer to a registration (RFC 7591 section 3.2.1).
    ///
    /// - Parameter asked: The method that was asked for; the answer may name another one.
    package init(_ document: JSONValue?, asked: ClientMethod) throws(UnusableInput) {
        guard let document, let id = document["client_id"]?.string else {
            throw UnusableInput("the answer has no client_id, or is not JSON")
        }
        var method = asked
        if let name = document["token_endpoint_auth_method"]?.string {
            guard let named = ClientMethod(rawValue: name) else {
                let shown = JSONString.quoted(name, limit: 100) { $0.isHarmless }
                throw UnusableInput(
                    "the client would have to authenticate with \(shown): register one yourself, and use --client-id"
                )
            }
            method = named
        }
        let secret = document["client_secret"]?.string
        guard method == .none || secret?.isEmpty == false else {
            throw UnusableInput("the answer has no client_secret")
        }
        // Some issue one to a public client, too.
        try self.init(id: id, method: method, secret: method == .none ? nil : secret.map { Secret($0) })
    }

    private init(id: String, method: ClientMethod, secret: Secret?) throws(UnusableInput) {
        // RFC 6749 appendix A.1 and A.2.
        let isShown = { (text: String) in text.utf8.allSatisfy { (0x20...0x7E).contains($0) } }
        guard (1...DiscoveryRule.maximumURLBytes).contains(id.utf8.count), isShown(id) else {
            throw UnusableInput("a client ID is visible ASCII of at most \(DiscoveryRule.maximumURLBytes) bytes")
        }
        let isSecret = secret?.withValue { $0.utf8.count <= 4096 && isShown($0) } ?? true
        guard isSecret else { throw UnusableInput("the client_secret is longer than 4096 bytes, or not visible ASCII") }
        (self.id, self.method, self.secret) = (id, method, secret)
    }
}

/// Scopes as servers name them.
enum LoginScopes {
    static let maximum = ScopeToken.maximumCount

    static func read(_ names: [String], named place: String) throws(UnusableInput) -> [String] {
        guard names.count <= maximum else { throw UnusableInput("\(place) has more than \(maximum) scopes") }
        guard names.allSatisfy(ScopeToken.isValid) else {
            throw UnusableInput("\(place) has what is not a scope (RFC 6749 section 3.3)")
        }
        return names.addingNew([])
    }
}

extension JSONValue {
    /// nil where the document does not have it.
    fileprivate func strings(_ key: String, at place: String, atMost maximum: Int) throws(UnusableInput) -> [String]? {
        guard let value = self[key], value != .null else { return nil }
        guard case .array(let elements) = value, elements.allSatisfy({ $0.string != nil }) else {
            throw UnusableInput("\(key) of \(place) is not a list of strings")
        }
        guard elements.count <= maximum else {
            throw UnusableInput("\(key) of \(place) has more than \(maximum) elements")
        }
        return elements.compactMap(\.string)
    }
}
