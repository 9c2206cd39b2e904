import HTTPTypes
import Hummingbird

/// Says what arrived: the head as JSON, the body as its size and digest.
struct Echo: Sendable {
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
