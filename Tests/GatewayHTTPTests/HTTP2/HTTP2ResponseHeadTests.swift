import Testing

@testable import GatewayHTTP

@Suite("Heads of HTTP/2 responses", .timeLimit(.minutes(5)))
struct HTTP2ResponseHeadTests {
    private func head(
        _ fields: [H2Field],
        isLast: Bool = false,
        answersHead: Bool = false,
        webSocketAccept: String? = nil
    ) throws(HTTP2Malformation) -> String {
        var head = HTTP2ResponseHead(webSocketAccept: webSocketAccept)
        for field in fields { if let reason = head.add(field.name, field.value) { throw reason } }
        return String(decoding: try head.head(isLast: isLast, answersHead: answersHead), as: UTF8.self)
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
