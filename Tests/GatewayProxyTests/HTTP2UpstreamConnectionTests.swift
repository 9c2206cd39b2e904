import GatewayConfiguration
import GatewayHTTP
import GatewayTokens
import Logging
import NIOCore
import NIOEmbedded
import NIOHPACK
import Testing

@testable import GatewayProxy

/// One connection to an upstream of HTTP/2, as bytes in and out. NIOHPACK reads what it sends.
@Suite("A connection to an upstream of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2UpstreamConnectionTests {
    private typealias Kind = RawHTTP2Client.Kind
    private typealias Frame = RawHTTP2Client.Frame

    private let loop = EmbeddedEventLoop()
    private let channel: EmbeddedChannel
    private let worker: Worker
    private let route: CredentialedRoute
    private let connection: HTTP2UpstreamConnection
    private let shared: ProxyShared
    private let outcome = Outcome()

    private final class Outcome {
        var isReady: Bool?
    }

    init() throws {
        var plan = RoutePlan(
            name: "api",
            upstream: Origin(scheme: .http, host: "127.0.0.1", port: 1),
            upstreamPath: "/base",
            matchPath: "/api",
            matchHosts: [],
            credential: 0,
            span: SourceSpan(file: 0, line: 1, column: 1)
        )
        plan.upstreamProtocol = .http2
        let limits = Limits()
        shared = try ProxyShared(
            configuration: ProxyConfiguration(
                routes: [ProxyRoute(plan: plan, source: ScriptedSource(), selection: nil, number: 0)],
                access: AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
                limits: limits,
                sha256: { $0 }
            ),
            workers: 1,
            state: ProxyState(
                clock: TestClock(),
                observer: RecordingObserver(),
                logger: Logger(label: "test"),
                limits: limits,
                workers: 1
            )
        )
        worker = Worker(number: 0, loop: loop, shared: shared)
        let bare = try #require(worker.current).route(0)
        route = CredentialedRoute(bare.state, credential: ScriptedSource.credential(1), of: nil)
        channel = EmbeddedChannel(loop: loop)
        connection = HTTP2UpstreamConnection(
            pool: route.pool,
            id: ConnectionID(slot: 0, number: 0),
            origin: plan.upstream,
            isEncrypted: true,
            limits: limits,
            worker: (worker.clock, worker.buffers),
            timeouts: shared.timeouts
        ) { [outcome] result in
            if case .success = result { outcome.isReady = true } else { outcome.isReady = false }
        }
        try channel.pipeline.syncOperations.addHandler(connection)
        try channel.connect(to: SocketAddress(unixDomainSocketPath: "/peer")).wait()
    }

    // MARK: Frames

    /// All that was sent since the last call.
    private func sent(afterPreface: Bool = false) throws -> [Frame] {
        loop.run()
        var bytes: [UInt8] = []
        while let part = try channel.readOutbound(as: ByteBuffer.self) { bytes += part.readableBytesView }
        if afterPreface {
            #expect(bytes.starts(with: Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)))
            bytes.removeFirst(24)
        }
        var frames: [Frame] = []
        while bytes.count >= HTTP2FrameHeader.size {
            let header = HTTP2FrameHeader(bytes.span, at: 0)
            let end = HTTP2FrameHeader.size + header.length
            try #require(end <= bytes.count)
            frames.append(
                Frame(
                    kind: header.type,
                    flags: header.flags.rawValue,
                    stream: header.stream,
                    payload: Array(bytes[HTTP2FrameHeader.size..<end])
                )
            )
            bytes.removeFirst(end)
        }
        #expect(bytes.isEmpty)
        return frames
    }

    private func receive(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32 = 0, _ payload: [UInt8] = []) throws {
        let length = payload.count
        let head = [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), kind, flags]
        try channel.writeInbound(ByteBuffer(bytes: head + RawHTTP2Client.bytes(stream) + payload))
    }

    /// Opens it, and forgets what was sent for that.
    private func open(settings: [UInt8] = []) throws {
        _ = try sent(afterPreface: true)
        try receive(Kind.settings, settings)
        try receive(Kind.settings, flags: 1)
        #expect(outcome.isReady == true)
        _ = try sent()
    }

    /// Sends the head of a request on a new stream.
    private func begin(_ head: String = "GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n") throws -> HTTP2UpstreamStream
    {
        let stream = connection.makeStream(for: .uncounted)
        try write(head) { head, bytes, writer, end in
            try stream.sendHead(head, bytes, by: writer, end: end)
        }
        return stream
    }

    private func write(
        _ head: String,
        keys: ClientTokenPlaces = [],
        _ body: (borrowing RequestHead, ByteBuffer, borrowing RequestWriter, RequestEnd) throws -> Void
    ) throws {
        var decoder = RequestHeadDecoder(maxBytes: 1 << 20, maxFields: 100)
        let bytes = ByteBuffer(string: head)
        guard case .head = decoder.decode(bytes.readableBytesUInt8Span) else { throw RawError("no head") }
        let writer = RequestWriter(
            route: route,
            match: .path(0),
            tokenPlaces: keys.union(.authorization)
        )
        try body(decoder.head, bytes, writer, RequestEnd(Array("Via: 1.1 gateway\r\n\r\n".utf8)))
    }

    private static func fields(_ frames: [Frame]) throws -> HPACKHeaders {
        var decoder = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: 4096,
            maxHeaderListSize: 1 << 20
        )
        var block = ByteBuffer(bytes: frames.flatMap(\.payload))
        return try decoder.decodeHeaders(from: &block)
    }

    // MARK: Opening

    @Test func itBeginsWithItsSettings() throws {
        let frames = try sent(afterPreface: true)
        #expect(frames.map(\.kind) == [Kind.settings, Kind.windowUpdate] && outcome.isReady == nil)
        // ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE and MAX_HEADER_LIST_SIZE.
        let keys = stride(from: 0, to: frames[0].payload.count, by: 6).map { frames[0].payload[$0 + 1] }
        #expect(keys == [2, 3, 4, 6])
        try receive(Kind.settings)
        #expect(outcome.isReady == true)
        let answer = try sent()
        #expect(answer.map(\.kind) == [Kind.settings] && answer[0].flags == 1)
    }

    @Test func whoSpeaksSomethingElseIsNoUpstream() throws {
        _ = try sent(afterPreface: true)
        try channel.writeInbound(ByteBuffer(string: "HTTP/1.1 400 Bad Request\r\n\r\n"))
        #expect(outcome.isReady == false && !channel.isActive)
    }

    /// What an upstream must not send: the code that it is told.
    @Test(arguments: [
        (Kind.data, UInt8(0), UInt32(1), [UInt8(1)], UInt32(1)), (Kind.reset, 0, 1, [0, 0, 0, 8], 1),
        (5, 4, 1, [0, 0, 0, 2, 0x88], 1), (Kind.headers, 5, 2, [0x88], 1), (Kind.windowUpdate, 0, 0, [0, 0, 0, 0], 1),
        (Kind.windowUpdate, 0, 0, [0x7F, 0xFF, 0xFF, 0xFF], 3), (Kind.settings, 0, 0, [0, 2, 0, 0, 0, 1], 1),
        (6, 0, 0, [1], 6),
    ])
    func whatBreaksARuleEndsTheConnection(
        _ kind: UInt8,
        _ flags: UInt8,
        _ stream: UInt32,
        _ payload: [UInt8],
        _ code: UInt32
    ) throws {
        try open()
        try receive(kind, flags: flags, stream: stream, payload)
        let last = try #require(try sent().last)
        #expect(last.kind == Kind.goAway && last.payload == RawHTTP2Client.bytes(0) + RawHTTP2Client.bytes(code))
        #expect(!channel.isActive && connection.phase == .closed)
    }

    @Test func aPingIsAnswered() throws {
        try open()
        try receive(6, Array(1...8))
        let frames = try sent()
        #expect(frames.map(\.kind) == [6] && frames[0].flags == 1 && frames[0].payload == Array(1...8))
    }

    // MARK: Requests

    @Test func aTurnIsOneWrite() throws {
        try open()
        let streams = [try begin(), try begin(), try begin()]
        for stream in streams { stream.flush() }
        loop.run()
        let part = try #require(try channel.readOutbound(as: ByteBuffer.self))
        #expect(part.readableBytes > 0 && streams.map(\.id) == [1, 3, 5])
        #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
    }

    private static let heads = [
        "GET /api/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /api/x?a=1&b=2 HTTP/1.1\r\nHost: localhost\r\nAccept: a/b\r\nConnection: close, X-Own\r\nX-Own: 1\r\n\r\n",
        "POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nCookie: a=1\r\nTE: trailers\r\n\r\n",
        "PROPFIND /api/%C3%A4 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-Latin: \u{E4}\r\n\r\n",
        "OPTIONS /api HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer mine\r\nUser-Agent: x\r\nX-Empty:\r\n\r\n",
        "GET /api/x HTTP/1.0\r\nX-Long: \(String(repeating: "l", count: 40_000))\r\n\r\n",
    ]

    /// The same as HTTP/1 has it.
    @Test(arguments: heads)
    func aRequestHasTheFieldsOfHTTP1(_ head: String) throws {
        try open()
        var expected: [String] = []
        try write(head) { head, bytes, writer, end in
            var text = ByteBuffer()
            #expect(writer.write(head, bytes, end: end, into: &text))
            expected = Self.asHTTP2(String(buffer: text))
            if head.takesTrailers(bytes.readableBytesUInt8Span) { expected.append("te: trailers") }
        }
        let hasContent = head.contains("Content-Length") || head.contains("chunked")
        try begin(head).flush()
        let frames = try sent()
        #expect(frames.map(\.kind) == [Kind.headers] + [UInt8](repeating: 9, count: frames.count - 1))
        #expect(frames[0].endsStream == !hasContent && (frames.count > 1) == head.contains("X-Long"))
        #expect(frames.allSatisfy { $0.payload.count <= 16_384 && $0.stream == 1 })
        let fields = try Self.fields(frames)
        #expect(fields.map { "\($0.name): \($0.value)" } == expected)
        for (name, _, indexing) in fields {
            #expect((indexing == .neverIndexed) == ["authorization", "cookie"].contains(name), "\(name)")
        }
    }

    private static func asHTTP2(_ head: String) -> [String] {
        let lines = head.split(separator: "\r\n").map(String.init)
        let start = lines[0].split(separator: " ").map(String.init)
        var fields = [":method: \(start[0])", ":scheme: http", ":path: \(start[1])"]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let (name, value) = (parts[0].lowercased(), parts[1].trimmingPrefix(" "))
            guard !["connection", "transfer-encoding", "upgrade"].contains(name) else { continue }
            fields.append("\(name == "host" ? ":authority" : name): \(value)")
        }
        return fields
    }

    @Test(arguments: [("?key=1&a=b", "?a=b"), ("?key=1", ""), ("?a=b&key=1&c", "?a=b&c")])
    func aParameterThatProvedTheClientIsNotSent(_ query: String, _ left: String) throws {
        try open()
        let name = Array("key".utf8)
        let keys = ClientTokenPlaces(parameter: name.indices, name.span)
        let stream = connection.makeStream(for: .uncounted)
        try write("GET /api/x\(query) HTTP/1.1\r\nHost: localhost\r\n\r\n", keys: keys) {
            head,
            bytes,
            writer,
            end in
            try stream.sendHead(head, bytes, by: writer, end: end)
        }
        stream.flush()
        #expect(try Self.fields(try sent())[":path"] == ["/base/x\(left)"])
    }

    @Test func aWebSocketIsAnExtendedConnect() throws {
        try open(settings: [0, 8, 0, 0, 0, 1])
        let stream = try begin(
            "GET /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        #expect(stream.takesUpgrade)
        stream.flush()
        let frames = try sent()
        let fields = try Self.fields(frames)
        #expect(
            fields.prefix(5).map { "\($0.name): \($0.value)" } == [
                ":method: CONNECT", ":protocol: websocket", ":scheme: http", ":path: /base/chat",
                ":authority: 127.0.0.1:1",
            ]
        )
        #expect(fields.contains(name: "sec-websocket-version") && !fields.contains(name: "sec-websocket-key"))
        #expect(!fields.contains(name: "upgrade") && !fields.contains(name: "connection") && !frames[0].endsStream)
    }

    @Test func contentKeepsToTheWindows() throws {
        // INITIAL_WINDOW_SIZE
        try open(settings: [0, 4, 0, 0, 0, 5])
        let stream = try begin("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n")
        stream.sendContent(ByteBuffer(string: "hello, world"), as: .content)
        stream.flush()
        func content() throws -> (text: String, isLast: Bool) {
            let frames = try sent().filter { $0.kind == Kind.data }
            return (String(decoding: frames.flatMap(\.payload), as: UTF8.self), frames.last?.endsStream ?? false)
        }
        #expect(try content() == ("hello", false))
        #expect(stream.untakenBytes == 12 && stream.heldBytes == 7)
        try receive(Kind.windowUpdate, stream: 1, RawHTTP2Client.bytes(2))
        #expect(try content() == (", ", false))
        try receive(Kind.windowUpdate, stream: 1, RawHTTP2Client.bytes(100))
        #expect(try content() == ("world", true))
    }

    @Test func piecesThatComeTogetherAreOneFrame() throws {
        try open()
        let stream = try begin("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        for _ in 0..<1000 { stream.sendContent(ByteBuffer(string: "x"), as: .content) }
        stream.flush()
        let frames = try sent()
        #expect(frames.map(\.kind) == [Kind.headers, Kind.data])
        #expect(frames[1].payload.count == 1000 && frames[1].endsStream)
    }

    @Test func trailersEndTheRequest() throws {
        try open()
        let stream = try begin("POST /api HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        stream.sendContent(ByteBuffer(string: "x"), as: .content)
        let long = String(repeating: "t", count: 20_000)
        stream.sendEnd(trailers: ByteBuffer(string: "X-Sum: 17\r\nX-Long: \(long)\r\n\r\n"))
        stream.flush()
        let frames = try sent()
        #expect(frames.map(\.kind) == [Kind.headers, Kind.data, Kind.headers, 9])
        #expect(!frames[1].endsStream && frames[2].endsStream)
        let fields = try Self.fields(Array(frames[2...]))
        #expect(fields.map { "\($0.name): \($0.value)" } == ["x-sum: 17", "x-long: \(long)"])
    }

    // MARK: Withdrawal

    /// A request that ends in the turn in which it began never leaves: neither its head, nor its content, nor a reset of a stream that the
    /// upstream does not know.
    @Test func whatEndsBeforeTheTurnNeverLeaves() throws {
        try open()
        let stays = try begin()
        let stream = try begin("POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        stream.sendContent(ByteBuffer(string: "content"), as: .content)
        stays.flush()
        stream.flush()
        stream.abandon(isCut: false)
        let frames = try sent()
        #expect(frames.filter { $0.kind == Kind.headers }.map(\.stream) == [1])
        #expect(!frames.contains { $0.stream == 3 })
    }

    @Test func whatHasLeftIsReset() throws {
        try open()
        let stream = try begin()
        stream.flush()
        #expect(try sent().map(\.kind) == [Kind.headers])
        stream.abandon(isCut: false)
        let reset = try #require(try sent().first { $0.kind == Kind.reset })
        #expect(reset.stream == 1 && reset.payload == RawHTTP2Client.bytes(8))
    }

    /// Clients that reset what they have just asked for get their places back at once, and the loop has not flushed meanwhile.
    @Test func whatATurnWritesHasABound() throws {
        try open()
        let long = String(repeating: "l", count: 30_000)
        for _ in 0..<40 {
            _ = try begin("GET /api/x HTTP/1.1\r\nHost: localhost\r\nX-Long: \(long)\r\n\r\n")
        }
        var flushed = 0
        while let part = try channel.readOutbound(as: ByteBuffer.self) { flushed += part.readableBytes }
        #expect(flushed > 400_000)
        // All but the bound, and the head that came when it was reached.
        #expect(flushed >= 40 * 30_000 - HTTP2Output.maximumUnflushed - 31_000)
    }

    /// What counts as sent: a head that waits for the end of the turn can still be taken out.
    @Test func aRequestIsSentOnceItsHeadIsFlushed() throws {
        try open()
        let first = try begin()
        var told: [Int] = []
        first.whenSent { told.append(1) }
        #expect(told.isEmpty)
        #expect(try sent().map(\.kind) == [Kind.headers] && told == [1])
        first.whenSent { told.append(2) }
        #expect(told == [1, 2])
        let second = try begin()
        second.whenSent { told.append(3) }
        second.abandon(isCut: false)
        #expect(try !sent().contains { $0.stream == 3 } && told == [1, 2])
    }

    /// A head that was flushed within its turn has left when the connection is lost.
    @Test func aRequestWasSentThatLeftBeforeItsConnectionWasLost() throws {
        try open()
        var told: [Int] = []
        try begin().whenSent { told.append(1) }
        let long = String(repeating: "l", count: HTTP2Output.maximumUnflushed)
        for number in 2...3 {
            try begin("GET /api/x HTTP/1.1\r\nHost: localhost\r\nX-Long: \(long)\r\n\r\n").whenSent {
                told.append(number)
            }
        }
        #expect(told.isEmpty)
        channel.pipeline.fireChannelInactive()
        #expect(told == [1, 2])
    }

    /// A request that fails makes room for another one, which must not come here.
    @Test func aConnectionThatBreaksARuleIsRetiredBeforeItsRequestsFail() throws {
        try open()
        let stream = try begin()
        stream.flush()
        _ = try sent()
        var wasOpen: Bool?
        // Called when the stream is over.
        stream.finishTunnel { [connection] in wasOpen = connection.isOpen }
        #expect(wasOpen == nil)
        try receive(Kind.windowUpdate, RawHTTP2Client.bytes(0))
        #expect(wasOpen == false && connection.phase == .closed)
        let last = try #require(try sent().last)
        #expect(last.kind == Kind.goAway && last.payload == RawHTTP2Client.bytes(0) + RawHTTP2Client.bytes(1))
    }

    // MARK: Upstreams that are silent

    @Test func anUpstreamThatReadsNothingGetsNoMoreRequests() throws {
        try open()
        channel.isWritable = false
        channel.pipeline.fireChannelWritabilityChanged()
        let long = String(repeating: "l", count: 300_000)
        let head = "GET /api/x HTTP/1.1\r\nHost: localhost\r\nX-Long: \(long)\r\n\r\n"
        var taken = 0
        while taken < 20, try begin(head).id != nil { taken += 1 }
        #expect(2..<10 ~= taken && !connection.isOpen && connection.phase == .open)
    }

    /// Its connection may be full because of an upload.
    @Test func anUpstreamThatReadsSlowlyGetsRequests() throws {
        try open()
        channel.isWritable = false
        channel.pipeline.fireChannelWritabilityChanged()
        for _ in 0..<50 { #expect(try begin().id != nil) }
        #expect(connection.isOpen)
    }

    private func ping() throws -> Frame? { try sent().first { $0.kind == Kind.ping && $0.flags == 0 } }

    private func receiveResponse() throws { try receive(Kind.headers, flags: 5, stream: 1, [0x88]) }

    /// Servers of gRPC close a connection on which several PINGs come, while they send no response.
    @Test func anUpstreamThatOnlyAnswersPingsGetsOneOfThem() throws {
        try open()
        let stream = try begin()
        stream.flush()
        connection.probe()
        let first = try #require(try ping())
        try receive(Kind.ping, flags: 1, first.payload)
        for _ in 0..<5 {
            connection.probe()
            #expect(try ping() == nil)
        }
        try receiveResponse()
        connection.probe()
        #expect(try ping() != nil)
    }

    @Test func onlyAnAnswerEndsAProbe() throws {
        try open()
        let stream = try begin()
        stream.flush()
        _ = try sent()
        connection.probe()
        let first = try #require(try ping())
        // What an upstream can send that reads nothing.
        try receive(Kind.windowUpdate, RawHTTP2Client.bytes(1))
        try receive(Kind.settings)
        try receive(Kind.ping, Array(1...8))
        try receive(Kind.ping, flags: 1, Array(1...8))
        connection.probe()
        #expect(try ping() == nil)
        try receive(Kind.ping, flags: 1, first.payload)
        try receiveResponse()
        connection.probe()
        let second = try #require(try ping())
        #expect(second.payload != first.payload)
        // An answer that comes late is none.
        try receive(Kind.ping, flags: 1, first.payload)
        connection.probe()
        #expect(try ping() == nil)
    }

    /// The upstream is busy, and one of its clients has lost patience.
    @Test func aProbeWithoutAnAnswerEndsNoOtherRequest() throws {
        try open()
        let stream = try begin()
        stream.flush()
        connection.probe()
        connection.deadlinePassed()
        #expect(channel.isActive && !connection.isOpen && stream.phase == .head)
    }
}
