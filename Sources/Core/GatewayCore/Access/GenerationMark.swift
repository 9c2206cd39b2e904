/// The value that stands for a generation of a credential in the answer to an engine (`X-Gw-Generation`).
///
/// The engine sends it back when the upstream has rejected the credential. It proves that the gateway has handed out this generation to
/// this engine: a client's own value would let it cause renewals.
package struct GenerationMark: Sendable {
    /// Of the code; 128 bits.
    static let codeBytes = 16
    private static let maximumDigits = 18

    private let engine: String
    private let authenticate: @Sendable ([UInt8]) -> [UInt8]

    /// - Parameter authenticate: The keyed code of these bytes; at least ``codeBytes`` long. All gateways of an installation agree on it.
    package init(engine: String, authenticate: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.engine = engine
        self.authenticate = authenticate
    }

    /// `7.0f1e…`
    package func value(of generation: Int, from source: any CredentialSource) -> String {
        "\(generation).\(Hexadecimal.text(of: code(of: generation, from: source)))"
    }

    /// The generation that the value stands for; nil where it is not one that the gateway has handed out.
    ///
    /// How long that takes tells nothing about how near a guess was.
    package func generation(
        in bytes: borrowing Span<UInt8>,
        _ value: Range<Int>,
        from source: any CredentialSource
    ) -> Int? {
        var (index, generation) = (value.lowerBound, 0)
        while index < value.upperBound, bytes[index].isDigit, index - value.lowerBound < Self.maximumDigits {
            generation = generation * 10 + Int(bytes[index] &- 0x30)
            index += 1
        }
        guard index > value.lowerBound, index < value.upperBound, bytes[index] == 0x2E else { return nil }
        let code = code(of: generation, from: source)
        guard code.count == Self.codeBytes else { return nil }
        let expected = Array(Hexadecimal.text(of: code).utf8)
        guard bytes.extracting(index + 1..<value.upperBound).isSame(as: expected.span) else { return nil }
        return generation
    }

    private func code(of generation: Int, from source: any CredentialSource) -> ArraySlice<UInt8> {
        // Lengths come first, so that no two inputs are the same bytes.
        var input: [UInt8] = []
        for part in [engine, source.name, source.grantKey?.digest ?? "", String(generation)] {
            input += Array("\(part.utf8.count):\(part)".utf8)
        }
        return authenticate(input).prefix(Self.codeBytes)
    }
}
