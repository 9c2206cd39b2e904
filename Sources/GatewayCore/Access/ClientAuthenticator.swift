/// Finds out which client sent a request, by the token that the request presents and the certificate of its connection.
///
/// Used by the proxy, which reads tokens from the head, and by vending, which is given them.
package struct ClientAuthenticator: Sendable {
    /// What a request says of its client.
    package struct Evidence: Hashable, Sendable {
        /// The name of the client; nil where nothing proves one, and where proofs name different clients.
        package private(set) var client: String?
        package fileprivate(set) var hasPresentedToken = false
        /// Proofs name different clients. The request is refused, whatever the listener and the route ask for.
        package private(set) var isContradictory = false
        /// The token stood in `Authorization`, which must not reach the upstream.
        package fileprivate(set) var usesAuthorization = false

        package init() {}

        /// Something proves this client.
        fileprivate mutating func prove(_ name: String) {
            guard !isContradictory, client.map({ $0 != name }) ?? false else {
                if !isContradictory { client = name }
                return
            }
            contradict()
        }

        private mutating func contradict() {
            isContradictory = true
            client = nil
        }

        fileprivate mutating func prove(_ proof: ClientOfProof) {
            switch proof {
            case .none: break
            case .one(let name): prove(name)
            case .several: contradict()
            }
        }

        /// Takes the request for one of this client, whatever proof it has.
        mutating func assume(_ client: String) {
            self.client = client
            isContradictory = false
            hasPresentedToken = true
            usesAuthorization = false
        }
    }

    /// Where a route puts its credential besides `Authorization`: an SDK that knows only that place can present its client
    /// token there.
    package struct Places: Sendable {
        /// Names of fields, in lower case.
        let fields: [[UInt8]]
        /// The name of a query parameter as it is written.
        let query: [UInt8]?

        package init(fields: [[UInt8]], query: [UInt8]?) {
            self.fields = fields
            self.query = query
        }
    }

    private let registry: ClientRegistry

    /// - Parameters:
    ///   - uses: Told of each token that is used.
    ///   - jwts: nil where no signed token proves a client.
    package init(
        _ clients: [AccessPlan.Client],
        uses: ClientTokenUses? = nil,
        jwts: ClientJWTParts? = nil,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        registry = ClientRegistry(clients, uses: uses, jwts: jwts, sha256: sha256)
    }

    /// No client is configured: nothing can prove one.
    package var isEmpty: Bool { registry.isEmpty }

    /// - Parameters:
    ///   - places: Of the route that was found.
    ///   - peer: Of the connection.
    ///   - cache: Of the connection; asked first, and told of the client that was found.
    func evidence(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        places: Places?,
        peer: PeerIdentity?,
        cache: inout ClientAuthenticationCache
    ) -> Evidence {
        var evidence = Evidence()
        if let peer { evidence.prove(cache.client(of: peer, in: registry)) }
        var hasKnownToken = false
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            guard Self.canPresentToken(field, bytes, places) else { continue }
            evidence.hasPresentedToken = true
            let proven = registry.client(presenting: bytes, field.value, last: &cache)
            guard proven != .none else { continue }
            evidence.prove(proven)
            hasKnownToken = true
            if field.kind == .authorization { evidence.usesAuthorization = true }
        }
        if !hasKnownToken, let name = places?.query,
            let token = ClientTokenParser.read(bytes, query: head.query, parameter: name)
        {
            evidence.hasPresentedToken = true
            evidence.prove(registry.client(presenting: token))
        }
        return evidence
    }

    /// - Parameters:
    ///   - proof: The value of a field with a token; nil where there is none.
    ///   - peer: Of the connection.
    func evidence(proof: [UInt8]?, peer: PeerIdentity?) -> Evidence {
        var cache = ClientAuthenticationCache()
        return evidence(proof: proof, peer: peer, cache: &cache)
    }

    /// Of a request on a connection whose CONNECT was taken: the proof is that of the CONNECT. A client's token inside proves nothing,
    /// and must not reach the upstream.
    func evidence(
        of origin: InterceptedOrigin,
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        peer: PeerIdentity?,
        cache: inout ClientAuthenticationCache
    ) -> Evidence {
        var evidence = self.evidence(proof: origin.proof, peer: peer, cache: &cache)
        guard head.present.contains(.authorization) else { return evidence }
        for index in head.section.fields.indices where head.section.fields[index].kind == .authorization {
            let value = head.section.fields[index].value
            if registry.client(presenting: ClientTokenParser.read(bytes, value)) != .none {
                evidence.usesAuthorization = true
            }
        }
        return evidence
    }

    /// - Parameter cache: Of the connection, to which the proof belongs.
    private func evidence(
        proof: [UInt8]?,
        peer: PeerIdentity?,
        cache: inout ClientAuthenticationCache
    ) -> Evidence {
        var evidence = Evidence()
        if let peer { evidence.prove(cache.client(of: peer, in: registry)) }
        guard let proof else { return evidence }
        evidence.hasPresentedToken = true
        evidence.prove(registry.client(presenting: proof.span, proof.indices, last: &cache))
        return evidence
    }

    package func evidence(of tokens: [[UInt8]], peer: PeerIdentity? = nil) -> Evidence {
        var evidence = Evidence()
        if let peer { evidence.prove(registry.client(of: peer)) }
        evidence.hasPresentedToken = !tokens.isEmpty
        for token in tokens { evidence.prove(registry.client(presenting: token)) }
        return evidence
    }

    private static func canPresentToken(
        _ field: HeadField,
        _ bytes: borrowing Span<UInt8>,
        _ places: Places?
    ) -> Bool {
        if field.kind == .authorization || field.kind == .proxyAuthorization { return true }
        guard let places else { return false }
        for name in places.fields where bytes.equalsLowercased(field.name, name) { return true }
        return false
    }
}

extension ClientAuthenticator.Evidence {
    /// How a request without a known client is refused (RFC 6750 section 3, RFC 9110 section 11.7).
    ///
    /// - Parameter isProxyRequest: The request has an absolute target, so the gateway is its proxy.
    package func refusal(isProxyRequest: Bool = false) -> GatewayProblem {
        let kind: ProblemKind = isProxyRequest ? .proxyAuthRequired : .clientAuthRequired
        guard !isContradictory else {
            let detail = "The proofs of this request name different clients; send those of one client."
            return GatewayProblem(kind, detail, cause: GatewayProblem.Cause(code: "invalid_token"))
        }
        guard hasPresentedToken else {
            let fields = isProxyRequest ? "Proxy-Authorization" : "Authorization or Proxy-Authorization"
            return GatewayProblem(kind, "Send a client token in \(fields) (access.clients).")
        }
        let cause = GatewayProblem.Cause(code: "invalid_token")
        return GatewayProblem(kind, "The client token is not known to this gateway.", cause: cause)
    }
}
