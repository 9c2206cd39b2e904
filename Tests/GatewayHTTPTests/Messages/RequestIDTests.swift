import GatewayHTTP
import GatewayTesting
import Testing

@Suite("The name of a request", .timeLimit(.minutes(5)))
struct RequestIDTests {
    @Test func itIsWrittenWithItsRunAndItsWorker() {
        #expect(RequestID(run: 36, worker: 7, number: 71).description == "0000147-27")
        #expect(RequestID(run: 0, worker: 0, number: 0).description == "0000000-0")
        let longest = RequestID(run: .max, worker: .max, number: .max)
        #expect(longest.description == "vvvvvv3vvvvvv-fvvvvvvvvvvvv")
        #expect(longest.description.utf8.count == RequestID.maximumLength)
    }

    @Test func itIsReadAsItIsWritten() {
        for number: UInt64 in [0, 1, 31, 32, 1023, 1024, 1 << 40, .max] {
            for worker in [0, 5, 31, 32, 1024] {
                let id = RequestID(run: 123_456_789, worker: worker, number: number)
                #expect(RequestID(id.description) == id)
            }
        }
    }

    @Test(arguments: [
        "", "-", "0000147", "000147-27", "0000147-", "0000147-27-1", "0000147-+7", "00001G7-27", "0000147-2Z",
        "0000147-027",
        "wwwwww7-1", "0000147-fvvvvvvvvvvvvv",
    ])
    func anotherTextIsNoID(_ text: String) { #expect(RequestID(text) == nil) }
}

@Suite("The id that a client gives", .timeLimit(.minutes(5)))
struct ClientRequestIDTests {
    private static func given(_ values: [[UInt8]], name: String = "X-Request-ID") -> String? {
        var bytes = Array("GET / HTTP/1.1\r\nHost: localhost\r\n".utf8)
        for value in values { bytes += Array("\(name): ".utf8) + value + Array("\r\n".utf8) }
        return HeadText.request(bytes + Array("\r\n".utf8)) { ClientRequestID.read(from: $0, $1) }.flatMap(\.self)
    }

    private static func given(_ texts: String..., name: String = "X-Request-ID") -> String? {
        given(texts.map { Array($0.utf8) }, name: name)
    }

    private static let harmless = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.".utf8)

    @Test func onlyHarmlessBytesAreTaken() {
        for byte in UInt8.min...UInt8.max {
            let isHarmless = Self.harmless.contains(byte)
            let expected = isHarmless ? "a\(Unicode.Scalar(byte))b" : nil
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
        #expect(Self.given(text) == (isTaken ? text : nil))
    }

    @Test func theFirstFieldCounts() {
        #expect(Self.given("one", "two") == "one")
        #expect(Self.given("", "two") == nil)
        #expect(Self.given("a b", "two") == nil)
        #expect(Self.given() == nil)
    }

    @Test(arguments: [("x-request-id", true), ("X-REQUEST-ID", true), ("X-Request-IDs", false), ("Request-ID", false)])
    func itHasOneField(_ name: String, _ isTaken: Bool) { #expect((Self.given("a", name: name) != nil) == isTaken) }
}
