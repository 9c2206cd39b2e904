import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import HTTPTypes
import Hummingbird

/// A request that waits for an operator's approval, as operators see it.
package struct HeldRequestStatus: Hashable, Sendable, Codable {
    /// The ID of the request.
    package var id: String
    /// nil for one without a name.
    package var client: String?
    package var route: String
    package var method: String
    /// Where it would go, without what the gateway adds.
    package var url: String
    /// SHA-256 of the body, in hexadecimal digits.
    package var bodySha256: String
    package var bodyBytes: Int
    /// The tools of MCP that it calls, and other methods; nil where that is not looked at.
    package var calls: [String]?
    /// Header fields that say what the request does, and how a server reads the body; nil without them.
    package var fields: [String]?
    /// The beginning of the body. Control characters other than line breaks are escaped; quotation marks and markup are not.
    package var text: String
    /// How many bytes of the body ``text`` stands for.
    package var shownBytes: Int
    package var ageSeconds: Int
    package var expiresInSeconds: Int

    /// The most bytes that a line of ``text`` can have: each byte of the body may be escaped.
    package static let longestLine = 12 * HeldRequest.maximumShown

    init(_ request: HeldRequest, at now: MonotonicTime) {
        id = request.id
        client = request.subject.client
        route = request.subject.route
        method = request.subject.method
        url = request.subject.url
        bodySha256 = Hexadecimal.text(of: request.subject.digest)
        bodyBytes = request.bodyBytes
        calls = request.calls.isEmpty ? nil : request.calls
        fields = request.fields.isEmpty ? nil : request.fields
        text = request.text
        shownBytes = request.shownBytes
        ageSeconds = max(0, Int((now - request.heldAt).wholeMilliseconds / 1000))
        expiresInSeconds = max(0, Int((request.deadline - now).wholeMilliseconds / 1000))
    }
}

/// Who decides about a request that is held; the body has nothing.
package struct ApprovalOrder: AdminInput {
    /// The authenticated user; nil for the admin token, which belongs to no user.
    private(set) var user: String?

    package var body: [UInt8]? { nil }

    package init() {}
    package init(body: [UInt8]?) {}

    package mutating func note(person name: String?) { user = name }
}

extension AdminUser {
    /// Whether the user may approve requests. What proves it is neither in the configuration nor in a file that it names, where a
    /// program of the same user could read it.
    package var mayApprove: Bool {
        guard role == .operator else { return false }
        return proofs.tokens.allSatisfy { if case .tokenSHA256 = $0 { true } else { false } }
    }
}

extension TokenEvent {
    /// What became of a request that waits for an approval.
    init(_ name: Name, _ request: HeldRequest, by user: String? = nil, at now: UnixTime) {
        let subject = request.subject
        self.init(
            at: now,
            name: name,
            trigger: user == nil ? nil : .operator,
            demand: CredentialRequest(route: subject.route, client: subject.client, requestID: request.id)
        )
        detail["method"] = subject.method
        detail["path"] = request.place
        detail["body_sha256"] = Hexadecimal.text(of: subject.digest)
        detail["user"] = user
        if !request.calls.isEmpty { detail["calls"] = request.calls.joined(separator: ", ").singleLine(limit: 512) }
    }

    init(_ event: HeldRequest.Event, of request: HeldRequest, at now: UnixTime) {
        switch event {
        case .held: self.init(.requestHeld, request, at: now)
        case .released(let user): self.init(.requestReleased, request, by: user, at: now)
        case .ended(let reason):
            let isLate = reason == ProblemKind.approvalRequired.rawValue
            self.init(isLate ? .requestExpired : .requestDropped, request, at: now)
            if !isLate { detail["reason"] = reason }
        }
    }
}

/// `/approvals`: what waits for an operator, each with its text and two buttons. No script.
struct ApprovalForms: Sendable {
    private let options: AdminOptions

    static let endpoints = [
        AdminEndpoint(.get, "/approvals") { options, _, _ in ApprovalPage.locked(message: nil) },
        // The form says in its body whether it takes a right away. What gives one records that by itself.
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
            let isApproval = form["decision"] == operations.approve.verb
            let operation = isApproval ? operations.approve : operations.deny
            switch await operation.perform(options.control, id, order) {
            case .success: message = isApproval ? "Approved: \(id)" : "Denied: \(id)"
            case .failure(let problem): message = problem.detail
            }
        }
        switch await operations.heldRequests.perform(options.control, "", NoInput()) {
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
            <dt>Waits</dt><dd>since \(held.ageSeconds) s, for \(held.expiresInSeconds) s more</dd>
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
