import GatewayCore
import HTTPTypes
import Hummingbird

/// The status page with what belongs to it.
struct AdminPage: Sendable {
    private static let formLimit = 32 << 10

    let options: AdminOptions

    func routes(on router: Router<AdminContext>) {
        router.get("/") { request, _ in await page(request) }
        router.get("/explain") { request, _ in
            await page(request, explaining: request.uri.queryParameters["q"].map(String.init))
        }
        router.post("/") { request, _ in try await unlockedPage(request) }
        router.get("/style.css") { _, _ in AdminResponse.text(PageStyle.css, type: "text/css; charset=utf-8") }
        router.get("/script.js") { _, _ in
            AdminResponse.text(PageScript.text, type: "text/javascript; charset=utf-8")
        }
        router.get("/icon.svg") { request, _ in
            let mark = request.uri.query.flatMap(Mark.init) ?? .plain
            return AdminResponse.text(PageShell.icon(mark), type: "image/svg+xml")
        }
    }

    private func page(_ request: Request, explaining question: String? = nil) async -> Response {
        if options.requiresToken, options.authorization.refusal(of: request) != nil {
            return AdminResponse.page(PageShell.locked(wasRefused: false), status: .unauthorized)
        }
        return await page(query: (try? AdminEvents.query(request)) ?? EventQuery(), explaining: question)
    }

    /// Without the script, the token comes in a form.
    private func unlockedPage(_ request: Request) async throws -> Response {
        let bytes = try await request.body.collect(upTo: Self.formLimit)
        let form = try? LoginParameters(query: String(decoding: bytes.readableBytesView, as: UTF8.self))
        guard options.authorization.accepts(typed: form?["token"] ?? "") else {
            return AdminResponse.page(PageShell.locked(wasRefused: true), status: .unauthorized)
        }
        return await page(query: EventQuery())
    }

    private func page(query: EventQuery, explaining question: String? = nil) async -> Response {
        let control = options.control
        let (recent, timeline) = options.broadcaster.snapshot
        let traffic = await control.traffic()
        var page = StatusPage(
            overview: await control.overview(),
            readiness: await control.readiness(),
            routes: await control.routes(),
            traffic: Dictionary(traffic.map { ($0.route, $0) }) { first, _ in first },
            tokens: await control.tokens(),
            expirations: await control.expirations(),
            timeline: timeline,
            recent: recent,
            query: query,
            now: options.now()
        )
        if let question, !question.isEmpty { page.explanation = await explanation(of: question) }
        return AdminResponse.page(page.html)
    }

    private func explanation(of question: String) async -> Explanation {
        guard let explain = options.explain else {
            let problem = GatewayProblem(.noRoute, "This gateway explains no requests.")
            return Explanation(question: question, answer: .failure(problem))
        }
        return Explanation(question: question, answer: await explain(question))
    }
}
