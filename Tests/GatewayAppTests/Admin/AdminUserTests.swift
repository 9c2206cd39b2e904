import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Hummingbird
import NIOHTTP1
import Testing

@testable import GatewayApp
@testable import GatewayProxy

@Suite("Users of the admin listener", .timeLimit(.minutes(5)))
struct AdminUserTests {
    private static let users = [
        AdminUser(role: .viewer, proofs: AccessPlan.Client(name: "watcher", proof: .token(Secret("watcher-token")))),
        AdminUser(role: .operator, proofs: AccessPlan.Client(name: "alice", proof: .token(Secret("alice-token")))),
    ]

    private static func options(_ control: ScriptedControl) -> AdminOptions {
        let now = UnixTime(seconds: 0)
        return AdminOptions(control: control, token: Secret("admin-token"), metrics: { "up 1\n" }, now: { now })
    }

    /// The method, the path with a name in it, and the demand of each route of the router.
    @Test func eachRouteHasARow() {
        var options = Self.options(ScriptedControl())
        options.logins = NoLogins()
        options.vending = NoVending()
        options.explanations = NoExplanations()
        let routes = AdminRouteTable.router(options).routes
        #expect(routes.count > 30)
        for route in routes {
            let path = route.path.description.split(separator: "/").map { part in
                part.hasPrefix("{") || part.hasPrefix(":") ? "name" : String(part)
            }
            let text = "/" + path.joined(separator: "/")
            let demand = AdminRouteTable.demand(method: route.method.rawValue, path: text)
            #expect(demand != .unknown, "\(route.method) \(text)")
        }
    }

    @Test(
        arguments: [
            (nil, 401, 401), ("wrong", 401, 401), ("watcher-token", 200, 403), ("alice-token", 200, 200),
            ("admin-token", 200, 200),
        ] as [(String?, UInt, UInt)]
    )
    func eachUserDoesWhatTheRoleAllows(_ token: String?, _ seeing: UInt, _ changing: UInt) async throws {
        let control = ScriptedControl()
        let actions = Watched<[AdminAction]>([])
        var options = Self.options(control)
        options.users = { Self.users }
        options.requiresToken = true
        options.record = { action in
            actions.update { $0.append(action) }
            return nil
        }
        try await withAdminServer(options) { (port: Int) async throws in
            for path in ["/api/overview", "/metrics", "/", "/readyz?verbose"] {
                #expect(try await Self.status(.GET, path, token, port) == seeing, "\(path)")
            }
            for path in ["/api/key/rotate", "/api/reload"] {
                #expect(try await Self.status(.POST, path, token, port) == changing, "\(path)")
            }
            #expect(try await Self.status(.GET, "/healthz", token, port) == 200)
        }
        #expect(control.performed.contains("rotate key") == (changing == 200))
        let expected = token == "alice-token" ? ["/api/key/rotate", "/api/reload"] : []
        #expect(actions.value.map(\.path) == expected)
        #expect(actions.value.allSatisfy { $0.withdraws == ($0.path == "/api/reload") })
        #expect(actions.value.allSatisfy { $0.user == "alice" && $0.role == .operator && $0.method == "POST" })
    }

    @Test func nothingIsDoneThatIsNotRecorded() async throws {
        let control = ScriptedControl()
        var options = Self.options(control)
        options.users = { Self.users }
        options.requiresToken = true
        options.record = { _ in GatewayProblem(.auditUnavailable, "It cannot be written.") }
        try await withAdminServer(options) { (port: Int) async throws in
            #expect(try await Self.status(.POST, "/api/key/rotate", "alice-token", port) == 503)
            // The page has no token in a field: it is in the form.
            let form = "credential=box&operation=lock&token=alice-token"
            #expect(try await askAdmin(.POST, "/token", port, body: form).status == .unauthorized)
        }
        #expect(control.performed.isEmpty)
    }

    @Test func aViewerIsToldSoByTheForm() async throws {
        let control = ScriptedControl()
        var options = Self.options(control)
        options.users = { Self.users }
        options.requiresToken = true
        try await withAdminServer(options) { (port: Int) async throws in
            let form = "credential=box&operation=lock&token=watcher-token"
            let answer = try await askAdmin(.POST, "/token", port, body: form)
            #expect(answer.text.contains("watcher is a viewer"))
        }
        #expect(control.performed.isEmpty)
    }

    // MARK: Helpers

    private static func status(_ method: HTTPMethod, _ path: String, _ token: String?, _ port: Int) async throws -> UInt
    {
        try await askAdmin(method, path, port, token: token).status.code
    }
}

private struct NoLogins: LoginControl {
    func begin(_ order: LoginOrder) async -> Result<LoginInvitation, GatewayProblem> { .failure(none) }
    func answer(_ id: String, with text: String) async -> LoginProgress? { nil }
    func progress(_ id: String) async -> LoginProgress? { nil }
    func cancel(_ id: String) async {}
}

private struct NoVending: VendingControl {
    func vend(
        _ credential: String,
        presenting tokens: [[UInt8]],
        naming subjects: @Sendable (_ field: String) -> [String]
    ) async -> Result<VendedToken, GatewayProblem> {
        .failure(none)
    }
}

private struct NoExplanations: ExplanationControl {
    func explain(_ question: ExplanationQuestion) async -> Result<ExplanationAnswer, GatewayProblem> { .failure(none) }
}

private let none = GatewayProblem(.noRoute, "There is none.")
