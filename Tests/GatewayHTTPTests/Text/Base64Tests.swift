import GatewayHTTP
import GatewayTesting
import Testing

@Suite("Hexadecimal digits", .timeLimit(.minutes(5)))
struct HexadecimalTests {
    private static let codings: [([UInt8], String)] = [
        ([], ""), ([0], "00"), ([0x0A, 0xF0], "0af0"), ([0x12, 0x34, 0x9A, 0xBC, 0xDE, 0xFF], "12349abcdeff"),
    ]

    @Test(arguments: codings)
    func bytesAreTwoDigitsEach(_ bytes: [UInt8], _ text: String) {
        #expect(Hexadecimal.text(of: bytes) == text)
        #expect(Hexadecimal.bytes(of: text) == bytes)
        #expect(Hexadecimal.bytes(of: text.uppercased()) == bytes)
    }

    @Test func everyByteComesBack() {
        let all = (0...255).map { UInt8($0) }
        #expect(Hexadecimal.bytes(of: Hexadecimal.text(of: all)) == all)
    }

    @Test(arguments: ["0", "000", "0g", "g0", "+1", " 1", "0x", "1\u{300}", "é"])
    func whatIsNotWholeBytesIsRefused(_ text: String) {
        #expect(Hexadecimal.bytes(of: text) == nil)
    }

    @Test(arguments: [(0, "0000"), (0xA, "000a"), (0xFFFE, "fffe"), (0x1F600, "1f600")] as [(UInt32, String)])
    func aNumberHasFourDigitsOrMore(_ value: UInt32, _ text: String) {
        #expect(Hexadecimal.number(value) == text)
    }

    @Test func randomDigitsKeepTheirZeros() {
        var random = SplitMix(seed: 1)
        let texts = (0..<200).map { _ in Hexadecimal.random(bytes: 4, from: &random) }
        #expect(texts.allSatisfy { $0.utf8.count == 8 && Hexadecimal.bytes(of: $0)?.count == 4 })
        #expect(Set(texts).count > 190)
    }
}

@Suite("PEM", .timeLimit(.minutes(5)))
struct PEMTests {
    @Test(arguments: [
        ("-----BEGIN EC PRIVATE KEY-----\nAA\n", "EC PRIVATE KEY"), ("x\n-----BEGIN X509 CRL-----", "X509 CRL"),
        ("-----BEGIN secret-----", nil), ("-----BEGIN \(String(repeating: "A", count: 41))-----", nil),
        ("-----BEGIN A", nil), ("", nil),
    ])
    func theLabelCanBeShown(_ text: String, _ label: String?) { #expect(PEM.label(of: text) == label) }

    @Test func theContentOfEachCertificateIsRead() {
        let text = "Bag\n  -----BEGIN CERTIFICATE-----\r\n  AAAA\r\n\tBB==\r\n-----END CERTIFICATE-----\n"
        let empty = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
        let cut = "-----BEGIN CERTIFICATE-----\nDDDD\n"
        #expect(PEM.certificates(in: text + empty + PEM.text(ofCertificate: "CCCC") + cut) == ["AAAABB==", "CCCC"])
    }
}
