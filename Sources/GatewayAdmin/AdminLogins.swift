import GatewayCore
import HTTPTypes
import Hummingbird

/// The pages on which a person logs in. The command line uses the operations of ``AdminAPI``.
struct AdminLogins: Sendable {
    static let bodyLimit = 32 << 10

    let control: any LoginControl
    let options: AdminOptions

    func routes(on router: Router<AdminContext>) {
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

    private static let unreadable = LoginProgress(isOver: true, problem: "The form cannot be read.")

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

    private func form(_ request: Request) async throws -> LoginParameters? {
        let bytes = try await request.body.collect(upTo: Self.bodyLimit)
        return try? LoginParameters(query: String(decoding: bytes.readableBytesView, as: UTF8.self))
    }
}
