import GatewayConfiguration
import GatewayHTTP
import Testing

@testable import GatewayProxy

/// The trace of an authorizer says why each other route lost.
@Suite("Route losses", .timeLimit(.minutes(5)))
struct RouteLossTests {
    private static func route(
        _ name: String,
        path: String? = nil,
        hosts: [String]? = nil,
        upstream: String = "up.example",
        base: String = ""
    ) -> RoutePlan {
        RoutePlan(
            name: name,
            upstream: Origin(scheme: .https, host: upstream, port: 443),
            upstreamPath: base,
            matchPath: path ?? "/\(name)",
            matchHosts: hosts ?? ["\(name).localhost"],
            matchesUpstreamHost: upstream != "up.example",
            credential: nil,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    private static let routes = [
        route("box"), route("deep", path: "/box/deep"), route("root", path: "/"),
        route("wild", hosts: ["*.example.com", "*.b.example.com"]), route("exact", hosts: ["a.example.com"]),
        route("v1", hosts: ["shared.example"]), route("v2", hosts: ["shared.example"]),
        route("deepv1", path: "/v1/deep", hosts: ["shared.example"]),
        route("own", hosts: [], upstream: "own.example"),
        route("ownbase", hosts: [], upstream: "own.example", base: "/base"),
    ]

    /// What lost for another reason than that neither host nor path is its own.
    private static func near(_ target: String, host: String, _ routes: [RoutePlan] = routes) -> [String: RouteLoss
        .Reason]
    {
        let trace = AuthorizerFixture(routes).trace("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n", routes: routes)
        let losses = trace?.otherRoutes.filter(\.isNear) ?? []
        return Dictionary(uniqueKeysWithValues: losses.map { ($0.name, $0.reason) })
    }

    @Test func allOthersAreNamedOnce() {
        let trace = AuthorizerFixture(Self.routes)
            .trace("GET /box HTTP/1.1\r\nHost: localhost\r\n\r\n", routes: Self.routes)
        #expect(trace?.otherRoutes.map(\.name) == Self.routes.map(\.name).filter { $0 != "box" })
    }

    @Test func aLongerPathWins() {
        #expect(Self.near("/box/deep/x", host: "localhost") == ["box": .longerPath, "root": .longerPath])
        #expect(Self.near("/other", host: "localhost").isEmpty)
    }

    @Test func aHostWinsOverAPath() {
        #expect(
            Self.near("/box", host: "a.example.com")
                == ["box": .hostDecides, "root": .hostDecides, "wild": .specificHost("a.example.com")]
        )
        #expect(Self.near("/x", host: "c.b.example.com") == ["root": .hostDecides])
    }

    @Test func thePathChoosesAmongThoseThatShareAHost() {
        #expect(
            Self.near("/v1/deep/x", host: "shared.example")
                == ["v1": .longerPath, "v2": .sharedHost, "root": .hostDecides]
        )
        // None of their paths fits: the path on any host counts.
        #expect(
            Self.near("/x", host: "shared.example")
                == ["v1": .sharedHost, "v2": .sharedHost, "deepv1": .sharedHost]
        )
    }

    @Test func anAbsoluteTargetNamesAnUpstream() {
        #expect(Self.near("http://own.example/base/x", host: "own.example") == ["own": .nearerUpstream])
        #expect(Self.near("http://own.example/x", host: "own.example").isEmpty)
        let shared = Self.near("http://up.example/x", host: "up.example")
        #expect(shared["box"] == .sharedUpstream && shared["own"] == nil)
    }

    /// What is said to be near would have been found without the others; what is not would not.
    @Test func whatIsNearWouldBeFoundAlone() {
        let hosts = [
            "localhost", "box.localhost", "a.example.com", "x.b.example.com", "shared.example", "other.example",
        ]
        let paths = ["/", "/box", "/boxer", "/box/deep/1", "/v1/x", "/v1/deep", "/v2", "/wild", "/x"]
        for host in hosts {
            for path in paths {
                let request = "GET \(path) HTTP/1.1\r\nHost: \(host)\r\n\r\n"
                let trace = AuthorizerFixture(Self.routes).trace(request, on: .network, routes: Self.routes)
                for loss in trace?.otherRoutes ?? [] {
                    let alone = AuthorizerFixture([Self.routes[loss.route]])
                    let reasons = alone.trace(request, on: .network, routes: [])?.reasons ?? []
                    #expect(reasons.contains(.routeNotFound) != loss.isNear, "\(host) \(path): \(loss)")
                }
            }
        }
    }

    @Test func nothingIsComparedWithoutAQuestion() {
        let trace = AuthorizerFixture(Self.routes)
            .trace("GET /box HTTP/1.1\r\nHost: localhost\r\n\r\n", routes: [])
        #expect(trace?.otherRoutes.isEmpty == true)
        #expect(trace?.reasons.first == .routeFound(name: "box", by: "path"))
    }

    // MARK: Rules and clients

    @Test func rulesSayWhatTheyLack() throws {
        var route = Self.route("box")
        route.allow = [
            RoutePlan.Allow(methods: ["GET"], path: try #require(PathPattern("/a/**"))),
            RoutePlan.Allow(methods: [], path: try #require(PathPattern("/b"))),
            RoutePlan.Allow(methods: ["PUT"], path: try #require(PathPattern("/c"))),
        ]
        let fixture = AuthorizerFixture([route])
        let misses = fixture.trace("POST /box/a/1 HTTP/1.1\r\nHost: localhost\r\n\r\n", routes: [route])?.ruleMisses
        #expect(misses?.map(\.rule) == ["GET /a/**", "any method /b", "PUT /c"])
        #expect(misses?.map(\.takesMethod) == [false, true, false])
        #expect(misses?.map(\.takesPath) == [true, false, false])
        let passes = fixture.trace("GET /box/a/1 HTTP/1.1\r\nHost: localhost\r\n\r\n", routes: [route])
        #expect(passes?.ruleMisses.isEmpty == true && passes?.reasons.contains(.allowedByRule(number: 1)) == true)
    }

    @Test func aClientCanBeAssumed() {
        var route = Self.route("box")
        route.clients = ["ci"]
        let request = "GET /box HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer dev-token\r\n\r\n"
        let fixture = AuthorizerFixture([route], clients: ["ci", "dev"])
        #expect(fixture.trace(request, routes: [route])?.reasons.last == .notAllowed)
        let assumed = fixture.trace(request, routes: [route], as: "ci")
        #expect(assumed?.reasons.last == .admitted)
        #expect(assumed?.reasons.contains(.client(name: "ci", presentedToken: true)) == true)
    }
}
