import GatewayConfiguration
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
}
