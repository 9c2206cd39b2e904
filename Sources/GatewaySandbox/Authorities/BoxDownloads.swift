import HTTPTypes
import Hummingbird

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
