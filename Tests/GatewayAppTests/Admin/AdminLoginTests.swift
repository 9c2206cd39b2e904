import GatewayHTTP
import GatewayTokens
import NIOHTTP1
import Synchronization
import Testing

@testable import GatewayApp

@Suite("Logins on the admin listener", .timeLimit(.minutes(5)))
struct AdminLoginTests {
    private static let token = "d0c0ffee"
    private let logins = ScriptedLogins()

    @Test func beginningNeedsTheAdminToken() async throws {
        try await serving { port in
            let body = #"{"credential":"box","way":"paste","timeout_seconds":60}"#
            for token in [nil, "wrong"] {
                #expect(try await post("/api/logins", port, body, token: token).status == .unauthorized)
                #expect(try await post("/api/logins/1/answer", port, "{}", token: token).status == .unauthorized)
            }
            #expect(logins.orders == [])
            let answer = try await post("/api/logins", port, body, token: Self.token)
            #expect(answer.status == .ok)
            #expect(answer.text.contains(#""timeout_seconds":60"#))
            #expect(logins.orders == [LoginOrder(credential: "box", way: .paste, timeout: .seconds(60))])
        }
    }

    @Test func aWayThatIsNotKnownIsRefused() async throws {
        try await serving { port in
            let answer = try await post("/api/logins", port, #"{"credential":"box","way":"x"}"#, token: Self.token)
            #expect(answer.status == .badRequest && answer.text.contains("browser, paste, device"), "\(answer.text)")
            #expect(logins.orders == [])
        }
    }

    @Test(arguments: ["", "x", "[]", #"{"credential"#])
    func anOrderThatCannotBeReadIsRefused(_ body: String) async throws {
        try await serving { port in
            let answer = try await post("/api/logins", port, body, token: Self.token)
            #expect(answer.status == .badRequest && answer.text.contains("The body must be JSON"), "\(answer.text)")
            #expect(logins.orders == [])
        }
    }

    /// An empty answer would end the login.
    @Test(arguments: ["", "code", "{}", #"{"answer":7}"#])
    func anAnswerThatCannotBeReadIsRefused(_ body: String) async throws {
        try await serving { port in
            let answer = try await post("/api/logins/1/answer", port, body, token: Self.token)
            #expect(answer.status == .badRequest && answer.text.contains("The body must be JSON"), "\(answer.text)")
            #expect(logins.answers == [])
        }
    }

    @Test func aPasteIsHandedOn() async throws {
        try await serving { port in
            let answer = try await post("/api/logins/1/answer", port, #"{"answer":"code"}"#, token: Self.token)
            #expect(answer.text.contains("wrong state"))
            #expect(logins.answers == ["1: code"])
            let unknown = try await post("/api/logins/2/answer", port, #"{"answer":"code"}"#, token: Self.token)
            #expect(unknown.status == .notFound)
        }
    }

    @Test func thePageAsksForTheToken() async throws {
        try await serving { port in
            let page = try await get("/login?credential=b%3Cx", port)
            #expect(page.status == .ok)
            #expect(page.text.contains("b&lt;x") && !page.text.contains("b<x"))
            let wrong = try await post("/login", port, "credential=box&token=wrong", token: nil)
            #expect(wrong.status == .unauthorized)
            #expect(logins.orders == [])
            let right = try await post("/login", port, "credential=box&token=\(Self.token)", token: nil)
            #expect(right.status == .ok)
            #expect(right.text.contains("url=https://id.example.com/authorize?a=1&amp;state=s"))
            #expect(right.fields["Cache-Control"] == ["no-store"])
            #expect(right.fields["Referrer-Policy"] == ["same-origin"])
        }
    }

    @Test(arguments: ["/login", "/login/answer"], ["token=%zz", "id=1&id=1&answer=x"])
    func aFormThatCannotBeReadIsTheSendersMistake(path: String, form: String) async throws {
        try await serving { port in
            let answer = try await post(path, port, form, token: nil)
            #expect(answer.status == .badRequest)
            #expect(answer.text.contains("The form is not valid."))
            #expect(logins.answers == [])
        }
    }

    @Test func anotherSiteCannotBegin() async throws {
        try await serving { port in
            let form = "credential=box&token=\(Self.token)"
            for field in [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site"), ("Origin", "null")] {
                let answer = try await post("/login", port, form, token: nil, fields: [field])
                #expect(answer.status == .forbidden)
            }
            #expect(logins.orders == [])
        }
    }

    @Test func whereNoListenerIsThePageTakesThePaste() async throws {
        logins.set(isManual: true)
        try await serving { port in
            let page = try await post("/login", port, "credential=box&token=\(Self.token)", token: nil)
            #expect(page.text.contains("action=\"/login/answer\""))
            let end = try await post("/login/answer", port, "id=1&answer=code", token: nil)
            #expect(end.status == .badRequest)
            #expect(end.text.contains("wrong state"))
            #expect(
                try await post("/login/answer", port, "id=2&answer=code", token: nil).text.contains("no longer exists")
            )
        }
    }

    @Test func theSizeOfARequestBodyIsLimited() async throws {
        func padded(_ text: String, to count: Int) -> String {
            text + String(repeating: " ", count: count - text.utf8.count)
        }
        try await serving { (port: Int) async throws in
            let order = #"{"credential":"box","way":"paste","timeout_seconds":60}"#
            let longest = padded(order, to: AdminForm.limit)
            #expect(try await post("/api/logins", port, longest, token: Self.token).status == .ok)
            #expect(try await post("/api/logins", port, longest + " ", token: Self.token).status.code == 413)
            #expect(logins.orders.count == 1)
            let form = "credential=box&token=\(Self.token)&x="
            let page = form + String(repeating: "x", count: AdminForm.limit - form.utf8.count)
            #expect(try await post("/login", port, page, token: nil).status == .ok)
            #expect(try await post("/login", port, page + "x", token: nil).status.code == 413)
            #expect(logins.orders.count == 2)
        }
    }

    // MARK: The listener

    private func serving(_ body: (Int) async throws -> Void) async throws {
        let options = AdminOptions(
            control: ScriptedControl(),
            logins: logins,
            token: Secret(Self.token),
            metrics: { "" },
            now: { UnixTime(seconds: 0) }
        )
        try await withAdminServer(options, body)
    }

    private func get(_ path: String, _ port: Int) async throws -> AdminAnswer { try await askAdmin(.GET, path, port) }

    private func post(
        _ path: String,
        _ port: Int,
        _ body: String,
        token: String?,
        fields: [(String, String)] = []
    ) async throws -> AdminAnswer {
        try await askAdmin(.POST, path, port, token: token, fields: fields, body: body)
    }
}

/// One login, with the name 1, that every answer ends.
private final class ScriptedLogins: LoginControl {
    private struct State {
        var orders: [LoginOrder] = []
        var answers: [String] = []
        var isManual = false
    }

    private let state = Mutex(State())

    var orders: [LoginOrder] { state.withLock { $0.orders } }
    var answers: [String] { state.withLock { $0.answers } }

    func set(isManual: Bool) { state.withLock { $0.isManual = isManual } }

    func begin(_ order: LoginOrder) async -> Result<LoginInvitation, GatewayProblem> {
        let isManual = state.withLock { state in
            state.orders.append(order)
            return state.isManual || order.way == .paste
        }
        return .success(
            LoginInvitation(
                id: "1",
                credential: order.credential,
                page: "https://id.example.com/authorize?a=1&state=s",
                start: nil,
                redirect: "http://127.0.0.1:1/callback",
                isManual: isManual,
                timeoutSeconds: Int(order.timeout.components.seconds)
            )
        )
    }

    func answer(_ id: String, with text: String) async -> LoginProgress? {
        guard id == "1" else { return nil }
        state.withLock { $0.answers.append("\(id): \(text)") }
        return LoginProgress(isOver: true, problem: "wrong state")
    }

    func progress(_ id: String) async -> LoginProgress? { id == "1" ? .waiting : nil }
    func cancel(_ id: String) async {}
}
