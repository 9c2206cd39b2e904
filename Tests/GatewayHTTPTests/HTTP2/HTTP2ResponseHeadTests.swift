import GatewayHTTP
import Testing

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
