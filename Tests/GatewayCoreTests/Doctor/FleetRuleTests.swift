import GatewayCore
import Testing

@Suite("What doctor says of the gateways of a database", .timeLimit(.minutes(1)))
struct FleetRuleTests {
    @Test func missingRightsAreAWarningThatNamesThem() {
        let finding = FleetRule.rights(["INSERT", "DELETE"], "db")
        #expect(finding.level == .warning)
        #expect(finding.text.contains("lacks INSERT, DELETE on authgateway.gateway"))
        #expect(finding.remedy?.contains("grant SELECT, INSERT, UPDATE and DELETE on authgateway.gateway") == true)
    }
}
