import HTTPTypes
import Hummingbird

/// A corner of the Box API: enough of it to see whose token arrived, and the exact shapes of its refusals.
struct BoxAPI: Sendable {
    let world: World

    private var access: AccessCheck { AccessCheck(world: world, origin: .box, authorities: [.box]) }

    func routes(on router: Router<SandboxContext>) {
        router.get("/2.0/users/me") { request, context in
            try await guarded(request, context) { .json(user(id: $0)) }
        }
        router.get("/2.0/folders/:id/items") { request, context in
            let id = try context.parameters.require("id")
            return try await guarded(request, context, BoxScopes.listing) { _ in folder(id: id) }
        }
        router.get("/2.0/files/:id/content") { request, context in
            let id = try context.parameters.require("id")
            return try await guarded(request, context, BoxScopes.download) { _ in download(id: id) }
        }
        uploads(on: router)
        // Box serves uploads under `/api` of a host of its own.
        for path in ["/2.0/files/content", "/api/2.0/files/content"] {
            router.post(RouterPath(path)) { request, context in
                try await guarded(request, context, BoxScopes.upload) { _ in try await upload(request, context) }
            }
        }
    }

    private func uploads(on router: Router<SandboxContext>) {
        let uploads = BoxUploads(world: world)
        for path in ["/2.0/files/upload_sessions", "/api/2.0/files/upload_sessions"] {
            router.post(RouterPath(path)) { request, context in
                try await guarded(request, context, BoxScopes.upload) { _ in try await uploads.create(request) }
            }
        }
        func each(
            _ method: HTTPRequest.Method,
            _ suffix: String,
            _ serve: @escaping @Sendable (String, Request) async throws -> Response
        ) {
            router.on(RouterPath("/2.0/files/upload_sessions/:id\(suffix)"), method: method) { request, context in
                let id = try context.parameters.require("id")
                return try await guarded(request, context, BoxScopes.upload) { _ in try await serve(id, request) }
            }
        }
        each(.put, "") { try await uploads.addPart(to: $0, $1) }
        each(.delete, "") { id, _ in uploads.abort(id) }
        each(.get, "/parts") { id, _ in uploads.listParts(of: id) }
        each(.post, "/commit") { try await uploads.commit($0, $1) }
    }

    /// Hands over the id of the user whom the request acts as.
    ///
    /// - Parameter scopes: One of them is enough; a token that was never narrowed holds them all.
    private func guarded(
        _ request: Request,
        _ context: SandboxContext,
        _ scopes: Set<String>? = nil,
        _ serve: (_ user: String) async throws -> Response
    ) async throws -> Response {
        var response: Response
        switch try await access.check(request, context) {
        case .accepted(let caller):
            let held = caller.token?.scopes ?? []
            let mayCall = held.isEmpty || (scopes.map { !$0.isDisjoint(with: held) } ?? true)
            if mayCall, let user = actingUser(caller, asUser: request.headers[.asUser]) {
                response = try await serve(user)
            } else {
                world.withState { state, _ in state.counters.forbidden[.box, default: 0] += 1 }
                response = BoxRefusal.insufficientScope
            }
        case .malformed: response = BoxRefusal.malformed
        case .rejected: response = BoxRefusal.invalidToken
        case .failure(let status, let retryAfter): response = BoxRefusal.response(status, retryAfter: retryAfter)
        }
        response.headers[.boxRequestID] = "sandbox\(max(0, context.sequence))"
        return response
    }

    /// nil when the token may not act as that user: only a service account may, and not as itself.
    private func actingUser(_ caller: AccessCheck.Caller, asUser: String?) -> String? {
        let parts = (caller.token?.subject ?? "").split(separator: ":").map(String.init)
        guard parts.count == 2 else { return nil }
        let isService = parts[0] == "enterprise"
        guard let asUser else { return isService ? world.accounts.boxServiceAccount : parts[1] }
        return isService && world.accounts.boxUsers[asUser] != nil ? asUser : nil
    }

    private func user(id: String) -> JSON {
        [
            "type": "user", "id": .string(id),
            "name": .string(world.accounts.boxUsers[id] ?? "Sandbox Service Account"),
            "login": .string("user\(id)@sandbox.example"), "status": "active",
        ]
    }

    private func folder(id: String) -> Response {
        guard ["0", "160000001"].contains(id) else {
            return BoxRefusal.json(404, code: "not_found", "Not Found")
        }
        var entries: [JSON] = [["type": "file", "id": "1", "etag": "0", "name": "one.txt"]]
        if id == "0" { entries.append(["type": "folder", "id": "160000001", "etag": "0", "name": "Reports"]) }
        return .json(
            [
                "total_count": .integer(entries.count), "entries": .array(entries), "offset": 0, "limit": 100,
                "order": [["by": "type", "direction": "ASC"], ["by": "name", "direction": "ASC"]],
            ]
        )
    }

    private func download(id: String) -> Response {
        let base = world.withState { state, _ in state.addresses?.boxDownloads } ?? ""
        return .empty(.found, [.location: "\(base)/d/1/sandbox-\(id)/download"])
    }

    /// The digest is that of the request body as it arrived, multipart framing included.
    private func upload(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let digest = try await BodyDigest(reading: request.body)
        let id = world.withState { state, _ in
            state.counters.uploads += 1
            state.counters.uploadedBytes += digest.size
            state.journal.update(context.sequence) { entry in
                entry.bodySize = digest.size
                entry.bodySHA256 = digest.sha256
            }
            return state.counters.uploads
        }
        let file: JSON = [
            "type": "file", "id": .string("5\(id)"), "etag": "0", "name": .string("upload-\(id)"),
            "size": .integer(digest.size), "sha1": .string(digest.sha1), "sha256": .string(digest.sha256),
        ]
        return .json(["total_count": 1, "entries": .array([file])], status: .created)
    }
}

/// What a downscoped Box token may ask for, and which of it opens what.
enum BoxScopes {
    static let all: Set<String> = [
        "annotation_edit", "annotation_view_all", "annotation_view_self", "base_explorer", "base_picker",
        "base_preview", "base_sidebar", "base_upload", "item_delete", "item_download", "item_preview", "item_rename",
        "item_share", "item_upload", "root_readonly", "root_readwrite",
    ]

    static let listing: Set<String> = ["base_explorer", "base_picker", "root_readonly", "root_readwrite"]
    static let download: Set<String> = ["item_download", "root_readonly", "root_readwrite"]
    static let upload: Set<String> = ["base_upload", "item_upload", "root_readwrite"]
}

/// How Box says no, field by field and byte by byte.
enum BoxRefusal {
    static let invalidToken = challenge(
        .unauthorized,
        error: "invalid_token",
        "The access token provided is invalid."
    )
    static let malformed = challenge(.unauthorized, error: "invalid_request", "The access token was not found.")
    static let insufficientScope = challenge(
        .forbidden,
        error: "insufficient_scope",
        "The request requires higher privileges than provided by the access token."
    )

    static func response(_ status: Int, retryAfter: String?) -> Response {
        var response: Response
        switch status {
        case 401: response = invalidToken
        case 403: response = insufficientScope
        case 429: response = json(429, code: "rate_limit_exceeded", "Request rate limit exceeded")
        case 503: response = json(503, code: "unavailable", "Service unavailable")
        default: response = json(status, code: "internal_server_error", "The sandbox was told to fail")
        }
        response.headers[.lowerCaseRetryAfter] = retryAfter ?? (status == 429 ? "1" : nil)
        return response
    }

    static func json(_ status: Int, code: String, _ message: String) -> Response {
        .json(
            [
                "type": "error", "status": .integer(status), "code": .string(code), "message": .string(message),
                "help_url": "http://developers.box.com/docs/#errors", "request_id": "sandbox",
            ],
            status: HTTPResponse.Status(code: status)
        )
    }

    private static func challenge(_ status: HTTPResponse.Status, error: String, _ description: String) -> Response {
        let value = "Bearer realm=\"Service\", error=\"\(error)\", error_description=\"\(description)\""
        return .empty(status, [.wwwAuthenticate: value])
    }
}

/// The second origin, to which downloads are redirected: a credential that arrives here has leaked.
struct BoxDownloads: Sendable {
    let world: World

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self)
        router.add(middleware: JournalMiddleware(world: world, origin: .boxDownloads))
        ControlAPI(world: world, origin: .boxDownloads).routes(on: router)
        router.get("/d/1/:file/download") { request, context in
            try serve(request, context, file: try context.parameters.require("file"))
        }
        return router
    }

    private func serve(_ request: Request, _ context: SandboxContext, file: String) throws -> Response {
        guard request.headers[values: .authorization].isEmpty else {
            world.withState { state, _ in
                state.counters.authorizationLeaks += 1
                state.counters.rejected[.boxDownloads, default: 0] += 1
                state.journal.update(context.sequence) { $0.authorization = ["leaked": true, "accepted": false] }
            }
            return .empty(.unauthorized)
        }
        return .text(
            "content of \(file)\n",
            type: "application/octet-stream",
            fields: [.contentDisposition: "attachment;filename=\"\(file).txt\""]
        )
    }
}
