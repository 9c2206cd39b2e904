import GatewayHTTP
import Testing

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
