/// The clients that may use the gateway, known by the digests of their tokens and by the names in their certificates.
struct ClientRegistry: Sendable {
    private struct KnownToken: Sendable {
        let client: String
        let digest: [UInt8]
        let mark: ClientTokenUses.Mark?
    }

    private struct KnownCertificate: Sendable {
        let client: String
        let name: CertificateName
    }

    private let tokens: [KnownToken]
    private let certificates: [KnownCertificate]
    private let jwts: ClientJWTVerifier?
    private let sha256: @Sendable ([UInt8]) -> [UInt8]
    let isEmpty: Bool

    init(
        _ clients: [AccessPlan.Client],
        uses: ClientTokenUses?,
        jwts parts: ClientJWTParts?,
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        jwts = ClientJWTVerifier(clients, parts, sha256: sha256)
        let digests = clients.map { client in (name: client.name, digests: client.tokens.map { $0.digest(sha256) }) }
        let marks = uses?.marks(of: digests)
        tokens = digests.enumerated().flatMap { number, client in
            client.digests.enumerated().map { index, digest in
                KnownToken(client: client.name, digest: digest, mark: marks?[number][index])
            }
        }
        certificates = clients.compactMap { client in
            client.certificate.map { KnownCertificate(client: client.name, name: $0) }
        }
        self.sha256 = sha256
        isEmpty = clients.isEmpty
    }

    /// The client whose token this field has.
    ///
    /// - Parameter last: The cache of the connection. It is asked first, and stores the client that is found.
    func client(presenting bytes: borrowing Span<UInt8>, _ value: Range<Int>, last: inout ClientAuthenticationCache)
        -> ClientOfProof
    {
        if let name = last.name(proving: bytes, value), isValid(last.validity) { return .one(name) }
        let token = ClientTokenParser.read(bytes, value)
        if let known = self.token(presented: token) {
            known.mark?.note()
            last.keep(known.client, proof: bytes.array(value), mark: known.mark)
            return .one(known.client)
        }
        guard let result = jwts?.result(for: token) else { return .none }
        if case .one(let name) = result.client {
            last.keep(name, proof: bytes.array(value), validity: result.validity)
        }
        return result.client
    }

    private func isValid(_ validity: ClientJWTVerifier.Validity?) -> Bool {
        guard let validity else { return true }
        return jwts?.isValid(validity) ?? false
    }

    /// The client whose token this is.
    func client(presenting token: [UInt8]) -> ClientOfProof {
        if let known = self.token(presented: token) {
            known.mark?.note()
            return .one(known.client)
        }
        return jwts?.result(for: token)?.client ?? .none
    }

    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    private func token(presented token: [UInt8]) -> KnownToken? {
        guard !token.isEmpty, !tokens.isEmpty else { return nil }
        let presented = sha256(token)
        var found = -1
        for (index, known) in tokens.enumerated() where known.digest.span.isSame(as: presented.span) { found = index }
        return found < 0 ? nil : tokens[found]
    }

    /// The client whose certificate this is. Of several that a name matches, the most exact one counts.
    func client(of peer: PeerIdentity) -> ClientOfProof {
        var found: Set<String> = []
        for name in peer.names {
            let matching = certificates.filter { $0.name.matches(name) }
            guard let best = matching.max(by: { $0.name.precedence < $1.name.precedence }) else { continue }
            found.insert(best.client)
        }
        guard found.count <= 1 else { return .several }
        return found.first.map { .one($0) } ?? .none
    }
}

/// What a proof says of the client.
enum ClientOfProof: Hashable, Sendable {
    case none
    case one(String)
    /// It is that of different clients.
    case several
}

extension AccessPlan.Client.Token {
    /// The SHA-256 of the token.
    package func digest(_ sha256: ([UInt8]) -> [UInt8]) -> [UInt8] {
        switch self {
        case .token(let token): token.withValue { sha256(Array($0.utf8)) }
        case .tokenSHA256(let digest): digest
        }
    }
}

extension AccessPlan.Client {
    /// What proves the client, without secrets: equal for what proves it alike.
    package func proofs(_ sha256: ([UInt8]) -> [UInt8]) -> Set<[UInt8]> {
        var proofs = Set(tokens.map { $0.digest(sha256) })
        if let certificate { proofs.insert(Array("certificate \(certificate.description)".utf8)) }
        if let jwt {
            var bytes = CanonicalBytes()
            bytes.add("jwt")
            jwt.add(to: &bytes)
            proofs.insert(bytes.bytes)
        }
        return proofs
    }
}
