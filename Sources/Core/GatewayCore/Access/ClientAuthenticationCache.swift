/// Who sent the last request of a connection, with the field that proved it.
///
/// Most connections bring the same field with every request; to read and digest it each time would cost more than all other
/// checks together. Of one configuration: the next may not know the client any more.
package struct ClientAuthenticationCache: Sendable {
    private let name: String?
    private let proof: SecretBytes

    /// What is longer is not kept: every connection that is open may have one.
    private static let longest = 512

    /// No client yet.
    package init() {
        name = nil
        proof = SecretBytes([])
    }

    init(_ name: String, proof: [UInt8]) {
        let isKept = proof.count <= Self.longest
        self.name = isKept ? name : nil
        self.proof = SecretBytes(isKept ? proof : [])
    }

    /// The client, when this value is the same to the byte. How long that takes tells nothing about how near it is.
    func name(proving bytes: borrowing Span<UInt8>, _ value: Range<Int>) -> String? {
        guard let name, value.count == proof.count else { return nil }
        let isSame = proof.withValue { bytes.extracting(value).isSame(as: $0.span) }
        return isSame ? name : nil
    }
}
