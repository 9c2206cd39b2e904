import Foundation
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
            #expect(client.read(through: "\r\n\r\nabc") != nil)
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
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && answer.body.contains("was withdrawn"))
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
            #expect(client.read(through: "\r\n\r\nabc") != nil)
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
            #expect(client.read(through: "\r\n\r\nabc") != nil)
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
            #expect(client.read(through: "\r\n\r\nabc") != nil)
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

    // MARK: Upstreams of HTTP/2 that read nothing

    /// What takes the right of the requests that are under way.
    enum Taking {
        case lock
        case credentialReplaced
        case rulesChanged

        func take(_ source: LockableSource, from proxy: ProxyFixture) throws {
            switch self {
            case .lock:
                source.lock()
                try #expect(proxy.withdraw(source) == [])
            case .credentialReplaced:
                try #expect(
                    proxy.reload { configuration in
                        for index in configuration.routes.indices {
                            configuration.routes[index].source = LockableSource("b", token: "other-")
                        }
                    } == []
                )
            case .rulesChanged: try #expect(proxy.reload(allowing("/elsewhere")) == [])
            }
        }
    }

    /// The heads of the first requests are with the system, the others wait in the gateway, and one of them partly.
    ///
    /// - Parameter clientsLeave: The requests are over when the right is taken.
    @Test(arguments: [
        (Taking.lock, false), (.lock, true), (.credentialReplaced, true), (.rulesChanged, false), (.rulesChanged, true),
    ])
    func noHeadLeavesForAnUpstreamThatReadsNothing(_ taking: Taking, _ clientsLeave: Bool) async throws {
        let upstream = SilentUpstream()
        let origin = try RawOrigin { connection, _, _ in try upstream.serve(connection) }
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
            if clientsLeave {
                for client in clients { client.close() }
                try blockUntil("all requests are over") { proxy.observer.requests.count >= count + 100 }
            }
            try taking.take(source, from: proxy)
            try upstream.read(port: origin.port)
            for client in clients where !clientsLeave {
                // 403 is for those that had not left.
                let status = client.readMessage()?.head.dropFirst(9).prefix(3)
                #expect(status == "503" || taking == .rulesChanged && status == "403")
                client.close()
            }
            try upstream.expectNothingBeyondTheSystem()
            #expect(upstream.heads < count)
        }
    }

    /// A connection can only be reset as a whole. The request that is lost with it did no wrong, and nor did the upstream.
    @Test func whoIsLostWithAConnectionIsToldWhy() async throws {
        let upstream = SilentUpstream()
        let origin = try RawOrigin { connection, _, _ in try upstream.serve(connection) }
        var limits = Limits()
        limits.headerBytes = 1 << 20
        let source = LockableSource()
        try await withProxy(origin, source: source, limits: limits, route: { $0.upstreamProtocol = .http2 }) { proxy in
            let other = try proxy.client()
            defer { other.close() }
            other.send("GET /api/elsewhere HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try blockUntil("the upstream is connected") { upstream.hasBegun }
            let long = String(repeating: "l", count: 900_000)
            let clients = try (1...24).map { number in
                let client = try proxy.client()
                client.send("GET /api/\(number) HTTP/1.1\r\nHost: localhost\r\nX-Long: \(long)\r\n\r\n")
                return client
            }
            // So that the event loop has read all of them.
            for _ in 0..<100 { _ = try proxy.exchange("GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n") }
            try Taking.rulesChanged.take(source, from: proxy)
            let answer = try #require(other.readMessage())
            #expect(answer.head.hasPrefix("HTTP/1.1 503 ") && answer.body.contains("The gateway reset its connection"))
            try upstream.read(port: origin.port)
            for client in clients { client.close() }
            try upstream.expectNothingBeyondTheSystem()
        }
    }

    @Test(arguments: [(Taking.lock, false), (.credentialReplaced, true), (.rulesChanged, false)])
    func noContentLeavesForAnUpstreamThatReadsNothing(_ taking: Taking, _ clientLeaves: Bool) async throws {
        let upstream = SilentUpstream()
        let origin = try RawOrigin { connection, _, _ in try upstream.serve(connection) }
        let source = LockableSource()
        try await withProxy(origin, source: source, route: { $0.upstreamProtocol = .http2 }) { proxy in
            let client = try RawHTTP2Client(port: proxy.port)
            defer { client.close() }
            let stream = try client.begin(RawHTTP2Client.head("POST"), isLast: false)
            // More than the system holds, as long as the gateway takes it.
            var sent = 0
            var rooms: [UInt32: Int] = [0: 65_535, stream: 65_535]
            let part = [UInt8](repeating: 0x63, count: 16_384)
            var silences = 0
            client.waitAtMost(milliseconds: 200)
            while true {
                while rooms.values.allSatisfy({ $0 >= part.count }) {
                    client.content(part, stream: stream)
                    sent += part.count
                    rooms = rooms.mapValues { $0 - part.count }
                }
                guard let frame = client.next() else {
                    silences += 1
                    // The gateway has the rest, and gives no more room.
                    if sent > (try upstream.queued(port: origin.port)) { break }
                    try #require(silences < 50)
                    continue
                }
                switch frame.kind {
                case RawHTTP2Client.Kind.windowUpdate: rooms[frame.stream]? += Int(frame.number(0))
                case RawHTTP2Client.Kind.settings: rooms[stream]? += frame.initialWindow.map { $0 - 65_535 } ?? 0
                default: break
                }
            }
            if clientLeaves {
                client.close()
                try blockUntil("the request is over") { proxy.observer.requests.count == 1 }
            }
            try taking.take(source, from: proxy)
            try upstream.read(port: origin.port)
            try upstream.expectNothingBeyondTheSystem()
            #expect(upstream.received < sent)
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
            #expect(client.read(through: "\r\n\r\nabc") != nil)
            source.lock()
            try #expect(proxy.withdraw(other) == [])
            mayGoOn.store(true, ordering: .relaxed)
            #expect(client.read(count: 2) == "de")
            client.close()
        }
    }
}

/// Reads nothing but the preface before the test says so.
private final class SilentUpstream: Sendable {
    private struct Outcome {
        /// Bytes that had come when the test said so.
        var held: Int
        /// Bytes of requests that came in all.
        var received: Int
        var heads: Int
    }

    private let mayRead = Atomic(false)
    private let begun = Atomic(0)
    private let outcomes = Mutex<[Outcome]>([])
    /// Bytes that were with the sender's system when the test said so.
    private let sending = Atomic(0)

    func serve(_ connection: RawConnection) throws {
        begun.add(1, ordering: .relaxed)
        // The largest windows that there are.
        let server = try RawHTTP2Server(connection, settings: [0, 4, 0x7F, 0xFF, 0xFF, 0xFF])
        server.grow(0, by: 0x7FFF_0000)
        try blockUntil("the test has withdrawn") { mayRead.load(ordering: .relaxed) }
        let held = connection.waitingBytes
        let frames = server.rest()
        let kinds = [RawHTTP2Client.Kind.data, RawHTTP2Client.Kind.headers, RawHTTP2Client.Kind.continuation]
        let received = frames.filter { kinds.contains($0.kind) }
            .reduce(connection.waitingBytes) { $0 + HTTP2FrameHeader.size + $1.payload.count }
        connection.close()
        let heads = frames.count { $0.kind == RawHTTP2Client.Kind.headers }
        outcomes.withLock { $0.append(Outcome(held: held, received: received, heads: heads)) }
    }

    var hasBegun: Bool { begun.load(ordering: .relaxed) > 0 }

    /// - Parameter port: Its own.
    func read(port: Int) throws {
        sending.store(try Self.queues(port).sending, ordering: .relaxed)
        mayRead.store(true, ordering: .relaxed)
    }

    /// Bytes on their way that are with the system.
    ///
    /// - Parameter port: Its own.
    func queued(port: Int) throws -> Int {
        let queues = try Self.queues(port)
        return queues.sending + queues.arrived
    }

    /// What the system has for a port of this machine, of connections that were closed, too: with the sender, and with who listens.
    private static func queues(_ port: Int) throws -> (sending: Int, arrived: Int) {
        let suffix = ":" + String(format: "%04X", port)
        return try connectionTable().split(separator: "\n").reduce(into: (0, 0)) { sum, line in
            let columns = line.split(separator: " ")
            guard columns.count > 4 else { return }
            if columns[2].hasSuffix(suffix) { sum.0 += Int(columns[4].prefix(8), radix: 16) ?? 0 }
            if columns[1].hasSuffix(suffix) { sum.1 += Int(columns[4].suffix(8), radix: 16) ?? 0 }
        }
    }

    /// The system hands the table out a page at a time, and `String(contentsOfFile:)` takes the first page for all of it.
    private static func connectionTable() throws -> String {
        let descriptor = unsafe Glibc.open("/proc/net/tcp", O_RDONLY)
        guard descriptor >= 0 else { throw RawError("cannot open the table of connections") }
        defer { _ = Glibc.close(descriptor) }
        var table: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = unsafe Glibc.read(descriptor, &part, part.count)
            guard count >= 0 else { throw RawError("cannot read the table of connections") }
            guard count > 0 else { return String(decoding: table, as: UTF8.self) }
            table += part.prefix(count)
        }
    }

    /// What the system held when the right was taken was outside of what the gateway promises. Nothing may follow.
    func expectNothingBeyondTheSystem() throws {
        try blockUntil("each connection has ended") {
            outcomes.withLock { $0.count } == begun.load(ordering: .relaxed)
        }
        let held = outcomes.withLock { $0.reduce(sending.load(ordering: .relaxed)) { $0 + $1.held } }
        #expect(received > 0)
        #expect(received <= held)
    }

    /// Bytes of requests that have come.
    var received: Int { outcomes.withLock { $0.reduce(0) { $0 + $1.received } } }

    /// Heads that have come whole.
    var heads: Int { outcomes.withLock { $0.reduce(0) { $0 + $1.heads } } }
}
