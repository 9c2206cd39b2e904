package import GatewayHTTP
package import GatewayTokens

/// Finds the authorization server of an MCP server, and registers a client there. Sends no credential, and follows no redirect.
package struct LoginDiscovery: Sendable {
    package struct Findings: Hashable, Sendable {
        /// For the authorization server, as its metadata writes it.
        package let resource: String
        package let server: AuthorizationServer
        package let scopes: [String]
    }

    private let endpoint: any TokenEndpoint
    private let rule: DiscoveryRule
    private let proxy: ProxyRule?
    private let isPublic: @Sendable (Origin) async -> Bool?

    /// - Parameters:
    ///   - proxy: What requests go through; nil for none.
    ///   - isPublic: Whether a host has only addresses of the public internet; nil where it has none.
    package init(
        _ endpoint: any TokenEndpoint,
        _ rule: DiscoveryRule,
        through proxy: ProxyRule? = nil,
        isPublic: @escaping @Sendable (Origin) async -> Bool?
    ) {
        (self.endpoint, self.rule, self.proxy, self.isPublic) = (endpoint, rule, proxy, isPublic)
    }

    // MARK: Discovery

    /// - Parameter issuer: What a person typed; nil takes the first that the MCP server names.
    package func findings(
        of server: AuthorityURL,
        issuer typed: AuthorityURL? = nil
    ) async throws(UnusableInput) -> Findings {
        var tried: [String] = []
        let challenge = try await challenge(of: server, &tried)
        let resource = try await resource(of: server, challenge, &tried)
        let issuer = try issuer(of: server, resource, typed)
        let metadata = try await authorizationServer(issuer, &tried)
        return Findings(
            resource: resource?.resource ?? server.text,
            server: metadata,
            scopes: metadata.scopes(challenge, resource)
        )
    }

    private func challenge(
        of server: AuthorityURL,
        _ tried: inout [String]
    ) async throws(UnusableInput) -> LoginChallenge {
        // Changes nothing and begins no session where the server takes it without a login.
        let ping = #"{"jsonrpc":"2.0","id":1,"method":"ping"}"#
        let fields = [Injection.Field(name: "Accept", value: Secret("application/json, text/event-stream"))]
        let body = TokenRequest.Body.content(type: "application/json", Secret(ping))
        let reply = try await reply(to: TokenRequest(method: .post, url: server, fields: fields, body: body))
        guard reply.status == 401 else {
            tried.append("\(server): \(Self.words(for: reply)) instead of 401")
            return try LoginChallenge([])
        }
        return try LoginChallenge(reply.fields.filter { $0.name.lowercased() == "www-authenticate" }.map(\.value))
    }

    private func resource(
        of server: AuthorityURL,
        _ challenge: LoginChallenge,
        _ tried: inout [String]
    ) async throws(UnusableInput) -> ResourceMetadata? {
        var places: [AuthorityURL] = []
        if let named = challenge.metadata {
            places.append(
                try await usable(rule.url(named, named: "resource_metadata of \(server)"), "resource_metadata")
            )
        }
        for text in server.resourceMetadata where !places.contains(where: { $0.text == text }) {
            places.append(try rule.url(text, named: text))
        }
        for place in places {
            guard let document = try await document(at: place, &tried) else { continue }
            return try ResourceMetadata(document, of: server, at: place.description)
        }
        return nil
    }

    /// Without metadata of the resource, the MCP server's own host is the issuer, as in the specification of MCP of 2025-03-26.
    private func issuer(
        of server: AuthorityURL,
        _ resource: ResourceMetadata?,
        _ typed: AuthorityURL?
    ) throws(UnusableInput) -> AuthorityURL {
        if let typed {
            let names = resource?.issuers ?? [typed.text]
            guard names.contains(where: { $0 == typed.text || $0 == typed.text + "/" || $0 + "/" == typed.text }) else {
                let list = names.map { JSONString.quoted($0, limit: 200) { $0.isHarmless } }.joined(separator: ", ")
                throw UnusableInput("\(server) does not accept tokens of \(typed); it names \(list)")
            }
        }
        let text = typed?.text ?? resource?.issuers.first ?? server.origin.description
        let issuer = try rule.url(text, named: "the authorization server of \(server)")
        guard !issuer.hasQuery else { throw UnusableInput("the issuer \(issuer) has a query (RFC 8414 section 2)") }
        return issuer
    }

    private func authorizationServer(
        _ issuer: AuthorityURL,
        _ tried: inout [String]
    ) async throws(UnusableInput) -> AuthorizationServer {
        _ = try await usable(issuer, "the authorization server")
        for text in issuer.issuerMetadata {
            let place = try rule.url(text, named: text)
            guard let document = try await document(at: place, &tried) else { continue }
            let server = try AuthorizationServer(document, of: issuer, at: place.description, rule)
            _ = try await usable(server.authorizeURL, "authorization_endpoint of \(place)")
            _ = try await usable(server.tokenURL, "token_endpoint of \(place)")
            if let url = server.registrationURL { _ = try await usable(url, "registration_endpoint of \(place)") }
            if let url = server.revokeURL { _ = try await usable(url, "revocation_endpoint of \(place)") }
            return server
        }
        let list = tried.map { "\n  \($0)" }.joined()
        throw UnusableInput("no metadata of an authorization server was found (RFC 9728, RFC 8414):\(list)")
    }

    // MARK: Registration

    /// Registers a client that logs people in (RFC 7591 section 3.1).
    ///
    /// The answer may have a `registration_access_token` (RFC 7592), with which the registration can be changed. It is not kept.
    package func register(
        at url: AuthorityURL,
        as method: ClientMethod,
        scopes: [String],
        redirectingTo redirect: String
    ) async throws(UnusableInput) -> LoginClient {
        var members: [String: JSONValue] = [
            "client_name": .string("AuthGateway"),
            "redirect_uris": .array([.string(redirect)]),
            "grant_types": .array([.string("authorization_code"), .string("refresh_token")]),
            "response_types": .array([.string("code")]),
            "token_endpoint_auth_method": .string(method.rawValue),
            // Without it, OpenID Connect refuses redirects to loopback.
            "application_type": .string("native"),
        ]
        if !scopes.isEmpty { members["scope"] = .string(scopes.joined(separator: " ")) }
        guard let bytes = try? JSONValue.object(members).bytes() else {
            throw UnusableInput("the registration cannot be written as JSON")
        }
        let body = TokenRequest.Body.content(type: "application/json", Secret(String(decoding: bytes, as: UTF8.self)))
        let reply = try await reply(to: TokenRequest(method: .post, url: url, body: body))
        guard (200..<300).contains(reply.status) else {
            let said = AuthorityError(reply, hiding: [])?.text ?? Self.words(for: reply)
            throw UnusableInput(
                "\(url.origin.authority) does not register the gateway (\(said)). Register a client there yourself, with the redirect"
                    + " URI \(redirect), and use --client-id and --redirect-uri"
            )
        }
        do throws(UnusableInput) {
            return try LoginClient(JSONValue(reply.body, uniqueNames: true), asked: method)
        } catch {
            throw UnusableInput("the registration at \(url) failed: \(error.message)")
        }
    }

    // MARK: Requests

    /// - Throws: When the name of a URL that no person typed leads to this machine or its network.
    private func usable(_ url: AuthorityURL, _ name: String) async throws(UnusableInput) -> AuthorityURL {
        guard rule.needsLookup(url) else { return url }
        switch await isPublic(url.origin) {
        case true?: return url
        // A proxy may know names that this machine does not.
        case nil where proxy?.parent(for: url.origin) != nil: return url
        case nil: throw UnusableInput("\(name) is \(url), whose name cannot be resolved")
        case false?: throw DiscoveryRule.notPublic(url, named: name)
        }
    }

    /// nil where there is no JSON object whose members have different names.
    private func document(at place: AuthorityURL, _ tried: inout [String]) async throws(UnusableInput) -> JSONValue? {
        let reply = try await reply(to: TokenRequest(method: .get, url: place))
        guard reply.status == 200 else {
            tried.append("\(place): \(Self.words(for: reply))")
            return nil
        }
        guard let document = JSONValue(reply.body, uniqueNames: true), case .object = document else {
            tried.append("\(place): no JSON object, or one with a repeated name")
            return nil
        }
        return document
    }

    private func reply(to request: TokenRequest) async throws(UnusableInput) -> TokenReply {
        var request = request
        request.proxy = proxy
        switch await endpoint.send(request, deadline: TokenRequest.longestCall) {
        case .success(let reply): return reply
        case .failure(let failure):
            throw UnusableInput(TokenFailure(explaining: failure, of: request, credential: nil).problem.detail)
        }
    }

    private static func words(for reply: TokenReply) -> String {
        (300..<400).contains(reply.status)
            ? "a redirect (\(reply.status)), which is not followed" : "status \(reply.status)"
    }
}
