import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

/// Requests that are held until an operator has approved them (`approve`).
@Suite("Approval", .timeLimit(.minutes(5)))
struct ApprovalTests {
    private func origin() throws -> RawOrigin {
        try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head + message.body)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }

    private static func rule(_ path: String = "/deploy", tools: [String]? = nil) -> RoutePlan.Allow {
        let tools = tools.map { ToolRule(tools: $0.compactMap { ToolRule.NamePattern($0) }) }
        return RoutePlan.Allow(methods: [], path: PathPattern(path) ?? .all, tools: tools, needsApproval: true)
    }

    private static let free = RoutePlan.Allow(methods: [], path: .all)
    private static let get = "GET /api/deploy HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func post(_ body: String, _ path: String = "/api/deploy?a=1", _ fields: String = "") -> String {
        "POST \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)Content-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test func aRequestWaitsForAnOperator() async throws {
        let origin = try origin()
        try await withProxy(origin, source: LockableSource(), route: { $0.allow = [Self.free, Self.rule()] }) { proxy in
            let client = try proxy.client()
            let fields = "Content-Type: application/json\r\n"
            client.send(Self.post("{\"a\": 1}", "/api/deploy?a=1", fields))
            let held = try proxy.held()
            #expect(held.fields == ["content-type: application/json"])
            #expect(held.subject.method == "POST" && held.subject.url.hasSuffix("/deploy?a=1"), "\(held)")
            #expect(held.subject.digest == Array("{\"a\": 1}".utf8) && held.text == "{\"a\": 1}")
            #expect(held.subject.route == "api" && held.subject.client == nil && origin.requests.isEmpty)
            #expect(proxy.server.decide("another", approver: "alice") == nil)
            #expect(proxy.server.decide(held.id, approver: "alice") == held)
            #expect(client.readMessage()?.body == "ok")
            #expect(
                origin.requests.first?.contains("token-1") == true && origin.requests.first?.hasSuffix("1}") == true
            )
            #expect(proxy.server.decide(held.id, approver: "alice") == nil)
            // The next one is another request, with the same body and with another path.
            for path in ["/api/deploy?a=1", "/api/deploy"] {
                client.send(Self.post("{\"a\": 1}", path))
                let next = try proxy.held()
                #expect(next.id != held.id && origin.requests.count == 1)
                _ = proxy.server.decide(next.id, approver: nil)
                let answer = try #require(client.readMessage())
                #expect(answer.head.hasPrefix("HTTP/1.1 403 ") && answer.body.contains("approval-required"))
            }
            #expect(origin.requests.count == 1)
            #expect(
                proxy.observer.approvals == [
                    "held", "released by alice", "held", "held",
                ]
            )
        }
    }

    @Test func aRequestWithoutABodyWaitsToo() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.get)
            let held = try proxy.held()
            #expect(held.subject.digest == [] && held.bodyBytes == 0)
            _ = proxy.server.decide(held.id, approver: "alice")
            #expect(client.readMessage()?.body == "ok")
        }
    }

    /// `{"TableName": "a"}` is the body of `DescribeTable` and of `DeleteTable`.
    @Test func fieldsThatSayWhatIsDoneAreShown() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            let fields = [
                "X-Amz-Target: DynamoDB_20120810.DeleteTable", "x_amz_copy_source: b/k\u{202E}",
                "X-Amz-Acl: public-read",
                "X-Amz-Security-Token: s", "X-Amz-Server-Side-Encryption-Customer-Key: s", "X-Api-Key: s", "Cookie: s",
            ]
            client.send(Self.post("{}", "/api/deploy", fields.map { "\($0)\r\n" }.joined()))
            let held = try proxy.held()
            let shown = ["x-amz-target: DynamoDB_20120810.DeleteTable", "x_amz_copy_source: b/k\\u{202e}"]
            #expect(held.fields == shown + ["x-amz-acl: public-read"])
            _ = proxy.server.decide(held.id, approver: nil)
        }
    }

    @Test func otherPathsDoNotWait() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule(), Self.free] }) { proxy in
            try #expect(proxy.exchange(Self.post("x", "/api/other")).body == "ok")
            #expect(proxy.observer.approvals == [])
        }
    }

    @Test func overHTTP2AStreamWaitsAndOthersGoOn() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule(), Self.free] }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let held = try client.begin(
                RawHTTP2Client.head("POST", "/api/deploy", [("content-length", "1")]),
                isLast: false
            )
            client.content(Array("x".utf8), isLast: true, stream: held)
            let request = try proxy.held()
            #expect(try client.response(try client.begin()).status == "200")
            _ = proxy.server.decide(request.id, approver: "alice")
            #expect(try client.response(held).status == "200")
            try client.beginAndReset(RawHTTP2Client.head("GET", "/api/deploy"))
            try blockUntil("the stream that was reset waits no more") { proxy.server.heldRequests.isEmpty }
        }
    }

    @Test func aClientThatLeavesWaitsNoMore() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x"))
            let held = try proxy.held()
            client.close()
            try blockUntil("it waits no more") { proxy.observer.approvals == ["held", "dropped: client-left"] }
            #expect(proxy.server.heldRequests.isEmpty && origin.requests.isEmpty)
            #expect(proxy.server.decide(held.id, approver: "alice") == nil)
        }
    }

    // MARK: Rights

    @Test func aLockRefusesWhatWaits() async throws {
        let origin = try origin()
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x"))
            let held = try proxy.held()
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(proxy.server.decide(held.id, approver: "alice") == nil && origin.requests.isEmpty)
            #expect(proxy.observer.approvals == ["held", "dropped: locked"])
        }
    }

    /// The lock is not told to the workers yet.
    @Test func noByteLeavesWithACredentialThatWasLocked() async throws {
        let origin = try origin()
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x"))
            let held = try proxy.held()
            source.lock()
            _ = proxy.server.decide(held.id, approver: "alice")
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true && origin.requests.isEmpty)
        }
    }

    @Test func aTokenThatWasRenewedMeanwhileIsUsed() async throws {
        let origin = try origin()
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x"))
            let held = try proxy.held()
            source.renew()
            _ = proxy.server.decide(held.id, approver: "alice")
            #expect(client.readMessage()?.body == "ok" && origin.requests.first?.contains("token-2") == true)
        }
    }

    private static let access = AccessPlan(
        clients: [.init(name: "agent", proof: .token(Secret("agent-token-of-16")))],
        allowedOrigins: [],
        requireClient: .auto
    )

    @Test(arguments: [get, post("x")])
    func aReloadThatChangesTheRouteRefusesWhatWaits(_ request: String) async throws {
        let origin = try origin()
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(request)
            let held = try proxy.held()
            // The same configuration again lets it wait.
            let same = try proxy.reload { _ in }
            #expect(same == [] && proxy.server.heldRequests.map(\.id) == [held.id])
            let changed = try proxy.reload { $0.routes[0].plan.headers.remove = ["x-removed"] }
            #expect(changed == [])
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(proxy.server.decide(held.id, approver: "alice") == nil && origin.requests.isEmpty)
        }
    }

    @Test func aClientThatIsRemovedSendsNothing() async throws {
        let origin = try origin()
        try await withProxy(origin, access: Self.access, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x", "/api/deploy", "Authorization: Bearer agent-token-of-16\r\n"))
            let held = try proxy.held()
            #expect(held.subject.client == "agent")
            try #expect(proxy.reload { $0.access.clients = [] } == [])
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(proxy.server.decide(held.id, approver: "alice") == nil && origin.requests.isEmpty)
        }
    }

    @Test func aGatewayThatStopsRefusesWhatWaits() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let client = try proxy.client()
            client.send(Self.post("x"))
            let held = try proxy.held()
            let hasStopped = Atomic(false)
            Task {
                await proxy.server.drain(within: .seconds(5))
                hasStopped.store(true, ordering: .relaxed)
            }
            #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
            #expect(proxy.server.decide(held.id, approver: "alice") == nil && origin.requests.isEmpty)
            client.close()
            try blockUntil("the gateway has stopped") { hasStopped.load(ordering: .relaxed) }
        }
    }

    // MARK: Bounds and what cannot be shown

    @Test func aClientCannotFillTheMemory() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let most = HeldRequests.Bounds().requestsPerClient
            let clients = try (0..<most).map { _ in try proxy.client() }
            for client in clients { client.send(Self.post("x")) }
            try blockUntil("all of them wait") { proxy.server.heldRequests.count == most }
            let answer = try proxy.exchange(Self.post("x"))
            #expect(answer.head.hasPrefix("HTTP/1.1 429 ") && answer.body.contains("waiting for approval"))
            clients[0].close()
            try blockUntil("one of them waits no more") { proxy.server.heldRequests.count == most - 1 }
            let next = try proxy.client()
            next.send(Self.post("x"))
            try blockUntil("another one waits") { proxy.server.heldRequests.count == most }
            for client in clients.dropFirst() { client.close() }
            next.close()
        }
    }

    @Test(arguments: [
        (post("x", "/api/deploy", "Destination: /api/other\r\n"), "Destination"),
        (
            "GET /api/deploy HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", "tunnel"
        ),
        (
            "POST /api/deploy HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n",
            "trailers"
        ),
    ])
    func whatAnOperatorWouldNotSeeIsRefused(_ request: String, _ word: String) async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule()] }) { proxy in
            let answer = try proxy.exchange(request)
            #expect(answer.head.hasPrefix("HTTP/1.1 403 ") && answer.body.contains("has to be approved"), "\(answer)")
            #expect(proxy.server.heldRequests.isEmpty && origin.requests.isEmpty, "\(word)")
        }
    }

    @Test func aBodyIsCollectedWithinALimit() async throws {
        let origin = try origin()
        var limits = Limits()
        limits.replayBodyBytes = 10
        try await withProxy(origin, limits: limits, route: { $0.allow = [Self.rule()] }) { proxy in
            let answer = try proxy.exchange(Self.post("12345678901"))
            #expect(answer.head.hasPrefix("HTTP/1.1 413 ") && answer.body.contains("operator has to approve"))
        }
    }

    // MARK: Tools

    private static func call(_ tool: String) -> String {
        #"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\#(tool)"}}"#
    }

    private static func message(_ body: String) -> String {
        post(body, "/api/mcp", "Content-Type: application/json\r\n")
    }

    @Test func aRuleBesideItLetsOtherToolsPass() async throws {
        let search = RoutePlan.Allow(
            methods: [],
            path: PathPattern("/mcp") ?? .all,
            tools: ToolRule(tools: ["search", "deploy_*"].compactMap { ToolRule.NamePattern($0) })
        )
        for rules in [[search, Self.rule("/mcp", tools: ["deploy"])], [Self.rule("/mcp", tools: ["deploy"]), search]] {
            try await withProxy(try origin(), route: { $0.allow = rules }) { proxy in
                let client = try proxy.client()
                for tool in ["search", "deploy_test"] {
                    client.send(Self.message(Self.call(tool)))
                    #expect(client.readMessage()?.body == "ok")
                }
                client.send(Self.message(Self.call("delete")))
                #expect(client.readMessage()?.body.contains("-32602") == true)
                client.send(Self.message("[\(Self.call("search")),\(Self.call("deploy"))]"))
                let held = try proxy.held()
                #expect(held.calls == ["deploy"])
                _ = proxy.server.decide(held.id, approver: "alice")
                #expect(client.readMessage()?.body == "ok")
            }
        }
    }

    @Test func callsOfToolsWaitAndOtherMessagesDoNot() async throws {
        let origin = try origin()
        try await withProxy(origin, route: { $0.allow = [Self.rule("/mcp", tools: ["deploy"])] }) { proxy in
            let client = try proxy.client()
            client.send(Self.message(#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
            #expect(client.readMessage()?.body == "ok")
            client.send(Self.message(Self.call("other")))
            #expect(client.readMessage()?.body.contains("-32602") == true)
            client.send(Self.message(Self.call("deploy")))
            let held = try proxy.held()
            #expect(held.calls == ["deploy"] && origin.requests.count == 1)
            _ = proxy.server.decide(held.id, approver: nil)
            let denied = try #require(client.readMessage())
            #expect(denied.head.hasPrefix("HTTP/1.1 200 ") && denied.body.contains("\"id\":7"), "\(denied)")
            #expect(denied.body.contains("An operator denied this request."))
            client.send(Self.message(Self.call("deploy")))
            _ = proxy.server.decide(try proxy.held().id, approver: "alice")
            #expect(client.readMessage()?.body == "ok" && origin.requests.count == 2)
        }
    }
}

extension ProxyFixture {
    /// The only request that waits, as soon as it does.
    fileprivate func held() throws -> HeldRequest {
        try blockUntil("a request waits for approval") { server.heldRequests.count == 1 }
        return try #require(server.heldRequests.first)
    }
}
