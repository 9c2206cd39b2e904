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

    /// HEAD for `/` of a host, with a field of 1 byte or of 5000.
    private func read(_ host: String, isLong: Bool = false, into request: RequestMessage) throws {
        var block: [UInt8] =
            [0x02, 4] + Array("HEAD".utf8) + [0x86, 0x84, 0x01, UInt8(host.utf8.count)] + Array(host.utf8)
        block += [0x00, 1, 0x78] + (isLong ? [0x7F, 0x89, 0x26] : [1])
        block += [UInt8](repeating: 0x61, count: isLong ? 5000 : 1)
        var fields = HTTP2FieldTable()
        fields.begin(.request, maxBytes: 32_768, maxFields: 100)
        var decoder = FieldBlockDecoder()
        try decoder.decode(block.span, into: &fields, maxBytes: 32_768)
        let result = try request.decode(&fields, hasContent: false, mustBeTLS: false, webSocketKey: { "" })
        if case .head = result { return }
        Issue.record("The head was refused.")
    }

    @Test func aRequestIsUsedAgainAsIfItWereNew() throws {
        func useOnce() throws -> ObjectIdentifier {
            let request = take()
            try read("a", into: request)
            parts.giveBack(request)
            return ObjectIdentifier(request)
        }
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
        try read("held", into: held)
        parts.giveBack(held)
        let next = take()
        #expect(next !== held)
        try read("next", into: next)
        #expect(String(buffer: held.bytes).contains("held") && String(buffer: next.bytes).contains("next"))
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

    @Test(arguments: [true, false])
    func largeHeadsAreNotKept(_ isLong: Bool) throws {
        let request = take()
        try read("a", isLong: isLong, into: request)
        parts.giveBack(request)
        #expect(parts.count == (isLong ? 0 : 1))
    }

    @Test func theNumberOfRequestsIsLimited() {
        let requests = (0...SpareStreamParts.maximum).map { _ in take() }
        for request in requests { parts.giveBack(request) }
        #expect(parts.count == SpareStreamParts.maximum)
    }
}
