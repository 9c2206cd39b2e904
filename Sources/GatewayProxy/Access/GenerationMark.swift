import GatewayHTTP
package import GatewayTokens

/// The value that stands for a token in the answer to an engine (`X-Gw-Generation`).
///
/// The engine sends it back when the upstream has rejected the token. It proves that a gateway of the installation has handed out this
/// token to this engine: a client's own value would let it cause renewals.
///
/// Gateways number the same token differently. So the value also has a keyed fingerprint of the token, which is the same on all of them.
package struct GenerationMark: Sendable {
    /// The length of the fingerprint, and of the code: 128 bits each.
    static let codeBytes = 16
    static let maximumDigits = 18

    private let engine: String
    private let authenticate: @Sendable ([UInt8]) -> [UInt8]

    /// What an engine was handed and names as rejected.
    package struct Rejected: Sendable {
        /// At the gateway that handed it out.
        package let generation: Int
        fileprivate let fingerprint: [UInt8]
    }

    /// - Parameter authenticate: The keyed code of these bytes; at least ``codeBytes`` long. All gateways of an installation agree on it.
    package init(engine: String, authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.engine = engine
        self.authenticate = authenticate
    }

    /// `7.0f1e…`: the generation, the fingerprint, and the code over both.
    package func value(of credential: Credential, from source: any CredentialSource) -> String {
        let fingerprint = fingerprint(of: credential, from: source)
        let code = code(of: credential.generation, fingerprint, from: source)
        return "\(credential.generation).\(String(decoding: fingerprint + code, as: UTF8.self))"
    }

    /// What the value stands for; nil where it is not one that a gateway of the installation has handed out.
    ///
    /// How long that takes tells nothing about how near a guess was.
    package func rejected(
        in bytes: borrowing Span<UInt8>,
        _ value: Range<Int>,
        from source: any CredentialSource
    ) -> Rejected? {
        var (index, generation) = (value.lowerBound, 0)
        while index < value.upperBound, bytes[index].isDigit, index - value.lowerBound < Self.maximumDigits {
            generation = generation * 10 + Int(bytes[index] &- 0x30)
            index += 1
        }
        let digits = 2 * Self.codeBytes
        guard index > value.lowerBound, value.upperBound - index == 1 + 2 * digits, bytes[index] == 0x2E else {
            return nil
        }
        let middle = index + 1 + digits
        let fingerprint = (index + 1..<middle).map { bytes[$0] }
        let code = code(of: generation, fingerprint, from: source)
        guard code.count == digits, bytes.extracting(middle..<value.upperBound).isSame(as: code.span) else {
            return nil
        }
        return Rejected(generation: generation, fingerprint: fingerprint)
    }

    /// Whether this is the token that was rejected, whatever its number is here.
    package func names(_ credential: Credential, _ rejected: Rejected, from source: any CredentialSource) -> Bool {
        fingerprint(of: credential, from: source) == rejected.fingerprint
    }

    private func fingerprint(of credential: Credential, from source: any CredentialSource) -> [UInt8] {
        var bytes = bytes("token", source)
        for field in credential.injection.fields {
            bytes.add(field.name)
            bytes.add(field.value)
        }
        return authenticated(bytes)
    }

    private func code(of generation: Int, _ fingerprint: [UInt8], from source: any CredentialSource) -> [UInt8] {
        var bytes = bytes("generation", source)
        bytes.add(generation)
        bytes.add(fingerprint)
        return authenticated(bytes)
    }

    private func bytes(_ purpose: String, _ source: any CredentialSource) -> CanonicalBytes {
        var bytes = CanonicalBytes()
        for part in [purpose, engine, source.name, source.grantKey?.digest ?? ""] { bytes.add(part) }
        return bytes
    }

    /// The code in hexadecimal digits.
    private func authenticated(_ input: CanonicalBytes) -> [UInt8] {
        Array(Hexadecimal.text(of: authenticate(input.bytes).prefix(Self.codeBytes)).utf8)
    }
}
