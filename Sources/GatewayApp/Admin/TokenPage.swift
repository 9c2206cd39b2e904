import GatewayHTTP
import GatewayTokens
import HTTPTypes
import Hummingbird

/// The pages on which a person does something with one token. No script: a form, and what came of it.
enum TokenPage {
    /// Asks for the admin token each time, so that a page left open is no key to the gateway.
    ///
    /// - Parameters:
    ///   - state: nil where it is not to be seen without the admin token.
    ///   - isStatic: Whether there is no token to renew or revoke.
    static func form(
        of credential: String,
        state: TokenStatus.State?,
        isStatic: Bool = false,
        message: String? = nil
    ) -> Response {
        let note = message.map { "<p class=\"bad\">\($0)</p>" as HTML }
        let buttons = operations(isLocked: state.map { $0 == .locked }, isStatic: isStatic).map { operation -> HTML in
            let verb = operation.verb
            return "<p><button name=\"operation\" value=\"\(verb)\">\(verb)</button> \(operation.summary)</p>"
        }
        let shown = state.map { "<p>State: <span class=\"code\">\($0.rawValue)</span></p>" as HTML }
        return LoginPage.page(
            "Token: \(credential)",
            """
            \(note)
            \(shown)
            <form method="post" action="/token">
            <input type="hidden" name="credential" value="\(credential)">
            <p><label>Admin token (the file admin.token in the state directory)<br>
            <input type="password" name="token" autocomplete="off" required autofocus></label></p>
            \(buttons)
            </form>
            <p class="soft"><a href="/">Back</a>. Or on the command line: authgateway token --help</p>
            """,
            status: message == nil ? .ok : .unauthorized
        )
    }

    static func outcome(_ result: Result<OperationReport, GatewayProblem>) -> Response {
        switch result {
        case .success(let report): page("Done", report.message, status: .ok)
        case .failure(let problem):
            page("That did not work", problem.detail, status: HTTPResponse.Status(code: problem.kind.status))
        }
    }

    private static func page(_ title: String, _ words: String, status: HTTPResponse.Status) -> Response {
        LoginPage.page(title, "<p>\(words)</p>\n<p><a href=\"/\">Back</a></p>", status: status)
    }

    /// The operations that the page offers.
    ///
    /// - Parameters:
    ///   - isLocked: nil when that is not known.
    ///   - isStatic: There is no token.
    static func operations(isLocked: Bool?, isStatic: Bool = false) -> [AdminAPI.Operation<OperationReport>] {
        AdminAPI.onTokens.filter { operation in
            switch operation.button?.use {
            case .renewal, .token: !isStatic
            case .lock: isLocked != true
            case .unlock: isLocked != false
            case nil: false
            }
        }
    }
}

/// `/token`: the operations on one token as a form.
struct TokenForms: Sendable {
    private let options: AdminOptions

    static let endpoints = [
        AdminEndpoint(.get, "/token") { options, request, _ in
            let name = request.uri.queryParameters["credential"].map(String.init) ?? ""
            return await TokenForms(options: options).page(of: name, message: nil)
        },
        // The form says in its body which operation it is.
        AdminEndpoint(.post, "/token", withdraws: true) { try await TokenForms(options: $0).perform($1, $2) },
    ]

    private func page(of name: String, message: String?) async -> Response {
        if options.requiresToken { return TokenPage.form(of: name, state: nil, message: message) }
        return switch await AdminAPI.operations.token.perform(options.control, name, NoInput()) {
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

    private func perform(_ request: Request, _ context: AdminContext) async throws -> Response {
        let form = try LoginParameters(query: try await AdminForm.text(request))
        let name = form["credential"] ?? ""
        if let refusal = await options.authorization.refusal(typed: form["token"] ?? "", context, request) {
            return await page(of: name, message: refusal)
        }
        guard let chosen = AdminAPI.onTokens.first(where: { $0.verb == form["operation"] }) else {
            return await page(of: name, message: "Choose one of the buttons.")
        }
        return TokenPage.outcome(await chosen.perform(options.control, name, NoInput()))
    }
}
