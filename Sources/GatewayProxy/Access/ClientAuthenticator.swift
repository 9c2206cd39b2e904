import FoundationEssentials
package import GatewayHTTP

/// Finds out which client sent a request, by the token that the request presents and the certificate of its connection.
///
/// Used by the proxy, which reads tokens from the head, and by vending, which is given them.
package struct ClientAuthenticator: Sendable {
    /// What a request says of its client.
    package struct Evidence: Hashable, Sendable {
        /// The name of the client; nil where nothing proves one, and where proofs name different clients.
        package private(set) var client: String?
        fileprivate(set) var hasPresentedToken = false
        /// Proofs name different clients. The request is refused, whatever the listener and the route ask for.
        package private(set) var isContradictory = false
        /// Where the token stands. It must not reach the upstream.
        fileprivate(set) var tokenPlaces: ClientTokenPlaces = .none

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
            tokenPlaces = .none
        }
    }

    /// Where a route puts its credential besides `Authorization`: an SDK that knows only that place can present its client
    /// token there.
    ///
    /// A class, so that a request passes one reference on.
    package final class Places: Sendable {
        /// Names of fields, in lower case.
        let fields: [[UInt8]]
        /// The name of a query parameter as it is written.
        let query: [UInt8]?

        package init(fields: [[UInt8]], query: [UInt8]?) {
            self.fields = fields
            self.query = query
        }

        var isEmpty: Bool { fields.isEmpty && query == nil }
    }

    private let registry: ClientRegistry
    /// nil where `exec` makes none.
    private let runs: RunTokens?

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
        runs = uses?.runs
    }

    /// No client is configured: nothing can prove one.
    package var isEmpty: Bool { registry.isEmpty }

    /// Whether a request may present the token of a program that `exec` runs.
    var hasRuns: Bool { runs?.isInUse ?? false }

    /// - Parameters:
    ///   - places: The places of the route that was found.
    ///   - peer: The peer of the connection.
    ///   - cache: The cache of the connection; asked first, and told of the client that was found.
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
            if case .none = proven { continue }
            evidence.prove(proven)
            hasKnownToken = true
            if case .authorization = field.kind { evidence.tokenPlaces.hasAuthorization = true }
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
    ///   - peer: The peer of the connection.
    func evidence(proof: [UInt8]?, peer: PeerIdentity?) -> Evidence {
        var cache = ClientAuthenticationCache()
        return evidence(proof: proof, peer: peer, cache: &cache)
    }

    /// The evidence of a request on a connection whose CONNECT was taken: the proof is that of the CONNECT. A client's token inside proves nothing,
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
                evidence.tokenPlaces.hasAuthorization = true
            }
        }
        return evidence
    }

    /// - Parameter cache: The cache of the connection, to which the proof belongs.
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

    /// Looks for the token of a program that `exec` runs, which must not reach the upstream.
    ///
    /// - Parameters:
    ///   - places: The places of the route that was found.
    ///   - proves: Whether the token proves the client here: only on loopback.
    func addRun(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        places: Places?,
        proves: Bool,
        to evidence: inout Evidence
    ) {
        guard let runs else { return }
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            let key = ClientTokenPlaces(field, bytes)
            guard !key.isEmpty || Self.canPresentToken(field, bytes, places) else { continue }
            let found = ClientTokenParser.readAll(bytes, field.value).lazy.compactMap { registry.run($0, of: runs) }
            guard let run = found.first else { continue }
            if case .authorization = field.kind { evidence.tokenPlaces.hasAuthorization = true }
            take(run, from: key, proves: proves, in: &evidence)
        }
        // A parameter with the name that the route injects is replaced when the request is written.
        for parameter in ClientTokenParser.parameters(bytes, query: head.query) {
            let key = ClientTokenPlaces(parameter: parameter.name, bytes)
            guard !key.isEmpty || places?.query == bytes.array(parameter.name) else { continue }
            guard let run = registry.run(bytes.array(parameter.value), of: runs) else { continue }
            take(run, from: key, proves: proves, in: &evidence)
        }
    }

    private func take(
        _ run: RunTokens.Found,
        from key: ClientTokenPlaces,
        proves: Bool,
        in evidence: inout Evidence
    ) {
        evidence.tokenPlaces.formUnion(key)
        guard proves else { return }
        evidence.hasPresentedToken = true
        if let name = registry.client(of: run) { evidence.prove(name) }
    }

    /// Looks for the token of a program in what goes upstream as it is, such as cookies and the path.
    ///
    /// This is for programs that send their key in an unexpected place. One that wants to hand its token on can always
    /// encode it, and content is not looked at.
    ///
    /// - Parameters:
    ///   - evidence: The places that it found do not go upstream.
    ///   - owned: Names of fields that do not go upstream either.
    /// - Returns: Where the token stands, for people; nil where it does not.
    func strayRun(
        in head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        _ evidence: Evidence,
        _ places: Places?,
        owned: [[UInt8]]
    ) -> String? {
        guard let runs else { return nil }
        for index in head.section.fields.indices {
            let field = head.section.fields[index]
            switch field.kind {
            case .authorization where evidence.tokenPlaces.hasAuthorization: continue
            case .proxyAuthorization: continue
            default: break
            }
            guard evidence.tokenPlaces.isDisjoint(with: ClientTokenPlaces(field, bytes)),
                !Self.isNamed(field, bytes, among: owned), holdsRun(bytes, field.value, of: runs)
            else { continue }
            return String(bytes.string(field.name).prefix(64))
        }
        if holdsRun(bytes, head.path, of: runs) { return "the path" }
        var start = head.query.lowerBound
        for index in head.query where index == head.query.upperBound - 1 || bytes[index] == 0x26 || bytes[index] == 0x3B
        {
            let part = start..<index + 1
            start = index + 1
            guard holdsRun(bytes, part, of: runs) else { continue }
            let name = part.lowerBound == head.query.lowerBound ? part.lowerBound + 1 : part.lowerBound
            var equals = name
            while equals < part.upperBound, bytes[equals] != 0x3D { equals += 1 }
            let parameter = name..<equals
            let isUsed = !evidence.tokenPlaces.isDisjoint(with: ClientTokenPlaces(parameter: parameter, bytes))
            guard isUsed || places?.query == bytes.array(parameter) else { return "the query" }
        }
        return nil
    }

    private static func isNamed(_ field: HeadField, _ bytes: borrowing Span<UInt8>, among names: [[UInt8]]) -> Bool {
        for name in names where bytes.equalsLowercased(field.name, name) { return true }
        return false
    }

    /// Whether a sequence of hexadecimal digits in the range begins or ends with a run token.
    private func holdsRun(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>, of runs: RunTokens) -> Bool {
        guard range.count >= RunTokens.length else { return false }
        var start = range.lowerBound
        for index in range.lowerBound...range.upperBound {
            if index < range.upperBound, RunTokens.isDigit(bytes[index]) { continue }
            if index - start >= RunTokens.length {
                let (first, last) = (start..<start + RunTokens.length, index - RunTokens.length..<index)
                if registry.run(bytes.array(first), of: runs) != nil { return true }
                if first != last, registry.run(bytes.array(last), of: runs) != nil { return true }
            }
            start = index + 1
        }
        return false
    }

    private static func canPresentToken(
        _ field: HeadField,
        _ bytes: borrowing Span<UInt8>,
        _ places: Places?
    ) -> Bool {
        // A pattern, not `==`: that is a call through a table into another module.
        switch field.kind {
        case .authorization, .proxyAuthorization: return true
        default: break
        }
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
            let detail = "The request identifies different clients; send the token or certificate of only one."
            return GatewayProblem(kind, detail, cause: GatewayProblem.Cause(code: "invalid_token"))
        }
        guard hasPresentedToken else {
            let fields = isProxyRequest ? "Proxy-Authorization" : "Authorization or Proxy-Authorization"
            return GatewayProblem(kind, "Send a client token in \(fields) (access.clients).")
        }
        let cause = GatewayProblem.Cause(code: "invalid_token")
        let detail = "No client in access.clients has this token. Send a client token, not a key of the upstream."
        return GatewayProblem(kind, detail, cause: cause)
    }
}

/// The clients that may use the gateway, known by the digests of their tokens and by the names in their certificates.
private struct ClientRegistry: Sendable {
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

    func run(_ value: [UInt8], of runs: RunTokens) -> RunTokens.Found? { runs.find(value, sha256: sha256) }

    /// The client that a program acts as; nil where it proves none, or where the client's token is not valid any more.
    func client(of run: RunTokens.Found) -> String? {
        guard let known = run.original.flatMap(known(by:)) else { return nil }
        known.mark?.note()
        return known.client
    }

    private func token(presented token: [UInt8]) -> KnownToken? {
        guard !token.isEmpty, !tokens.isEmpty else { return nil }
        return known(by: sha256(token))
    }

    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    private func known(by digest: [UInt8]) -> KnownToken? {
        var found = -1
        for (index, known) in tokens.enumerated() where known.digest.span.isSame(as: digest.span) { found = index }
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

/// Who sent the last request of a connection, with the field that proved it, and who its certificate says the client is.
///
/// Most connections bring the same field with every request; to read and digest it each time would cost more than all other
/// checks together. Valid for one configuration: after a reload the client may be unknown.
package struct ClientAuthenticationCache: Sendable {
    private var name: String?
    private var proof = SecretBytes([])
    private var mark: ClientTokenUses.Mark?
    /// nil for a proof that has no end.
    private(set) var validity: ClientJWTVerifier.Validity?
    private var certificate: ClientOfProof?

    /// What is longer is not kept: every connection that is open may have one.
    static let longest = 512
    /// A signed token costs more to verify than to keep.
    static let longestSigned = 4096

    /// No client yet.
    package init() {}

    mutating func keep(
        _ name: String,
        proof: [UInt8],
        mark: ClientTokenUses.Mark? = nil,
        validity: ClientJWTVerifier.Validity? = nil
    ) {
        let isKept = proof.count <= (validity == nil ? Self.longest : Self.longestSigned)
        self.validity = isKept ? validity : nil
        self.name = isKept ? name : nil
        self.proof = SecretBytes(isKept ? proof : [])
        self.mark = isKept ? mark : nil
    }

    /// The client, when this value is the same to the byte. How long that takes tells nothing about how near it is.
    func name(proving bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> String? {
        guard let name, value.count == proof.count else { return nil }
        let isSame = proof.withValue { bytes.extracting(value).isSame(as: $0.span) }
        guard isSame else { return nil }
        mark?.note()
        return name
    }

    /// The client of the certificate that the connection has, looked up once.
    fileprivate mutating func client(of peer: PeerIdentity, in registry: ClientRegistry) -> ClientOfProof {
        if let certificate { return certificate }
        let found = registry.client(of: peer)
        certificate = found
        return found
    }
}

/// Finds the client's token in the places where clients can put one.
package enum ClientTokenParser {
    /// Schemes of `Authorization`, with their space: what the clients of services write before a token. GitHub's say `token`, for example.
    private static let schemes: [StaticString] = [
        "bearer ", "token ", "apikey ", "bot ", "deepl-auth-key ", "geniekey ", "oauth ", "ssws ",
    ]

    /// Reads the token in `Bearer x`, another of ``schemes``, or Basic; any other value is the token itself. In Basic, it is the password, or
    /// the user name if the password is empty.
    package static func read(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> [UInt8] {
        for scheme in schemes {
            let end = value.lowerBound + scheme.utf8CodeUnitCount
            guard end < value.upperBound, bytes.equalsLowercased(value.lowerBound..<end, scheme) else { continue }
            return bytes.array(bytes.trimmed(end..<value.upperBound))
        }
        guard isBasic(bytes, value) else { return bytes.array(value) }
        guard let (user, password) = basic(bytes, value) else { return [] }
        return password.isEmpty ? user : password
    }

    /// As ``read(_:_:)``, but with both parts of `Basic`: SDKs send their key in one and a word of their own in the other.
    static func readAll(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> [[UInt8]] {
        guard isBasic(bytes, value) else { return [read(bytes, value)] }
        guard let (user, password) = basic(bytes, value) else { return [] }
        return [user, password]
    }

    private static func isBasic(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> Bool {
        value.count > 6 && bytes.equalsLowercased(value.lowerBound..<value.lowerBound + 6, "basic ")
    }

    private static func basic(
        _ bytes: borrowing Span<UInt8>,
        _ value: Range<Int>
    ) -> (user: [UInt8], password: [UInt8])? {
        let encoded = bytes.array(bytes.trimmed(value.lowerBound + 6..<value.upperBound))
        guard let decoded = Data(base64Encoded: Data(encoded)), let colon = decoded.firstIndex(of: 0x3A) else {
            return nil
        }
        return (Array(decoded[..<colon]), Array(decoded[decoded.index(after: colon)...]))
    }

    /// The parameters of a query that have a value. Not decoded.
    static func parameters(
        _ bytes: borrowing Span<UInt8>,
        query: Range<Int>
    ) -> [(name: Range<Int>, value: Range<Int>)] {
        var parameters: [(name: Range<Int>, value: Range<Int>)] = []
        var (start, equals) = (query.lowerBound + 1, -1)
        guard start < query.upperBound else { return [] }
        for index in start...query.upperBound {
            let isEnd = index == query.upperBound || bytes[index] == 0x26 || bytes[index] == 0x3B
            if isEnd {
                if equals >= 0 { parameters.append((start..<equals, equals + 1..<index)) }
                (start, equals) = (index + 1, -1)
            } else if bytes[index] == 0x3D, equals < 0 {
                equals = index
            }
        }
        return parameters
    }

    /// The value of a query parameter; nil when it is not there. Not decoded: tokens need no encoding.
    static func read(
        _ bytes: borrowing Span<UInt8>,
        query: Range<Int>,
        parameter name: [UInt8]
    ) -> [UInt8]? {
        var start = query.lowerBound + 1
        while start < query.upperBound {
            var end = start
            while end < query.upperBound, bytes[end] != 0x26 { end += 1 }
            let valueStart = start + name.count + 1
            if valueStart <= end, bytes[valueStart - 1] == 0x3D, bytes.array(start..<valueStart - 1) == name {
                return bytes.array(valueStart..<end)
            }
            start = end + 1
        }
        return nil
    }
}
