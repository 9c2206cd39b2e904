import GatewayHTTP
import Testing

@testable import GatewayProxy

@Suite("Several routes to one server", .timeLimit(.minutes(5)))
struct SharedUpstreamTests {
    private static func route(
        _ name: String,
        clients: [String]? = nil,
        path: String = "",
        isDefault: Bool = false
    ) -> RoutePlan {
        var route = AuthorizerFixture.route(name, clients: clients)
        route.upstreamMatchPath = path
        route.isDefault = isDefault
        return route
    }

    // MARK: Rule

    @Test(
        arguments: [
            ([route("a"), route("b")], nil, nil),
            ([route("a"), route("b", isDefault: true)], nil, "b"),
            ([route("a"), route("b", isDefault: true)], "laptop", "b"),
            ([route("a", clients: ["laptop"]), route("b", clients: ["ci"])], "laptop", "a"),
            ([route("a", clients: ["laptop"]), route("b", clients: ["ci"])], "ci", "b"),
            ([route("a", clients: ["laptop"]), route("b", clients: ["ci"])], nil, nil),
            ([route("a", clients: ["laptop"]), route("b", clients: ["ci"])], "other", nil),
            ([route("a", clients: ["laptop"]), route("b", clients: ["ci"], isDefault: true)], "other", "b"),
            ([route("a", clients: ["laptop"]), route("b")], "laptop", "a"),
            ([route("a", clients: ["laptop"]), route("b")], "ci", "b"),
            ([route("a", clients: ["laptop"]), route("b")], nil, "b"),
            ([route("a", clients: ["laptop"]), route("b", clients: ["laptop", "ci"])], "laptop", nil),
            (
                [route("a", clients: ["laptop"], isDefault: true), route("b", clients: ["laptop", "ci"])], "laptop", "a"
            ),
            ([route("a", clients: ["laptop"]), route("b", isDefault: true)], "laptop", "a"),
            ([route("a"), route("b"), route("c", clients: ["laptop"])], "ci", nil),
        ] as [([RoutePlan], String?, String?)]
    )
    func theClientThenTheDefaultSaysWhichIsMeant(_ routes: [RoutePlan], _ client: String?, _ expected: String?) {
        var shared = SharedUpstream()
        for (index, route) in routes.enumerated() { shared.add(index, route) }
        #expect(shared.route(for: client).map { routes[$0].name } == expected)
    }

    // MARK: Requests

    private func answer(
        _ routes: [RoutePlan],
        _ request: String,
        clients: [String] = [],
        proof: String? = nil
    ) -> String {
        let fixture = AuthorizerFixture(routes, clients: clients)
        let origin = InterceptedOrigin(host: "up.example", port: 443, proof: proof.map { Array($0.utf8) })
        let decision =
            request.contains("http://") ? fixture.decide(request) : fixture.decide(request, inPlaceOf: origin)
        switch consume decision {
        case .admitted(let admitted)?: return routes[admitted.match.route].name
        case .refused(let refusal)?: return "\(refusal.problem.kind.status) \(refusal.problem.detail)"
        case .preflight?: return "204"
        case .unrouted(let unrouted)?: return unrouted.server.authority
        case nil: return "400"
        }
    }

    private static func absolute(_ path: String, _ field: String = "X-A: b") -> String {
        "GET http://up.example\(path) HTTP/1.1\r\nHost: up.example\r\n\(field)\r\n\r\n"
    }

    private static func inside(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: up.example\r\n\r\n" }

    @Test(arguments: [("/2.0/me", "a"), ("/2.0", "a"), ("/2.00", "b"), ("/", "b")])
    func thePathTellsThemApart(_ path: String, _ name: String) {
        let routes = [Self.route("a", path: "/2.0"), Self.route("b")]
        #expect(answer(routes, Self.absolute(path)) == name)
        #expect(answer(routes, Self.inside(path)) == name)
    }

    @Test func theClientTellsThemApart() {
        let routes = [Self.route("a", clients: ["laptop"]), Self.route("b", clients: ["ci"])]
        for (token, name) in [("laptop-token", "a"), ("ci-token", "b")] {
            let field = "Proxy-Authorization: Bearer \(token)"
            #expect(answer(routes, Self.absolute("/x", field), clients: ["laptop", "ci"]) == name)
            #expect(answer(routes, Self.inside("/x"), clients: ["laptop", "ci"], proof: "Bearer \(token)") == name)
        }
        #expect(answer(routes, Self.absolute("/x"), clients: ["laptop", "ci"]).hasPrefix("407 "))
        let other = "Proxy-Authorization: Bearer other-token"
        let known = ["laptop", "ci", "other"]
        let refused = answer(routes, Self.absolute("/x", other), clients: known)
        #expect(
            refused.hasPrefix("421 ") && refused.contains("match.default") && refused.contains("a, b"),
            "\(refused)"
        )
    }

    @Test func whatNothingTellsApartNamesTheKeys() {
        let routes = [Self.route("one"), Self.route("two")]
        for request in [Self.absolute("/x"), Self.inside("/x")] {
            let refused = answer(routes, request)
            #expect(
                refused.hasPrefix("421 ") && refused.contains("match.upstream_path, clients or match.default"),
                "\(refused)"
            )
        }
        #expect(answer(routes, "GET http://one.localhost/x HTTP/1.1\r\nHost: one.localhost\r\n\r\n") == "one")
    }

    @Test func aConnectToThemIsTaken() {
        guard
            case .intercept? = AuthorizerFixture([Self.route("one"), Self.route("two")])
                .connect("CONNECT up.example:443 HTTP/1.1\r\nHost: up.example:443\r\n\r\n")
        else {
            Issue.record("it was refused")
            return
        }
    }
}
