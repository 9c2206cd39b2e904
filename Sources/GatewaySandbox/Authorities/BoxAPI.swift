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
