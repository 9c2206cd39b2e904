import Testing

@testable import GatewayLocalAuthority

@Suite("Trust store of Java", .timeLimit(.minutes(1)))
struct JavaTrustStoreTests {
    /// Lengths below and above 128 bytes are written in different ways.
    @Test func theBytesAreThoseOfPKCS12() {
        #expect(JavaTrustStore.bytes(of: []).count == 43)
        let small = JavaTrustStore.bytes(of: ["AAAA"])
        #expect(small.starts(with: [0x30, 0x81]) && small[3...].starts(with: [0x02, 0x01, 0x03, 0x30]))
        let large = JavaTrustStore.bytes(of: [String(repeating: "A", count: 4000), "not base64!"])
        #expect(large.starts(with: [0x30, 0x82]) && Int(large[2]) << 8 | Int(large[3]) == large.count - 4)
    }
}
