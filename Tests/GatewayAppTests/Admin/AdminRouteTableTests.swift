import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("What the routes of the admin listener ask for", .timeLimit(.minutes(1)))
struct AdminRouteTableTests {
    @Test(
        arguments: [
            ("GET", "/", .nothing), ("POST", "/token", .nothing), ("GET", "/healthz", .nothing),
            ("GET", "/ca.pem", .role(.viewer)), ("GET", "/metrics", .role(.viewer)),
            ("HEAD", "/metrics", .role(.viewer)),
            ("GET", "/api/fleet", .role(.viewer)), ("POST", "/api/audit/who/box%2Fa", .role(.viewer)),
            ("POST", "/api/audit/flush", .role(.operator)), ("POST", "/api/runs", .role(.viewer)),
            ("GET", "/api/tokens/box%2Fa", .role(.viewer)), ("POST", "/api/tokens/box/lock", .role(.operator)),
            ("POST", "/api/reload", .role(.operator)), ("GET", "/api/plan", .role(.operator)),
            ("POST", "/tokens/box", .nothing), ("POST", "/approvals", .nothing),
            ("GET", "/api/approvals", .role(.operator)),
            ("POST", "/api/approvals/a-1/approve", .role(.operator)),
            ("POST", "/api/approvals/a-1/deny", .role(.operator)),
            ("POST", "/api/explain", .role(.operator)), ("POST", "/api/logins", .role(.operator)),
            ("GET", "/api/logins/1", .role(.operator)), ("DELETE", "/api/logins/1", .role(.operator)),
            ("POST", "/api/logins/1/answer", .role(.operator)),
            // What is written in another way, or does not exist.
            ("GET", "/api/reload", .unknown), ("PUT", "/api/reload", .unknown), ("POST", "/api//reload", .unknown),
            ("POST", "/api/reload/", .unknown), ("POST", "/API/reload", .unknown), ("GET", "/api/tokens/", .unknown),
            ("POST", "/api/tokens//lock", .unknown), ("POST", "/tokens/a/b", .unknown), ("GET", "", .unknown),
            ("GET", "/%61pi/overview", .unknown), ("GET", "/api/new", .unknown),
        ] as [(String, String, AdminRouteTable.Demand)]
    )
    func whatAResourceAsksFor(_ method: String, _ path: String, _ demand: AdminRouteTable.Demand) {
        #expect(AdminRouteTable.demand(method: method, path: path) == demand)
    }

    @Test func aProbeWithAQuestionShowsMore() {
        #expect(AdminRouteTable.demand(method: "GET", path: "/readyz") == .nothing)
        #expect(AdminRouteTable.demand(method: "GET", path: "/readyz", hasQuery: true) == .role(.viewer))
    }

    @Test(
        arguments: [
            ("POST", "/api/tokens/box/lock", true), ("POST", "/api/tokens/box%2Fa/revoke", true),
            ("POST", "/api/tokens/box/clear", true), ("POST", "/api/reload", true), ("POST", "/token", true),
            ("POST", "/api/tokens/box/unlock", false), ("POST", "/api/tokens/box/reveal", false),
            ("POST", "/api/tokens/lock/refresh", false), ("GET", "/api/tokens/box/lock", false),
            ("POST", "/api/key/rotate", false), ("POST", "/api/state/backup", false),
            ("POST", "/api/explain", false), ("DELETE", "/api/logins/1", false),
            ("POST", "/api/approvals/a-1/approve", false), ("POST", "/api/approvals/a-1/deny", true),
        ]
    )
    func whatTakesRightsAwayNeedsNoRecordBefore(_ method: String, _ path: String, _ mayWithdraw: Bool) {
        #expect(AdminRouteTable.mayWithdraw(method: method, path: path) == mayWithdraw)
    }

    @Test func everyDeclaredOperationIsInTheList() {
        #expect(AdminAPI.endpoints.count == Mirror(reflecting: AdminAPI.operations).children.count)
        #expect(AdminAPI.onTokens.map(\.verb) == ["refresh", "revoke", "clear", "lock", "unlock"])
    }

    @Test func whatIsForgottenIsForOperators() {
        #expect(AdminRouteTable.demand(method: "GET", path: "/api/new").role == .operator)
    }
}
