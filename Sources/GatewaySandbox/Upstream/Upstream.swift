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
