import GatewayHTTP
import Testing

/// A field of HTTP/2.
struct H2Field: Sendable, CustomStringConvertible {
    let name: String
    let value: String
    init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    var description: String { "\(name)=\(value.debugDescription)" }
}

@Suite(.timeLimit(.minutes(5)))
struct HTTP2RequestHeadTests {
    static let get = [
        H2Field(":method", "GET"), H2Field(":scheme", "https"), H2Field(":authority", "a.test"),
        H2Field(":path", "/x?y=1"),
    ]

    private func head(
        _ fields: [H2Field],
        hasContent: Bool = false,
        mustBeTLS: Bool = false
    ) throws(HTTP2Malformation) -> String {
        var head = HTTP2RequestHead()
        for field in fields { if let reason = head.add(field.name, field.value) { throw reason } }
        return String(decoding: try head.head(hasContent: hasContent, mustBeTLS: mustBeTLS), as: UTF8.self)
    }

    private func decoded(_ text: String) -> RequestHeadDecoder.DecodeResult {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        return decoder.decode(Array(text.utf8).span)
    }

    @Test func fieldsBecomeLines() throws {
        #expect(
            try head(Self.get + [H2Field("accept", "*/*")])
                == "GET /x?y=1 HTTP/1.1\r\nhost: a.test\r\naccept: */*\r\n\r\n"
        )
    }

    @Test func contentWithoutLengthIsChunked() throws {
        let text = try head(Self.get, hasContent: true)
        #expect(text.contains("transfer-encoding: chunked\r\n"))
        let known = try head(Self.get + [H2Field("content-length", "5")], hasContent: true)
        #expect(!known.contains("transfer-encoding"))
        guard case .head = decoded(text), case .head = decoded(known) else {
            Issue.record("the decoder refuses the head")
            return
        }
    }

    @Test(arguments: ["POST", "PUT", "PATCH", "GET", "DELETE"])
    func aMethodThatHasAUseForContentSaysThatThereIsNone(_ method: String) throws {
        let fields = [H2Field(":method", method)] + Self.get.dropFirst()
        let text = try head(fields)
        #expect(text.contains("\r\ncontent-length: 0\r\n") == ["POST", "PUT", "PATCH"].contains(method))
        #expect(!text.contains("transfer-encoding"))
        let said = try head(fields + [H2Field("content-length", "0")])
        #expect(said.ranges(of: "content-length").count == 1)
        guard case .head = decoded(text), case .head = decoded(said) else {
            Issue.record("the decoder refuses the head")
            return
        }
    }

    @Test func crumbsOfTheCookieAreJoined() throws {
        let crumbs = [H2Field("cookie", "a=1"), H2Field("x", "y"), H2Field("cookie", "b=2")]
        #expect(try head(Self.get + crumbs).hasSuffix("x: y\r\ncookie: a=1; b=2\r\n\r\n"))
    }

    @Test func anExtendedConnectIsAnUpgrade() throws {
        let start = [H2Field(":method", "CONNECT"), H2Field(":protocol", "websocket")] + Self.get.dropFirst()
        var request = HTTP2RequestHead()
        for field in start { _ = request.add(field.name, field.value) }
        #expect(request.asksForWebSocket)
        let bytes = try request.head(hasContent: true) { "a2V5" }
        let text = String(decoding: bytes, as: UTF8.self)
        #expect(
            text == "GET /x?y=1 HTTP/1.1\r\nhost: a.test\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
                + "sec-websocket-key: a2V5\r\n\r\n"
        )
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        guard case .head = decoder.decode(bytes.span), decoder.head.wantsUpgrade else {
            Issue.record("the decoder sees no upgrade")
            return
        }
        #expect(throws: HTTP2Malformation.unknownProtocol) {
            try head([start[0], H2Field(":protocol", "other")] + Self.get.dropFirst())
        }
    }

    @Test func hostThatAgreesIsWrittenOnce() throws {
        let text = try head(Self.get + [H2Field("host", "A.test")])
        #expect(text == "GET /x?y=1 HTTP/1.1\r\nhost: a.test\r\n\r\n")
        let alone = [Self.get[0], Self.get[1], Self.get[3], H2Field("host", "b.test")]
        #expect(try head(alone) == "GET /x?y=1 HTTP/1.1\r\nhost: b.test\r\n\r\n")
    }

    @Test func anotherSchemeIsToldWhereTLSIsDue() throws {
        let plain = [Self.get[0], H2Field(":scheme", "http"), Self.get[2], Self.get[3]]
        #expect(try head(plain, mustBeTLS: true).hasPrefix("GET http://a.test/x?y=1 HTTP/1.1\r\n"))
        #expect(try head(plain).hasPrefix("GET /x?y=1 HTTP/1.1\r\n"))
    }

    @Test(arguments: [
        ([H2Field("X-Upper", "1")], HTTP2Malformation.invalidName),
        ([H2Field("", "1")], .invalidName),
        ([H2Field("a b", "1")], .invalidName),
        ([H2Field("a:", "1")], .invalidName),
        ([H2Field("a\r\nb", "1")], .invalidName),
        ([H2Field("x", "a\r\nevil: 1")], .invalidValue),
        ([H2Field("x", "a\nb")], .invalidValue),
        ([H2Field("x", "a\u{0}b")], .invalidValue),
        ([H2Field("x", " a")], .paddedValue),
        ([H2Field("x", "a\t")], .paddedValue),
        ([H2Field("connection", "close")], .connectionField),
        ([H2Field("connection", "x")], .connectionField),
        ([H2Field("keep-alive", "timeout=5")], .connectionField),
        ([H2Field("proxy-connection", "keep-alive")], .connectionField),
        ([H2Field("transfer-encoding", "chunked")], .connectionField),
        ([H2Field("upgrade", "websocket")], .connectionField),
        ([H2Field("te", "gzip")], .invalidTE),
        ([H2Field("te", "trailers, gzip")], .invalidTE),
        ([H2Field(":path", "/")], .duplicatePseudoField),
        ([H2Field(":status", "200")], .unknownPseudoField),
        ([H2Field(":protocol", "websocket")], .unknownProtocol),
        ([H2Field("x", "1"), H2Field(":authority", "b.test")], .latePseudoField),
        ([H2Field("host", "b.test")], .hostMismatch),
        ([H2Field("content-length", "5")], .contentLengthMismatch),
    ])
    func malformedFieldsAreFound(_ fields: [H2Field], _ reason: HTTP2Malformation) {
        #expect(throws: reason) { try head(Self.get + fields) }
    }

    @Test(arguments: [
        (0, "", HTTP2Malformation.missingPseudoField), (1, "", .missingPseudoField), (3, "", .missingPseudoField),
        (0, "GET /evil HTTP/1.1\u{20}", .paddedValue), (0, "GE T", .invalidMethod), (0, "G\r\nE", .invalidValue),
        (1, "ftp", .invalidScheme), (3, "x", .invalidPath), (3, "http://b.test/", .invalidPath), (3, "*", .invalidPath),
        (3, "/a HTTP/1.1", .invalidPath), (3, "/a\r\nx: y", .invalidValue),
    ])
    func malformedPseudoFieldsAreFound(_ index: Int, _ value: String, _ reason: HTTP2Malformation) {
        var fields = Self.get
        let name = fields.remove(at: index).name
        if !value.isEmpty { fields.insert(H2Field(name, value), at: index) }
        #expect(throws: reason) { try head(fields) }
    }

    @Test(arguments: [
        [H2Field(":authority", "a.test, b.test")], [H2Field(":authority", "user@a.test")], [H2Field(":authority", "")],
        [], [H2Field("host", "a.test"), H2Field("host", "a.test")],
    ])
    func theDecoderRefusesWhatItAlwaysRefuses(_ host: [H2Field]) throws {
        let pseudo = host.filter { $0.name == ":authority" }
        let fields = host.filter { $0.name == "host" }
        let text = try head([Self.get[0], Self.get[1]] + pseudo + [Self.get[3]] + fields)
        guard case .refused = decoded(text) else {
            Issue.record("the decoder takes \(text)")
            return
        }
    }

    @Test(arguments: [
        [H2Field("content-length", "1"), H2Field("content-length", "1")], [H2Field("content-length", "+1")],
        [H2Field("content_length", "1")], [H2Field("transfer_encoding", "chunked")], [H2Field("expect", "x")],
        [H2Field("x", "a\u{1}b")],
    ])
    func theDecoderRefusesFieldsThatSmuggle(_ fields: [H2Field]) throws {
        guard case .refused = decoded(try head(Self.get + fields, hasContent: true)) else {
            Issue.record("the decoder takes \(fields)")
            return
        }
    }

    @Test func trailersAreCheckedAsFieldsAre() {
        var trailers = HTTP2Trailers()
        let results = [
            trailers.add("x-sum", "1"), trailers.add(":status", "200"), trailers.add("Transfer-Encoding", "1"),
            trailers.add("connection", "x"),
        ]
        #expect(results == [nil, .unknownPseudoField, .invalidName, .connectionField])
        var good = HTTP2Trailers()
        _ = good.add("x-sum", "1")
        #expect(String(decoding: good.section(), as: UTF8.self) == "x-sum: 1\r\n\r\n")
    }

    @Test func linesBecomeFields() {
        let text =
            "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nX:  y \r\n\r\n"
        var bytes = Array(text.utf8)
        var fields: [String] = []
        HTTP2Fields.read(bytes.span, from: HTTP2Fields.start(bytes.span)) { name, value, _ in
            fields.append("\(name)=\(value)")
        }
        #expect(fields == ["content-type=a/b", "x=y"])
        bytes = Array("X: ".utf8) + [0xE9] + Array("\r\n\r\n".utf8)
        HTTP2Fields.read(bytes.span, from: 0) { name, value, _ in
            #expect(value == "é" && name == "x")
        }
    }
}
