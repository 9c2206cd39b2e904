import GatewayHTTP
import GatewayTokens
import Testing

@testable import GatewayProxy

/// What the gateway asks of an authority itself is out of reach on a route that carries its token.
@Suite(.timeLimit(.minutes(5)))
struct AuthorityEndpointAdmissionTests {
    private static func endpoints(_ base: String = "") throws -> [AuthorityEndpoint] {
        try ["/oauth2/token", "/oauth2/revoke"].compactMap {
            AuthorityEndpoint(try AuthorityURL("https://authority.example\(base)\($0)")).behind(base)
        }
    }

    @Test(arguments: [
        ("POST /api/oauth2/token", 403), ("GET /api/oauth2/revoke?token=x", 403), ("POST /api//oauth2/token", 403),
        ("POST /api/oauth2/%74oken", 403), ("POST /api/oauth2/%2574oken", 403), ("POST /api/OAUTH2/Token/", 403),
        ("POST /api/oauth2/token;a=b", 403), ("POST /api/./oauth2/token", 400), ("POST /api/oauth2%2Ftoken", 403),
        ("POST /api/oauth2/tokens", 200), ("GET /api/2.0/files?path=/oauth2/token", 200),
    ])
    func theEndpointsOfTheCredentialAreForbidden(_ request: String, _ status: Int) async throws {
        let endpoints = try Self.endpoints()
        let origin = try RawOrigin.answering()
        try await withProxy(origin, source: ScriptedSource(), route: { $0.endpoints = endpoints }) { proxy in
            let answer = try proxy.exchange("\(request) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(answer.head)\(answer.body)")
            #expect(origin.requests.count == (status == 200 ? 1 : 0))
            if status == 403 {
                #expect(answer.body.contains("route-forbidden") && answer.body.contains("/oauth2/"))
                #expect(answer.body.contains("allow"))
                #expect(proxy.observer.denials == [.routeForbidden])
            }
        }
    }

    @Test(arguments: [
        ("POST /x/oauth2/token HTTP/1.1\r\nHost: api.localhost", 200),
        ("POST /oauth2/token HTTP/1.1\r\nHost: api.localhost", 403),
        ("POST /api/oauth2/token HTTP/1.1\r\nHost: localhost", 403),
        ("POST http://127.0.0.1:PORT/base/oauth2/token HTTP/1.1\r\nHost: 127.0.0.1:PORT", 403),
    ])
    func theBasePathCounts(_ request: String, _ status: Int) async throws {
        let endpoints = try Self.endpoints("/base")
        let origin = try RawOrigin.answering()
        let request = request.replacing("PORT", with: String(origin.port))
        func configure(_ route: inout RoutePlan) {
            route.endpoints = endpoints
            route.upstreamPath = "/base"
        }
        try await withProxy(origin, source: ScriptedSource(), route: configure) { proxy in
            let answer = try proxy.exchange("\(request)\r\nContent-Length: 0\r\n\r\n")
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(answer.head)\(answer.body)")
            #expect(origin.requests.count == (status == 200 ? 1 : 0))
        }
    }

    @Test(arguments: [
        ([(["POST"], "/oauth2/token"), ([], "/**")], 200), ([([], "/oauth2/*"), ([], "/**")], 403),
        ([([], "/**")], 403), ([(["GET"], "/oauth2/token"), ([], "/**")], 403),
        ([([], "/oauth2/revoke"), ([], "/**")], 403),
    ])
    func onlyARuleThatNamesThePathOpensIt(_ rules: [([String], String)], _ status: Int) async throws {
        let endpoints = try Self.endpoints()
        let allow = try rules.map { RoutePlan.Allow(methods: $0.0, path: try #require(PathPattern($0.1))) }
        let origin = try RawOrigin.answering()
        func configure(_ route: inout RoutePlan) { (route.endpoints, route.allow) = (endpoints, allow) }
        try await withProxy(origin, source: ScriptedSource(), route: configure) { proxy in
            let answer = try proxy.exchange(
                "POST /api/oauth2/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            )
            #expect(answer.head.hasPrefix("HTTP/1.1 \(status) "), "\(answer.head)\(answer.body)")
            #expect(origin.requests.count == (status == 200 ? 1 : 0))
            let other = try proxy.exchange("GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(other.head.hasPrefix("HTTP/1.1 200 "))
        }
    }
}
