import GatewayEvents
import GatewayHTTP
import GatewayProxy
import HTTPTypes
import Hummingbird
import NIOCore

/// `/api/events`: the newest rows of the audit log, as a list or, where `Accept` asks for it, as a stream of server-sent
/// events. `/live` is the same stream as rows of the page.
struct AdminEvents: Sendable {
    private let options: AdminOptions

    static let endpoints = [
        AdminEndpoint(.get, "/api/events", .role(.viewer)) { options, request, context in
            let events = AdminEvents(options: options)
            guard wantsStream(request) else { return await events.list(request) }
            return events.stream(request, context) { AdminResponse.encoded($0) ?? "{}" }
        },
        AdminEndpoint(.get, "/live", .role(.viewer)) { options, request, context in
            AdminEvents(options: options).stream(request, context, isPage: true) { [now = options.now] in
                LiveSection.row(of: $0, now: now()).text
            }
        },
    ]

    private static func wantsStream(_ request: Request) -> Bool {
        request.headers[values: .accept].contains { $0.lowercased().contains("text/event-stream") }
    }

    // MARK: List

    private func list(_ request: Request) async -> Response {
        do throws(GatewayProblem) {
            let query = try Self.query(request)
            let since = try Self.number("since", request)
            let limit = try Self.number("limit", request).map { Int(clamping: $0) } ?? RecentEvents.pageLimit
            return AdminResponse.json(
                await options.events(query, since: since, limit: min(max(1, limit), RecentEvents.pageLimit))
            )
        } catch {
            return AdminResponse.problem(error)
        }
    }

    static func query(_ request: Request) throws(GatewayProblem) -> EventQuery {
        let parameters = request.uri.queryParameters
        return try EventQuery { parameters[$0[...]].map(String.init) }
    }

    private static func number(_ name: Substring, _ request: Request) throws(GatewayProblem) -> Int64? {
        guard let text = request.uri.queryParameters[name], !text.isEmpty else { return nil }
        guard let number = Int64(text), number >= 0 else {
            throw GatewayProblem(.requestRefused, "\(name) must be a whole number.")
        }
        return number
    }

    // MARK: Stream

    private func stream(
        _ request: Request,
        _ context: AdminContext,
        isPage: Bool = false,
        _ text: @escaping @Sendable (AuditEntry) -> String
    ) -> Response {
        var query: EventQuery
        let last: Int64?
        do throws(GatewayProblem) {
            query = try Self.query(request)
            query.mergesWithheld = isPage
            let since = try Self.number("since", request)
            last = HTTPField.Name("Last-Event-ID").flatMap { request.headers[$0] }.flatMap { Int64($0) } ?? since
        } catch {
            return AdminResponse.problem(error)
        }
        let (broadcaster, channel, maySeeOn) = (options.broadcaster, context.channel, context.maySeeOn)
        guard let stream = broadcaster.open(query, after: last, cut: { channel.close(promise: nil) }) else {
            let detail = "\(EventBroadcaster.streamLimit) streams are open, or the gateway is stopping."
            return AdminResponse.problem(GatewayProblem(.overloaded, detail, retryAfter: .seconds(5)))
        }
        // Also where the response is never written.
        channel.closeFuture.whenComplete { _ in broadcaster.end(stream.number) }
        EndOfInput.closes(channel)
        return AdminResponse.stream { writer in
            defer { broadcaster.end(stream.number) }
            try await writer.write(ByteBuffer(string: Self.beginning(of: stream, text)))
            for await signal in stream.signals {
                // A reload may have taken the right away.
                guard await maySeeOn() else { break }
                try await writer.write(ByteBuffer(string: Self.block(of: signal, text)))
            }
            try await writer.finish(nil)
        }
    }

    /// `gap` tells that some of what the reader has missed is not sent.
    private static func beginning(of stream: EventBroadcaster.Stream, _ text: (AuditEntry) -> String) -> String {
        let start = "retry: 3000\n\n" + (stream.isWhole ? "" : "event: gap\ndata: {}\n\n")
        return stream.missed.reduce(into: start) { $0 += block(of: .entry($1), text) }
    }

    private static func block(of signal: EventBroadcaster.Signal, _ text: (AuditEntry) -> String) -> String {
        guard case .entry(let entry) = signal else { return ":\n\n" }
        let lines = text(entry).split(separator: "\n").map { "data: \($0)\n" }.joined()
        return (entry.id.map { "id: \($0)\n" } ?? "") + "\(lines)\n"
    }
}

/// Closes the connection of a stream when its reader ends its side: a reader that leaves is noticed at once, and not with
/// the second heartbeat.
private final class EndOfInput: ChannelInboundHandler {
    typealias InboundIn = NIOAny

    static func closes(_ channel: any Channel) {
        channel.eventLoop.execute {
            try? channel.pipeline.syncOperations.addHandler(EndOfInput(), position: .first)
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed? = event as? ChannelEvent {
            context.close(promise: nil)
        } else {
            context.fireUserInboundEventTriggered(event)
        }
    }
}
