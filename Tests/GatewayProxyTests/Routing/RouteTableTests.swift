import Foundation
import GatewayConfiguration
import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct RouteTableTests {
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
            credential: nil,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    private let routes = [
        route("box"), route("boxer"), route("deep", path: "/box/deep"), route("root", path: "/"),
        route("wild", path: "/wild", hosts: ["*.example.com"]),
        route("exact", path: "/exact", hosts: ["api.example.com"]),
        route("v1", path: "/v1", hosts: ["shared.example"]), route("v2", path: "/v2", hosts: ["shared.example"]),
    ]

    private func find(_ host: String, _ path: String) -> String? {
        let bytes = Array((host + path).utf8)
        let match = RouteTable(routes)
            .find(bytes.span, host: 0..<host.utf8.count, path: host.utf8.count..<bytes.count)
        guard let match else { return nil }
        let name = routes[match.route].name
        if case .host = match { return "\(name), whole path" }
        return name
    }

    @Test(arguments: [
        ("localhost", "/box", "box"), ("localhost", "/box/", "box"), ("localhost", "/box/a", "box"),
        ("localhost", "/boxer/a", "boxer"), ("localhost", "/boxe", "root"), ("localhost", "/Box", "root"),
        ("localhost", "/box/deep/a", "deep"), ("localhost", "/box/deeper", "box"), ("localhost", "/", "root"),
        ("BOX.localhost", "/x", "box, whole path"), ("box.localhost", "/boxer", "box, whole path"),
        ("a.example.com", "/x", "wild, whole path"), ("a.b.example.com", "/x", "wild, whole path"),
        ("api.example.com", "/x", "exact, whole path"), ("example.com", "/x", "root"),
        ("shared.example", "/v1/x", "v1"), ("shared.example", "/v2", "v2"),
    ])
    func theMostSpecificRouteWins(_ host: String, _ path: String, _ name: String) {
        #expect(find(host, path) == name)
    }

    /// The table remembers which lengths its names have.
    @Test(arguments: [1, 2, 8, 62, 63, 64, 65, 100, 128])
    func aHostIsFoundWhateverItsLength(_ length: Int) {
        let name = String(repeating: "a", count: length)
        let table = RouteTable([Self.route("box", hosts: [name])])
        for other in [length - 1, length, length + 1, length + 64] {
            let host = Array(repeating: UInt8(ascii: "A"), count: other)
            #expect(table.knowsHost(host.span, host.indices) == (other == length), "\(other)")
        }
    }

    /// Numbers of routes around powers of two: where segments share a place in the table, each still finds its own.
    @Test(arguments: [1, 2, 3, 4, 63, 64, 65, 1000, 1024])
    func everyOneOfManyRoutesIsFound(_ count: Int) {
        let routes = (0..<count).flatMap { number in
            [Self.route("r\(number)"), Self.route("r\(number)-deep", path: "/r\(number)/deep")]
        }
        let table = RouteTable(routes)
        func find(_ path: String) -> String? {
            let bytes = Array(path.utf8)
            return table.find(bytes.span, host: 0..<0, path: 0..<bytes.count).map { routes[$0.route].name }
        }
        for number in 0..<count {
            #expect(find("/r\(number)/x") == "r\(number)" && find("/r\(number)/deep/x") == "r\(number)-deep")
            #expect(find("/R\(number)") == nil && find("/q\(number)") == nil)
        }
        #expect(find("/") == nil && find("/r\(count)") == nil)
    }

    /// Of several prefixes in one segment the longest that fits counts, whatever stands beside them in the table.
    @Test func eachPrefixEndsWhereItEnds() {
        let paths = ["/a", "/a/bc", "/a/b", "/ab", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", "/b/a", "/b"]
        let routes = paths.map { Self.route($0, path: $0, hosts: []) }
        let table = RouteTable(routes)
        func find(_ path: String) -> String? {
            let bytes = Array(path.utf8)
            return table.find(bytes.span, host: 0..<0, path: 0..<bytes.count).map { routes[$0.route].name }
        }
        for path in paths { #expect(find(path) == path && find("\(path)/") == path && find("\(path)/x") == path) }
        #expect(find("/a/bcd") == "/a" && find("/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o") == "/a/b" && find("/b/ab") == "/b")
        #expect(find("/abc") == nil && find("/") == nil && find("/c") == nil)
    }

    @Test func anAbsoluteTargetFindsTheUpstreamItNames() {
        let table = RouteTable([
            Self.route("one", upstream: "one.example"), Self.route("two", upstream: "two.example", base: "/v2"),
        ])
        func find(_ host: String, _ port: Int?, _ path: String) -> Int? {
            let bytes = Array((host + path).utf8)
            return table.findUpstream(
                bytes.span,
                scheme: .http,
                host: 0..<host.utf8.count,
                port: port,
                path: host.utf8.count..<bytes.count
            ).route
        }
        #expect(find("One.example", nil, "/x") == 0)
        #expect(find("one.example", 443, "/x") == 0)
        #expect(find("one.example", 80, "/x") == nil)
        #expect(find("two.example", nil, "/v2/x") == 1)
        #expect(find("two.example", nil, "/v22") == nil)
        #expect(find("three.example", nil, "/") == nil)
    }

    private static let absoluteTargets: [([String], String, Int?)] = [
        (["http://a:8000", "http://a:80"], "http://a/x", 1), (["http://a:8000", "http://a"], "http://a:8000/x", 0),
        (["http://a:8000/x/y", "http://a"], "http://a/x/y", 1),
        (["http://a:8000/x", "http://a:8001"], "http://a/x/y", 0),
        (["http://a:8000", "http://a:8001"], "http://a/x", nil), (["http://a:8000"], "http://a/x", 0),
        (["http://a:8000", "https://a"], "http://a/x", 1), (["https://a:8443", "https://a"], "https://a/x", 1),
        (["https://a:8443", "https://a:9443"], "http://a/x", nil), (["http://a", "https://a"], "http://a/x", 0),
        (["http://a", "https://a"], "https://a/x", 1), (["http://a:8000", "https://a:8000"], "http://a:8000/x", nil),
        (["http://a:8000", "https://a:8000"], "https://a:8000/x", 1), (["http://a:8000"], "https://a:8000/x", nil),
        (["http://a:8000"], "https://a/x", nil), (["https://a:8443"], "https://a/x", 0),
        (["http://a:1", "http://a:2", "http://a:3"], "http://a/x", nil),
    ]

    /// A target without a port names its scheme's; what it can mean besides is an `https` upstream, or the only port there is.
    @Test(arguments: absoluteTargets)
    func aTargetWithoutAPortGoesToNoneOfSeveral(_ upstreams: [String], _ target: String, _ route: Int?) throws {
        let routes = try upstreams.map { url in
            let url = try #require(URL(string: url))
            let scheme = try #require(Origin.Scheme(rawValue: url.scheme ?? ""))
            return RoutePlan(
                name: "r",
                upstream: Origin(scheme: scheme, host: url.host() ?? "", port: url.port ?? scheme.defaultPort),
                upstreamPath: url.path,
                matchPath: "/r",
                matchHosts: [],
                credential: nil,
                span: SourceSpan(file: 0, line: 1, column: 1)
            )
        }
        let asked = try #require(URL(string: target))
        let host = asked.host() ?? ""
        let bytes = Array((host + asked.path).utf8)
        let match = RouteTable(routes)
            .findUpstream(
                bytes.span,
                scheme: target.hasPrefix("https:") ? .https : .http,
                host: 0..<host.utf8.count,
                port: asked.port,
                path: host.utf8.count..<bytes.count
            )
        #expect(match.route == route)
    }

    @Test func aRouteMayAskForItsHostAndItsPath() {
        var pair = [
            Self.route("a", path: "/api", hosts: ["a.example"]), Self.route("b", path: "/api", hosts: ["b.example"]),
            Self.route("other", path: "/other"),
        ]
        pair[0].matchesAll = true
        pair[1].matchesAll = true
        func find(_ host: String, _ path: String) -> RouteTable.Match? {
            let bytes = Array((host + path).utf8)
            return RouteTable(pair).find(bytes.span, host: 0..<host.utf8.count, path: host.utf8.count..<bytes.count)
        }
        #expect(find("a.example", "/api/x") == .path(0) && find("b.example", "/api") == .path(1))
        #expect(
            find("a.example", "/x") == nil && find("localhost", "/api/x") == nil && find("c.example", "/api") == nil
        )
        #expect(find("a.example", "/other/x") == .path(2))
    }

    @Test func aThousandRoutesAreFound() {
        let many = (0..<1000).map { Self.route("r\($0)", upstream: "u\($0).example") }
        let table = RouteTable(many)
        for (index, route) in many.enumerated() {
            let path = Array("\(route.matchPath)/x".utf8)
            #expect(table.find(path.span, host: 0..<0, path: 0..<path.count)?.route == index)
        }
    }
}

private let dots = "a dot segment (. or ..)"

@Suite(.timeLimit(.minutes(5)))
struct PathRuleTests {
    @Test(arguments: [
        ("/**", "/", true), ("/**", "/a/b", true), ("/", "/", true), ("/", "/a", false), ("/*", "/", false),
        ("/a", "/", false), ("/a", "/a", true), ("/a", "/a/", false), ("/a/*", "/a/b", true), ("/a/*", "/a/", false),
        ("/a/*", "/a/b/c", false),
        ("/a/**", "/a", true), ("/a/**", "/a/b/c", true), ("/a/**", "/ab", false), ("/a/*/c", "/a/b/c", true),
        ("/a/*/c", "/a/b/d", false), ("/ab", "/a", false), ("/a/bc", "/a/b", false), ("/a/b", "/a/bc", false),
        ("/a/b", "/a/b/", false), ("/a/", "/a/", true), ("/a/", "/a", false), ("/a//b", "/a//b", true),
        ("/a//b", "/a/b", false),
    ])
    func patternsMatchWholeSegments(_ pattern: String, _ path: String, _ matches: Bool) {
        let bytes = Array("GET \(path) ".utf8)
        #expect(PathPattern(pattern)?.matches(bytes.span, 4..<bytes.count - 1) == matches)
        if path == "/" { #expect(PathPattern(pattern)?.matchesRoot == matches) }
    }

    @Test(arguments: ["a", "/a*", "/**/a", ""])
    func faultyPatternsAreRefused(_ pattern: String) { #expect(PathPattern(pattern) == nil) }

    @Test(
        arguments: [
            ("/a/b", nil, nil), ("/a/../b", dots, dots),
            ("/..", dots, dots),
            ("/..;x/a", dots, "a path parameter"), ("/a/.;", dots, "a path parameter"),
            ("/a/.", dots, dots), ("/a/...", nil, nil), ("/a\\b", "a backslash", "a backslash"),
            ("/%2E%2e/", "an encoded slash or dot", "an encoded slash or dot"),
            ("/a%2Fb", "an encoded slash or dot", "an encoded slash or dot"),
            ("/a%00", "an encoded control character", "an encoded control character"),
            ("/a%09b", "an encoded control character", "an encoded control character"),
            ("/a%7F", "an encoded control character", "an encoded control character"),
            ("/a%5cb", "an encoded backslash", "an encoded backslash"),
            ("/a%", "an invalid percent-encoding", "an invalid percent-encoding"),
            ("/a%2", "an invalid percent-encoding", "an invalid percent-encoding"),
            ("/a%0a", "an encoded control character", "an encoded control character"),
            ("/%C3%A9", nil, nil), ("/%C0%AF", "an encoding that is not UTF-8", "an encoding that is not UTF-8"),
            ("/a//b", nil, "an empty segment"), ("/a;b", nil, "a path parameter"), ("/a/", nil, nil),
            ("/a%25b", nil, "a doubly encoded character"), ("/a%20b", nil, nil),
        ] as [(String, String?, String?)]
    )
    func ambiguousPathsAreRefused(_ path: String, _ credentialed: String?, _ ruled: String?) {
        let bytes = Array(path.utf8)
        #expect(CanonicalPath.check(bytes.span, 0..<bytes.count, strictness: .credentialed)?.rawValue == credentialed)
        #expect(CanonicalPath.check(bytes.span, 0..<bytes.count, strictness: .ruled)?.rawValue == ruled)
    }
}
