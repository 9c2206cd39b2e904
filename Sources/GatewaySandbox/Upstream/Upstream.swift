import Crypto
import FoundationEssentials
import GatewayHTTP
import HTTPTypes
import Hummingbird

/// A server behind the gateway: accepts the tokens of every authority, a Basic user and an API key, and reports what
/// reached it. Below `/public` the same without a credential. Beside that stand the logins of ``Portal``.
struct Upstream: Sendable {
    static let methods: [HTTPRequest.Method] = [.get, .post, .put, .patch, .delete, .options]

    let world: World

    private var access: AccessCheck {
        AccessCheck(
            world: world,
            origin: .upstream,
            authorities: [.box, .duke, .oauth],
            acceptsFixedCredentials: true
        )
    }

    func router() -> Router<SandboxContext> {
        let router = Router(context: SandboxContext.self, options: .autoGenerateHeadEndpoints)
        router.add(middleware: JournalMiddleware(world: world, origin: .upstream))
        ControlAPI(world: world, origin: .upstream).routes(on: router)
        routes(on: router, under: "", needsCredential: true)
        routes(on: router, under: "/public", needsCredential: false)
        Portal(world: world).routes(on: router)
        return router
    }

    private func routes(on router: Router<SandboxContext>, under prefix: String, needsCredential: Bool) {
        func serve(
            _ path: String,
            _ methods: [HTTPRequest.Method] = [.get],
            _ answer: @escaping @Sendable (Request, SandboxContext) async throws -> Response
        ) {
            for method in methods {
                router.on(RouterPath(prefix + path), method: method) { request, context in
                    if isToBeDropped() { return try await context.cut() }
                    if needsCredential, let refusal = try await refusal(request, context) { return refusal }
                    return try await answer(request, context)
                }
            }
        }
        let echo = Echo(world: world)
        serve("/echo", Self.methods, echo.answer)
        serve("/echo/**", Self.methods, echo.answer)
        serve("/sink", [.post, .put], echo.sink)
        serve("/bytes/:count", [.get], Streams.bytes)
        serve("/sse", [.get], Streams.events)
        serve("/status/:code", Self.methods, Streams.status)
        serve("/slow", Self.methods, Streams.slow)
        serve("/redirect", [.get], Streams.redirect)
    }

    private func isToBeDropped() -> Bool {
        world.withState { state, _ in state.switches[.upstream, default: Switches()].takeDrop() }
    }

    private func refusal(_ request: Request, _ context: SandboxContext) async throws -> Response? {
        switch try await access.check(request, context) {
        case .accepted: return nil
        case .malformed: return BearerRefusal.noCredential
        case .rejected:
            let isBasic = request.headers[.authorization]?.lowercased().hasPrefix("basic ") ?? false
            return isBasic ? BearerRefusal.wrongPassword : BearerRefusal.invalidToken
        case .failure(let status, let retryAfter): return BearerRefusal.response(status, retryAfter: retryAfter)
        }
    }
}

/// Says what arrived: the head as JSON, the body as its size and digest.
private struct Echo: Sendable {
    let world: World

    @Sendable func answer(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let digest = try await read(request, context)
        let entry = world.withState { state, _ in state.journal.entry(context.sequence) }
        let target = request.head.path ?? ""
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return .json(
            [
                "method": .string(request.method.rawValue), "target": .string(target),
                "path": .string(String(parts.first ?? "")),
                "query": .optional(parts.count > 1 ? String(parts[1]) : nil),
                "host": .optional(request.head.authority),
                "headers": .array(
                    Journal.harmless(request.headers).map { .array([.string($0.0), .string($0.1)]) }
                ),
                "authorization": entry?.authorization ?? .null, "body_bytes": .integer(digest.size),
                "body_sha256": .string(digest.sha256),
            ]
        )
    }

    @Sendable func sink(_ request: Request, _ context: SandboxContext) async throws -> Response {
        let digest = try await read(request, context)
        world.withState { state, _ in
            state.counters.uploads += 1
            state.counters.uploadedBytes += digest.size
        }
        return .json(["size": .integer(digest.size), "sha256": .string(digest.sha256)])
    }

    private func read(_ request: Request, _ context: SandboxContext) async throws -> BodyDigest {
        let digest = try await BodyDigest(reading: request.body)
        world.withState { state, _ in
            state.journal.update(context.sequence) { entry in
                entry.bodySize = digest.size
                entry.bodySHA256 = digest.sha256
            }
        }
        return digest
    }
}

/// What a body consisted of: enough to prove that it arrived once and whole.
struct BodyDigest: Sendable {
    let size: Int
    let sha1: String
    let sha256: String

    /// Reads the body to its end, one piece at a time; memory does not grow with its size.
    init(reading body: RequestBody) async throws {
        var (size, sha1, sha256) = (0, Insecure.SHA1(), SHA256())
        for try await piece in body {
            let bytes = Array(piece.readableBytesView)
            size += bytes.count
            sha1.update(data: bytes)
            sha256.update(data: bytes)
        }
        self.size = size
        self.sha1 = Hexadecimal.text(of: sha1.finalize())
        self.sha256 = Hexadecimal.text(of: sha256.finalize())
    }
}
