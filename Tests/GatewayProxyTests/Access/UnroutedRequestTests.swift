import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Plain requests to servers without a route", .timeLimit(.minutes(5)))
struct UnroutedRequestTests {
    private static let address = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8080)

    private func passed(
        _ url: String,
        _ allow: [String] = [],
        ports: [Int] = [443],
        clients: [String] = [],
        fields: String = ""
    ) -> UnroutedRequest? {
        let decision = decide(url, allow, ports: ports, clients: clients, fields: fields)
        switch consume decision {
        case .unrouted(let unrouted)?: return unrouted
        case .refused(let refusal)?: Issue.record("\(refusal.problem.detail)")
        default: Issue.record("it is not judged as a request without a route")
        }
        return nil
    }

    private func refusal(
        _ url: String,
        _ allow: [String] = [],
        unrouted: ConnectPlan.Unrouted = .tunnel,
        ports: [Int] = [443],
        clients: [String] = [],
        fields: String = ""
    ) -> GatewayProblem? {
        let decision = decide(url, allow, unrouted: unrouted, ports: ports, clients: clients, fields: fields)
        switch consume decision {
        case .refused(let refusal)?: return refusal.problem
        default: return nil
        }
    }

    private func decide(
        _ url: String,
        _ allow: [String] = [],
        unrouted: ConnectPlan.Unrouted = .tunnel,
        ports: [Int] = [443],
        clients: [String] = [],
        fields: String = "",
        hosts: [String] = ["up.example"]
    ) -> RequestAuthorizer.Decision? {
        let plan = ConnectPlan(
            unrouted: unrouted,
            allow: allow.compactMap { ConnectPlan.Destination($0) },
            ports: ports
        )
        let routes = hosts.enumerated().map { index, host in
            var route = AuthorizerFixture.route("open\(index)")
            route.upstream = Origin(scheme: .https, host: host, port: 443)
            return route
        }
        return AuthorizerFixture(routes, clients: clients, connect: [Self.address: plan])
            .decide("GET \(url) HTTP/1.1\r\nHost: \(url.split(separator: "/")[1])\r\n\(fields)\r\n", at: Self.address)
    }

    @Test(arguments: [
        ("http://other.example/a", "http://other.example"), ("http://Other.Example:80/", "http://other.example"),
        ("http://other.example:8443/", "http://other.example:8443"),
        ("http://93.184.216.34/", "http://93.184.216.34"),
        ("http://[2606:2800:220:1:0::1946]/", "http://[2606:2800:220:1::1946]"),
        // Another server than that of the route.
        ("http://up.example:8443/", "http://up.example:8443"),
    ])
    func oneThatMayBeReachedIsPassed(_ url: String, _ origin: String) throws {
        let unrouted = try #require(passed(url, ports: [443, 8443]))
        #expect(unrouted.server.plainOrigin.description == origin)
        #expect(unrouted.admitted.client == nil && unrouted.admitted.chosen == nil && unrouted.admitted.route == nil)
    }

    @Test(
        arguments: [
            ("http://other.example:9090/", [], ProblemKind.loop, "already passed"),
            ("http://other.example:81/", [], .noRoute, "http://other.example:81. Port 81 is not among connect.ports"),
            ("http://more.example/", ["other.example"], .noRoute, "connect.allow"),
            ("http://10.0.0.1/", [], .destinationProhibited, "not public"),
            ("http://[::ffff:10.0.0.1]/", ["*"], .destinationProhibited, "not public"),
            ("http://169.254.169.254/latest", ["*"], .destinationProhibited, "not public"),
            ("https://other.example/", [], .misdirected, "own address"),
            // What a route is for is not passed without its credential.
            ("http://up.example:80/", [], .misdirected, "own address"),
        ] as [(String, [String], ProblemKind, String)]
    )
    func anotherIsRefused(_ url: String, _ allow: [String], _ kind: ProblemKind, _ words: String) throws {
        let isOfThisGateway = kind == .loop
        let problem = try #require(
            refusal(
                url,
                allow,
                ports: isOfThisGateway ? [9090] : [443],
                fields: isOfThisGateway ? "Via: 1.1 authgateway\r\n" : ""
            )
        )
        #expect(problem.kind == kind && problem.detail.contains(words), "\(problem)")
    }

    @Test func withoutTunnelsNothingPasses() throws {
        let problem = try #require(refusal("http://other.example/", unrouted: .refuse))
        #expect(problem.kind == .misdirected)
    }

    @Test func clientsOfHTTP2AreToldToUseHTTP1() throws {
        let fields = "Proxy-Authorization: Bearer laptop-token\r\n"
        let refusal = try #require(passed("http://other.example/", clients: ["laptop"], fields: fields)).refusalInHTTP2
        #expect(refusal.problem.kind == .misdirected && refusal.problem.detail.contains("HTTP/1.1"))
        #expect(refusal.client == "laptop" && refusal.route == nil)
    }

    @Test func theClientProvesItself() throws {
        let url = "http://other.example/"
        #expect(refusal(url, clients: ["laptop"])?.kind == .proxyAuthRequired)
        let proof = "Proxy-Authorization: Bearer laptop-token\r\nAuthorization: Bearer of-the-server\r\n"
        let proven = try #require(passed(url, clients: ["laptop"], fields: proof))
        #expect(proven.server.client == "laptop" && !proven.admitted.tokenPlaces.hasAuthorization)
        // The token of the gateway is not for that server.
        let own = try #require(
            passed(url, clients: ["laptop"], fields: "Authorization: Bearer laptop-token\r\n")
        )
        #expect(own.admitted.client == "laptop" && own.admitted.tokenPlaces.hasAuthorization)
    }

    @Test func aReloadJudgesTheAddress() throws {
        var server = try #require(passed("http://other.example/")?.server)
        let now = try #require(passed("http://other.example/", ["*.example"])?.server)
        #expect(!server.stillAdmitted(by: now), "it is not known where it leads")
        server.dialled = TunnelDestination.Dialled(address: try #require(IPAddress("93.184.216.34")), isOwn: false)
        #expect(server.stillAdmitted(by: now))
        let network = try #require(passed("http://other.example/", ["10.0.0.0/8"])?.server)
        #expect(!server.stillAdmitted(by: network))
        let known = try #require(
            passed("http://other.example/", clients: ["a"], fields: "Proxy-Authorization: Bearer a-token\r\n")?.server
        )
        #expect(!server.stillAdmitted(by: known), "it is another client's")
    }

    // MARK: Spellings of an address

    private static let long = "0:0:0:0:0:0:0:1"

    @Test(arguments: [
        ("::1", "::1"), (long, "::1"), ("::1", long), ("::1", "0000::0001"), ("2001:DB8::1", "2001:db8:0::1"),
    ])
    func anAddressOfVersion6IsTheSameInEachSpelling(_ upstream: String, _ asked: String) throws {
        var route = AuthorizerFixture.route("open")
        route.upstream = Origin(scheme: .https, host: upstream, port: 443)
        let fixture = AuthorizerFixture([route])
        guard
            case .intercept(let origin)? = fixture.connect(
                "CONNECT [\(asked)]:443 HTTP/1.1\r\nHost: [\(asked)]:443\r\n\r\n"
            )
        else {
            Issue.record("it is not intercepted")
            return
        }
        for name in [asked, upstream, origin.host] {
            let decision = fixture.decide("GET / HTTP/1.1\r\nHost: [\(name)]\r\n\r\n", inPlaceOf: origin)
            guard case .admitted? = consume decision else {
                Issue.record("\(name) is not admitted")
                return
            }
        }
        let plain = fixture.admission("GET http://[\(asked)]/ HTTP/1.1\r\nHost: [\(asked)]\r\n\r\n", on: .loopback)
        #expect(plain?.match == .upstream(0))
    }

    @Test func anAllowedAddressIsTheSameInEachSpelling() throws {
        for (allow, asked) in [("::1", Self.long), (Self.long, "::1")] {
            let server = passed("http://[\(asked)]:8443/", [allow], ports: [8443])?.server
            #expect(server?.host == "::1" && server?.authority == "[::1]:8443")
        }
    }

    @Test(arguments: [
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"), ("a.example", "a.example"), ("fe80::1", "fe80::1"), (long, "::1"),
        ("1:2:3:4:5:6:7:0", "1:2:3:4:5:6:7:0"), ("not::an::address", "not::an::address"),
    ])
    func aHostName(_ host: String, _ name: String) { #expect(IPAddress.hostName(host) == name) }
}
