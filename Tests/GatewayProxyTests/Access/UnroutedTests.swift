import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Servers without a route", .timeLimit(.minutes(5)))
struct UnroutedTests {
    private static let address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)

    private static func plan(
        _ allow: [String] = [],
        ports: [Int] = [443],
        unrouted: ConnectPlan.Unrouted = .tunnel
    ) -> ConnectPlan {
        ConnectPlan(unrouted: unrouted, allow: allow.compactMap { ConnectPlan.Destination($0) }, ports: ports)
    }

    private func connect(
        _ target: String,
        _ plan: ConnectPlan,
        clients: [String] = [],
        fields: String = ""
    ) -> RequestAuthorizer.ConnectDecision? {
        AuthorizerFixture([AuthorizerFixture.route("open")], clients: clients, connect: [Self.address: plan])
            .connect("CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(fields)\r\n", at: Self.address)
    }

    private func destination(_ target: String, _ plan: ConnectPlan) -> TunnelDestination? {
        guard case .tunnel(let destination)? = connect(target, plan) else { return nil }
        return destination
    }

    private func problem(_ decision: RequestAuthorizer.ConnectDecision?) -> GatewayProblem? {
        guard case .refused(let refusal)? = decision else { return nil }
        return refusal.problem
    }

    // MARK: Before names are looked up

    /// What its addresses would decide is decided by nobody, so names alone count.
    @Test(
        arguments: [
            ("other.example:443", [], true), ("a.corp.example:443", ["*.corp.example"], true),
            ("other.example:443", ["10.0.0.0/8"], false), ("other.example:443", ["10.0.0.0/8", "*"], true),
            ("10.1.2.3:443", ["10.0.0.0/8"], true), ("localhost:443", [], false), ("a.localhost:443", ["*"], false),
            ("localhost:443", ["localhost"], true), ("127.1:443", [], false), ("2130706433:443", ["*"], false),
            ("0x7f.0x1:443", [], false), ("a.0:443", ["*"], false), ("0xample.com:443", [], true),
            ("ip6-localhost:443", [], false), ("intranet.:443", ["*"], false), ("intranet:443", ["intranet"], true),
            ("localhost.localdomain:443", [], false),
        ] as [(String, [String], Bool)]
    )
    func aProxyIsAskedForNames(_ target: String, _ allow: [String], _ isAsked: Bool) throws {
        let server = try #require(destination(target, Self.plan(allow)))
        #expect((server.refusalByProxy == nil) == isAsked)
        #expect(server.admits(.byProxy) == isAsked)
    }

    @Test func aTunnelThatComesBackIsRefused() {
        let own = "Via: 1.1 other, 1.1 authgateway\r\n"
        #expect(problem(connect("other.example:443", Self.plan(), fields: own))?.kind == .loop)
        guard
            case .tunnel(let server)? = connect(
                "other.example:443",
                Self.plan(),
                fields: "Via: 1.1 a\r\nVia: 1.0 b\r\n"
            )
        else {
            Issue.record("no tunnel")
            return
        }
        #expect(server.via == "1.1 a, 1.0 b")
    }

    @Test(
        arguments: [
            ("other.example:443", [], nil), ("other.example:8443", [], "connect.ports"),
            ("127.0.0.1:443", [], "not public"),
            ("[::1]:443", [], "not public"), ("[::ffff:10.0.0.1]:443", [], "not public"),
            ("93.184.216.34:443", [], nil),
            ("a.corp.example:443", ["*.corp.example"], nil), ("corp.example:443", ["*.corp.example"], "connect.allow"),
            ("a.corp.example.evil:443", ["*.corp.example"], "connect.allow"),
            ("A.Corp.example.:443", ["*.corp.EXAMPLE"], nil),
            ("evilcorp.example:443", ["corp.example"], "connect.allow"), ("corp.example:443", ["corp.example"], nil),
            // Its addresses decide.
            ("other.example:443", ["10.0.0.0/8"], nil), ("10.1.2.3:443", ["10.0.0.0/8"], nil),
            ("[0:0:0:0:0:0:0:1]:443", ["::1"], nil), ("93.184.216.34:443", ["10.0.0.0/8"], "not public"),
            ("other.example:443", ["*", "10.0.0.1"], nil),
        ] as [(String, [String], String?)]
    )
    func aServerIsNamedOrPublic(_ target: String, _ allow: [String], _ advice: String?) {
        let problem = problem(connect(target, Self.plan(allow)))
        #expect((problem == nil) == (advice == nil), "\(problem?.detail ?? "taken")")
        if let advice { #expect(problem?.detail.contains(advice) == true) }
    }

    @Test func withoutTunnelsThereIsNoRoute() {
        let problem = problem(connect("other.example:443", Self.plan(unrouted: .refuse)))
        #expect(problem?.kind == .noRoute && problem?.detail.contains("Add one") == true)
    }

    @Test func aServerWithARouteIsIntercepted() {
        guard case .intercept? = connect("up.example:443", Self.plan(["*"])) else {
            Issue.record("it was not")
            return
        }
    }

    @Test func theClientProvesItself() {
        let plan = Self.plan()
        #expect(problem(connect("other.example:443", plan, clients: ["laptop"]))?.kind == .proxyAuthRequired)
        let proof = "Proxy-Authorization: Bearer laptop-token\r\n"
        guard case .tunnel(let tunnel)? = connect("other.example:443", plan, clients: ["laptop"], fields: proof) else {
            Issue.record("it was refused")
            return
        }
        #expect(tunnel.client == "laptop")
    }

    // MARK: Addresses

    @Test(
        arguments: [
            ([], "93.184.216.34", true), ([], "127.0.0.1", false), ([], "10.0.0.1", false),
            ([], "::ffff:127.0.0.1", false),
            ([], "64:ff9b::10.0.0.1", false), (["other.example"], "10.0.0.1", true),
            (["other.example"], "127.0.0.1", true),
            // The owner of a name below it says what it leads to.
            (["*.example"], "10.0.0.1", false), (["*.example"], "93.184.216.34", true), (["*"], "127.0.0.1", false),
            (["10.0.0.0/8"], "10.0.0.1", true), (["10.0.0.0/8"], "93.184.216.34", false),
            (["*", "10.0.0.1"], "10.0.0.1", true),
            (["*", "10.0.0.1"], "10.0.0.2", false), (["*", "10.0.0.1"], "93.184.216.34", true),
        ] as [([String], String, Bool)]
    )
    func theAddressThatIsDialledIsJudged(_ allow: [String], _ address: String, _ isAdmitted: Bool) throws {
        let server = try #require(destination("other.example:443", Self.plan(allow)))
        #expect(server.admits(try #require(IPAddress(address)), isOwn: false) == isAdmitted)
    }

    @Test func anAddressOfThisMachineIsDialledWhereItIsNamedOnly() throws {
        let own = try #require(IPAddress("93.184.216.34"))
        let unnamed = try #require(destination("other.example:443", Self.plan()))
        #expect(!unnamed.admits(own, isOwn: true))
        for allow in ["other.example", "93.184.216.34"] {
            let named = try #require(destination("other.example:443", Self.plan([allow])))
            #expect(named.admits(own, isOwn: true))
        }
    }

    // MARK: Reload

    @Test(
        arguments: [
            (plan(), true), (plan(unrouted: .refuse), false), (plan(["more.example"]), false),
            (plan(["*.example"]), true),
            (plan(ports: [8443]), false), (plan(["10.0.0.0/8"]), false), (plan(["93.184.216.0/24"]), true),
        ] as [(ConnectPlan, Bool)]
    )
    func aTunnelEndsWithItsRight(_ plan: ConnectPlan, _ isAdmitted: Bool) throws {
        var tunnel = try #require(destination("other.example:443", Self.plan()))
        tunnel.dialled = TunnelDestination.Dialled(address: try #require(IPAddress("93.184.216.34")), isOwn: false)
        let listener = ConnectionContext(reach: .loopback, port: 8080, intercepts: true, address: Self.address)
        let new = AuthorizerFixture([AuthorizerFixture.route("open")], connect: [Self.address: plan])
        #expect(new.authorizer.stillAdmits(tunnel, on: listener) == isAdmitted)
        let without = AuthorizerFixture([AuthorizerFixture.route("open")])
        #expect(!without.authorizer.stillAdmits(tunnel, on: listener), "its listener is gone")
        let known = AuthorizerFixture(
            [AuthorizerFixture.route("open")],
            clients: ["new"],
            connect: [Self.address: plan]
        )
        #expect(!known.authorizer.stillAdmits(tunnel, on: listener), "clients have to prove themselves now")
    }

    // MARK: Words of the configuration

    @Test(arguments: [
        "127.1", "2130706433", "0x7f.1", "api.example.com:443", "https://a.example", "*.*.example", "a*", "", "*.",
        "10.0.0.1/8",
    ])
    func isNoDestination(_ text: String) { #expect(ConnectPlan.Destination(text) == nil) }

    @Test(arguments: ["api.example.com", "*.example.com", "*", "10.0.0.0/8", "192.0.2.7", "::1", "localhost"])
    func isADestination(_ text: String) { #expect(ConnectPlan.Destination(text)?.description == text) }
}
