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

    /// - Returns: Which one it was.
    private func useOnce() -> ObjectIdentifier {
        let request = take()
        request.bytes.writeString("HEAD /x?y HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n")
        let bytes = request.bytes
        guard case .head = request.decoder.decode(bytes.readableBytesUInt8Span) else {
            Issue.record("a whole head")
            return ObjectIdentifier(request)
        }
        parts.giveBack(request)
        return ObjectIdentifier(request)
    }

    @Test func aRequestIsUsedAgainAsIfItWereNew() {
        let used = useOnce()
        let request = take()
        #expect(ObjectIdentifier(request) == used)
        #expect(request.bytes.readableBytes == 0)
        let (method, host) = (request.decoder.head.method, request.decoder.head.host)
        #expect(method == 0..<0 && host == 0..<0)
        let (isHead, fields) = (request.decoder.head.isHead, request.decoder.head.fields)
        #expect(!isHead && fields.isEmpty)
    }

    /// An exchange that comes late must not see the request of another client.
    @Test func aRequestThatSomebodyHoldsIsNotUsedAgain() {
        let held = take()
        held.bytes.writeString("held")
        parts.giveBack(held)
        let next = take()
        #expect(next !== held)
        next.bytes.writeString("next")
        #expect(String(buffer: held.bytes) == "held")
    }

    @Test func aTimerThatWasGivenBackIsUsedAgain() {
        let timer = parts.takeTimer(of: queue)
        weak var keeper: Keeper?
        do {
            let first = Keeper()
            timer.set(.uptimeNanoseconds(1_000_000_000), for: first)
            keeper = first
        }
        #expect(keeper != nil)
        parts.giveBack(timer)
        #expect(keeper == nil)
        #expect(timer.deadline == .distantFuture)
        #expect(parts.takeTimer(of: queue) === timer)
        // It keeps its place.
        #expect(queue.count == 1)
    }

    /// The stream that has given it back cannot set it for the next one.
    @Test func aDeadlineThatWasGivenBackSetsNothing() {
        let timer = parts.takeTimer(of: queue)
        var deadline = ClientDeadline(timer)
        deadline.giveBack(to: parts)
        deadline.set(.uptimeNanoseconds(1), for: Keeper())
        deadline.move(to: .uptimeNanoseconds(1), for: Keeper())
        #expect(timer.deadline == .distantFuture && queue.count == 0)
        timer.set(.uptimeNanoseconds(2), for: Keeper())
        deadline.clear()
        deadline.cancel()
        #expect(timer.deadline == .uptimeNanoseconds(2) && queue.count == 1)
    }

    // MARK: Bounds

    @Test func theNumberOfTimersThatKeepTheirPlacesIsLimited() {
        let timers = (0...SpareStreamParts.maximum).map { _ in parts.takeTimer(of: queue) }
        for timer in timers {
            timer.set(.uptimeNanoseconds(1_000_000_000), for: Keeper())
            parts.giveBack(timer)
        }
        #expect(queue.count == SpareStreamParts.maximum)
    }

    @Test func largeHeadsAreNotKept() {
        let request = take()
        request.bytes.writeRepeatingByte(0x61, count: SpareBuffers.capacity + 1)
        parts.giveBack(request)
        #expect(parts.count == 0)
    }

    @Test func theNumberOfRequestsIsLimited() {
        let requests = (0...SpareStreamParts.maximum).map { _ in take() }
        for request in requests { parts.giveBack(request) }
        #expect(parts.count == SpareStreamParts.maximum)
    }
}
