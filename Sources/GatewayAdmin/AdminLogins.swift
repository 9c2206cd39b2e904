import GatewayCore
import HTTPTypes
import Hummingbird

/// Logins on the admin listener: for the command line as JSON, for people as pages.
struct AdminLogins: Sendable {
    static let bodyLimit = 32 << 10

    let control: any LoginControl
    let options: AdminOptions

    func routes(on router: Router<AdminContext>) {
        router.post("/api/logins") { request, _ in try await begin(request) }
        router.get("/api/logins/:id") { _, context in
            await answer { await control.progress(id(context)) }
        }
        router.post("/api/logins/:id/answer") { request, context in
            let text = try await body(request)["answer"]?.string ?? ""
            return await answer { await control.answer(id(context), with: text) }
        }
        router.delete("/api/logins/:id") { _, context in
            await answer {
                await control.cancel(id(context))
                return await control.progress(id(context))
            }
        }
        router.get("/login") { request, _ in
            LoginPage.begin(credential: request.uri.queryParameters["credential"].map(String.init) ?? "")
        }
        router.post("/login") { request, context in try await beginOnPage(request, context) }
        router.post("/login/answer") { request, _ in
            guard let form = try await form(request) else { return LoginPage.outcome(Self.unreadable) }
            let progress = await control.answer(form["id"] ?? "", with: form["answer"] ?? "")
            return LoginPage.outcome(progress ?? Self.unknown)
        }
    }

    private static let unknown = LoginProgress(
        isOver: true,
        problem: "There is no such login any more; begin a new one."
    )

    private static let unknownWay = GatewayProblem(
        .requestRefused,
        "The login's way is none of \(LoginOrder.Way.allCases.map(\.rawValue).joined(separator: ", "))."
    )

    private static let unreadable = LoginProgress(isOver: true, problem: "The form cannot be read.")

    private func begin(_ request: Request) async throws -> Response {
        let wanted = try await body(request)
        var order = LoginOrder(credential: wanted["credential"]?.string ?? "")
        if let text = wanted["way"]?.string {
            guard let way = LoginOrder.Way(rawValue: text) else { return AdminResponse.problem(Self.unknownWay) }
            order.way = way
        }
        if case .number(let seconds)? = wanted["timeout_seconds"], seconds.value > 0, seconds.value < 1e6 {
            order.timeout = .milliseconds(Int64(seconds.value * 1000))
        }
        switch await control.begin(order) {
        case .success(let invitation): return AdminResponse.json(invitation)
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }

    private func answer(_ action: () async -> LoginProgress?) async -> Response {
        guard let progress = await action() else {
            return AdminResponse.problem(GatewayProblem(.noRoute, "There is no such login."))
        }
        return AdminResponse.json(progress)
    }

    private func beginOnPage(_ request: Request, _ context: AdminContext) async throws -> Response {
        guard let form = try await form(request) else { return LoginPage.outcome(Self.unreadable) }
        let credential = form["credential"] ?? ""
        if let refusal = await options.authorization.refusal(typed: form["token"] ?? "", context, request) {
            return LoginPage.begin(credential: credential, message: refusal)
        }
        switch await control.begin(LoginOrder(credential: credential)) {
        case .success(let invitation): return LoginPage.invite(invitation)
        case .failure(let problem):
            return LoginPage.outcome(LoginProgress(isOver: true, problem: problem.detail))
        }
    }

    private func id(_ context: AdminContext) -> String { context.parameters.get("id") ?? "" }

    private func body(_ request: Request) async throws -> JSONValue {
        let bytes = try await request.body.collect(upTo: Self.bodyLimit)
        return JSONValue(Array(bytes.readableBytesView)) ?? .null
    }

    private func form(_ request: Request) async throws -> LoginParameters? {
        let bytes = try await request.body.collect(upTo: Self.bodyLimit)
        return try? LoginParameters(query: String(decoding: bytes.readableBytesView, as: UTF8.self))
    }
}
