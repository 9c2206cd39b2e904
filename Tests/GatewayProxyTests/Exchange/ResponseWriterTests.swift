import GatewayHTTP
import NIOCore
import NIOHPACK
import Testing

@testable import GatewayProxy

/// The same response, once for a client of HTTP/1 and once for one of HTTP/2.
@Suite(.timeLimit(.minutes(1)))
struct ResponseWriterTests {
    private static let id = RequestID(run: 1, worker: 0, number: 7)
    private static let date = UnixTime(seconds: 0)

    private static func options(_ change: (inout ResponseFieldRules.Options) -> Void = { _ in })
        -> ResponseFieldRules.Options
    {
        var options = ResponseFieldRules.Options()
        change(&options)
        return options
    }

    /// `name: value` of each field, and the status first.
    private func fields(
        _ text: String,
        isHTTP2: Bool = false,
        proxyStatus: String? = "gateway",
        cookies: CookiePolicy = .pass,
        _ options: ResponseFieldRules.Options = options(),
        tokenNote: String? = nil,
        date: UnixTime? = nil,
        dateLine: [UInt8]? = nil
    ) throws -> (http1: [String], http2: [String], neverIndexed: [String], dropsCookies: Bool) {
        let source = ByteBuffer(string: text)
        var decoder = ResponseHeadDecoder(maxBytes: 65_536, maxFields: 100, isHTTP2: isHTTP2)
        guard case .head = decoder.decode(source.readableBytesUInt8Span, answersHead: false) else {
            throw HeadRefusal.malformedStatusLine
        }
        let writer = ResponseWriter(viaName: "gw", proxyStatus: proxyStatus, requestIDHeader: "Gateway-Request-Id")
        let rules = ResponseFieldRules(
            credentialNames: [Array("x-token".utf8)],
            requestIDHeader: "Gateway-Request-Id",
            answersPages: !options.crossOrigin.isEmpty,
            policy: ResponsePolicy(cookies: cookies)
        )
        var out = ByteBuffer()
        let outcome = writer.write(
            decoder.head,
            source,
            id: Self.id,
            persistence: .implied,
            knowsChunks: true,
            rules: rules,
            options: options,
            tokenNote: tokenNote,
            date: date,
            dateLine: dateLine,
            into: &out
        )
        if case .tooLong = outcome { throw HeadRefusal.headTooLarge }
        var dropsCookies = false
        var frames = ByteBuffer()
        unsafe frames.writeWithUnsafeMutableBytes(minimumWritableBytes: 100_000) { target in
            var block = unsafe HTTP2FrameWriter(target)
            block.beginFields(stream: 1, isFirst: true)
            dropsCookies = writer.write(
                decoder.head,
                source,
                id: Self.id,
                opensWebSocket: false,
                rules: rules,
                options: options,
                tokenNote: tokenNote,
                dateLine: dateLine ?? date.map { Array("Date: \($0.httpDate)\r\n".utf8) },
                into: &block
            )
            block.endFields(isLast: false)
            let isComplete = block.isComplete
            #expect(isComplete)
            return block.count
        }
        frames.moveReaderIndex(forwardBy: HTTP2FrameHeader.size)
        var hpack = HPACKDecoder(allocator: ByteBufferAllocator())
        let decoded = try hpack.decodeHeaders(from: &frames)
        let lines = String(buffer: out).split(separator: "\r\n").dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return "\(parts[0].lowercased()):\(parts[1])"
        }
        let status = String(buffer: out).dropFirst(9).prefix(3)
        return (
            [":status: \(status)"] + lines.filter { !$0.hasPrefix("transfer-encoding:") },
            decoded.map { "\($0.name): \($0.value)" },
            decoded.filter { $0.indexable == .neverIndexed }.map(\.name),
            dropsCookies
        )
    }

    private static let usual =
        "HTTP/1.1 200 OK\r\nServer: a\r\nX-Token: t\r\nContent-Type: text/plain\r\nSet-Cookie: s=1\r\nContent-Length: 5\r\n"
        + "Alt-Svc: h3\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n\r\n"

    @Test func bothVersionsGetTheSameFields() throws {
        let found = try fields(Self.usual, tokenNote: "renewed", date: Self.date)
        #expect(found.http1 == found.http2)
        #expect(found.http2.contains("via: 1.1 gw") && found.http2.contains("gateway-token: renewed"))
        #expect(found.http2.contains("proxy-status: gateway; received-status=200"))
        #expect(found.http2.contains("gateway-request-id: \(Self.id)"))
        #expect(
            !found.http2.contains { $0.hasPrefix("x-token") || $0.hasPrefix("x-hop") || $0.hasPrefix("connection") }
        )
        #expect(found.neverIndexed == ["set-cookie"])
    }

    @Test func aLineWithTheDateIsTheSameAsTheDate() throws {
        let line = Array("Date: \(Self.date.httpDate)\r\n".utf8)
        let (found, expected) = try (fields(Self.usual, dateLine: line), fields(Self.usual, date: Self.date))
        #expect(found.http1 == expected.http1 && found.http2 == expected.http2)
        #expect(found.http2.contains("date: \(Self.date.httpDate)"))
    }

    @Test(arguments: [
        "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", "HTTP/1.0 404 Not Found\r\nX: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: foo\r\nContent-Length: 0\r\n\r\n",
    ])
    func theSameOfOtherResponses(_ text: String) throws {
        let found = try fields(text, proxyStatus: nil)
        #expect(found.http1.filter { !$0.hasPrefix("connection:") && !$0.hasPrefix("upgrade:") } == found.http2)
    }

    @Test func theVersionOfTheUpstreamIsNamed() throws {
        #expect(try fields("HTTP/1.0 200 OK\r\n\r\n").http2.contains("via: 1.0 gw"))
        #expect(try fields("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", isHTTP2: true).http2.contains("via: 2.0 gw"))
    }

    @Test func whatPagesMayReadIsTheSame() throws {
        let options = Self.options { options in
            options.crossOrigin = Array("Access-Control-Allow-Origin: *\r\nVary: Origin\r\n".utf8)
            options.exposesFields = true
        }
        let text = Self.usual.replacing("Content-Length: 5", with: "Transfer-Encoding: chunked")
        let found = try fields(text, options)
        #expect(found.http1 == found.http2)
        #expect(found.http2.contains("access-control-allow-origin: *") && found.http2.contains("vary: Origin"))
        #expect(found.http2.contains { $0.hasPrefix("access-control-expose-headers: Gateway-Token, ") })
    }

    @Test func cookiesThatARouteDropsAreNoted() throws {
        let found = try fields(Self.usual, cookies: .drop)
        #expect(found.dropsCookies && found.http1 == found.http2 && found.neverIndexed.isEmpty)
        #expect(found.http2.contains("gateway-note: \(CookiePolicy.note)"))
    }
}
