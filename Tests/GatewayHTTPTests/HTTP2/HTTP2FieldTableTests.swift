import Testing

@testable import GatewayHTTP

@Suite("Fields of HTTP/2 in the form of HTTP/1", .timeLimit(.minutes(1)))
struct HTTP2FieldTableTests {
    typealias Message = HTTP2FieldTable.Message

    private func decode(_ fields: [(String, String)], _ message: Message = .request) throws -> HTTP2FieldTable {
        var decoder = FieldBlockDecoder()
        let read = try decoder.decode(fields.flatMap { FieldLiteral.field($0.0, $0.1) }, message)
        // What the table remembers is judged the same when it comes again, as an index and as the name of another field.
        var other = FieldBlockDecoder(tableSize: 8192)
        let indexed = try other.decode(fields.flatMap { FieldLiteral.indexed($0.0, $0.1) }, message)
        expectSame(read, indexed)
        let indices = fields.indices.map { UInt8(0x80 + 61 + fields.count - $0) }
        expectSame(read, try other.decode(indices, message))
        let names = fields.enumerated().flatMap { number, field in
            FieldLiteral.integer(61 + fields.count - number, prefix: 4, pattern: 0x00)
                + FieldLiteral.string(Array(field.1.utf8))
        }
        expectSame(read, try other.decode(names, message))
        return read
    }

    private func expectSame(_ one: HTTP2FieldTable, _ other: HTTP2FieldTable) {
        #expect(one.lines == other.lines && one.pseudo == other.pseudo && one.section.fields == other.section.fields)
        #expect(one.malformation == other.malformation && one.refusal == other.refusal)
        #expect(one.listSize == other.listSize && one.section.hasUnderscore == other.section.hasUnderscore)
    }

    private static let request = [
        (":method", "GET"), (":scheme", "https"), (":authority", "a.example"), (":path", "/x?y"),
    ]

    @Test func aRequest() throws {
        let fields = try decode(
            Self.request + [("accept", "*/*"), ("authorization", "Bearer t"), ("x_y", ""), ("content-length", "5")]
        )
        #expect(fields.malformation == nil && fields.refusal == nil)
        #expect(fields.text(fields.pseudo.method) == "GET" && fields.text(fields.pseudo.path) == "/x?y")
        #expect(fields.text(fields.pseudo.scheme) == "https" && fields.text(fields.pseudo.authority) == "a.example")
        #expect(fields.pseudo.status == nil && fields.pseudo.protocolName == nil)
        #expect(
            fields.text(fields.start..<fields.end)
                == "accept: */*\r\nauthorization: Bearer t\r\nx_y: \r\ncontent-length: 5\r\n\r\n"
        )
        #expect(fields.section.fields.map(\.kind) == [.other, .authorization, .other, .contentLength])
        #expect(fields.section.hasUnderscore)
    }

    /// The scanner of HTTP/1 makes the same of the same lines.
    @Test func theFormIsTheScanners() throws {
        let fields = try decode(
            Self.request + [
                ("accept", "*/*"), ("x-real-ip", "::1"), ("te", "trailers"), ("empty", ""), ("via", "1.1 a\tb"),
            ]
        )
        var scanner = FieldSection()
        scanner.begin(at: fields.start)
        guard case .end(let end) = scanner.read(fields.bytes.span, maxBytes: 32_768, maxFields: 100) else {
            Issue.record("The lines are no section of HTTP/1.")
            return
        }
        #expect(end == fields.end)
        // The scanner leaves the place of an empty value behind its space.
        #expect(scanner.fields == fields.section.fields)
    }

    @Test func crumbsBecomeOneField() throws {
        let fields = try decode(
            Self.request + [("cookie", "a=1"), ("accept", "*/*"), ("cookie", ""), ("cookie", "b=2"), ("cookie2", "c")]
        )
        #expect(fields.text(fields.start..<fields.end) == "accept: */*\r\ncookie2: c\r\ncookie: a=1; b=2\r\n\r\n")
        #expect(fields.section.fields.map(\.kind) == [.other, .cookie, .cookie])
        #expect(try decode(Self.request + [("cookie", "")]).section.fields.isEmpty)
    }

    struct Malformed: Sendable, CustomTestStringConvertible {
        let fields: [(String, String)]
        let reason: HTTP2Malformation
        var testDescription: String { "\(fields): \(reason.rawValue)" }

        init(_ fields: [(String, String)], _ reason: HTTP2Malformation) {
            (self.fields, self.reason) = (fields, reason)
        }
    }

    @Test(arguments: [
        // Names.
        Malformed([("", "a")], .invalidName), Malformed([("A", "a")], .invalidName),
        Malformed([("a b", "a")], .invalidName),
        Malformed([("a:", "a")], .invalidName), Malformed([("a\u{e9}", "a")], .invalidName),
        Malformed([("a\0", "a")], .invalidName),
        Malformed([("Connection", "close")], .invalidName), Malformed([("x-looong-name-Of", "a")], .invalidName),
        // Values.
        Malformed([("a", " b")], .paddedValue), Malformed([("a", "b\t")], .paddedValue),
        Malformed([("a", " ")], .paddedValue),
        Malformed([("a", "b\r\nc: d")], .invalidValue), Malformed([("a", "b\0")], .invalidValue),
        Malformed([("a", "\n")], .invalidValue),
        Malformed([("a", "\u{1}b\n")], .invalidValue),
        Malformed([("aaaaaaaaaaaaaaaa", "0123456789abcdef\r")], .invalidValue),
        // Fields of a connection.
        Malformed([("connection", "close")], .connectionField), Malformed([("keep-alive", "1")], .connectionField),
        Malformed([("proxy-connection", "close")], .connectionField),
        Malformed([("transfer-encoding", "chunked")], .connectionField),
        Malformed([("upgrade", "h2c")], .connectionField), Malformed([("te", "gzip")], .invalidTE),
        Malformed([("te", "")], .invalidTE),
        Malformed([("te", "trailers, gzip")], .invalidTE),
        // Pseudo-header fields.
        Malformed([(":unknown", "a")], .unknownPseudoField), Malformed([(":", "a")], .unknownPseudoField),
        Malformed([(":status", "200")], .unknownPseudoField),
        Malformed([(":Path", "/")], .unknownPseudoField), Malformed([(":path", "/")], .duplicatePseudoField),
        Malformed([(":method", "GET")], .duplicatePseudoField),
        Malformed([("a", "b"), (":path", "/")], .latePseudoField),
        Malformed([("cookie", "b"), (":protocol", "websocket")], .latePseudoField),
        Malformed([(":protocol", "\n")], .invalidValue),
        // The first of them counts.
        Malformed([("te", "gzip"), ("A", "a")], .invalidTE),
    ])
    func aMalformedRequest(_ malformed: Malformed) throws {
        let fields = try decode(Self.request + malformed.fields)
        #expect(fields.malformation == malformed.reason)
    }

    @Test func otherControlBytesAreRefusedAsInHTTP1() throws {
        for value in ["a\u{1}b", "\u{7f}", "a\u{1f}"] {
            let fields = try decode(Self.request + [("a", value), ("b", "c")])
            #expect(fields.malformation == nil && fields.refusal == .invalidFieldValue)
        }
        let late = try decode([("a", "b\u{1}"), (":method", "GET")])
        #expect(late.malformation == .latePseudoField)
        #expect(try decode(Self.request + [("a", "b\tc")]).refusal == nil)
    }

    /// It is answered, so what follows must not make it malformed.
    @Test func aPseudoFieldThatIsTooLongOrHasAControlByte() throws {
        var long = Self.request
        long.insert((":path", "/" + String(repeating: "p", count: 40_000)), at: 0)
        long.removeLast()
        var decoder = FieldBlockDecoder()
        let fields = try decoder.decode((long + [("a", "b")]).flatMap { FieldLiteral.field($0.0, $0.1) })
        #expect(fields.malformation == nil && fields.refusal == .targetTooLong)
        #expect(fields.pseudo.path == nil && fields.section.fields.isEmpty)
        let control = try decode([(":path", "/\u{1}"), (":method", "GET"), (":scheme", "https")])
        #expect(control.malformation == nil && control.refusal == nil)
        #expect(control.text(control.pseudo.path) == "/\u{1}")
        #expect(
            try decode(Self.request.dropLast() + [("a", "\u{1}"), (":path", "/")]).malformation == .latePseudoField
        )
    }

    @Test func pseudoFieldsOfOtherMessages() throws {
        let response = try decode([(":status", "204"), ("date", "x")], .response)
        #expect(response.malformation == nil && response.text(response.pseudo.status) == "204")
        #expect(try decode([(":status", "204"), (":path", "/")], .response).malformation == .unknownPseudoField)
        #expect(try decode([(":status", "204"), (":status", "204")], .response).malformation == .duplicatePseudoField)
        #expect(try decode([(":path", "/")], .trailers).malformation == .unknownPseudoField)
        #expect(try decode([(":status", "200")], .trailers).malformation == .unknownPseudoField)
        let trailers = try decode([("grpc-status", "0")], .trailers)
        #expect(trailers.text(trailers.start..<trailers.end) == "grpc-status: 0\r\n\r\n")
        #expect(try decode([], .trailers).lines == [])
        let connect = try decode(Self.request + [(":protocol", "websocket")])
        #expect(connect.text(connect.pseudo.protocolName) == "websocket")
    }

    @Test func whatMayNotBeIndexedIsMarked() throws {
        var decoder = FieldBlockDecoder()
        let block =
            FieldLiteral.field("a", "1", first: 0x10) + FieldLiteral.field("b", "2", first: 0x00)
            + FieldLiteral.indexed("c", "3")
        #expect(try decoder.decode(block).section.fields.map(\.isNeverIndexed) == [true, false, false])
    }

    /// A table is used for one message after the other.
    @Test func nothingStaysOfTheMessageBefore() throws {
        var (decoder, fields) = (FieldBlockDecoder(), HTTP2FieldTable())
        let blocks = [
            Self.request + [("cookie", "a"), ("a_b", String(repeating: "v", count: 40_000))], [("A", "b")],
            Self.request,
        ]
        for block in blocks {
            fields.begin(.request, maxBytes: 32_768, maxFields: 10)
            let bytes = block.flatMap { FieldLiteral.field($0.0, $0.1) }
            try decoder.decode(bytes.span, into: &fields, maxBytes: 32_768)
        }
        let fresh = try decode(Self.request)
        expectSame(fields, fresh)
    }
}
