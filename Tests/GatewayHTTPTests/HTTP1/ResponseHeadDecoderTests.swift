import GatewayHTTP
import Testing

@Suite(.timeLimit(.minutes(5)))
struct ResponseHeadDecoderTests {
    struct Decoded: Equatable {
        let framing: BodyFraming
        let upstreamKeepsAlive: Bool
        let keepAliveSeconds: Int?
        let hasDate: Bool
    }

    private func decode(_ text: String, answersHead: Bool = false) -> Decoded? {
        var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 20)
        guard case .head = decoder.decode(Array(text.utf8).span, answersHead: answersHead) else { return nil }
        return Decoded(
            framing: decoder.head.framing,
            upstreamKeepsAlive: decoder.head.upstreamKeepsAlive,
            keepAliveSeconds: decoder.head.keepAliveSeconds,
            hasDate: decoder.head.hasDate
        )
    }

    @Test func whatWasSeenIsNotSeenAgain() {
        var bytes = Array("HTTP/1.1 200 OK\r\nX-Pad: aaaaaaaa\r\nX-Long: aaaaaaaa".utf8)
        var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 20)
        guard case .needMore = decoder.decode(bytes.span, answersHead: false) else { return #expect(Bool(false)) }
        for index in bytes.indices where bytes[index] == 0x61 && index > 24 { bytes[index] = 0 }
        bytes += Array("cc\r\n\r\n".utf8)
        guard case .head = decoder.decode(bytes.span, answersHead: false) else { return #expect(Bool(false)) }
    }

    @Test(arguments: [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", BodyFraming.length(5), true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", .none, true),
        ("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n", .chunked, true),
        ("HTTP/1.1 200 \r\n\r\n", .untilClose, false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", .length(5), false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", .length(5), true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", .none, true),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", .none, true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", .length(5), false),
    ])
    func framingFollowsTheHead(_ text: String, _ framing: BodyFraming, _ keepsAlive: Bool) {
        let head = decode(text)
        #expect(head?.framing == framing)
        #expect(head?.upstreamKeepsAlive == keepsAlive)
    }

    @Test(
        arguments: [
            ("timeout=5", 5), ("Timeout=5, max=100", 5), ("max=100 , timeout=7", 7), ("timeout=0", 0),
            ("timeout=99999999999", 86_400), ("timeout=", nil), ("timeout=x", nil), ("timeout=-1", nil), ("max=5", nil),
            ("", nil),
        ] as [(String, Int?)]
    )
    func theUpstreamSaysHowLongItKeepsTheConnection(_ value: String, _ seconds: Int?) {
        let head = decode("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: \(value)\r\n\r\n")
        #expect(head != nil)
        #expect(head?.keepAliveSeconds == seconds)
    }

    @Test(arguments: [
        "Content-Length:\t5", "Content-Length: 5\t", "Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked\t",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
    ])
    func framingThatCouldBeReadInTwoWaysIsRefused(_ fields: String) {
        #expect(decode("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n") == nil)
    }

    @Test("SETTINGS in place of a status line is told from other bytes")
    func theOtherVersionIsNoticed() {
        let settings: [UInt8] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]
        for (bytes, reason) in [
            (settings, HeadRefusal.http2Response),
            ([0, 0, 6, 5] + settings.dropFirst(4) + [13, 10], .malformedStatusLine),
            ([0, 0, 6, 4, 0, 0, 0, 0, 1, 13, 10], .malformedStatusLine),
        ] {
            var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 20)
            guard case .refused(reason) = decoder.decode(bytes.span, answersHead: false) else {
                Issue.record("\(bytes) is not refused as \(reason)")
                continue
            }
        }
    }

    @Test func whatTheLastHeadSaidIsForgotten() {
        var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 20)
        let heads = ["HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"]
        for head in heads {
            decoder.reset()
            guard case .head = decoder.decode(Array(head.utf8).span, answersHead: false) else {
                return #expect(Bool(false))
            }
        }
        #expect(decoder.head.keepAliveSeconds == nil)
    }

    @Test func aDateIsNoticed() {
        #expect(decode("HTTP/1.1 204 No Content\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n")?.hasDate == true)
        // It ends here, so that the client would have none.
        #expect(decode("HTTP/1.1 204 No Content\r\nDate: x\r\nConnection: date\r\n\r\n")?.hasDate == false)
        #expect(decode("HTTP/1.1 204 No Content\r\nDates: x\r\nData: x\r\n\r\n")?.hasDate == false)
    }

    @Test(arguments: [(32, true), (33, false)])
    func fewFieldsMayBeNominated(_ count: Int, _ isTaken: Bool) {
        let names = (0..<count).map { "x-\($0)" }.joined(separator: ", ")
        #expect((decode("HTTP/1.1 204 No Content\r\nConnection: \(names)\r\n\r\n") != nil) == isTaken)
    }

    @Test func anAnswerToHeadHasNoBody() {
        #expect(decode("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", answersHead: true)?.framing == BodyFraming.none)
    }

    @Test(arguments: [
        "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 99 x\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "http/1.1 200 OK\r\n\r\n",
        "HttP/1.1 200 OK\r\n\r\n", "Http/1.0 200 OK\r\n\r\n",
        "HTTP/1.1200 OK\r\n\r\n", "<html>\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\n folded\r\n\r\n",
    ])
    func brokenHeadsAreRefused(_ text: String) { #expect(decode(text)?.framing == nil) }
}
