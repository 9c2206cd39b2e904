import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Synchronization
import Testing

@testable import GatewayProxy

@Suite("Withdrawal", .timeLimit(.minutes(5)))
struct WithdrawalTests {
    private let get = "GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n"

    @Test func aResponseUnderWayIsCutOnBothSides() async throws {
        let isEnded = Atomic(false)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            _ = connection.read(count: 1)
            isEnded.store(true, ordering: .relaxed)
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send(get)
            #expect(client.read(through: "abc") != nil)
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            _ = try client.readToEnd(.reset)
            try blockUntil("the origin sees the end") { isEnded.load(ordering: .relaxed) }
            client.close()
        }
    }

    @Test func aRequestWithoutAResponseIsRefused() async throws {
        let origin = try RawOrigin { connection, _, origin in
            if let message = connection.readMessage() { origin.record(message.head) }
            _ = connection.read(count: 1)
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send(get)
            try blockUntil("the origin has the request") { origin.requests.count == 1 }
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            let answer = try #require(client.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && answer.body.contains("was taken away"))
            client.close()
        }
    }

    // MARK: Static credentials

    private static let key = Injection(query: .init(name: "key", value: Secret("ours")))

    private static func fixed() -> FixedCredentialSource {
        FixedCredentialSource(
            name: "openai",
            strategy: "header",
            injection: key,
            grantKey: CredentialKey(digest: "openai")
        )
    }

    @Test func aStaticCredentialThatIsLockedReachesNobody() async throws {
        let origin = try RawOrigin.answering()
        let source = Self.fixed()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            defer { client.close() }
            func status() -> String? {
                client.send(get)
                return client.readMessage().map { String($0.head.dropFirst(9).prefix(3)) }
            }
            #expect(status() == "200")
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            #expect(status() == "503" && origin.requests.count == 1)
            source.unlock()
            #expect(status() == "200" && origin.requests.count == 2)
        }
    }

    @Test func theUseOfAStaticCredentialIsEnded() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            _ = connection.read(count: 1)
        }
        let source = Self.fixed()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send(get)
            #expect(client.read(through: "abc") != nil)
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            _ = try client.readToEnd(.reset)
            client.close()
        }
    }

    /// The client's own parameter would stand beside it otherwise.
    @Test func whatAClientSendsInItsPlaceIsRemovedAfterAStartWithALock() async throws {
        let origin = try RawOrigin.answering()
        let source = Self.fixed()
        source.lock()
        try await withProxy(origin, source: source) { proxy in
            let request = "GET /api?a=1&key=mine HTTP/1.1\r\nHost: localhost\r\n\r\n"
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 503 "))
            #expect(origin.requests.isEmpty)
            source.unlock()
            try #expect(proxy.exchange(request).head.hasPrefix("HTTP/1.1 200 "))
            #expect(origin.requests.first?.hasPrefix("GET /?a=1&key=ours HTTP/1.1\r\n") == true)
        }
    }

    @Test func whatTheUpstreamSaysOfAStaticCredentialIsNoted() async throws {
        let origin = try RawOrigin { connection, _, origin in
            while let message = connection.readMessage() {
                origin.record(message.head)
                let isRefused = message.head.contains("/bad")
                connection.send(
                    isRefused
                        ? "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
                        : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
                )
            }
        }
        let source = Self.fixed()
        try await withProxy(origin, source: source) { proxy in
            func ask(_ path: String) throws {
                _ = try proxy.exchange("GET /api/\(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
            }
            func isRejected() -> Bool { source.acceptance.verdict(at: TestClock().monotonic()) != nil }
            for _ in 0..<4 { try ask("bad") }
            #expect(source.acceptance.rejectedAt != nil && source.acceptance.acceptedAt == nil && !isRejected())
            try ask("bad")
            #expect(isRejected())
            try ask("good")
            #expect(source.acceptance.acceptedAt != nil && !isRejected())
            // Now there are two paths, and one of them refuses everybody.
            for _ in 0..<9 { try ask("bad") }
            #expect(!isRejected())
        }
    }

    @Test func anUploadStops() async throws {
        let origin = try RawOrigin { connection, _, origin in
            origin.record((connection.read(through: "first") ?? "") + (connection.read(count: 1) ?? ""))
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nfirst")
            try blockUntil("the origin is connected") { origin.connections == 1 }
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            client.send("more")
            #expect(client.read(through: "\r\n")?.hasPrefix("HTTP/1.1 503 ") == true)
            client.close()
            try blockUntil("the origin sees the end") { origin.requests.count == 1 }
            #expect(!origin.requests[0].contains("more"))
        }
    }

    @Test func anIdleTunnelIsReset() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
            _ = connection.read(count: 1)
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send("GET /api HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
            #expect(client.read(through: "\r\n\r\n")?.hasPrefix("HTTP/1.1 101 ") == true)
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            _ = try client.readToEnd(.reset)
            client.close()
        }
    }

    /// `clear` takes a token away, and the next one may be in use before the workers are told.
    @Test func whatHasANewerCredentialGoesOn() async throws {
        let mayAnswer = Atomic(false)
        let origin = try RawOrigin { connection, _, origin in
            guard let message = connection.readMessage() else { return }
            origin.record(message.head)
            try blockUntil("the test has withdrawn") { mayAnswer.load(ordering: .relaxed) }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            _ = connection.read(count: 1)
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            source.renew()
            let client = try proxy.client()
            client.send(get)
            try blockUntil("the origin has the request") { origin.requests.count == 1 }
            #expect(origin.requests[0].contains("token-2"))
            try #expect(proxy.withdraw(source) == [])
            mayAnswer.store(true, ordering: .relaxed)
            #expect(client.readMessage()?.body == "ok")
            client.close()
        }
    }

    /// A reload has replaced the source of the exchange: the new one is locked, and the old one is not told.
    @Test func whatBeganWithTheSourceBeforeAReloadIsCutToo() async throws {
        let isEnded = Atomic(false)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            _ = connection.read(count: 1)
            isEnded.store(true, ordering: .relaxed)
        }
        try await withProxy(origin, source: LockableSource()) { proxy in
            let client = try proxy.client()
            client.send(get)
            #expect(client.read(through: "abc") != nil)
            let present = LockableSource()
            present.lock()
            try #expect(proxy.withdraw(present) == [])
            _ = try client.readToEnd(.reset)
            try blockUntil("the origin sees the end") { isEnded.load(ordering: .relaxed) }
            client.close()
        }
    }

    @Test func aStreamOfHTTP2IsCutAndItsConnectionGoesOn() async throws {
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            _ = connection.read(count: 1)
        }
        let source = LockableSource()
        try await withProxy(origin, source: source) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin()
            #expect(try client.response(stream, until: 3).text == "abc")
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            #expect(try client.response(stream).reset == 2)
            #expect(try client.response(try client.begin()).status == "503")
        }
    }

    private static func allowing(_ path: String) -> @Sendable (inout ProxyConfiguration) -> Void {
        { configuration in
            guard let pattern = PathPattern(path) else { return }
            for index in configuration.routes.indices {
                configuration.routes[index].plan.allow = [RoutePlan.Allow(methods: [], path: pattern)]
            }
        }
    }

    /// `/api` is forwarded as the root. A rule that still covers it cuts nothing.
    @Test func anAllowThatNoLongerCoversARequestCutsIt() async throws {
        let mayGoOn = Atomic(false)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            try blockUntil("the test has reloaded") { mayGoOn.load(ordering: .relaxed) }
            connection.send("de")
            _ = connection.read(count: 1)
        }
        try await withProxy(origin, source: LockableSource()) { proxy in
            let client = try proxy.client()
            client.send(get)
            #expect(client.read(through: "abc") != nil)
            let http2 = try RawHTTP2Client(port: proxy.port)
            defer { http2.close() }
            let stream = try http2.begin()
            #expect(try http2.response(stream, until: 3).text == "abc")
            try #expect(proxy.reload(Self.allowing("/**")) == [])
            mayGoOn.store(true, ordering: .relaxed)
            #expect(client.read(count: 2) == "de")
            #expect(try http2.response(stream, until: 2).text == "de")
            try #expect(proxy.reload(Self.allowing("/elsewhere")) == [])
            _ = try client.readToEnd(.reset)
            #expect(try http2.response(stream).reset == 2)
            #expect(try http2.response(try http2.begin()).status == "403")
            client.close()
        }
    }

    /// The heads of the first requests are with the system, the others wait in the gateway, and one of them partly.
    @Test func noHeadLeavesForAnUpstreamThatReadsNothing() async throws {
        let isWithdrawn = Atomic(false)
        let seen = Mutex<[RawHTTP2Client.Frame]>([])
        let origin = try RawOrigin { connection, _, _ in
            let server = try RawHTTP2Server(connection)
            try blockUntil("the test has withdrawn") { isWithdrawn.load(ordering: .relaxed) }
            let frames = server.rest()
            seen.withLock { $0 += frames }
            connection.close()
        }
        var limits = Limits()
        limits.headerBytes = 1 << 20
        let source = LockableSource()
        try await withProxy(origin, source: source, limits: limits, route: { $0.upstreamProtocol = .http2 }) { proxy in
            let count = 24
            let long = String(repeating: "l", count: 900_000)
            let clients = try (1...count).map { number in
                let client = try proxy.client()
                client.send("GET /api/\(number) HTTP/1.1\r\nHost: localhost\r\nX-Long: \(long)\r\n\r\n")
                return client
            }
            // So that the event loop has read all of them.
            for _ in 0..<100 { _ = try proxy.exchange("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n") }
            source.lock()
            try #expect(proxy.withdraw(source) == [])
            isWithdrawn.store(true, ordering: .relaxed)
            for client in clients {
                #expect(client.readMessage()?.head.hasPrefix("HTTP/1.1 503 ") == true)
                client.close()
            }
            try blockUntil("the origin has seen the end") { seen.withLock { !$0.isEmpty } }
            let heads = seen.withLock { $0.filter { $0.kind == RawHTTP2Client.Kind.headers } }
            #expect(heads.count < count)
        }
    }

    @Test func otherCredentialsAreNotTouched() async throws {
        let mayGoOn = Atomic(false)
        let origin = try RawOrigin { connection, _, _ in
            _ = connection.readMessage()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
            try blockUntil("the test has withdrawn") { mayGoOn.load(ordering: .relaxed) }
            connection.send("de")
            _ = connection.read(count: 1)
        }
        let (source, other) = (LockableSource(), LockableSource("b"))
        try await withProxy(origin, source: source) { proxy in
            let client = try proxy.client()
            client.send(get)
            #expect(client.read(through: "abc") != nil)
            source.lock()
            try #expect(proxy.withdraw(other) == [])
            mayGoOn.store(true, ordering: .relaxed)
            #expect(client.read(count: 2) == "de")
            client.close()
        }
    }
}
