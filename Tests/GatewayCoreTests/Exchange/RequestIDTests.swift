import GatewayCore
import Testing

@Suite("The name of a request", .timeLimit(.minutes(5)))
struct RequestIDTests {
    private static func given(_ values: [[UInt8]], name: String = "X-Request-ID") -> RequestID? {
        var bytes = Array("GET / HTTP/1.1\r\nHost: localhost\r\n".utf8)
        for value in values { bytes += Array("\(name): ".utf8) + value + Array("\r\n".utf8) }
        return HeadText.request(bytes + Array("\r\n".utf8)) { RequestID.given(in: $0, $1) }.flatMap(\.self)
    }

    private static func given(_ texts: String..., name: String = "X-Request-ID") -> RequestID? {
        given(texts.map { Array($0.utf8) }, name: name)
    }

    private static let harmless = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.".utf8)

    @Test func onlyHarmlessBytesAreTaken() {
        for byte in UInt8.min...UInt8.max {
            let isHarmless = Self.harmless.contains(byte)
            let expected = isHarmless ? RequestID.given("a\(Unicode.Scalar(byte))b") : nil
            #expect(Self.given([[0x61, byte, 0x62]]) == expected, "\(byte)")
            // Whitespace at either end is not part of the value.
            guard byte != 0x20, byte != 0x09 else { continue }
            #expect((Self.given([[byte, 0x61]]) != nil) == isHarmless, "\(byte)")
            #expect((Self.given([[0x61, byte]]) != nil) == isHarmless, "\(byte)")
            #expect((Self.given([[byte]]) != nil) == isHarmless, "\(byte)")
        }
    }

    @Test(arguments: [(0, false), (1, true), (2, true), (63, true), (64, true), (65, false), (1000, false)])
    func itHasALimitedLength(_ length: Int, _ isTaken: Bool) {
        let text = String(repeating: "x", count: length)
        #expect(Self.given(text) == (isTaken ? .given(text) : nil))
    }

    @Test func theFirstFieldCounts() {
        #expect(Self.given("one", "two") == .given("one"))
        #expect(Self.given("", "two") == nil)
        #expect(Self.given("a b", "two") == nil)
        #expect(Self.given() == nil)
    }

    @Test(arguments: [("x-request-id", true), ("X-REQUEST-ID", true), ("X-Request-IDs", false), ("Request-ID", false)])
    func itHasOneField(_ name: String, _ isTaken: Bool) { #expect((Self.given("a", name: name) != nil) == isTaken) }

    @Test func aNumberIsWrittenWithItsRunAndItsWorker() {
        #expect(RequestID.counted(run: 36, worker: 7, number: 71).description == "107-1z")
        #expect(RequestID.counted(run: .max, worker: 0, number: .max).description == "1z141z30-3w5e11264sgsf")
        #expect(RequestID.given("a.b").description == "a.b")
    }
}
