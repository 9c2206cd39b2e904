import AsyncHTTPClient
import Foundation
import GatewayEvents
import GatewayHTTP
import NIOCore
import NIOHTTP1
import Testing

@testable import GatewayApp

@Suite(.timeLimit(.minutes(1)))
struct AdminEventsTests {
    private static let token = "d0c0ffee"
    private let broadcaster = EventBroadcaster()

    private func entries(_ ids: ClosedRange<Int64>, event: String = "renewed") -> [AuditEntry] {
        ids.map { AuditEntry(id: $0, at: "2026-11-25T12:00:00.000Z", event: event, credential: "box") }
    }

    @Test func theNewestAreListedFirst() async throws {
        broadcaster.publish(entries(5...8))
        try await serving { (port: Int) async throws in
            let answer = try await get("/api/events?since=6&kind=renewals", port)
            #expect(answer.status == .ok)
            #expect(answer.text.hasPrefix("{\"events\":[{\"at\":\"2026-11-25T12:00:00.000Z\",\"credential\":\"box\""))
            #expect(answer.text.contains("\"is_complete\":true"))
            let ids = try JSONDecoder().decode(Listing.self, from: Data(answer.text.utf8)).events.map(\.id)
            #expect(ids == [8, 7])
        }
    }

    @Test(arguments: ["kind=renewal", "since=x", "since=-1", "limit=many"])
    func aFilterThatIsNoneIsRefused(_ query: String) async throws {
        try await serving { (port: Int) async throws in
            let answer = try await get("/api/events?\(query)", port)
            #expect(answer.status == .badRequest)
            #expect(answer.type == "application/problem+json")
        }
    }

    @Test func whatIsNotInMemoryComesFromTheLog() async throws {
        broadcaster.publish(entries(50...51))
        let older = entries(1...51)
        var options = options
        options.olderEvents = { _, since, limit in
            #expect(since == 10 && limit == 500)
            return RecentEvents.Page(events: older.reversed(), isComplete: true)
        }
        try await serving(options) { (port: Int) async throws in
            let answer = try await get("/api/events?since=10", port)
            #expect(try JSONDecoder().decode(Listing.self, from: Data(answer.text.utf8)).events.count == 51)
        }
        // The log does not answer in time.
        try await serving { (port: Int) async throws in
            let answer = try await get("/api/events?since=10", port)
            #expect(try JSONDecoder().decode(Listing.self, from: Data(answer.text.utf8)).events.count == 2)
            #expect(answer.text.contains("\"is_complete\":false"))
        }
    }

    @Test func aStreamBeginsWhereTheReaderLeftItAndEndsAtTheStop() async throws {
        broadcaster.publish(entries(1...3))
        let stop = ContinuousClock.now
        try await serving { (port: Int) async throws in
            let fields = [("Accept", "text/event-stream"), ("Last-Event-ID", "2")]
            let response = try await open("/api/events", port, fields)
            #expect(response.status == .ok)
            #expect(response.headers.first(name: "Content-Type")?.hasPrefix("text/event-stream") == true)
            broadcaster.publish(entries(4...4))
            var text = ""
            for try await part in response.body {
                text += String(buffer: part)
                if text.contains("id: 4\n") { break }
            }
            #expect(text.hasPrefix("retry: 3000\n\nid: 3\ndata: {\"at\":"))
            #expect(text.hasSuffix("}\n\n"))
            #expect(!text.contains("event: gap"))
        }
        #expect(ContinuousClock.now - stop < .seconds(20), "an open stream holds up no stop")
    }

    @Test func aStreamThatCannotBeWholeSaysSo() async throws {
        broadcaster.publish(entries(50...51))
        try await serving { (port: Int) async throws in
            let response = try await open("/api/events?since=2", port, [("Accept", "text/event-stream")])
            for try await part in response.body {
                #expect(String(buffer: part).contains("event: gap\ndata: {}\n\nid: 50\n"))
                break
            }
        }
    }

    @Test func theStreamOfThePageHasRows() async throws {
        try await serving { (port: Int) async throws in
            let response = try await open("/live?kind=renewed", port, [])
            broadcaster.publish(entries(1...1, event: "acquired") + entries(2...2))
            var text = ""
            for try await part in response.body {
                text += String(buffer: part)
                if text.contains("</li>") { break }
            }
            #expect(text.contains("id: 2\ndata: <li id=\"e-2\">"))
            #expect(!text.contains("e-1"))
        }
    }

    @Test func tooManyStreamsAreRefused() async throws {
        for _ in 0..<EventBroadcaster.streamLimit { _ = broadcaster.open(EventQuery(), after: nil) {} }
        try await serving { (port: Int) async throws in
            let answer = try await get("/live", port)
            #expect(answer.status == .serviceUnavailable)
            #expect(answer.retryAfter == "5")
            #expect(try await get("/api/events", port).status == .ok, "a list needs no stream")
        }
    }

    // MARK: require_token

    @Test(arguments: [
        "/metrics", "/api/tokens", "/api/routes", "/api/expirations", "/api/traffic", "/api/overview", "/api/events",
        "/live", "/api/fleet", "/api/traffic/hour",
        "/readyz?verbose", "//api/tokens", "/api//tokens", "/api/tokens/", "/nothing",
    ])
    func withoutTheTokenNothingIsSeen(_ path: String) async throws {
        var options = options
        options.requiresToken = true
        try await serving(options) { (port: Int) async throws in
            #expect(try await get(path, port).status == .unauthorized)
            #expect(try await get(path, port, [("Authorization", "Bearer wrong")]).status == .unauthorized)
        }
        try await serving { (port: Int) async throws in #expect(try await get("/api/tokens", port).status == .ok) }
    }

    @Test func withTheTokenAllIsAsEver() async throws {
        var options = options
        options.requiresToken = true
        try await serving(options) { (port: Int) async throws in
            let fields = [("Authorization", "Bearer \(Self.token)")]
            for path in ["/metrics", "/api/tokens", "/api/events", "/api/fleet", "/readyz?verbose"] {
                #expect(try await get(path, port, fields).status == .ok)
            }
            #expect(try await get("/", port, fields).text.contains("<h2 id=\"routes-title\">"))
        }
    }

    @Test func thePageAsksForTheTokenAndShowsNothingBefore() async throws {
        var options = options
        options.requiresToken = true
        try await serving(options) { (port: Int) async throws in
            for path in ["/", "/explain?q=x"] {
                let page = try await get(path, port)
                #expect(page.status == .unauthorized)
                #expect(page.text.contains("id=\"page-token\""))
                #expect(!page.text.contains("box"))
            }
            let token = try await get("/token?credential=box", port)
            #expect(token.status == .ok && !token.text.contains("State:"))
            for path in ["/healthz", "/readyz", "/style.css", "/script.js", "/icon.svg", "/login?credential=x"] {
                #expect(try await get(path, port).status != .unauthorized)
            }
            #expect(try await post("/", port, "token=wrong").status == .unauthorized)
            let page = try await post("/", port, "token=\(Self.token)")
            #expect(page.status == .ok && page.text.contains("<h2 id=\"routes-title\">"))
        }
    }

    // MARK: Explain

    @Test func anExplanationIsForWhoHoldsTheToken() async throws {
        var options = options
        options.explanations = EchoedQuestions()
        try await serving(options) { (port: Int) async throws in
            let asked = try await get("/explain?q=r9f2-1", port)
            #expect(asked.status == .ok && asked.text.contains("data-asked") && !asked.text.contains("forwarded"))
            let refused = try await post("/explain", port, "q=r9f2-1&token=wrong")
            #expect(refused.status == .unauthorized && !refused.text.contains("forwarded"))
            let form = try await post("/explain", port, "q=r9f2-1&token=\(Self.token)")
            #expect(form.status == .ok && form.text.contains("&lt;forwarded&gt; r9f2-1\n</pre>"))
            let script = try await post("/explain", port, "q=r9f2-1", [("Authorization", "Bearer \(Self.token)")])
            #expect(script.text.contains("&lt;forwarded&gt; r9f2-1\n</pre>"))
        }
    }

    // MARK: Helpers

    private struct Listing: Decodable {
        struct Entry: Decodable { let id: Int64 }
        let events: [Entry]
    }

    private var options: AdminOptions {
        var options = AdminOptions(
            control: ScriptedControl(),
            token: Secret(Self.token),
            metrics: { "up 1\n" },
            now: { UnixTime(seconds: 1_764_072_000) }
        )
        options.broadcaster = broadcaster
        return options
    }

    private func serving(_ options: AdminOptions? = nil, _ body: (Int) async throws -> Void) async throws {
        try await withAdminServer(options ?? self.options, body)
    }

    private func get(_ path: String, _ port: Int, _ fields: [(String, String)] = []) async throws -> AdminAnswer {
        try await askAdmin(.GET, path, port, fields: fields)
    }

    private func post(
        _ path: String,
        _ port: Int,
        _ form: String,
        _ fields: [(String, String)] = []
    ) async throws -> AdminAnswer {
        try await askAdmin(.POST, path, port, fields: fields, body: form)
    }

    private func open(_ path: String, _ port: Int, _ fields: [(String, String)]) async throws -> HTTPClientResponse {
        try await openAdmin(.GET, path, port, fields: fields)
    }
}

/// Answers with the question, as what became of a request.
private struct EchoedQuestions: ExplanationControl {
    func explain(_ question: ExplanationQuestion) async -> Result<ExplanationAnswer, GatewayProblem> {
        let remarks = ["<forwarded> \(question.input)"]
        return .success(ExplanationAnswer(RequestHistory(id: "", known: [], events: [:], remarks: remarks)))
    }
}
