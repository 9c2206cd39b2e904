import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayProxy

/// Answers to `tools/list` on their way to the client (``ToolListFilter``).
@Suite("Lists of tools", .timeLimit(.minutes(5)))
struct ToolListTests {
    private static func allow(_ source: ToolRule.Source = .body) -> [RoutePlan.Allow] {
        let tools = ["search", "read_*"].compactMap { ToolRule.NamePattern($0) }
        let path = PathPattern("/mcp") ?? PathPattern.all
        return [
            RoutePlan.Allow(methods: [], path: path, tools: ToolRule(tools: tools, source: source)),
            RoutePlan.Allow(methods: [], path: .all),
        ]
    }

    private static let list = #"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#

    private static func answer(_ names: [String]) -> String {
        let tools = names.map { #"{"name":"\#($0)"}"# }.joined(separator: ",")
        return #"{"jsonrpc":"2.0","id":7,"result":{"tools":[\#(tools)],"nextCursor":"c"}}"#
    }

    private static let all = answer(["search", "delete", "read_x"])
    private static let shown = answer(["search", "read_x"])
    private static let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    private static let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

    private static func request(_ body: String = list, _ fields: String = "", version: String = "1.1") -> String {
        "POST /api/mcp HTTP/\(version)\r\nHost: localhost\r\nContent-Type: application/json\r\n\(fields)"
            + "Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    private static func chunked(_ parts: [String]) -> String {
        parts.map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined() + "0\r\n\r\n"
    }

    /// A response in chunks. A line end is one character.
    private static func read(_ client: RawConnection) throws -> (head: String, body: String) {
        guard let head = client.read(through: "\r\n\r\n") else { throw RawError("no response") }
        #expect(head.contains("\r\nTransfer-Encoding: chunked\r\n") && !head.lowercased().contains("content-length"))
        var body = ""
        while let line = client.read(through: "\r\n"), let count = Int(line.dropLast(), radix: 16) {
            guard let part = client.read(count: count + 2) else { break }
            guard count > 0 else { return (head, body) }
            body += part.dropLast()
        }
        throw RawError("the chunks end early: \(body)")
    }

    /// However it comes: with a length, in chunks, or with the end of the connection.
    @Test(arguments: [
        "\(json)Content-Length: \(all.utf8.count)\r\n\r\n\(all)",
        "\(json)Transfer-Encoding: chunked\r\n\r\n\(chunked([String(all.prefix(9)), String(all.dropFirst(9))]))",
        "\(json)\r\n\(all)",
    ])
    func aListInJSONIsFiltered(_ response: String) async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                connection.send(response)
                if !response.contains("Content-Length"), !response.contains("chunked") { break }
            }
            connection.close()
        }
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            for _ in 0..<2 {
                client.send(Self.request(Self.list, "Accept-Encoding: gzip\r\n"))
                #expect(try Self.read(client).body == Self.shown)
            }
            #expect(origin.requests.allSatisfy { $0.contains("Accept-Encoding: identity\r\n") && !$0.contains("gzip") })
            // A client of HTTP/1.0 gets the end of the connection.
            let old = try proxy.client()
            old.send(Self.request(version: "1.0"))
            #expect(try old.readToEnd(.closed).hasSuffix("\r\n\r\n\(Self.shown)"))
        }
    }

    @Test func otherAnswersStayAsTheyCame() async throws {
        let response = "\(Self.json)Content-Length: \(Self.all.utf8.count)\r\n\r\n\(Self.all)"
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow() }) { proxy in
            for request in [
                Self.request(#"{"id":7,"method":"ping"}"#), Self.request().replacing("/api/mcp", with: "/api/other"),
                "GET /api/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
            ] {
                let answer = try proxy.exchange(request)
                #expect(answer.body == Self.all && answer.head.contains("Content-Length: \(Self.all.utf8.count)\r\n"))
            }
        }
    }

    /// The origin goes on only once the client has the event before.
    @Test func eventsFlow() async throws {
        let seen = Atomic(0)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("\(Self.events)Transfer-Encoding: chunked\r\n\r\n")
            for (index, event) in [": open\n\n", "data: {\"method\":\"a\"}\n\n", "data: \(Self.all)\n\n"].enumerated() {
                connection.send("\(String(event.utf8.count, radix: 16))\r\n\(event)\r\n")
                try blockUntil("the client has event \(index)") { seen.load(ordering: .relaxed) > index }
            }
            connection.send("0\r\n\r\n")
            _ = connection.read(count: 1)
        }
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(Self.request())
            #expect(client.read(through: "\r\n\r\n")?.contains("text/event-stream") == true)
            for (index, event) in [": open\n\n", "data: {\"method\":\"a\"}\n\n", "data: \(Self.shown)\n\n"].enumerated()
            {
                #expect(client.read(through: "\n\n\r\n")?.hasSuffix("\(event)\r\n") == true)
                seen.store(index + 1, ordering: .relaxed)
            }
            #expect(client.read(count: 5) == "0\r\n\r\n")
            client.close()
        }
    }

    /// MCP before 2026-07-28: a client resumes a stream, which may bring the answer to another request.
    @Test(arguments: [ToolRule.Source.body, .header])
    func aResumedStreamIsFiltered(_ source: ToolRule.Source) async throws {
        let response = "\(Self.events)Content-Length: \(Self.all.utf8.count + 8)\r\n\r\ndata: \(Self.all)\n\n"
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow(source) }) { proxy in
            let client = try proxy.client()
            client.send("GET /api/mcp HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 5\r\n\r\n")
            #expect(try Self.read(client).body == "data: \(Self.shown)\n\n")
        }
    }

    @Test func aReloadEndsAStreamUnderANarrowerRule() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("\(Self.events)Content-Length: 100\r\n\r\n: open\n")
            _ = connection.read(count: 1)
        }
        try await withProxy(origin, source: LockableSource(), route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send("GET /api/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.read(through: ": open\n\r\n") != nil)
            let unchanged = try proxy.reload { _ in }
            #expect(unchanged == [] && client.waitingBytes == 0)
            _ = try proxy.reload { configuration in
                for index in configuration.routes.indices {
                    configuration.routes[index].plan.allow[0].tools?.tools = []
                }
            }
            _ = try client.readToEnd(.reset)
            client.close()
        }
    }

    @Test func byFieldsAListIsFilteredToo() async throws {
        let response = "\(Self.json)Content-Length: \(Self.all.utf8.count)\r\n\r\n\(Self.all)"
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow(.header) }) { proxy in
            let client = try proxy.client()
            client.send(Self.request(Self.list, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n"))
            #expect(try Self.read(client).body == Self.shown)
        }
    }

    @Test(arguments: [
        ("\(json)Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", "has a Content-Encoding"),
        ("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nxx", "is neither"),
    ])
    func anUnreadableAnswerIsRefused(_ response: String, _ reason: String) async throws {
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow() }) { proxy in
            let answer = try proxy.exchange(Self.request())
            #expect(answer.head.hasPrefix("HTTP/1.1 200 "))
            #expect(
                answer.body.hasPrefix(#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"#)
                    && answer.body.contains(reason)
            )
            #expect(proxy.observer.requests.first?.problem == .upstreamInvalidResponse)
        }
    }

    @Test(arguments: [events, json])
    func whatIsNotJSONIsReplaced(_ head: String) async throws {
        let content = "data: {\"id\":7,\"result\":{\"tools\":[{\"name\":\"delete\"}]\n\n"
        let response = "\(head)Content-Length: \(content.utf8.count)\r\n\r\n\(content)"
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            // The connection goes on.
            for _ in 0..<2 {
                client.send(Self.request())
                let body = try Self.read(client).body
                #expect(body.contains("\"id\":7,\"error\":{\"code\":-32603") && !body.contains("delete"), "\(body)")
            }
        }
    }

    /// One that never ends, and one with very many tools.
    @Test(arguments: [events, json])
    func anEndlessAnswerIsCutOff(_ head: String) async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("\(head)\r\ndata: {\"id\":7,\"result\":{\"tools\":[")
            let tools = String(repeating: #"{"name":"delete"},"#, count: 4_000)
            for _ in 0..<100 { connection.send(tools) }
            _ = try? connection.readToEnd(.closed)
        }
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(Self.request())
            let body = try Self.read(client).body
            #expect(
                body.contains("\"id\":7,\"error\":") && body.contains("is longer than 1 MiB") && body.utf8.count < 1_000
            )
            client.close()
        }
    }

    @Test func whatIsHeldBackCountsAsMemoryOfTheClient() async throws {
        var limits = Limits()
        limits.uploadMemory = 100_000
        let origin = try RawOrigin { connection, number, _ in
            // 150 kB the first time, and 75 kB from then on.
            let list = Self.answer((0..<(number == 1 ? 8_000 : 4_000)).map { "read_\($0)" })
            while connection.readMessage() != nil {
                connection.send("\(Self.json)Content-Length: \(list.utf8.count)\r\n\r\n\(list)")
            }
        }
        try await withProxy(origin, limits: limits, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(Self.request())
            #expect(try Self.read(client).body.contains("limits.upload_memory"))
            // All of it was given back each time.
            for _ in 0..<3 {
                client.send(Self.request())
                #expect(try Self.read(client).body.contains("read_3999"))
            }
            client.close()
        }
    }

    @Test func aClientOfHTTP2GetsTheSame() async throws {
        let response = "\(Self.json)Content-Length: \(Self.all.utf8.count)\r\n\r\n\(Self.all)"
        try await withProxy(try RawOrigin.answering(response), route: { $0.allow = Self.allow() }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            for body in [Self.list, Self.list.replacing("tools/list", with: "tools/call")] {
                let fields = [("content-type", "application/json"), ("content-length", "\(body.utf8.count)")]
                let stream = try client.begin(RawHTTP2Client.head("POST", "/api/mcp", fields), isLast: false)
                client.content(Array(body.utf8), isLast: true, stream: stream)
                let response = try client.response(stream)
                guard body == Self.list else {
                    #expect(response.status == "200" && response.text.contains("-32602"))
                    continue
                }
                #expect(response.text == Self.shown && response.fields["content-length"] == nil)
            }
        }
    }

    @Test(arguments: [true, false])
    func anUpstreamOfHTTP2IsFiltered(_ hasLength: Bool) async throws {
        let origin = try RawOrigin { connection, _, _ in
            let server = try RawHTTP2Server(connection)
            let request = try server.request()
            let length = hasLength ? [("content-length", "\(Self.all.utf8.count)")] : []
            try server.head(
                [(":status", "200"), ("content-type", "application/json")] + length,
                stream: request.stream
            )
            server.content(Self.all, stream: request.stream)
            _ = server.rest()
        }
        let route = { (plan: inout RoutePlan) in (plan.allow, plan.upstreamProtocol) = (Self.allow(), .http2) }
        try await withProxy(origin, route: route) { proxy in
            let client = try proxy.client()
            client.send(Self.request())
            #expect(try Self.read(client).body == Self.shown)
            client.close()
        }
    }

    // MARK: Requests that cannot be read

    @Test func aBodyThatIsTooLongIsRefusedInJSONRPC() async throws {
        var limits = Limits()
        (limits.replayBodyBytes, limits.requestBodyBytes) = (40, 60)
        try await withProxy(try RawOrigin.answering(), limits: limits, route: { $0.allow = Self.allow() }) { proxy in
            let long = Self.list + String(repeating: " ", count: 60)
            let head =
                "POST /api/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            let requests = [
                Self.request(), Self.request(long), head + Self.chunked([Self.list]), head + Self.chunked([long]),
            ]
            for request in requests {
                let answer = try proxy.exchange(request)
                #expect(
                    answer.head.hasPrefix("HTTP/1.1 413 ") && answer.head.contains("Content-Type: application/json\r\n")
                )
                #expect(answer.body.hasPrefix(#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#), "\(answer.body)")
            }
            let broken = try proxy.exchange("\(head)zz\r\n")
            #expect(broken.head.hasPrefix("HTTP/1.1 400 ") && broken.body.contains("\"id\":null"))
            // Other paths of the route.
            let other = try proxy.exchange(Self.request(long).replacing("/api/mcp", with: "/api/other"))
            #expect(other.head.contains("application/problem+json"))
        }
    }

    @Test func aBodyThatStopsIsRefusedInJSONRPC() async throws {
        var limits = Limits()
        limits.bodyIdleTimeout = .milliseconds(200)
        try await withProxy(try RawOrigin.answering(), limits: limits, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(String(Self.request().dropLast()))
            let answer = client.readMessage()
            #expect(answer?.head.hasPrefix("HTTP/1.1 408 ") == true && answer?.body.contains("\"id\":null") == true)
        }
    }
}
