import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Links of upstreams", .timeLimit(.minutes(5)))
struct LinkRewriterTests {
    private static let gateway = "http://gw.example:8080/api"

    @Test(arguments: [
        ("https://up.example/v2/items/8", "\(gateway)/items/8"),
        ("https://up.example/v2", gateway), ("https://up.example/v2/", "\(gateway)/"),
        ("https://up.example/v2?page=2#end", "\(gateway)?page=2#end"),
        // Case of scheme and host; the default port; an empty one.
        ("HTTPS://UP.Example:443/v2/a", "\(gateway)/a"), ("https://up.example:/v2/a", "\(gateway)/a"),
        // Query, fragment and encodings stay as they are.
        (
            "https://up.example/v2/a%20b/%C3%A9?q=https://up.example/v2&x#y",
            "\(gateway)/a%20b/%C3%A9?q=https://up.example/v2&x#y"
        ),
        // Where clients and servers take it to lead.
        ("https://up.example/v1/../v2/./a", "\(gateway)/a"),
        ("//up.example/v2/a", "\(gateway)/a"),
        ("/v2/items/8", "/api/items/8"), ("/v2", "/api"), ("/v2/?a", "/api/?a"),
        // Out of what the route leads to: where the upstream said, and not to another route of the gateway.
        ("/v1/items", "https://up.example/v1/items"), ("/v2x", "https://up.example/v2x"),
        ("/v2/../v1", "https://up.example/v2/../v1"), ("//other.example/a", "https://other.example/a"),
        // Relative: within the route a client finds it by itself.
        ("8", "unchanged"), ("?page=2", "unchanged"), ("#part", "unchanged"), ("", "unchanged"),
        ("../", "/api/"), ("../../other", "https://up.example/v2/items/../../other"), ("./8?a", "/api/items/8?a"),
        // Of others, or what only looks like it.
        ("https://other.example/v2/a", "unchanged"), ("http://up.example/v2/a", "unchanged"),
        ("https://up.example:8443/v2/a", "unchanged"), ("https://up.example/v2x", "unchanged"),
        ("https://up.example.evil.example/v2/a", "unchanged"), ("https://up.example/v2/%2e%2e/a", "unchanged"),
        ("https://user:password@up.example/v2/a", "unchanged"), ("https://up.example@evil.example/v2", "unchanged"),
        ("ftp://up.example/v2/a", "unchanged"), ("mailto:a@up.example", "unchanged"),
        // Never twice.
        ("\(gateway)/items/8", "unchanged"), ("HTTP://GW.example:8080/api?x", "unchanged"),
        ("//gw.example:8080/api/a", "unchanged"), ("/api/items/8", "unchanged"), ("/api", "unchanged"),
        // Malformed.
        ("https:/v2/a", "unchanged"), ("https:v2", "unchanged"), ("https://up.example/v2/a b", "unchanged"),
        ("https:\\\\up.example\\v2", "unchanged"), ("1:2", "unchanged"), ("https://up.example:x/v2", "unchanged"),
        ("https://[::1/v2", "unchanged"), ("/v2/<a>", "unchanged"),
    ])
    func aLocationLeadsToTheGateway(_ value: String, _ expected: String) {
        #expect(LinkFixture().location(value) == expected)
        #expect(LinkFixture().field("Content-Location", value) == expected)
        guard expected != "unchanged", expected.hasPrefix(Self.gateway) else { return }
        #expect(LinkFixture().location(expected) == "unchanged")
    }

    @Test func thePathOfTheRouteIsTheBaseOfWhatIsRelative() {
        var fixture = LinkFixture([LinkFixture.route("api")])
        fixture.line = "GET /api HTTP/1.1"
        #expect(fixture.location("items") == "/api/items")
        #expect(fixture.location("../items") == "/api/items")
        fixture.line = "GET /api/a/b HTTP/1.1"
        #expect(fixture.location("../../../items") == "/api/items")
    }

    @Test(arguments: [
        // A longer prefix of another route with another credential.
        ("https://up.example/inner/a", "unchanged"), ("/inner/a", "https://up.example/inner/a"),
        ("/inner/../a", "/api/a"),
        ("/innermost", "/api/innermost"),
        // Where it begins as a route's path does, it is still the upstream's path.
        ("/other/a", "/api/other/a"), ("https://other.example/a", "unchanged"),
        ("https://twin.example/a", "http://gw.example:8080/twin/a"),
        ("https://someone.example/a", "unchanged"),
    ])
    func aLinkLeadsToRoutesWithTheSameCredentialOnly(_ value: String, _ expected: String) {
        let routes = [
            LinkFixture.route("api"),
            LinkFixture.route("inner", at: "inner.example", path: "/api/inner", credential: 1),
            LinkFixture.route("other", at: "other.example", credential: 1),
            LinkFixture.route("twin", at: "twin.example"),
            LinkFixture.route("someone", at: "someone.example", asUser: "42"),
        ]
        #expect(LinkFixture(routes).location(value) == expected)
    }

    /// The client's own Authorization goes upstream there.
    @Test func withoutACredentialALinkLeadsToItsOwnRouteOnly() {
        let routes = [
            LinkFixture.route("api", credential: nil), LinkFixture.route("twin", at: "twin.example", credential: nil),
        ]
        #expect(LinkFixture(routes).location("https://up.example/a") == "http://gw.example:8080/api/a")
        #expect(LinkFixture(routes).location("https://twin.example/a") == "unchanged")
    }

    @Test func theLongestBasePathWinsThenTheOwnRoute() {
        let routes = [
            LinkFixture.route("v1", base: "/v1"), LinkFixture.route("api"), LinkFixture.route("all"),
        ]
        #expect(LinkFixture(routes).location("https://up.example/v1/a") == "http://gw.example:8080/v1/a")
        #expect(LinkFixture(routes).location("https://up.example/v3/a") == "http://gw.example:8080/api/v3/a")
    }

    /// The routes are beside one another: a server that decodes first reads the path of the other one.
    @Test func anEncodedSlashStaysUnlessItLeadsToAnotherRoute() {
        let routes = [
            LinkFixture.route("api"),
            LinkFixture.route("inner", at: "inner.example", path: "/api/inner", credential: 1),
        ]
        #expect(LinkFixture(routes).location("https://up.example/a%2Fb%2Etxt") == "\(Self.gateway)/a%2Fb%2Etxt")
        #expect(LinkFixture(routes).destination("\(Self.gateway)/a%2Fb%2Etxt") == "https://up.example/a%2Fb%2Etxt")
        for path in ["inner%2Fa", "x/..%2Fa", "x%2F..", "%252e%252e/a"] {
            #expect(LinkFixture(routes).location("https://up.example/\(path)") == "unchanged", "\(path)")
            #expect(LinkFixture(routes).destination("\(Self.gateway)/\(path)") == "unchanged", "\(path)")
        }
    }

    /// Two slashes in front name another server.
    @Test func noLinkBecomesOneToAnotherServer() {
        var fixture = LinkFixture([LinkFixture.route("api", base: "/base", path: "/")])
        fixture.line = "GET /a HTTP/1.1"
        for value in ["/base//evil.example/y", "https://up.example/base//evil.example/y", "/base/.//evil.example"] {
            let found = fixture.location(value)
            #expect(found == "unchanged" || found?.hasPrefix("https://up.example/base/") == true, "\(value)")
        }
        let destination = fixture.destination("http://gw.example:8080//evil.example/x")
        #expect(destination?.hasPrefix("//") != true)
    }

    @Test func thePublicURLNamesTheGateway() {
        var fixture = LinkFixture()
        fixture.publicURL = GatewayURL(
            origin: Origin(scheme: .https, authority: "front.example"),
            path: Array("/gw".utf8)
        )
        #expect(fixture.location("https://up.example/v2/a") == "https://front.example/gw/api/a")
        #expect(fixture.location("/v2/a") == "/gw/api/a")
        #expect(fixture.location("https://front.example/gw/api/a") == "unchanged")
        #expect(fixture.location("/gw/api/a") == "unchanged")
        #expect(fixture.destination("https://front.example/gw/api/a") == "https://up.example/v2/a")
        #expect(fixture.destination("https://front.example/api/a") == "unchanged")
        #expect(fixture.destination("http://gw.example:8080/api/a") == "unchanged")
    }

    /// The proxy before the gateway passes the name on by which the route is found.
    @Test func theHostOfARouteIsWhatClientsSeeOfIt() {
        var fixture = LinkFixture([LinkFixture.route("api", hosts: ["api.example"])])
        (fixture.line, fixture.host) = ("GET /items HTTP/1.1", "api.example")
        fixture.publicURL = GatewayURL(
            origin: Origin(scheme: .https, authority: "front.example"),
            path: Array("/gw".utf8)
        )
        #expect(fixture.location("https://up.example/a") == "https://api.example/a")
        #expect(fixture.destination("https://api.example/a") == "https://up.example/a")
        #expect(fixture.destination("https://front.example/gw/a") == "unchanged")
    }

    @Test func theSchemeIsTheListeners() {
        var fixture = LinkFixture()
        (fixture.isTLS, fixture.host) = (true, "gw.example")
        #expect(fixture.location("https://up.example/v2/a") == "https://gw.example/api/a")
    }

    @Test func withoutAHostThePathIsEnough() {
        var fixture = LinkFixture()
        (fixture.line, fixture.host) = ("GET /api/a HTTP/1.0", "")
        #expect(fixture.location("https://up.example/v2/a") == "/api/a")
    }

    @Test func aRouteByHostHasNoPrefix() {
        var fixture = LinkFixture([
            LinkFixture.route("api", base: "/v2"), LinkFixture.route("twin", at: "twin.example"),
        ])
        (fixture.line, fixture.host) = ("GET /items HTTP/1.1", "api.localhost:8080")
        #expect(fixture.location("https://up.example/v2/a") == "http://api.localhost:8080/a")
        #expect(fixture.location("/v2/a") == "/a")
        #expect(fixture.location("http://api.localhost:8080/a") == "unchanged")
        // There, the path of the twin is this route's.
        #expect(fixture.location("https://twin.example/a") == "unchanged")
        #expect(fixture.destination("http://api.localhost:8080/a") == "https://up.example/v2/a")
    }

    @Test(
        arguments: [
            ("path", true, false, false), ("true", true, true, false), ("false", false, false, false),
        ] as [(String, Bool, Bool, Bool)]
    )
    func aRouteSaysWhenItsLinksAreRewritten(_ setting: String, _ path: Bool, _ host: Bool, _ upstream: Bool) {
        var route = LinkFixture.route("api")
        route.rewritesLinks = setting == "path" ? nil : setting == "true"
        #expect(route.rewritesLinks(.path(0)) == path)
        #expect(route.rewritesLinks(.host(0)) == host)
        #expect(route.rewritesLinks(.upstream(0)) == upstream)
    }

    // MARK: Destination

    @Test(arguments: [
        ("\(gateway)/a%20b?c", "https://up.example/v2/a%20b?c"), (gateway, "https://up.example/v2"),
        ("HTTP://GW.EXAMPLE:8080/api/a", "https://up.example/v2/a"), ("/api/a", "/v2/a"),
        ("\(gateway)/x/../a", "https://up.example/v2/a"),
        ("\(gateway)/../secret", "unchanged"), ("\(gateway)/%2e%2e/a", "unchanged"), ("\(gateway)x/a", "unchanged"),
        ("http://gw.example/api/a", "unchanged"), ("https://up.example/v2/a", "unchanged"), ("a", "unchanged"),
        ("//gw.example:8080/api/a", "unchanged"), ("http://u:p@gw.example:8080/api/a", "unchanged"), ("", "unchanged"),
        ("/other/a", "unchanged"), ("/twin/a", "https://twin.example/a"),
    ])
    func aDestinationIsTheUpstreams(_ value: String, _ expected: String) {
        let routes = [
            LinkFixture.route("api", base: "/v2"), LinkFixture.route("twin", at: "twin.example"),
            LinkFixture.route("other", at: "other.example", credential: 1),
        ]
        #expect(LinkFixture(routes).destination(value) == expected)
    }
}
