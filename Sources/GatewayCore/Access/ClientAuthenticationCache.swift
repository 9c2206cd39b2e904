/// Who sent the last request of a connection, with the field that proved it, and who its certificate says the client is.
///
/// Most connections bring the same field with every request; to read and digest it each time would cost more than all other
/// checks together. Of one configuration: the next may not know the client any more.
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
    mutating func client(of peer: PeerIdentity, in registry: ClientRegistry) -> ClientOfProof {
        if let certificate { return certificate }
        let found = registry.client(of: peer)
        certificate = found
        return found
    }
}
