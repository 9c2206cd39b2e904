import Testing

@testable import GatewayHTTP

@Suite("Heads of HTTP/2 responses", .timeLimit(.minutes(5)))
struct HTTP2ResponseHeadTests {
    /// The head as HTTP/1 has it, or why there is none.
    private func head(
        _ fields: [H2Field],
        isLast: Bool = false,
        answersHead: Bool = false,
        webSocketAccept: String? = nil,
        maxFields: Int = 100
    ) throws -> String {
        var blocks = FieldBlockDecoder()
        let block = fields.flatMap { FieldLiteral.field($0.name, $0.value) }
        var table = try blocks.decode(block, .response, maxFields: maxFields)
        var decoder = ResponseHeadDecoder(maxBytes: 32_768, maxFields: maxFields, isHTTP2: true)
        let result = try decoder.decode(
            &table,
            isLast: isLast,
            answersHead: answersHead,
            webSocketAccept: webSocketAccept
        )
        if case .refused(let reason) = result { throw reason }
        #expect(decoder.head.isHTTP2 && !decoder.head.isHTTP10 && decoder.head.end == table.end)
        let line = String(decoding: table.bytes[decoder.head.statusAndReason], as: UTF8.self)
        #expect(line == "\(decoder.head.status)\r\n")
        // The lines of fields follow each other, and the empty line follows them.
        let start = decoder.head.section.fields.first?.line.lowerBound ?? table.end - 2
        return "HTTP/1.1 \(decoder.head.status) \r\n" + String(decoding: table.bytes[start..<table.end], as: UTF8.self)
    }

    @Test func fieldsBecomeLines() throws {
        let fields = [H2Field(":status", "201"), H2Field("location", "/x"), H2Field("set-cookie", "a=1")]
        #expect(try head(fields) == "HTTP/1.1 201 \r\nlocation: /x\r\nset-cookie: a=1\r\n\r\n")
    }

    @Test(arguments: [("200", true, false), ("204", false, false), ("304", false, false), ("200", false, true)])
    func theEndOfTheStreamIsTheLength(status: String, hasLength: Bool, answersHead: Bool) throws {
        let head = try head([H2Field(":status", status)], isLast: true, answersHead: answersHead)
        #expect(head.contains("content-length: 0") == hasLength)
    }

    @Test(arguments: ["200", "201", "299"])
    func everySuccessOpensTheWebSocket(status: String) throws {
        let fields = [
            H2Field(":status", status), H2Field("content-length", "5"), H2Field("sec-websocket-accept", "other"),
            H2Field("sec-websocket-protocol", "chat"),
        ]
        let text = try head(fields, webSocketAccept: "mine")
        let handshake = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: mine\r\n\r\n"
        #expect(text == "HTTP/1.1 101 \r\nsec-websocket-protocol: chat\r\n" + handshake)
    }

    @Test(arguments: ["403", "302", "103"])
    func nothingElseOpensIt(status: String) throws {
        let fields = [H2Field(":status", status), H2Field("content-length", "5")]
        #expect(try head(fields, webSocketAccept: "mine") == "HTTP/1.1 \(status) \r\ncontent-length: 5\r\n\r\n")
    }

    @Test func noUpstreamSaysThatItSwitches() {
        #expect(throws: HTTP2Malformation.invalidStatus) {
            _ = try head([H2Field(":status", "101")], webSocketAccept: "mine")
        }
    }

    @Test func whatTheFieldsMean() throws {
        var blocks = FieldBlockDecoder()
        var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 9, isHTTP2: true)
        for (fields, framing) in [
            ([H2Field("content-length", "5"), H2Field("date", "x")], BodyFraming.length(5)), ([], .untilClose),
            ([H2Field("set-cookie", "a=b"), H2Field("location", "/"), H2Field("grpc-status", "7")], .untilClose),
        ] {
            let block = ([H2Field(":status", "200")] + fields).flatMap { FieldLiteral.field($0.name, $0.value) }
            var table = try blocks.decode(block, .response)
            guard case .head = try decoder.decode(&table, isLast: false, answersHead: false) else {
                Issue.record("no head")
                continue
            }
            #expect(decoder.head.framing == framing && decoder.head.section.fields.count == fields.count)
            #expect(decoder.head.hasDate == fields.contains { $0.name == "date" })
            #expect(decoder.head.hasCookies == fields.contains { $0.name == "set-cookie" })
            #expect(decoder.head.hasLinks == fields.contains { $0.name == "location" })
            #expect(decoder.head.grpcStatus == (fields.contains { $0.name == "grpc-status" } ? 7 : nil))
        }
    }

    /// One table serves one message after the other, and each head keeps its own fields.
    @Test func aHeadKeepsItsFields() throws {
        var (blocks, table) = (FieldBlockDecoder(), HTTP2FieldTable())
        var first = ResponseHeadDecoder(maxBytes: 4096, maxFields: 9, isHTTP2: true)
        var second = ResponseHeadDecoder(maxBytes: 4096, maxFields: 9, isHTTP2: true)
        func block(_ names: String...) -> [UInt8] {
            FieldLiteral.field(":status", "200") + names.flatMap { FieldLiteral.field($0, "x") }
        }
        table.begin(.response, maxBytes: 4096, maxFields: 9)
        try blocks.decode(block("a", "b").span, into: &table, maxBytes: 4096)
        _ = try first.decode(&table, isLast: true, answersHead: false)
        table.begin(.response, maxBytes: 4096, maxFields: 9)
        try blocks.decode(block("c").span, into: &table, maxBytes: 4096)
        _ = try second.decode(&table, isLast: false, answersHead: false)
        #expect(first.head.section.fields.map(\.name.count) == [1, 1, "content-length".utf8.count])
        #expect(second.head.section.fields.map(\.name.count) == [1])
    }

    /// A head that nobody looks at any more leaves the memory of its fields to the next message.
    @Test func fieldsAreGivenBack() throws {
        var (blocks, table) = (FieldBlockDecoder(), HTTP2FieldTable())
        var decoder = ResponseHeadDecoder(maxBytes: 4096, maxFields: 9, isHTTP2: true)
        func read(_ name: String) throws -> Int {
            let block = FieldLiteral.field(":status", "200") + FieldLiteral.field(name, "x")
            table.begin(.response, maxBytes: 4096, maxFields: 9)
            try blocks.decode(block.span, into: &table, maxBytes: 4096)
            _ = try decoder.decode(&table, isLast: false, answersHead: false)
            return decoder.head.section.fields.count
        }
        #expect(try read("a") == 1 && !table.section.hasMemory)
        decoder.giveBackFields(to: &table)
        #expect(table.section.hasMemory && decoder.head.section.fields.isEmpty)
        // Twice is once.
        decoder.giveBackFields(to: &table)
        #expect(table.section.hasMemory)
        #expect(try read("b") == 1 && !table.section.hasMemory)
        // Without it, the next message gets new memory.
        #expect(try read("c") == 1 && table.section.hasMemory)
    }

    @Test func whatHTTP1RefusesIsRefused() {
        let status = H2Field(":status", "200")
        #expect(throws: HeadRefusal.malformedStatusLine) { _ = try head([H2Field(":status", "099")]) }
        #expect(throws: HeadRefusal.duplicateContentLength) {
            _ = try head([status, H2Field("content-length", "2"), H2Field("content-length", "2")])
        }
        #expect(throws: HeadRefusal.invalidContentLength) { _ = try head([status, H2Field("content-length", "+2")]) }
        #expect(throws: HeadRefusal.tooManyFields) {
            _ = try head([status, H2Field("a", "1"), H2Field("b", "2")], maxFields: 1)
        }
        #expect(throws: HeadRefusal.headTooLarge) {
            _ = try head([status, H2Field("a", String(repeating: "x", count: 40_000))])
        }
        #expect(throws: HeadRefusal.invalidFieldValue) { _ = try head([status, H2Field("a", "\u{1}")]) }
    }

    private static let malformed: [([H2Field], HTTP2Malformation)] = [
        ([H2Field("a", "b")], .missingPseudoField),
        ([H2Field(":status", "200"), H2Field(":status", "200")], .duplicatePseudoField),
        ([H2Field("a", "b"), H2Field(":status", "200")], .latePseudoField),
        ([H2Field(":path", "/")], .unknownPseudoField),
        ([H2Field(":status", "20")], .invalidStatus),
        ([H2Field(":status", "2x0")], .invalidStatus),
        ([H2Field(":status", "101")], .invalidStatus),
        ([H2Field(":status", "200"), H2Field("A", "b")], .invalidName),
        ([H2Field(":status", "200"), H2Field("a b", "b")], .invalidName),
        ([H2Field(":status", "200"), H2Field("a", "b\r\nc: d")], .invalidValue),
        ([H2Field(":status", "200"), H2Field("connection", "close")], .connectionField),
        ([H2Field(":status", "200"), H2Field("transfer-encoding", "chunked")], .connectionField),
    ]

    @Test(arguments: malformed)
    func malformedOnesAreNone(fields: [H2Field], reason: HTTP2Malformation) {
        #expect(throws: reason) { _ = try head(fields) }
    }
}

@Suite("The order of a response on a stream of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2ResponseOrderTests {
    private typealias Fault = HTTP2ResponseOrder.Fault

    /// Words stand for what comes; a `.` ends the stream. `length=3` is a head with that Content-Length, `3` is content.
    private static func faults(_ transcript: String) -> Fault? {
        var order = HTTP2ResponseOrder()
        for word in transcript.split(separator: " ") {
            let isLast = word.hasSuffix(".")
            do throws(Fault) { try take(isLast ? word.dropLast() : word, isLast: isLast, &order) } catch {
                return error
            }
        }
        return nil
    }

    private static func take(_ word: Substring, isLast: Bool, _ order: inout HTTP2ResponseOrder) throws(Fault) {
        if let count = Int(word) { return try order.receiveContent(count, isLast: isLast) }
        guard word != "tunnel" else { return order.beginTunnel() }
        guard try order.receiveFields(isLast: isLast) == .head else { return }
        let framing: BodyFraming =
            switch word {
            case "empty", "1xx": .none
            case "head": .untilClose
            default: .length(Int(word.dropFirst("length=".count)) ?? 0)
            }
        try order.receiveHead(framing, isInformational: word == "1xx", isLast: isLast)
    }

    @Test(arguments: [
        "empty.", "head.", "head 3 0 4.", "head 3 fields.", "head fields.", "length=3 3.", "length=3 1 2 0.",
        "length=3 3 fields.", "length=0.", "1xx 1xx head 3.", "empty tunnel 3 4 0.", "1xx empty tunnel 5",
    ])
    func inOrder(_ transcript: String) { #expect(Self.faults(transcript) == nil) }

    @Test(
        arguments: [
            ("3", .contentBeforeHead), ("1xx 3", .contentBeforeHead), ("1xx.", .endedWithInformational),
            ("head 3 fields", .unfinishedTrailers), ("length=3.", .contentLengthMismatch),
            ("length=3 2.", .contentLengthMismatch), ("length=3 4", .contentLengthMismatch),
            ("length=3 2 fields.", .contentLengthMismatch), ("empty 1", .contentLengthMismatch),
            ("empty tunnel 3 fields.", .fieldsInTunnel), ("empty tunnel fields", .fieldsInTunnel),
        ] as [(String, HTTP2ResponseOrder.Fault)]
    )
    func outOfOrder(_ transcript: String, _ fault: HTTP2ResponseOrder.Fault) {
        #expect(Self.faults(transcript) == fault)
        #expect(fault.detail.hasPrefix("It "))
    }

    @Test func informationalResponsesHaveABound() {
        let allowed = String(repeating: "1xx ", count: HTTP2ResponseOrder.maximumInformational)
        #expect(Self.faults(allowed + "head 3.") == nil)
        #expect(Self.faults(allowed + "1xx") == .tooManyInformational)
    }

    @Test func anInformationalHeadCountsAsOne() throws {
        var order = HTTP2ResponseOrder()
        #expect(!order.hasHead)
        try order.receiveHead(.none, isInformational: true, isLast: false)
        #expect(order.hasHead)
    }
}
