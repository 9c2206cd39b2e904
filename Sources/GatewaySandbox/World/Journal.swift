import HTTPTypes
import Hummingbird

/// The last requests that reached the sandbox, as they reached it; credentials reduced to what became of them.
struct Journal: Sendable {
    struct Entry: Sendable {
        let sequence: Int
        let origin: OriginName
        let method: String
        let target: String
        let host: String
        let fields: [(String, String)]
        var authorization: JSON
        var bodySize: Int?
        var bodySHA256: String?
        var status: Int?

        var json: JSON {
            [
                "sequence": .integer(sequence),
                "origin": .string(origin.rawValue),
                "method": .string(method),
                "target": .string(target),
                "host": .string(host),
                "headers": .array(fields.map { .array([.string($0.0), .string($0.1)]) }),
                "authorization": authorization,
                "body_bytes": bodySize.map { .integer($0) } ?? .null,
                "body_sha256": .optional(bodySHA256),
                "status": status.map { .integer($0) } ?? .null,
            ]
        }
    }

    static let capacity = 2_000
    /// Characters kept of a value.
    private static let valueLimit = 512

    private var entries: [Entry] = []
    private var next = 0

    mutating func begin(_ head: HTTPRequest, at origin: OriginName) -> Int {
        let sequence = next
        next += 1
        entries.append(
            Entry(
                sequence: sequence,
                origin: origin,
                method: head.method.rawValue,
                target: String((head.path ?? "").prefix(Self.valueLimit)),
                host: head.authority ?? "",
                fields: Self.harmless(head.headerFields).map { ($0.0, String($0.1.prefix(Self.valueLimit))) },
                authorization: .null
            )
        )
        if entries.count > 2 * Self.capacity { entries.removeFirst(Self.capacity) }
        return sequence
    }

    mutating func update(_ sequence: Int, _ change: (inout Entry) -> Void) {
        guard let first = entries.first?.sequence, entries.indices.contains(sequence - first) else { return }
        change(&entries[sequence - first])
    }

    func entry(_ sequence: Int) -> Entry? {
        guard let first = entries.first?.sequence, entries.indices.contains(sequence - first) else { return nil }
        return entries[sequence - first]
    }

    mutating func clear() { entries = [] }

    /// The last `limit` requests, oldest first, of one origin or of all.
    func last(_ limit: Int, of origin: OriginName?) -> [Entry] {
        entries.filter { origin == nil || $0.origin == origin }.suffix(max(0, limit))
    }

    /// The fields without those that carry a credential.
    static func harmless(_ fields: HTTPFields) -> [(String, String)] {
        let secret: Set<HTTPField.Name> = [
            .authorization, .proxyAuthorization, .cookie, .accessToken, .sessionToken, .apiKey, .session,
        ]
        return fields.map { ($0.name.rawName, secret.contains($0.name) ? "(not shown)" : $0.value) }
    }
}

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
