import GatewayConfiguration
import GatewayEvents
import GatewayProxy
import Testing

@testable import GatewayApp

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

    @Test func gatewaysOfOtherUsersAreNamedByTheirAdminListener() {
        let places = Gateway.Places(admin: "http://127.0.0.1:8081", audit: "/a", key: nil)
        let shared = Gateway(process: 9, configuration: "/x.yaml", stateDirectory: "/x", places: places)
        #expect(
            ConfigLocator.advice(onShared: [shared, shared]) == """
                2 gateways of other users run here; say which one is meant:
                  --admin http://127.0.0.1:8081    (process 9)
                  --admin http://127.0.0.1:8081    (process 9)

                """
        )
    }

    @Test(
        arguments: [
            (nil, 1000, nil, false), (1000, 1000, nil, false), (0, 1000, nil, false), (1001, 1000, nil, true),
            // Who became root with sudo has a folder, too.
            (1001, 1000, 1001, true), (1000, 0, nil, true), (1000, 0, 1000, false), (1001, 0, 1000, true),
        ] as [(UInt32?, UInt32, UInt32?, Bool)]
    )
    func aFoundConfigurationOfAnotherUserIsRefused(
        _ owner: UInt32?,
        _ user: UInt32,
        _ invoker: UInt32?,
        _ isRefused: Bool
    ) {
        let refusal = ConfigLocator.refusal(of: "/x/gateway.yaml", owner: owner, user: user, invoker: invoker)
        #expect((refusal != nil) == isRefused)
        guard let refusal, let owner else { return }
        #expect(refusal.hasPrefix("/x/gateway.yaml belongs to another user (\(owner))"))
        #expect(refusal.hasSuffix("--config gateway.yaml"))
    }

    // MARK: Without a configuration that can be read

    private static func plan(_ admin: String) -> OperatorPlan? {
        let places = Gateway.Places(admin: admin, audit: "/var/a/audit.sqlite", key: "/var/a/token.key")
        return OperatorPlan(
            Gateway(process: 7, configuration: "/etc/a/gateway.yaml", stateDirectory: "/var/a", places: places)
        )
    }

    @Test func aRecordIsEnoughToAskTheGateway() throws {
        let plan = try #require(Self.plan("http://127.0.0.1:8081"))
        #expect(plan.admin.address == .tcp(host: "127.0.0.1", port: 8081))
        #expect(plan.stateDirectory == "/var/a" && plan.audit.path == "/var/a/audit.sqlite")
        #expect(plan.tokens.key == .file(path: "/var/a/token.key"))
        let socket = try #require(Self.plan("unix:/var/a/admin.sock"))
        #expect(socket.admin.address == .unix(path: "/var/a/admin.sock", allowedUsers: []))
        #expect(OperatorPlan(Self.etc) == nil, "of an earlier version")
    }

    @Test(arguments: [
        "http://192.0.2.1:8081", "http://gateway.example.com:8081", "http://x.localhost:8081", "http://", "unix:",
        "https://127.0.0.1:8081", "127.0.0.1:8081", "", "unix:/\(String(repeating: "a", count: 103))",
    ])
    func otherAddressesAreNotOfThisMachine(_ text: String) {
        #expect(ListenerPlan.Address(localAdmin: text) == nil)
        #expect(Self.plan(text) == nil)
    }

    @Test(arguments: [("http://localhost:1/", "localhost", 1), ("HTTP://[::1]:65535", "::1", 65535)])
    func loopbackHasSeveralNames(_ text: String, _ host: String, _ port: Int) {
        #expect(ListenerPlan.Address(localAdmin: text) == .tcp(host: host, port: port))
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
