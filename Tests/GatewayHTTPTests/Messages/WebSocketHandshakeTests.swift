import GatewayTesting
import Testing

@testable import GatewayHTTP
@testable import GatewayTesting

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
