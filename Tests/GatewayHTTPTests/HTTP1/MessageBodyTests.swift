import Testing

@testable import GatewayHTTP

@Suite(.timeLimit(.minutes(5)))
struct MessageBodyTests {
    /// Feeds `text` in pieces and reports how it ended and what its content was.
    private func follow(_ text: String, piece: Int) -> (end: String, content: String) {
        var body = MessageBody(.chunked)
        var content: [UInt8] = []
        let bytes = Array(text.utf8)
        var position = 0
        while position < bytes.count {
            let chunk = Array(bytes[position..<min(position + piece, bytes.count)])
            switch body.receive(chunk.span, onData: { content += chunk[$0] }) {
            case .forward(let count):
                #expect(count == chunk.count)
                position += count
            case .trailers(let count):
                return ("trailers at \(position + count)", String(decoding: content, as: UTF8.self))
            case .last: return ("last", "")
            case .broken: return ("broken", String(decoding: content, as: UTF8.self))
            }
        }
        return ("open", String(decoding: content, as: UTF8.self))
    }

    @Test(arguments: 1...8)
    func chunksAreFollowedHoweverTheyAreCut(_ piece: Int) {
        let result = follow("5\r\nhello\r\n00A;name=\"v\"\r\n0123456789\r\n0\r\n\r\n", piece: piece)
        #expect(result.end == "trailers at 39")
        #expect(result.content == "hello0123456789")
    }

    @Test(arguments: [
        "\r\n", "g\r\n", "5\nhello", "5 \r\nhello", "5\r\nhello0\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", ";\r\n",
        "1234567890123456\r\n", "5\r\nhelloXX", "5;\u{1}\r\n", "5;\r\n", "5; \t\r\n", "5;=a\r\n", "5;;a\r\n",
        "5;\(String(repeating: "a", count: 1100))\r\n",
    ])
    func brokenChunksAreSeen(_ text: String) { #expect(follow(text, piece: 3).end == "broken") }

    @Test func extensionsOfAllChunksTogetherAreBounded() {
        let bare = "1;" + String(repeating: "a", count: 1000) + "\r\nx\r\n"
        #expect(follow(String(repeating: bare, count: 16), piece: 64).end == "open")
        #expect(follow(String(repeating: bare, count: 17), piece: 64).end == "broken")
        // A signature for each chunk, say.
        let signed =
            "28;signature=" + String(repeating: "a", count: 64) + "\r\n" + String(repeating: "x", count: 40) + "\r\n"
        #expect(follow(String(repeating: signed, count: 2000), piece: 640).end == "open")
    }

    @Test func sizesHaveUpTo15Digits() {
        #expect(follow("000000000000005\r\nhello\r\n0\r\n\r\n", piece: 3).content == "hello")
        #expect(follow("fffffffffffffff\r\nx", piece: 3).end == "open")
    }

    @Test(arguments: [
        (BodyFraming.length(5), "hell", MessageBody.Extent.part), (.length(5), "hello", .rest),
        (.length(5), "hello!", .more(from: 5)), (.none, "G", .more(from: 0)), (.chunked, "5\r\nhel", .part),
        (.chunked, "5\r\nhello\r\n", .part), (.chunked, "0\r\n", .part), (.chunked, "5\r\nhello\r\n0\r\n\r\n", .rest),
        (.chunked, "0\r\n\r\nG", .more(from: 5)), (.chunked, "0\r\nA: b\r\n", .part),
        (.chunked, "0\r\nA: b\r\n\r\n", .rest),
        (.chunked, "0\r\nA: b\r\n\r\nGET", .more(from: 11)), (.chunked, "5\r\nhello!\r\n", .broken),
    ])
    func itIsSeenWhetherBytesEndABody(_ framing: BodyFraming, _ text: String, _ extent: MessageBody.Extent) {
        let bytes = Array(text.utf8)
        let body = MessageBody(framing)
        #expect(body.extent(of: bytes.span) == extent)
        #expect(body.received == 0)
    }

    @Test func aLengthIsCountedDown() {
        var body = MessageBody(.length(5))
        let bytes = Array("helloGET".utf8)
        guard case .forward(3) = body.receive(Array(bytes[..<3]).span),
            case .last(2) = body.receive(Array(bytes[3...]).span)
        else {
            Issue.record("five bytes belong to the body")
            return
        }
        #expect(body.isComplete)
    }

    @Test func forbiddenTrailersAreDroppedWhateverTheirSpelling() {
        var section = TrailerSection(maxBytes: 1024, maxFields: 10)
        let text =
            "X-Ok: 1\r\nAUTHORIZATION: a\r\nContent-Length: 1\r\nx_api_key: k\r\nTransfer-Encoding: chunked\r\n"
            + "Host: h\r\nSet-Cookie: c\r\nX-Also: 2\r\n\r\nNEXT"
        guard
            case .complete(let output, let consumed) = section.read(
                Array(text.utf8).span,
                forbidden: [Array("x-api-key".utf8)]
            )
        else {
            Issue.record("the section is complete")
            return
        }
        #expect(String(decoding: output, as: UTF8.self) == "X-Ok: 1\r\nX-Also: 2\r\n\r\n")
        #expect(consumed == text.utf8.count - 4)
    }

    @Test func theStatusOfGRPCIsATrailer() {
        var section = TrailerSection(maxBytes: 1024, maxFields: 10)
        let text = "grpc-message: \r\ngrpc-status: 0\r\n\r\n"
        guard case .complete(let output, _) = section.read(Array(text.utf8).span, forbidden: []) else {
            Issue.record("the section is complete")
            return
        }
        #expect(String(decoding: output, as: UTF8.self) == text)
    }

    @Test func theSizeOfAChunkExtensionIsLimited() {
        // The CR counts too.
        let longest = String(repeating: "a", count: ChunkDecoder.maxExtensionBytes - 1)
        #expect(follow("5;\(longest)\r\nhello\r\n", piece: 64).end == "open")
        #expect(follow("5;\(longest)a\r\nhello\r\n", piece: 64).end == "broken")
    }

    @Test func theTotalExcessOfExtensionsOverContentIsLimited() {
        /// A chunk of one byte whose extension exceeds 16 bytes plus twice the content by this many bytes.
        func chunk(_ excess: Int) -> String { "1;" + String(repeating: "a", count: excess + 17) + "\r\nx\r\n" }
        let most = String(repeating: chunk(1000), count: ChunkDecoder.maxExcessBytes / 1000)
        let rest = ChunkDecoder.maxExcessBytes % 1000
        #expect(follow(most + chunk(rest), piece: 64).end == "open")
        #expect(follow(most + chunk(rest + 1), piece: 64).end == "broken")
        #expect(follow(most + chunk(rest) + chunk(1), piece: 64).end == "broken")
    }
}
