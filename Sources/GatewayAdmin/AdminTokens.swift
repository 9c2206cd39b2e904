import GatewayCore
import HTTPTypes
import Hummingbird

/// `/api/tokens`: the list for viewers, everything else for operators.
struct AdminTokens: Sendable {
    let options: AdminOptions

    private var control: any GatewayControl { options.control }

    func routes(on router: Router<AdminContext>) {
        router.get("/api/tokens") { _, _ in AdminResponse.json(await control.tokens()) }
        router.get("/api/tokens/:name") { _, context in
            await named(context) { name in
                switch await control.token(name) {
                case .success(let status): AdminResponse.json(status)
                case .failure(let problem): AdminResponse.problem(problem)
                }
            }
        }
        for (verb, operation) in Self.operations {
            router.post("/api/tokens/:name/\(verb)") { _, context in
                await named(context) { await perform(operation, on: $0) }
            }
        }
        router.get("/token") { request, _ in
            await page(of: request.uri.queryParameters["credential"].map(String.init) ?? "", message: nil)
        }
        router.post("/token") { request, context in try await performOnPage(request, context) }
        router.post("/api/tokens/:name/import") { request, context in
            await named(context) { await take(request, for: $0) }
        }
        router.post("/api/tokens/:name/reveal") { _, context in
            await named(context) { await reveal($0) }
        }
        router.post("/api/tokens/:name/downscope") { request, context in
            await named(context) { await downscope(request, $0) }
        }
    }

    private static let operations: [(verb: String, operation: TokenOperation)] = [
        ("refresh", .refresh), ("revoke", .revoke), ("clear", .clear), ("lock", .lock), ("unlock", .unlock),
    ]

    private func page(of name: String, message: String?) async -> Response {
        if options.requiresToken { return TokenPage.form(of: name, state: nil, message: message) }
        return switch await control.token(name) {
        case .success(let status):
            TokenPage.form(
                of: status.credential,
                state: status.state,
                isStatic: status.isStatic == true,
                message: message
            )
        case .failure(let problem): TokenPage.outcome(.failure(problem))
        }
    }

    private func performOnPage(_ request: Request, _ context: AdminContext) async throws -> Response {
        let bytes = try await request.body.collect(upTo: 32 << 10)
        let form = try LoginParameters(query: String(decoding: bytes.readableBytesView, as: UTF8.self))
        let name = form["credential"] ?? ""
        if let refusal = await options.authorization.refusal(typed: form["token"] ?? "", context, request) {
            return await page(of: name, message: refusal)
        }
        guard let chosen = Self.operations.first(where: { $0.verb == form["operation"] }) else {
            return await page(of: name, message: "Choose one of the buttons.")
        }
        return TokenPage.outcome(await control.perform(chosen.operation, on: name))
    }

    private func perform(_ operation: TokenOperation, on name: String) async -> Response {
        switch await control.perform(operation, on: name) {
        case .success(let report): AdminResponse.json(report)
        case .failure(let problem): AdminResponse.problem(problem)
        }
    }

    /// The body is a token: it is read, handed on and never repeated.
    private func take(_ request: Request, for name: String) async -> Response {
        guard let body = try? await request.body.collect(upTo: ImportedToken.limitBytes) else {
            return AdminResponse.problem(GatewayProblem(.contentTooLarge, "A token has at most 64 KiB."))
        }
        do throws(ImportedTokenError) {
            return await perform(.import(try ImportedToken(reading: Array(body.readableBytesView))), on: name)
        } catch {
            return AdminResponse.problem(GatewayProblem(.requestRefused, "That is no token: \(error.reason)."))
        }
    }

    private func reveal(_ name: String) async -> Response {
        switch await control.reveal(name) {
        case .success(let token): AdminResponse.json(RevealedBody(token))
        case .failure(let problem): AdminResponse.problem(problem)
        }
    }

    private func downscope(_ request: Request, _ name: String) async -> Response {
        let body = try? await request.body.collect(upTo: Self.termsLimitBytes)
        guard let options = DownscopeOptions(body.flatMap { JSONValue(Array($0.readableBytesView)) }) else {
            let example = #"{"scopes": ["item_preview"], "resource": "https://api.box.com/2.0/files/1"}"#
            return AdminResponse.problem(GatewayProblem(.requestRefused, "The body is to be JSON such as \(example)."))
        }
        switch await control.downscope(name, options) {
        case .success(let token): return AdminResponse.json(RevealedBody(token))
        case .failure(let problem): return AdminResponse.problem(problem)
        }
    }

    static let termsLimitBytes = 16 << 10

    private func named(_ context: AdminContext, _ action: (String) async -> Response) async -> Response {
        guard let name = context.parameters.get("name").flatMap(PercentEncoding.decode) else {
            return AdminResponse.problem(GatewayProblem(.requestRefused, "The credential's name cannot be read."))
        }
        return await action(name)
    }
}

/// The answers of the gateway that hold a token have this form.
private struct RevealedBody: Encodable {
    let credential: String
    let generation: Int
    let accessToken: String
    let expiresAt: String?

    init(_ token: RevealedToken) {
        credential = token.credential
        generation = token.generation
        accessToken = token.access.withValue { $0 }
        expiresAt = token.expiresAt?.rfc3339
    }
}
