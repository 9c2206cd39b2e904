import GatewayProxy
import Testing

@Suite(.timeLimit(.minutes(5)))
struct CertificatePinTests {
    private static let encoded = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
    private static let slashed = "/7DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

    @Test(arguments: ["sha256/\(encoded)", "sha256//\(encoded)"])
    func bothSpellingsAreOnePin(_ text: String) throws {
        let pin = try #require(CertificatePin(text))
        #expect(pin.digest.count == 32 && pin.digest.prefix(3) == [0xE3, 0xB0, 0xC4])
        #expect(pin.description == "sha256/\(Self.encoded)")
    }

    @Test(arguments: ["sha256/\(slashed)", "sha256//\(slashed)"])
    func aSlashCanBeTheFirstCharacterOfTheDigest(_ text: String) throws {
        #expect(try #require(CertificatePin(text)).description == "sha256/\(Self.slashed)")
    }

    @Test(arguments: [
        "", "sha256/", encoded, "sha1/\(encoded)", "SHA256/\(encoded)", "sha256/\(encoded)\(encoded)",
        "sha256/\(encoded.dropLast())", "sha256/ \(encoded.dropLast())", "sha256/\(encoded.replacing("+", with: "-"))",
        "sha256///\(encoded)", "sha256/\(encoded.dropLast(2))==",
    ])
    func anythingElseIsNone(_ text: String) {
        #expect(CertificatePin(text) == nil)
    }
}
