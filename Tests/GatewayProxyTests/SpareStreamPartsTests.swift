import GatewayHTTP
import NIOCore
import NIOEmbedded
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct SpareStreamPartsTests {
    private final class Keeper: DeadlineKeeper {
        func deadlinePassed() {}
    }

    private let parts = SpareStreamParts()
    private let empty = ByteBufferAllocator().buffer(capacity: 1)
    private let queue = DeadlineQueue(loop: EmbeddedEventLoop())

    private func take() -> RequestMessage { parts.takeRequest(Limits(), empty) }

    private func read(_ text: String, into request: RequestMessage) throws {
        var input = ByteBuffer(string: text)
        guard case .head = request.decodeHead(&input) else { throw NotAHead() }
        request.takeHead(from: &input, empty: empty)
    }

    private struct NotAHead: Error {}

    /// - Returns: Which one it was.
    private func useOnce() throws -> ObjectIdentifier {
        let request = take()
        try read("HEAD /x?y HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", into: request)
        parts.giveBack(request)
        return ObjectIdentifier(request)
    }

    @Test func aRequestIsUsedAgainAsIfItWereNew() throws {
        let used = try useOnce()
        let request = take()
        #expect(ObjectIdentifier(request) == used)
        #expect(request.bytes.readableBytes == 0)
        let (method, host) = (request.decoder.head.method, request.decoder.head.host)
        #expect(method == 0..<0 && host == 0..<0)
        let (isHead, fields) = (request.decoder.head.isHead, request.decoder.head.fields)
        #expect(!isHead && fields.isEmpty)
    }

    /// An exchange that comes late must not see the request of another client.
    @Test func aRequestThatSomebodyHoldsIsNotUsedAgain() throws {
        let held = take()
        try read("GET /held HTTP/1.1\r\nHost: a\r\n\r\n", into: held)
        parts.giveBack(held)
        let next = take()
        #expect(next !== held)
        try read("GET /next HTTP/1.1\r\nHost: a\r\n\r\n", into: next)
        #expect(String(buffer: held.bytes).hasPrefix("GET /held "))
    }

    @Test func aTimerThatIsWaitedForIsNotUsedAgain() {
        func wait() -> ObjectIdentifier {
            let timer = parts.takeTimer(of: queue)
            timer.set(.uptimeNanoseconds(1_000_000_000), for: Keeper())
            parts.giveBack(timer)
            return ObjectIdentifier(timer)
        }
        func pass() -> ObjectIdentifier {
            let timer = parts.takeTimer(of: queue)
            parts.giveBack(timer)
            return ObjectIdentifier(timer)
        }
        let waiting = wait()
        let idle = pass()
        #expect(idle != waiting)
        #expect(pass() == idle)
    }

    // MARK: Bounds

    @Test func largeHeadsAreNotKept() throws {
        let request = take()
        let length = SpareBuffers.capacity
        request.change(to: RequestHeadDecoder(maxBytes: 2 * length, maxFields: 8))
        let value = String(repeating: "a", count: length)
        try read("GET / HTTP/1.1\r\nHost: a\r\nX-Long: \(value)\r\n\r\n", into: request)
        parts.giveBack(request)
        #expect(parts.count == 0)
    }

    @Test func theNumberOfRequestsIsLimited() {
        let requests = (0...SpareStreamParts.maximum).map { _ in take() }
        for request in requests { parts.giveBack(request) }
        #expect(parts.count == SpareStreamParts.maximum)
    }
}
