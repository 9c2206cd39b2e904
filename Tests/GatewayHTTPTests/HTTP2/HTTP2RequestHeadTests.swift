import Testing

@testable import GatewayHTTP

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

    /// A request as the second entrance of the decoder has read it.
    private struct Reading: ~Copyable {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        var fields = HTTP2FieldTable()
        var refusal: HeadRefusal?

        func text(_ range: Range<Int>) -> String { String(decoding: fields.bytes[range], as: UTF8.self) }
        var target: String { text(decoder.head.path.lowerBound..<decoder.head.query.upperBound) }
        /// `name: value`, as a peer of HTTP/1 gets them.
        var lines: [String] { decoder.head.fields.map { text($0.line).filter { $0 != "\r\n" } } }
    }

    private func read(
        _ given: [H2Field],
        hasContent: Bool = false,
        mustBeTLS: Bool = false,
        webSocketKey: String = ""
    ) throws -> Reading {
        var reading = Reading()
        var blocks = FieldBlockDecoder()
        let block = given.flatMap { FieldLiteral.field($0.name, $0.value) }
        reading.fields = try blocks.decode(block, maxBytes: 4096, maxFields: 20)
        switch try reading.decoder.decode(
            &reading.fields,
            hasContent: hasContent,
            mustBeTLS: mustBeTLS,
            webSocketKey: { webSocketKey }
        ) {
        case .head: break
        case .refused(let reason): reading.refusal = reason
        case .needMore: Issue.record("a block of HTTP/2 is whole")
        }
        return reading
    }

    private func expectMalformed(_ reason: HTTP2Malformation, _ fields: [H2Field]) {
        #expect(throws: reason) { _ = try read(fields) }
    }

    /// What a request leaves behind must not be read as that of the next one.
    @Test func aDecoderThatIsUsedAgainIsAsItWasMade() throws {
        let fields = [
            H2Field(":method", "POST"), H2Field(":scheme", "http"), H2Field(":authority", "a.test"),
            H2Field(":path", "/x?y=1"), H2Field("expect", "100-continue"), H2Field("authorization", "Bearer a"),
            H2Field("x_y", "1"), H2Field("origin", "https://b.test"),
        ]
        var reading = try read(fields, hasContent: true, mustBeTLS: true)
        let new = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        #expect(Self.facts(reading.decoder.head) != Self.facts(new.head))
        reading.decoder.renew()
        #expect(Self.facts(reading.decoder.head) == Self.facts(new.head))
    }

    private static func facts(_ head: borrowing RequestHead) -> [String] {
        [
            "\(head.method)", "\(head.form)", "\(head.targetAuthority)", "\(head.path)", "\(head.query)",
            "\(head.isHTTP10)",
            "\(head.isHead)", "\(head.isIdempotent)", "\(head.section)", "\(head.host)", "\(head.framing)",
            "\(head.options)",
            "\(head.expectsContinue)", "\(head.wantsUpgrade)", "\(head.end)", "\(head.present)",
        ]
    }

    @Test func fieldsBecomeAHead() throws {
        let reading = try read(Self.get + [H2Field("accept", "*/*")])
        #expect(reading.refusal == nil)
        #expect(reading.text(reading.decoder.head.method) == "GET" && reading.target == "/x?y=1")
        #expect(reading.text(reading.decoder.head.host) == "a.test" && reading.lines == ["accept: */*"])
        #expect(reading.decoder.head.isIdempotent && reading.decoder.head.framing == .none)
        #expect(reading.text(reading.decoder.head.query) == "?y=1" && reading.decoder.head.form == .origin)
    }

    @Test func contentWithoutLengthIsChunked() throws {
        let unknown = try read(Self.get, hasContent: true)
        #expect(unknown.lines == ["transfer-encoding: chunked"] && unknown.decoder.head.framing == .chunked)
        let known = try read(Self.get + [H2Field("content-length", "5")], hasContent: true)
        #expect(known.lines == ["content-length: 5"] && known.decoder.head.framing == .length(5))
    }

    @Test(arguments: ["POST", "PUT", "PATCH", "GET", "DELETE"])
    func aMethodThatHasAUseForContentSaysThatThereIsNone(_ method: String) throws {
        let fields = [H2Field(":method", method)] + Self.get.dropFirst()
        let reading = try read(fields)
        #expect(reading.lines == (["POST", "PUT", "PATCH"].contains(method) ? ["content-length: 0"] : []))
        let said = try read(fields + [H2Field("content-length", "0")])
        #expect(said.lines == ["content-length: 0"])
        #expect(reading.refusal == nil && said.refusal == nil)
    }

    @Test func crumbsOfTheCookieAreJoined() throws {
        let crumbs = [H2Field("cookie", "a=1"), H2Field("x", "y"), H2Field("cookie", "b=2")]
        #expect(try read(Self.get + crumbs).lines == ["x: y", "cookie: a=1; b=2"])
    }

    @Test func anExtendedConnectIsAnUpgrade() throws {
        let start = [H2Field(":method", "CONNECT"), H2Field(":protocol", "websocket")] + Self.get.dropFirst()
        let reading = try read(start, hasContent: true, webSocketKey: "a2V5")
        #expect(reading.text(reading.decoder.head.method) == "GET" && reading.target == "/x?y=1")
        #expect(reading.lines == ["connection: Upgrade", "upgrade: websocket", "sec-websocket-key: a2V5"])
        #expect(reading.decoder.head.wantsUpgrade && reading.decoder.head.framing == .none)
        #expect(reading.decoder.head.isIdempotent && reading.text(reading.decoder.head.host) == "a.test")
        let ownKey = try read(start + [H2Field("sec-websocket-key", "b3du")], hasContent: true, webSocketKey: "a2V5")
        #expect(ownKey.lines.filter { $0.hasPrefix("sec-websocket-key") } == ["sec-websocket-key: b3du"])
        expectMalformed(.unknownProtocol, [start[0], H2Field(":protocol", "other")] + Self.get.dropFirst())
        expectMalformed(.contentLengthMismatch, start + [H2Field("content-length", "0")])
    }

    @Test func hostThatAgreesCountsOnce() throws {
        let reading = try read(Self.get + [H2Field("host", "A.test"), H2Field("host", "a.test")])
        #expect(reading.refusal == nil && reading.text(reading.decoder.head.host) == "a.test")
        let alone = try read([Self.get[0], Self.get[1], Self.get[3], H2Field("host", "b.test")])
        #expect(alone.refusal == nil && alone.text(alone.decoder.head.host) == "b.test")
    }

    @Test func anotherSchemeIsToldWhereTLSIsDue() throws {
        let plain = [Self.get[0], H2Field(":scheme", "http"), Self.get[2], Self.get[3]]
        let absolute = try read(plain, mustBeTLS: true)
        #expect(absolute.decoder.head.form == .absolute && absolute.target == "/x?y=1")
        #expect(absolute.text(absolute.decoder.head.targetAuthority) == "a.test")
        let asksForTLS = absolute.decoder.head.asksForTLS(absolute.fields.bytes.span)
        #expect(!asksForTLS)
        #expect(try read(plain).decoder.head.form == .origin)
        #expect(try read(Self.get, mustBeTLS: true).decoder.head.form == .origin)
        let star = [H2Field(":method", "OPTIONS"), H2Field(":scheme", "http"), Self.get[2], H2Field(":path", "*")]
        let server = try read(star, mustBeTLS: true)
        #expect(server.refusal == nil && server.decoder.head.form == .absolute && server.target.isEmpty)
        let byHost = [plain[0], plain[1], plain[3], H2Field("host", "b.test")]
        let named = try read(byHost, mustBeTLS: true)
        #expect(named.text(named.decoder.head.targetAuthority) == "b.test" && named.refusal == nil)
    }

    @Test func aConnectNamesAServer() throws {
        let connect = H2Field(":method", "CONNECT")
        let reading = try read([connect, H2Field(":authority", "a.test:443")], hasContent: true)
        #expect(reading.refusal == nil && reading.decoder.head.form == .authority && reading.lines.isEmpty)
        #expect(try read([connect, H2Field(":authority", "a.test")]).refusal == .invalidTarget)
        expectMalformed(.missingPseudoField, [connect])
        expectMalformed(.unknownPseudoField, [connect] + Self.get.dropFirst())
    }

    /// The same fields, once by HTTP/1 and once by HTTP/2.
    @Test(arguments: [
        [], [H2Field("accept", "*/*"), H2Field("via", "1.1 a")], [H2Field("expect", "100-continue")],
        [H2Field("authorization", "Basic YTpi"), H2Field("origin", "https://a.test")],
        [H2Field("content-length", "12"), H2Field("x_y", "1")],
        [H2Field("authorization", "a"), H2Field("authorization", "b")],
        [H2Field("destination", "/b"), H2Field("sec-fetch-site", "none"), H2Field("x-request-id", "1")],
    ])
    func bothEntrancesReadTheSame(_ fields: [H2Field]) throws {
        let reading = try read(Self.get + fields, hasContent: true)
        var text = "GET /x?y=1 HTTP/1.1\r\nhost: a.test\r\n"
        for field in fields { text += "\(field.name): \(field.value)\r\n" }
        if !fields.contains(where: { $0.name == "content-length" }) { text += "transfer-encoding: chunked\r\n" }
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        guard case .head = decoder.decode(Array((text + "\r\n").utf8).span) else {
            Issue.record("the first entrance refuses it")
            return
        }
        #expect(reading.refusal == nil)
        #expect(reading.decoder.head.present == decoder.head.present)
        #expect(reading.decoder.head.framing == decoder.head.framing)
        #expect(reading.decoder.head.expectsContinue == decoder.head.expectsContinue)
        #expect(reading.decoder.head.section.hasUnderscore == decoder.head.section.hasUnderscore)
        #expect(reading.decoder.head.fields.map(\.kind) == decoder.head.fields.dropFirst().map(\.kind))
        #expect(reading.decoder.head.query.count == decoder.head.query.count)
    }

    /// A decoder and a table serve one request after the other.
    @Test func nothingIsLeftOfTheRequestBefore() throws {
        var decoder = RequestHeadDecoder(maxBytes: 4096, maxFields: 20)
        var (blocks, fields) = (FieldBlockDecoder(), HTTP2FieldTable())
        for given in [Self.get + [H2Field("host", "a.test"), H2Field("x", "1")], Self.get] {
            fields.begin(.request, maxBytes: 4096, maxFields: 20)
            let block = given.flatMap { FieldLiteral.field($0.name, $0.value) }
            try blocks.decode(block.span, into: &fields, maxBytes: 4096)
            guard case .head = try decoder.decode(&fields, hasContent: false) else {
                Issue.record("it is refused")
                return
            }
        }
        #expect(decoder.head.fields.isEmpty && !decoder.head.wantsUpgrade)
    }

    @Test func whatExceedsALimitIsRefused() throws {
        #expect(try read(Self.get + [H2Field("x", String(repeating: "a", count: 5000))]).refusal == .headTooLarge)
        #expect(try read(Self.get + (0...20).map { H2Field("x-\($0)", "") }).refusal == .tooManyFields)
        let path = H2Field(":path", "/" + String(repeating: "a", count: 5000))
        #expect(try read(Self.get.dropLast() + [path]).refusal == .targetTooLong)
        #expect(
            try read([H2Field(":method", String(repeating: "A", count: 33))] + Self.get.dropFirst()).refusal
                == .malformedRequestLine
        )
        #expect(try read([H2Field(":method", "TRACE")] + Self.get.dropFirst()).refusal == .methodRefused)
        #expect(try read(Self.get.dropLast() + [H2Field(":path", "/a#b")]).refusal == .invalidTarget)
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
        expectMalformed(reason, Self.get + fields)
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
        expectMalformed(reason, fields)
    }

    @Test(arguments: [
        [H2Field(":authority", "a.test, b.test")], [H2Field(":authority", "user@a.test")], [H2Field(":authority", "")],
        [], [H2Field("host", "a.test"), H2Field("host", "a.test")],
    ])
    func theDecoderRefusesWhatItAlwaysRefuses(_ host: [H2Field]) throws {
        let pseudo = host.filter { $0.name == ":authority" }
        let fields = host.filter { $0.name == "host" }
        let reading = try read([Self.get[0], Self.get[1]] + pseudo + [Self.get[3]] + fields)
        #expect(reading.refusal != nil)
    }

    @Test(arguments: [
        [H2Field("content-length", "1"), H2Field("content-length", "1")], [H2Field("content-length", "+1")],
        [H2Field("content_length", "1")], [H2Field("transfer_encoding", "chunked")], [H2Field("expect", "x")],
        [H2Field("x", "a\u{1}b")],
    ])
    func theDecoderRefusesFieldsThatSmuggle(_ fields: [H2Field]) throws {
        #expect(try read(Self.get + fields, hasContent: true).refusal != nil)
    }

    @Test func trailersAreCheckedAsFieldsAre() throws {
        let cases: [(H2Field, HTTP2Malformation?)] = [
            (H2Field("x-sum", "1"), nil), (H2Field(":status", "200"), .unknownPseudoField),
            (H2Field("Transfer-Encoding", "1"), .invalidName), (H2Field("connection", "x"), .connectionField),
        ]
        for (field, reason) in cases {
            var blocks = FieldBlockDecoder()
            // Those of a client, and those of an upstream.
            for message in [HTTP2FieldTable.Message.trailers, .response] {
                let fields = try blocks.decode(FieldLiteral.field(field.name, field.value), message)
                #expect(fields.malformationOfTrailers == reason)
                guard reason == nil else { continue }
                let section = TrailerSection.output(of: fields, forbidden: [])
                #expect(String(decoding: section, as: UTF8.self) == "x-sum: 1\r\n\r\n")
            }
        }
    }

    /// The same that HTTP/1 leaves out.
    @Test(arguments: [
        "x-own", "x_own", "if-match", "if_match", "age", "content_length", "grpc-status", "Trailer", "IF-",
    ])
    func trailersThatMayNotPass(_ name: String) throws {
        let text = Array("a: b\r\n\(name): 1\r\n\r\n".utf8)
        for forbidden in [[], [Array("x-own".utf8)]] {
            var section = TrailerSection(maxBytes: 1024, maxFields: 10)
            guard case .complete(let output, _) = section.read(text.span, forbidden: forbidden) else {
                Issue.record("no section")
                return
            }
            let mayPass = name == "grpc-status" || name.hasPrefix("x") && forbidden.isEmpty
            #expect(output == (mayPass ? text : Array("a: b\r\n\r\n".utf8)))
            guard name == name.lowercased() else { continue }
            var blocks = FieldBlockDecoder()
            let fields = try blocks.decode(FieldLiteral.field("a", "b") + FieldLiteral.field(name, "1"), .trailers)
            #expect(TrailerSection.output(of: fields, forbidden: forbidden) == output)
        }
    }
}
