import FoundationEssentials

/// Certificates as a trust store of Java: PKCS#12 (RFC 7292) without encryption, which Java reads without a password.
package enum JavaTrustStore {
    /// - Parameter certificates: In base64, as ``PEM/certificates(in:)`` gives them.
    package static func bytes(of certificates: [String]) -> [UInt8] {
        let bags = certificates.compactMap { Data(base64Encoded: $0) }.enumerated()
            .map { bag(Array($0.element), alias: "authgateway-\($0.offset)") }
        let safe = sequence([contentInfo(sequence(bags))])
        return sequence([[0x02, 0x01, 0x03], contentInfo(safe)])
    }

    private enum Identifier {
        static let data: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x07, 0x01]
        static let certificateBag: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x0C, 0x0A, 0x01, 0x03]
        static let x509: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x16, 0x01]
        static let friendlyName: [UInt8] = [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x09, 0x14]
        /// 2.16.840.1.113894.746875.1.1: without it, Java takes a certificate for one of a key, and trusts it for nothing.
        static let trustedKeyUsage: [UInt8] = [0x60, 0x86, 0x48, 0x01, 0x86, 0xF9, 0x66, 0xAD, 0xCA, 0x7B, 0x01, 0x01]
        static let anyUsage: [UInt8] = [0x55, 0x1D, 0x25, 0x00]
    }

    /// Content that is neither signed nor encrypted.
    private static func contentInfo(_ content: [UInt8]) -> [UInt8] {
        sequence([identifier(Identifier.data), value(0xA0, value(0x04, content))])
    }

    private static func bag(_ certificate: [UInt8], alias: String) -> [UInt8] {
        let content = sequence([identifier(Identifier.x509), value(0xA0, value(0x04, certificate))])
        let name = value(0x1E, alias.utf16.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] })
        let attributes = [
            sequence([identifier(Identifier.friendlyName), value(0x31, name)]),
            sequence([identifier(Identifier.trustedKeyUsage), value(0x31, identifier(Identifier.anyUsage))]),
        ]
        return sequence([
            identifier(Identifier.certificateBag), value(0xA0, content), value(0x31, Array(attributes.joined())),
        ])
    }

    private static func sequence(_ parts: [[UInt8]]) -> [UInt8] { value(0x30, Array(parts.joined())) }
    private static func identifier(_ bytes: [UInt8]) -> [UInt8] { value(0x06, bytes) }

    /// Tag, length and content (X.690 section 8.1).
    private static func value(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        guard content.count >= 0x80 else { return [tag, UInt8(content.count)] + content }
        var length: [UInt8] = []
        var rest = content.count
        while rest > 0 {
            length.insert(UInt8(rest & 0xFF), at: 0)
            rest >>= 8
        }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}
