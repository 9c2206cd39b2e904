/// The clients that may use the gateway, known by the digests of their tokens.
struct ClientRegistry: Sendable {
    private let names: [String]
    private let digests: [[UInt8]]
    private let sha256: @Sendable ([UInt8]) -> [UInt8]

    init(_ clients: [AccessPlan.Client], sha256: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        names = clients.map(\.name)
        digests = clients.map { $0.digest(sha256) }
        self.sha256 = sha256
    }

    var isEmpty: Bool { names.isEmpty }

    /// The client whose token this field has.
    ///
    /// - Parameter last: The cache of the connection. It is asked first, and stores the client that is found.
    func client(presenting bytes: borrowing Span<UInt8>, _ value: Range<Int>, last: inout ClientAuthenticationCache)
        -> String?
    {
        if let name = last.name(proving: bytes, value) { return name }
        guard let name = client(presenting: ClientTokenParser.read(bytes, value)) else { return nil }
        last = ClientAuthenticationCache(name, proof: bytes.array(value))
        return name
    }

    /// The client whose token this is.
    ///
    /// Digests are compared, all of them and to their ends, so the time tells nothing about how near a guess was.
    func client(presenting token: [UInt8]) -> String? {
        guard !token.isEmpty else { return nil }
        let presented = sha256(token)
        var found = -1
        for (index, digest) in digests.enumerated() where digest.span.isSame(as: presented.span) { found = index }
        return found < 0 ? nil : names[found]
    }
}

extension AccessPlan.Client {
    /// The SHA-256 of its token.
    package func digest(_ sha256: ([UInt8]) -> [UInt8]) -> [UInt8] {
        switch proof {
        case .token(let token): token.withValue { sha256(Array($0.utf8)) }
        case .tokenSHA256(let digest): digest
        }
    }
}
