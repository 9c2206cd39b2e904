import HTTPTypes
import Hummingbird

/// Writes every request into the journal, except those that steer or read the sandbox.
struct JournalMiddleware: RouterMiddleware {
    let world: World
    let origin: OriginName

    func handle(
        _ request: Request,
        context: SandboxContext,
        next: (Request, SandboxContext) async throws -> Response
    ) async throws -> Response {
        guard !request.uri.path.hasPrefix("/_") else { return try await next(request, context) }
        var context = context
        context.sequence = world.withState { state, _ in
            state.counters.requests[origin, default: 0] += 1
            return state.journal.begin(request.head, at: origin)
        }
        do {
            let response = try await next(request, context)
            note(response.status, context)
            return response
        } catch let error as any HTTPResponseError {
            note(error.status, context)
            throw error
        }
    }

    private func note(_ status: HTTPResponse.Status, _ context: SandboxContext) {
        world.withState { state, _ in state.journal.update(context.sequence) { $0.status = status.code } }
    }
}
