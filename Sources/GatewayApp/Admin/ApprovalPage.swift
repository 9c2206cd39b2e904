import GatewayHTTP
import GatewayProxy
import GatewayTokens
import HTTPTypes
import Hummingbird

/// `/approvals`: what waits for an operator, each with its text and two buttons. No script.
struct ApprovalForms: Sendable {
    private let options: AdminOptions

    static let endpoints = [
        AdminEndpoint(.get, "/approvals") { options, _, _ in ApprovalPage.locked(message: nil) },
        // Only the body shows whether this denies a request, so it is treated as a withdrawal. Approving writes its own audit event.
        AdminEndpoint(.post, "/approvals", withdraws: true) { try await ApprovalForms(options: $0).answer($1, $2) },
    ]

    /// The token is asked for with each decision, so that a page left open is no key to the gateway.
    private func answer(_ request: Request, _ context: AdminContext) async throws -> Response {
        guard let form = try await AdminForm.read(request) else {
            return ApprovalPage.locked(message: "The form is not valid.")
        }
        let authorization = options.authorization
        let evidence = authorization.evidence(typed: form["token"] ?? "", peer: context.peer)
        if let problem = await authorization.refusal(of: evidence, needing: .operator, for: request) {
            return ApprovalPage.locked(
                message: problem.kind == .adminAuthRequired ? "This is not the token of an operator." : problem.detail
            )
        }
        var order = ApprovalOrder()
        order.note(person: evidence.userName)
        let operations = AdminAPI.operations
        var message: String?
        if let id = form["id"] {
            guard
                let operation = [operations.approve, operations.deny].first(where: { $0.verb == form["decision"] })
            else { return await list(message: "Choose Approve or Deny.") }
            switch await operation.perform(options.control, id, order) {
            case .success: message = operation.verb == operations.approve.verb ? "Approved: \(id)" : "Denied: \(id)"
            case .failure(let problem): message = problem.detail
            }
        }
        return await list(message: message)
    }

    private func list(message: String?) async -> Response {
        switch await AdminAPI.operations.heldRequests.perform(options.control, "", NoInput()) {
        case .success(let held): return ApprovalPage.list(held, message: message)
        case .failure(let problem): return ApprovalPage.locked(message: problem.detail)
        }
    }
}

/// The pages of ``ApprovalForms``.
enum ApprovalPage {
    static func locked(message: String?) -> Response {
        LoginPage.page(
            "Requests that wait for approval",
            """
            \(message.map { "<p class=\"bad\" role=\"alert\">\($0)</p>" as HTML })
            <form method="post" action="/approvals">
            \(tokenField(id: "token"))
            <p><button>Show them</button></p>
            </form>
            \(footer)
            """,
            status: message == nil ? .ok : .unauthorized
        )
    }

    static func list(_ held: [HeldRequestStatus], message: String?) -> Response {
        let none: HTML? = held.isEmpty ? "<p>No request waits for approval.</p>" : nil
        return LoginPage.page(
            "Requests that wait for approval",
            """
            \(message.map { "<p role=\"status\"><strong>\($0)</strong></p>" as HTML })
            \(none)
            \(held.map(card))
            \(footer)
            """
        )
    }

    private static func card(_ held: HeldRequestStatus) -> HTML {
        let calls = held.calls.map { "<dt>Calls</dt><dd>\($0.joined(separator: ", "))</dd>" as HTML }
        let fields = held.fields.map { "<dt>Fields</dt><dd>\($0.joined(separator: ", "))</dd>" as HTML }
        let rest = held.bodyBytes - held.shownBytes
        let cut: HTML? =
            rest > 0 ? "<p class=\"bad\"><strong>\(rest) more bytes of the body are not shown.</strong></p>" : nil
        let text: HTML =
            held.bodyBytes == 0
            ? "<p class=\"soft\">It has no body.</p>"
            : "<pre class=\"panel\" tabindex=\"0\" aria-label=\"Body of \(held.id)\">\(held.text)</pre>"
        return """
            <article class="panel approval" aria-labelledby="h-\(held.id)">
            <h2 id="h-\(held.id)"><code>\(held.method) \(held.url.singleLine(limit: HeldRequestStatus.longestLine))</code></h2>
            <dl><dt>Client</dt><dd>\(held.client ?? "no name")</dd><dt>Route</dt><dd>\(held.route)</dd>\(calls)\(fields)
            <dt>Waiting</dt><dd>\(held.ageSeconds) s; expires in \(held.expiresInSeconds) s</dd>
            <dt>ID</dt><dd><code>\(held.id)</code></dd>
            <dt>SHA-256</dt><dd><code>\(held.bodySha256)</code> (\(held.bodyBytes) bytes)</dd></dl>
            \(text)
            \(cut)
            <form method="post" action="/approvals">
            <input type="hidden" name="id" value="\(held.id)">
            \(tokenField(id: "t-\(held.id)"))
            <p class="actions"><button name="decision" value="approve" class="primary">Approve once</button>
            <button name="decision" value="deny" class="danger">Deny</button></p>
            </form>
            </article>
            """
    }

    private static func tokenField(id: String) -> HTML {
        """
        <p><label for="\(id)">Token of an operator (not the admin token of the state directory)</label><br>
        <input id="\(id)" type="password" name="token" autocomplete="off"></p>
        """
    }

    private static let footer: HTML = """
        <p class="soft"><a href="/">Back</a>. Or on the command line: authgateway approve</p>
        """
}
