import Testing

@testable import GatewayHTTP
@testable import GatewayTesting

@Suite("Upgrades", .timeLimit(.minutes(5)))
struct UpgradeRuleTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var connection = ["Connection: Upgrade"]
        let offered: [String]
        let chosen: [String]
        var isOffered = false

        var testDescription: String { "\(connection) \(offered) -> \(chosen)" }
    }

    private static func isOffered(_ example: Case, line: String = "GET / HTTP/1.1") -> Bool? {
        let offers = example.connection + example.offered.map { "Upgrade: \($0)" }
        return HeadText.request(offers, line: line) { request, requestBytes in
            HeadText.response(101, example.chosen.map { "Upgrade: \($0)" }) { response, responseBytes in
                UpgradeRule.isOffered(by: request, requestBytes, response, responseBytes)
            }
        }.flatMap(\.self)
    }

    @Test(arguments: [
        Case(offered: ["websocket"], chosen: ["websocket"], isOffered: true),
        Case(offered: ["WebSocket"], chosen: ["websocket"], isOffered: true),
        Case(offered: ["websocket"], chosen: ["WEBSOCKET"], isOffered: true),
        Case(offered: ["foo, websocket"], chosen: ["websocket"], isOffered: true),
        Case(offered: ["foo", "websocket"], chosen: ["websocket"], isOffered: true),
        Case(offered: [" ,foo ,\twebsocket, "], chosen: [", websocket ,"], isOffered: true),
        Case(offered: ["TLS/1.3, irc/6.9, rta/x11"], chosen: ["irc/6.9"], isOffered: true),
        // One protocol above another: all of them were offered.
        Case(offered: ["foo/2, bar/1"], chosen: ["bar/1, foo/2"], isOffered: true),
        Case(offered: ["foo/2, bar/1"], chosen: ["bar/1", "foo/2"], isOffered: true),
        Case(
            connection: ["Connection: keep-alive, UPGRADE"],
            offered: ["websocket"],
            chosen: ["websocket"],
            isOffered: true
        ),
        Case(
            connection: ["Connection: te", "connection: upgrade"],
            offered: ["foo"],
            chosen: ["foo"],
            isOffered: true
        ),
    ])
    func aProtocolThatWasOfferedIsSwitchedTo(_ example: Case) { #expect(Self.isOffered(example) == example.isOffered) }

    @Test(arguments: [
        Case(offered: ["websocket"], chosen: ["foo"]),
        Case(offered: ["websocket"], chosen: ["web"]),
        Case(offered: ["web"], chosen: ["websocket"]),
        Case(offered: ["foo, bar"], chosen: ["foo, baz"]),
        Case(offered: ["foo, bar"], chosen: ["foo", "baz"]),
        // The version is part of the name.
        Case(offered: ["foo/2"], chosen: ["foo/1"]),
        Case(offered: ["foo/2"], chosen: ["foo"]),
        Case(offered: ["foo"], chosen: ["foo/2"]),
        Case(offered: ["foo/2"], chosen: ["foo/2.0"]),
        // A response that names none.
        Case(offered: ["websocket"], chosen: []),
        Case(offered: ["websocket"], chosen: [""]),
        Case(offered: ["websocket"], chosen: [" , ,"]),
        // A request that offers none.
        Case(offered: [], chosen: ["websocket"]),
        Case(offered: [""], chosen: ["websocket"]),
        Case(offered: [""], chosen: [""]),
        Case(connection: [], offered: ["websocket"], chosen: ["websocket"]),
        Case(connection: ["Connection: close"], offered: ["websocket"], chosen: ["websocket"]),
        Case(connection: ["Connection: upgrades"], offered: ["websocket"], chosen: ["websocket"]),
        // HTTP/2 in clear text is not forwarded, nor is what stands beside it.
        Case(offered: ["h2c"], chosen: ["h2c"]),
        Case(offered: ["websocket, H2C"], chosen: ["websocket"]),
        Case(offered: ["websocket", "h2c"], chosen: ["websocket"]),
        // The Kelvin sign is no K, and no letter with an accent is two.
        Case(offered: ["kermit"], chosen: ["\u{212A}ermit"]),
        Case(offered: ["caf\u{E9}"], chosen: ["cafe\u{301}"]),
    ])
    func anythingElseIsNot(_ example: Case) { #expect(Self.isOffered(example) == example.isOffered) }

    @Test func anHTTP10ClientOffersNothing() {
        let example = Case(offered: ["websocket"], chosen: ["websocket"])
        #expect(Self.isOffered(example, line: "GET / HTTP/1.0") == false)
    }
}

@Suite("Handshakes of WebSockets", .timeLimit(.minutes(1)))
struct WebSocketHandshakeTests {
    private static let asked = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    private static let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="

    private func accept(_ fields: [String], line: String = "GET /chat HTTP/1.1") -> String? {
        HeadText.request(fields, line: line) { WebSocketHandshake.accept($0, $1) } ?? nil
    }

    /// The example of RFC 6455 section 1.3.
    @Test func theAnswerIsThatOfTheKey() {
        #expect(accept(Self.asked + [Self.key]) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    }

    @Test(arguments: [
        [key], asked, asked + [key, key], asked + [key, "Upgrade: h2c"], asked + ["Sec-WebSocket-Key: short"],
        asked + ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=x"],
        asked + ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25-ZQ=="],
        ["Connection: Upgrade", "Upgrade: tcp", key], asked + [key, "Content-Length: 1"],
    ])
    func otherRequestsAskForNone(_ fields: [String]) { #expect(accept(fields) == nil) }

    @Test func onlyGetAsksForOne() { #expect(accept(Self.asked + [Self.key], line: "POST /chat HTTP/1.1") == nil) }

    /// FIPS 180-2 appendix A, and the lengths around the end of a block.
    @Test(arguments: [
        ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
        ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
        (String(repeating: "a", count: 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a"),
        (String(repeating: "a", count: 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d"),
    ])
    func sha1IsThatOfTheStandard(_ text: String, _ digest: String) {
        let hash = SHA1.hash(Array(text.utf8)).map { byte in
            let digits = String(byte, radix: 16)
            return digits.count == 1 ? "0" + digits : digits
        }
        #expect(hash.joined() == digest)
    }
}
