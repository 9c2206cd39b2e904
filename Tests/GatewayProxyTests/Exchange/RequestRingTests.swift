import GatewayHTTP
import GatewayProxy
import Testing

@Suite("The last requests of a worker", .timeLimit(.minutes(5)))
struct RequestRingTests {
    private static func add(_ number: UInt64, client: String? = nil, to ring: inout RequestRing) {
        ring.add(
            ExchangeRecord(
                requestID: RequestID(run: 1, worker: 0, number: number),
                clientRequestID: client,
                route: 0,
                client: nil,
                method: "GET",
                startedAt: MonotonicTime(nanoseconds: Int64(number))
            )
        )
    }

    private static func numbers(of ring: borrowing RequestRing, after position: UInt64) -> ([UInt64], missed: UInt64) {
        var found: [FinishedRequest] = []
        let missed = ring.append(after: position, to: &found)
        return (found.map(\.requestID.number), missed)
    }

    @Test func theOldestIsReplacedFirst() {
        var ring = RequestRing(capacity: 3)
        #expect(Self.numbers(of: ring, after: 0) == ([], missed: 0))
        for number: UInt64 in 1...2 { Self.add(number, to: &ring) }
        #expect(Self.numbers(of: ring, after: 0) == ([1, 2], missed: 0))
        for number: UInt64 in 3...5 { Self.add(number, to: &ring) }
        #expect(Self.numbers(of: ring, after: 0) == ([3, 4, 5], missed: 2))
        #expect(ring.count == 5)
    }

    @Test func timingsAreReadWithoutTheirRequests() {
        var ring = RequestRing(capacity: 3)
        for number: UInt64 in 1...5 { Self.add(number, to: &ring) }
        var count = 0
        ring.visitTimings(after: 0) { _ in count += 1 }
        ring.visitTimings(after: 4) { _ in count += 10 }
        ring.visitTimings(after: 5) { _ in count += 100 }
        #expect(count == 13)
    }

    @Test func aReaderGoesOnWhereItWas() {
        var ring = RequestRing(capacity: 4)
        for number: UInt64 in 1...3 { Self.add(number, to: &ring) }
        let position = ring.count
        #expect(Self.numbers(of: ring, after: position) == ([], missed: 0))
        Self.add(4, to: &ring)
        #expect(Self.numbers(of: ring, after: position) == ([4], missed: 0))
        for number: UInt64 in 5...9 { Self.add(number, to: &ring) }
        #expect(Self.numbers(of: ring, after: position) == ([6, 7, 8, 9], missed: 2))
        #expect(Self.numbers(of: ring, after: 100) == ([], missed: 0))
    }

    @Test func bothIDsFindARequest() {
        var ring = RequestRing(capacity: 8)
        Self.add(1, client: "mine", to: &ring)
        Self.add(2, to: &ring)
        // A client may use an id twice, and may choose one that is a request's own.
        Self.add(3, client: "mine", to: &ring)
        let own = RequestID(run: 1, worker: 0, number: 2).description
        Self.add(4, client: own, to: &ring)
        #expect(ring.find("mine").map(\.requestID.number) == [1, 3])
        #expect(ring.find(own).map(\.requestID.number) == [2, 4])
        #expect(ring.find("other").isEmpty)
    }
}
