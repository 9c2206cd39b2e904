import GatewayCore
import Testing

@Suite("Refused certificates")
struct CertificateFaultTests {
    private static let start = UnixTime(seconds: 1_000)
    private static let end = UnixTime(seconds: 2_000)

    @Test("A certificate outside of its time is refused for that, and another for its issuer")
    func fault() {
        func fault(at seconds: Int64) -> CertificateFault {
            CertificateFault(validFrom: Self.start, to: Self.end, now: UnixTime(seconds: seconds))
        }
        #expect(fault(at: 999) == .notYetValid(from: Self.start))
        #expect(fault(at: 1_000) == .untrusted)
        #expect(fault(at: 2_000) == .untrusted)
        #expect(fault(at: 2_001) == .expired(at: Self.end))
    }
}
