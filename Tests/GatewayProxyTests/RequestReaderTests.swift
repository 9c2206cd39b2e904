import GatewayHTTP
import NIOCore
import Testing

@testable import GatewayProxy

@Suite("Reading requests", .timeLimit(.minutes(1)))
struct RequestReaderTests {
    private static let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    /// Whether a client that has closed its side counts as gone, with this many complete requests still in the buffer.
    private static func hasLeft(_ count: Int, last: String = "") throws -> Bool {
        var reader = RequestReader(limits: Limits(), empty: ByteBuffer())
        reader.append(ByteBuffer(string: request))
        guard case .head = reader.readHead() else {
            Issue.record("the first request was not read")
            return false
        }
        reader.takeHead()
        reader.append(ByteBuffer(string: String(repeating: request, count: count) + last))
        return reader.clientHasLeft()
    }

    @Test func pipelinedRequestsAreSearchedForAnIncompleteOne() throws {
        #expect(try Self.hasLeft(0))
        #expect(try Self.hasLeft(3))
        #expect(try Self.hasLeft(3, last: "GET / HT"))
        #expect(try !Self.hasLeft(3, last: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }

    /// Beyond the limit the answer is unknown, so the client counts as waiting.
    @Test func theNumberOfSearchedRequestsIsLimited() throws {
        let most = RequestReader.maximumLookedThrough
        #expect(try Self.hasLeft(most - 1))
        #expect(try !Self.hasLeft(most))
    }
}
