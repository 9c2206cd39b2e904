import GatewayCore
import Testing

@Suite("Config locator", .timeLimit(.minutes(5)))
struct ConfigLocatorTests {
    private typealias Gateway = ConfigLocator.RunningGateway

    private static let etc = Gateway(process: 7, configuration: "/etc/a/gateway.yaml", stateDirectory: "/var/a")
    private static let home = Gateway(process: 3, configuration: "/home/my b/gateway.yaml", stateDirectory: "/home/b")

    private func locate(
        _ option: String? = nil,
        variable: String? = nil,
        hasStandard: Bool = false,
        running: [ConfigLocator.RunningGateway] = []
    ) -> ConfigLocator.Location {
        ConfigLocator.locate(
            option: option,
            variable: variable,
            hasStandard: { hasStandard },
            running: { running }
        )
    }

    @Test func theOptionCountsBeforeTheVariableAndThatBeforeTheFileOfThisFolder() {
        let running = [Self.etc]
        #expect(locate("a.yaml", variable: "b.yaml", hasStandard: true, running: running) == .file("a.yaml"))
        #expect(locate(variable: "b.yaml", hasStandard: true, running: running) == .file("b.yaml"))
        #expect(locate(variable: "", hasStandard: true, running: running) == .file("gateway.yaml"))
        #expect(locate(running: running) == .running(Self.etc))
    }

    @Test func withoutAnyGatewayTheUsualFileIsMissed() { #expect(locate() == .file("gateway.yaml")) }

    @Test func ofSeveralGatewaysNoneIsChosen() {
        #expect(locate(running: [Self.home, Self.etc]) == .ambiguous([Self.etc, Self.home]))
        let advice = ConfigLocator.advice(on: [Self.etc, Self.home])
        #expect(advice.hasPrefix("2 gateways run here"))
        #expect(advice.contains("--config /etc/a/gateway.yaml    (process 7)\n"))
        #expect(advice.contains("--config '/home/my b/gateway.yaml'    (process 3)\n"))
    }

    @Test func aUnitASessionAndAUserEachHaveAFolder() {
        let unit = ConfigLocator.folders(runtimeDirectory: "/run/authgateway:/run/x", sessionDirectory: nil, user: 61)
        #expect(unit == ["/run/authgateway", "/tmp/authgateway-61"])
        let session = ConfigLocator.folders(runtimeDirectory: nil, sessionDirectory: "/run/user/61", user: 61)
        #expect(session == ["/run/user/61/authgateway", "/tmp/authgateway-61", "/run/authgateway"])
        let root = ConfigLocator.folders(runtimeDirectory: "", sessionDirectory: "relative", user: 0)
        #expect(root == ["/run/authgateway"])
    }
}
