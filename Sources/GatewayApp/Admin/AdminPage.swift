import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import HTTPTypes
import Hummingbird

/// The status page with what belongs to it.
struct AdminPage: Sendable {
    private let options: AdminOptions

    static let endpoints = [
        AdminEndpoint(.get, "/") { await AdminPage(options: $0).page($1, $2) },
        AdminEndpoint(.post, "/") { try await AdminPage(options: $0).unlockedPage($1, $2) },
        AdminEndpoint(.get, "/explain") { options, request, context in
            let text = request.uri.queryParameters["q"].map(String.init) ?? ""
            let question = text.isEmpty ? nil : Question(text: text, answer: nil)
            return await AdminPage(options: options).page(request, context, asking: question)
        },
        AdminEndpoint(.post, "/explain") { try await AdminPage(options: $0).explain($1, $2) },
        AdminEndpoint(.get, "/style.css") { _, _, _ in
            AdminResponse.text(PageStyle.css, type: "text/css; charset=utf-8")
        },
        AdminEndpoint(.get, "/script.js") { _, _, _ in
            AdminResponse.text(PageScript.text, type: "text/javascript; charset=utf-8")
        },
        AdminEndpoint(.get, "/icon.svg") { _, request, _ in
            let mark = request.uri.query.flatMap(Mark.init) ?? .plain
            return AdminResponse.text(PageShell.icon(mark), type: "image/svg+xml")
        },
    ]

    private func page(
        _ request: Request,
        _ context: AdminContext,
        asking question: Question? = nil
    ) async -> Response {
        if options.requiresToken, !context.evidence.isPerson {
            return AdminResponse.page(PageShell.locked(wasRefused: false), status: .unauthorized)
        }
        let query = (try? AdminEvents.query(request)) ?? EventQuery()
        let parameters = request.uri.queryParameters
        return await page(query: query, lists: ListQuery { parameters[$0] }, asking: question)
    }

    /// Without the script, the token comes in a form.
    private func unlockedPage(_ request: Request, _ context: AdminContext) async throws -> Response {
        let form = try await AdminForm.read(request)
        let evidence = options.authorization.evidence(typed: form?["token"] ?? "", peer: context.peer)
        guard evidence.isPerson else {
            return AdminResponse.page(PageShell.locked(wasRefused: true), status: .unauthorized)
        }
        return await page(query: EventQuery())
    }

    /// The token comes from the script as a field of the request, and in the form without it.
    private func explain(_ request: Request, _ context: AdminContext) async throws -> Response {
        let form = try await AdminForm.read(request)
        let text = form?["q"] ?? ""
        let authorization = options.authorization
        let typed = authorization.evidence(typed: form?["token"] ?? "", peer: context.peer)
        let evidence = context.evidence.isPerson ? context.evidence : typed
        if let refusal = await authorization.refusal(of: evidence, needing: .operator, for: request) {
            if options.requiresToken, !evidence.isPerson {
                return AdminResponse.page(PageShell.locked(wasRefused: true), status: .unauthorized)
            }
            let isStranger = refusal.kind == .adminAuthRequired
            let detail = isStranger ? "Explanations need the admin token." : refusal.detail
            let question = Question(text: text, answer: .failure(GatewayProblem(refusal.kind, detail)))
            let status = HTTPResponse.Status(code: refusal.kind.status)
            return await page(query: EventQuery(), asking: question, status: status)
        }
        return await page(
            query: EventQuery(),
            asking: Question(text: text, answer: await answer(to: text, for: context.asker))
        )
    }

    private func answer(to text: String, for asker: String) async -> Result<String, GatewayProblem> {
        guard let explanations = options.explanations else {
            return .failure(GatewayProblem(.noRoute, "This gateway does not explain requests."))
        }
        return await explanations.explain(ExplanationQuestion(input: text, asker: asker)).map(\.text)
    }

    private func page(
        query: EventQuery,
        lists: ListQuery = ListQuery(),
        asking question: Question? = nil,
        status: HTTPResponse.Status = .ok
    ) async -> Response {
        let (control, operations) = (options.control, AdminAPI.operations)
        let (recent, timeline) = options.broadcaster.snapshot
        var query = query
        query.mergesWithheld = true
        do throws(GatewayProblem) {
            let traffic = try await operations.traffic.answer(control)
            let page = StatusPage(
                overview: try await operations.overview.answer(control),
                readiness: try await AdminAPI.readiness.answer(control),
                routes: try await operations.routes.answer(control),
                traffic: Dictionary(traffic.map { ($0.route, $0) }) { first, _ in first },
                hour: try await operations.trafficHour.answer(control),
                tokens: try await operations.tokens.answer(control),
                expirations: try await operations.expirations.answer(control),
                timeline: timeline,
                recent: recent,
                query: query,
                lists: lists,
                events: AuditEntry.newestFirst(
                    await options.events(query, since: nil, limit: LiveSection.limit).events
                ),
                question: question,
                now: options.now()
            )
            return AdminResponse.page(page.html, status: status)
        } catch {
            return AdminResponse.problem(error)
        }
    }
}

/// What a browser sends of a form.
enum AdminForm {
    /// The largest body, in bytes.
    static let limit = 32 << 10

    /// - Returns: nil if it cannot be read.
    static func read(_ request: Request) async throws -> LoginParameters? {
        let text = try await text(request)
        return try? LoginParameters(query: text)
    }

    static func text(_ request: Request) async throws -> String {
        String(decoding: try await request.body.collect(upTo: limit).readableBytesView, as: UTF8.self)
    }
}
