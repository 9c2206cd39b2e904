import Crypto
import GatewayConfiguration
import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Length of client tokens", .timeLimit(.minutes(5)))
struct ClientTokenRuleTests {
    @Test(arguments: [
        (bytes: 1, isReachable: false, severity: ConfigDiagnostic.Severity.warning),
        (bytes: 15, isReachable: false, severity: .warning),
        (bytes: 15, isReachable: true, severity: .error),
        (bytes: 16, isReachable: true, severity: nil),
        (bytes: 64, isReachable: false, severity: nil),
    ])
    func aTokenThatCouldBeGuessedIsReported(bytes: Int, isReachable: Bool, severity: ConfigDiagnostic.Severity?) {
        #expect(ClientTokenRule.finding(bytes: bytes, isReachable: isReachable)?.severity == severity)
    }

    @Test func aWordThatEverybodyTriesIsRefusedEverywhere() throws {
        let finding = try #require(ClientTokenRule.finding(Secret("test"), isReachable: false))
        #expect(finding.severity == .error && finding.message.contains("openssl rand -hex 32"))
        #expect(ClientTokenRule.finding(Secret("Test2"), isReachable: false)?.severity == .error)
        #expect(ClientTokenRule.finding(Secret("test4"), isReachable: false)?.severity == .warning)
        #expect(ClientTokenRule.finding(Secret("a-token-of-20-bytes-"), isReachable: true) == nil)
    }

    @Test func theDigestsAreThoseOfTheWords() {
        for (word, digest) in WellKnownTokens.digests {
            let hash = SHA256.hash(data: Array(word.utf8))
            #expect(Hexadecimal.text(of: hash) == digest, "\(word)")
            #expect(WellKnownTokens.holds(digest: digest.uppercased()))
        }
        #expect(!WellKnownTokens.holds(digest: String(repeating: "ab", count: 32)))
    }
}
