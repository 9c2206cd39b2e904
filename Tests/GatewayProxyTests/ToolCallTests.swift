import GatewayHTTP
import GatewayTesting
import Synchronization
import Testing

@testable import GatewayProxy

/// Calls of tools that are read from the body before a request is sent (``ToolRule``).
@Suite("Calls of tools", .timeLimit(.minutes(5)))
struct ToolCallTests {
    private func origin() throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage(readsChunks: true) {
                origin.record(message.head + message.body)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }

    private static func allow(_ source: ToolRule.Source = .body) -> [RoutePlan.Allow] {
        let tools = ["search", "read_*"].compactMap { ToolRule.NamePattern($0) }
        let path = PathPattern("/mcp") ?? PathPattern.all
        return [RoutePlan.Allow(methods: [], path: path, tools: ToolRule(tools: tools, source: source))]
    }

    private static func call(_ tool: String) -> String {
        #"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\#(tool)"}}"#
    }

    private static let head = "POST /api/mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

    private static func request(_ body: String, _ fields: String = "") -> String {
        "\(head)\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    private static func chunked(_ body: String, _ trailers: String = "") -> String {
        let middle = body.utf8.count / 2
        let parts = [body.prefix(middle), body.dropFirst(middle)]
        let chunks = parts.map { "\(String($0.utf8.count, radix: 16))\r\n\($0)\r\n" }.joined()
        return "\(head)Transfer-Encoding: chunked\r\n\r\n\(chunks)0\r\n\(trailers)\r\n"
    }

    @Test func anAllowedCallIsSentAsItCame() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let body = Self.call("read_file")
            for request in [Self.request(body), Self.chunked(body)] {
                try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200 "))
            }
            let framings = ["Content-Length: \(body.utf8.count)", "Transfer-Encoding: chunked"]
            try #require(origin.requests.count == framings.count)
            for (sent, framing) in zip(origin.requests, framings) {
                #expect(sent.hasPrefix("POST /mcp HTTP/1.1\r\n") && sent.contains("\r\n\(framing)\r\n"), "\(sent)")
                #expect(sent.hasSuffix("\r\n\r\n\(body)"), "\(sent)")
            }
        }
    }

    @Test func anotherCallGetsAnErrorAndReachesNobody() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            for request in [Self.request(Self.call("delete")), Self.chunked(Self.call("delete"))] {
                let answer = try proxy.exchange(request)
                #expect(
                    answer.head.hasPrefix("HTTP/1.1 200 ") && answer.head.contains("Content-Type: application/json\r\n")
                )
                #expect(answer.body.hasPrefix(#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"#), "\(answer.body)")
            }
            let broken = try proxy.exchange(Self.request(Self.call("search") + "x"))
            #expect(broken.head.hasPrefix("HTTP/1.1 400 ") && broken.body.contains("-32700"))
            let empty = try proxy.exchange("\(Self.head)Content-Length: 0\r\n\r\n")
            #expect(empty.head.hasPrefix("HTTP/1.1 400 "))
            #expect(origin.connections == 0)
        }
    }

    @Test func aConnectionGoesOnAfterARefusal() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(Self.request(Self.call("delete")))
            #expect(client.readMessage()?.body.contains("-32602") == true)
            client.send(Self.request(Self.call("search")))
            #expect(client.readMessage()?.body == "ok")
            client.send("GET /api/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(client.readMessage()?.body == "ok")
            #expect(origin.requests.count == 2)
        }
    }

    @Test func aClientThatWaitsFor100GetsItFromTheGateway() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let body = Self.call("search")
            let client = try proxy.client()
            client.send("\(Self.head)Expect: 100-continue\r\nContent-Length: \(body.utf8.count)\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            client.send(body)
            #expect(client.readMessage()?.body == "ok")
        }
    }

    @Test func aBodyIsReadWithinALimit() async throws {
        let origin = try origin()
        var limits = Limits()
        limits.replayBodyBytes = 20
        try await withProxy(origin, limits: limits, route: { $0.allow = Self.allow() }) { proxy in
            for request in [Self.request(Self.call("search")), Self.chunked(Self.call("search"))] {
                let answer = try proxy.exchange(request)
                #expect(answer.head.hasPrefix("HTTP/1.1 413 ") && answer.body.contains("read the call"))
            }
            #expect(origin.connections == 0)
        }
    }

    @Test func whatIsCollectedCountsAsMemoryOfTheClient() async throws {
        let origin = try origin()
        var limits = Limits()
        (limits.replayBodyBytes, limits.uploadMemory) = (6_000, 10_000)
        try await withProxy(origin, limits: limits, route: { $0.allow = Self.allow() }) { proxy in
            let body = Self.call("search") + String(repeating: " ", count: 5_000)
            let clients = [try proxy.client(), try proxy.client()]
            for client in clients {
                client.send("\(Self.head)Content-Length: \(body.utf8.count)\r\n\r\n\(body.dropLast())")
                client.waitAtMost(milliseconds: 500)
            }
            let answers = clients.map { $0.readMessage()?.head }
            #expect(answers.contains { $0?.hasPrefix("HTTP/1.1 429 ") == true }, "\(answers)")
            for (client, answer) in zip(clients, answers) where answer == nil {
                client.waitAtMost(milliseconds: 5000)
                client.send(" ")
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 200 ") == true)
            }
            // All of it was given back.
            try #expect(proxy.exchange(Self.request(body)).head.hasPrefix("HTTP/1.1 200 "))
        }
    }

    @Test func fieldsInTrailersDoNotReachTheServer() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = Self.allow() }) { proxy in
            let call = Self.call("search")
            _ = try proxy.exchange(Self.chunked(call, "Mcp-Name: delete\r\nX-Sum: 1\r\nMcp_Method: x\r\n"))
            let sent = try #require(origin.requests.first)
            #expect(sent.hasSuffix("\r\n\r\n\(call)X-Sum: 1\r\n"), "\(sent)")
        }
    }

    @Test func aCredentialThatIsLockedWhileTheBodyIsReadGoesNowhere() async throws {
        let origin = try origin()
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.allow = Self.allow() }) { proxy in
            let body = Self.call("search")
            let client = try proxy.client()
            client.send("\(Self.head)Expect: 100-continue\r\nContent-Length: \(body.utf8.count)\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n")
            source.lock()
            client.send(body)
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(origin.connections == 0)
        }
    }

    /// A call that the new rule may refuse ends, and one that it takes as well goes on.
    @Test func aReloadEndsCallsUnderANarrowerRule() async throws {
        let mayGoOn = Atomic(false)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            try blockUntil("the test has reloaded") { mayGoOn.load(ordering: .relaxed) }
            connection.send("de")
            _ = connection.read(count: 1)
        }
        try await withProxy(origin, source: LockableSource(), route: { $0.allow = Self.allow() }) { proxy in
            let client = try proxy.client()
            client.send(Self.request(Self.call("search")))
            #expect(client.read(through: "\r\n\r\nabc") != nil)
            let reload = { (tools: [String]) throws in
                try proxy.reload { configuration in
                    for index in configuration.routes.indices {
                        configuration.routes[index].plan.allow[0].tools?.tools = tools.compactMap { .init($0) }
                    }
                }
            }
            try #expect(reload(["search", "read_*", "write_*"]) == [])
            mayGoOn.store(true, ordering: .relaxed)
            #expect(client.read(count: 2) == "de")
            try #expect(reload(["search"]) == [])
            _ = try client.readToEnd(.reset)
            client.close()
        }
    }

    @Test func byFieldsABodyStreams() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let head = connection.read(through: "\r\n\r\n") {
                origin.record(head)
                origin.record(connection.read(count: 8) ?? "")
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        try await withProxy(origin, route: { $0.allow = Self.allow(.header) }) { proxy in
            let version = "MCP-Protocol-Version: 2026-07-28\r\n"
            let fields = "\(version)Mcp-Method: tools/call\r\nMcp-Name: search\r\n"
            let refused = try proxy.exchange(Self.request("not read", fields.replacing("search", with: "delete")))
            #expect(refused.head.hasPrefix("HTTP/1.1 403 ") && refused.body.contains("-32602"))
            #expect(origin.connections == 0)
            let client = try proxy.client()
            client.send("\(Self.head)\(fields)Content-Length: 8\r\n\r\nnot ")
            try blockUntil("the head has been forwarded before the body is complete") { origin.requests.count == 1 }
            client.send("read")
            #expect(client.readMessage()?.body == "ok")
            client.close()
            #expect(origin.requests.last == "not read")
        }
    }
}
