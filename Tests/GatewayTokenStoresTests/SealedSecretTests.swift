import GatewayHTTP
import Testing

@testable import GatewayTokenStores

@Suite("Sealed secrets", .timeLimit(.minutes(1)))
struct SealedSecretTests {
    private let key: InstallationKey
    private let other: InstallationKey

    init() throws {
        key = try InstallationKey(bytes: Array(0..<32))
        other = try InstallationKey(bytes: Array(1..<33))
    }

    @Test(arguments: ["s3cret", "", "caf\u{E9}\n", String(repeating: "a", count: 4096)])
    func itIsOpenedWithItsKeyUnderItsName(_ text: String) throws {
        let sealed = try SealedSecret.seal(Secret(text), named: "calc.SECRET", with: key)
        #expect(SealedSecret.isSealed(sealed) && !SealedSecret.isSealed(Array(text.utf8)))
        #expect(SealedSecret.open(sealed, named: "calc.SECRET", with: key) == Secret(text))
        #expect(SealedSecret.open(sealed, named: "other.SECRET", with: key) == nil)
        #expect(SealedSecret.open(sealed, named: "calc.SECRET", with: other) == nil)
        #expect(try SealedSecret.seal(Secret(text), named: "calc.SECRET", with: key) != sealed)
    }

    /// The text has a length that leaves no bits of the last character unused.
    @Test func whatWasChangedIsNotOpened() throws {
        let sealed = try SealedSecret.seal(Secret("s3crets!"), named: "a", with: key)
        for index in sealed.indices.dropLast() {
            var changed = sealed
            changed[index] ^= 1
            #expect(SealedSecret.open(changed, named: "a", with: key) == nil, "byte \(index)")
            #expect(SealedSecret.open(Array(sealed.prefix(index)), named: "a", with: key) == nil, "\(index) bytes")
        }
    }
}
