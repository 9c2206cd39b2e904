import GatewayHTTP
import Testing

@Suite("Frames of a client that carry no request", .timeLimit(.minutes(1)))
struct HTTP2FrameMeterTests {
    private static let start = MonotonicTime(nanoseconds: 0)

    private static func frame(_ kind: UInt8, _ payload: [UInt8] = []) -> [UInt8] {
        [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF), kind, 0, 0, 0, 0, 0] + payload
    }

    private static func begun() -> HTTP2FrameMeter { HTTP2FrameMeter(at: start) }

    private static let ping = frame(6, [UInt8](repeating: 0, count: 8))
    private static let windowUpdate = frame(8, [0, 0, 0, 1])

    private func count(_ bytes: [UInt8], _ meter: inout HTTP2FrameMeter, after time: Duration = .zero) -> Bool {
        var place = 0
        while place < bytes.count {
            let header = HTTP2FrameHeader(bytes.span, at: place)
            guard meter.receive(type: header.type, at: { Self.start + time }) else { return false }
            place += HTTP2FrameHeader.size + header.length
        }
        return true
    }

    @Test(arguments: [
        windowUpdate, frame(2, [0, 0, 0, 0, 16]), ping,
        frame(7, [UInt8](repeating: 0, count: 8)), frame(0x42, [1, 2, 3]), frame(0xFF),
    ])
    func theyHaveABound(_ frame: [UInt8]) {
        var meter = Self.begun()
        for _ in 0..<HTTP2FrameMeter.allowance { #expect(count(frame, &meter)) }
        #expect(!count(frame, &meter))
    }

    @Test func manyInOneReadAreCounted() {
        var meter = Self.begun()
        let frames = (0...HTTP2FrameMeter.allowance).flatMap { _ in Self.windowUpdate }
        #expect(!count(frames, &meter))
    }

    @Test func messagesPay() {
        let frames =
            Self.frame(8, [0, 0, 0, 1]) + Self.frame(0, [8, 8, 8]) + Self.frame(1, [8]) + Self.frame(0x20, [0])
        var meter = Self.begun()
        #expect(count(frames, &meter))
        #expect(meter.credit == HTTP2FrameMeter.allowance - 2 + 1 + HTTP2FrameMeter.perMessage)
    }

    @Test func settingsCountAsSeveralFrames() {
        var meter = Self.begun()
        for _ in 0..<HTTP2FrameMeter.allowance / HTTP2FrameMeter.settingsCost { #expect(count(Self.frame(4), &meter)) }
        #expect(!count(Self.frame(4), &meter))
    }

    @Test func continuationHasABoundElsewhere() {
        var meter = Self.begun()
        _ = count((0..<5000).flatMap { _ in Self.frame(9, [0, 0, 0, 0]) }, &meter)
        #expect(meter.credit == HTTP2FrameMeter.allowance)
    }

    /// An upstream may reset each of the streams that were opened there, and no others without end.
    @Test func requestsPayForResets() {
        var meter = HTTP2FrameMeter(at: Self.start)
        let reset = Self.frame(3, [0, 0, 0, 7])
        for _ in 0..<5000 {
            meter.sentRequest()
            #expect(count(reset, &meter))
        }
        let rest = meter.credit
        for _ in 0..<rest { #expect(count(reset, &meter)) }
        #expect(!count(reset, &meter))
    }

    @Test func whatIsSentPaysForTwoOfEachKibibyte() {
        var meter = Self.begun()
        for _ in 0..<10_000 {
            meter.sent(16_384)
            for _ in 0..<32 { #expect(count(Self.windowUpdate, &meter)) }
        }
    }

    @Test func smallFramesPay() {
        var meter = Self.begun()
        for _ in 0..<10_000 {
            meter.sent(1)
            #expect(count(Self.windowUpdate + Self.windowUpdate, &meter))
        }
    }

    /// Clients of gRPC ask for the round trip as often as content comes.
    @Test func whatIsSentPaysForPing() {
        var meter = Self.begun()
        for _ in 0..<10_000 {
            meter.sent(1)
            #expect(
                count(Self.windowUpdate + Self.windowUpdate + Self.ping, &meter)
            )
        }
    }

    @Test func whatIsPaidForHasABound() {
        var meter = Self.begun()
        for _ in 0..<1000 { meter.sent(1 << 20) }
        #expect(meter.credit == HTTP2FrameMeter.maximum)
    }

    @Test func aQuietConnectionMaySendSomeAgain() {
        var meter = Self.begun()
        for round in 0..<5 {
            let time = Duration.seconds(31 * (round + 1))
            for _ in 0..<HTTP2FrameMeter.allowance { #expect(count(Self.windowUpdate, &meter, after: time)) }
        }
        #expect(!count(Self.windowUpdate + Self.windowUpdate, &meter, after: .seconds(156)))
    }
}
