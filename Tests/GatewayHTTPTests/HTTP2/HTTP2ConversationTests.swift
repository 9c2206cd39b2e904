import GatewayTesting
import Testing

@testable import GatewayHTTP

/// A connection as bytes that come in and events that come out. The names of sections are those of RFC 9113; the cases are those that h2spec
/// tests, as far as they concern frames, streams and windows.
private struct Peer: ~Copyable {
    typealias Event = HTTP2Conversation.Event

    var conversation: HTTP2Conversation
    var fields = HTTP2FieldTable()
    var time = MonotonicTime(nanoseconds: 0)

    init(isClient: Bool = true, maximumStreams: Int = 100, connectionWindow: Int = 65_535, streamWindow: Int = 65_535) {
        let limits = HTTP2Conversation.Limits(
            headerBytes: 32_768,
            headerFields: 100,
            maximumStreams: maximumStreams,
            connectionWindow: connectionWindow,
            streamWindow: streamWindow
        )
        conversation = HTTP2Conversation(peerIsClient: isClient, limits: limits, at: time)
    }

    /// Behind the preface and both SETTINGS.
    static func begun(
        isClient: Bool = true,
        maximumStreams: Int = 100,
        connectionWindow: Int = 65_535,
        streamWindow: Int = 65_535
    ) -> Peer {
        var peer = Peer(
            isClient: isClient,
            maximumStreams: maximumStreams,
            connectionWindow: connectionWindow,
            streamWindow: streamWindow
        )
        let start = (isClient ? TestFrame.preface : []) + TestFrame.settings() + TestFrame.frame(.settings, 1)
        #expect(peer.send(start) == [.settings, .settingsAcknowledged])
        return peer
    }

    /// - Returns: The events, without those of frames that mean nothing.
    mutating func send(_ bytes: [UInt8]) -> [Event] {
        var (position, events) = (0, [Event]())
        let now = time
        while true {
            let event = conversation.receive(bytes.span, from: &position, into: &fields, at: { now })
            switch event {
            case .needMore:
                #expect(position == bytes.count)
                return events
            case .nothing: break
            case .connectionFault: return events + [event]
            default: events.append(event)
            }
        }
    }

    /// The events of one frame of DATA: of a third of it and of the rest, or of all of it.
    mutating func receive(_ frame: [UInt8], inParts: Bool) -> [Event] {
        var (position, events) = (0, [Event]())
        let now = time
        if inParts {
            let part = Array(frame[..<(frame.count / 3)])
            let none = conversation.receive(part.span, from: &position, into: &fields, at: { now })
            #expect(none == .needMore)
            events.append(conversation.receivePart(part.span, from: &position, at: { now }))
            #expect(position == part.count)
            if case .connectionFault = events[0] { return events }
        }
        events.append(conversation.receive(frame.span, from: &position, into: &fields, at: { now }))
        return events
    }

    /// The code that the connection ends with.
    mutating func fault(_ bytes: [UInt8]) -> HTTP2ErrorNumber? {
        guard case .connectionFault(let fault)? = send(bytes).last else { return nil }
        return fault.code
    }

    /// The code that a stream is reset with, and the stream.
    mutating func streamFault(_ bytes: [UInt8]) -> [HTTP2ErrorNumber] {
        send(bytes).compactMap { event in
            if case .streamFault(_, _, let fault) = event { fault.code } else { nil }
        }
    }
}

@Suite("An HTTP/2 connection of a client", .timeLimit(.minutes(5)))
struct HTTP2ConversationTests {
    typealias Event = HTTP2Conversation.Event

    // MARK: A request and its response

    @Test func contentIsSentWholeOrNotAtAll() {
        var peer = Peer.begun()
        #expect(peer.send(TestFrame.headers(1)) == [.request(0, isLast: true)])
        let tooMuch = peer.conversation.sendWhole(65_536, 0)
        #expect(!tooMuch && peer.conversation.streams.room(0) == 65_535)
        let all = peer.conversation.sendWhole(65_535, 0)
        #expect(all && peer.conversation.streams.connectionRoom == 0)
        let nothing = peer.conversation.sendWhole(0, 0)
        #expect(!nothing)
    }

    @Test func aRequestWithoutContent() {
        var peer = Peer.begun()
        #expect(peer.send(TestFrame.headers(1)) == [.request(0, isLast: true)])
        #expect(peer.fields.text(peer.fields.pseudo.method) == "GET" && peer.conversation.streams.id(of: 0) == 1)
        peer.conversation.send(10, 0)
        let isClosed = peer.conversation.streams.endLocal(0)
        #expect(isClosed && peer.conversation.streams.count == 0)
        // The place is used again.
        #expect(peer.send(TestFrame.headers(3)) == [.request(0, isLast: true)])
    }

    @Test func aRequestWithContentAndTrailers() {
        var peer = Peer.begun()
        let trailers = FieldLiteral.field("x", "y")
        #expect(
            peer.send(TestFrame.headers(1, isLast: false) + TestFrame.data(1, 5) + TestFrame.headers(1, trailers))
                == [
                    .request(0, isLast: false), .content(0, 24..<29, isLast: false, isClosed: false),
                    .fields(0, isLast: true, isClosed: false),
                ]
        )
        #expect(peer.fields.lines == ["x: y"])
    }

    @Test func aClientThatEndsLast() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        let isClosed = peer.conversation.streams.endLocal(0)
        #expect(!isClosed)
        #expect(peer.send(TestFrame.data(1, 0, isLast: true)) == [.content(0, 9..<9, isLast: true, isClosed: true)])
        #expect(peer.conversation.streams.count == 0)
    }

    @Test func streamsSideBySide() {
        var peer = Peer.begun()
        let frames = TestFrame.headers(1, isLast: false) + TestFrame.headers(3, isLast: false) + TestFrame.headers(7)
        #expect(
            peer.send(frames) == [.request(0, isLast: false), .request(1, isLast: false), .request(2, isLast: true)]
        )
        #expect(peer.send(TestFrame.reset(1)) == [.reset(0, .cancel)])
        #expect(peer.send(TestFrame.headers(9)) == [.request(0, isLast: true)])
        #expect(peer.send(TestFrame.data(3, 1)) == [.content(1, 9..<10, isLast: false, isClosed: false)])
        #expect(peer.conversation.streams.open == [1, 2, 0])
    }

    @Test func aBlockInSeveralFrames() {
        var peer = Peer.begun()
        let block = TestFrame.request
        let frames =
            TestFrame.frame(.headers, 1, 1, Array(block[..<2]))
            + TestFrame.frame(.continuation, 0, 1, Array(block[2..<4]))
            + TestFrame.frame(.continuation, 4, 1, Array(block[4...]))
        #expect(peer.send(frames) == [.request(0, isLast: true)])
        #expect(peer.fields.text(peer.fields.pseudo.authority) == "a")
    }

    /// Up to twice the limit a head is read to its end, and can be answered; the connection goes on.
    @Test func aHeadThatIsTooLarge() {
        var peer = Peer.begun()
        let block =
            TestFrame.request + FieldLiteral.indexed("x", String(repeating: "v", count: 60_000))
            + hexBytes("40 01 79 01 7a")
        var frames = TestFrame.frame(.headers, 1, 1, Array(block[..<16_384]))
        for start in stride(from: 16_384, to: block.count, by: 16_384) {
            let end = min(block.count, start + 16_384)
            frames += TestFrame.frame(.continuation, end == block.count ? 4 : 0, 1, Array(block[start..<end]))
        }
        #expect(peer.send(frames) == [.request(0, isLast: true)])
        #expect(peer.fields.refusal == .headTooLarge)
        #expect(peer.send(TestFrame.headers(3, TestFrame.request + hexBytes("be"))) == [.request(1, isLast: true)])
        #expect(peer.fields.lines.last == "y: z")
    }

    // MARK: 5.1 States

    @Test(arguments: [
        TestFrame.data(1, 1), TestFrame.reset(1), TestFrame.windowUpdate(1, 1), TestFrame.windowUpdate(1, 0),
        TestFrame.reset(2),
        TestFrame.data(2, 1), TestFrame.frame(.priority, 0, 1, [1]),
    ])
    func aFrameForAnIdleStream(_ frame: [UInt8]) {
        var peer = Peer.begun()
        #expect([.protocolError, .frameSizeError].contains(peer.fault(frame)))
    }

    @Test func aPriorityMayComeAtAnyTime() {
        var peer = Peer.begun()
        let priority: (UInt32) -> [UInt8] = { TestFrame.frame(.priority, 0, $0, [0, 0, 0, 1, 5]) }
        #expect(
            peer.send(priority(1) + TestFrame.headers(1) + priority(1) + priority(9)) == [.request(0, isLast: true)]
        )
        // RFC 9113 has no dependencies any more, so a stream may depend on itself.
        #expect(
            peer.send(TestFrame.frame(.headers, 0x25, 3, TestFrame.word(3) + [1] + TestFrame.request)) == [
                .request(1, isLast: true)
            ]
        )
    }

    @Test(arguments: [TestFrame.data(1, 1), TestFrame.headers(1), TestFrame.data(1, 1, isLast: true)])
    func afterTheEndOfTheRequest(_ frame: [UInt8]) {
        // Half-closed (remote).
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1))
        #expect(
            peer.send(frame) == [
                .streamFault(stream: 1, 0, .afterEnd)
            ]
        )
        // Closed.
        var closed = Peer.begun()
        _ = closed.send(TestFrame.headers(1))
        _ = closed.conversation.streams.endLocal(0)
        #expect(closed.fault(frame) == .streamClosed)
        // Closed by RST_STREAM of the client.
        var reset = Peer.begun()
        _ = reset.send(TestFrame.headers(1, isLast: false) + TestFrame.reset(1))
        #expect(reset.fault(frame) == .streamClosed)
    }

    @Test func framesThatWereOnTheirWay() {
        // After the end of a stream.
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1))
        _ = peer.conversation.streams.endLocal(0)
        #expect(peer.send(TestFrame.windowUpdate(1, 1) + TestFrame.reset(1) + TestFrame.windowUpdate(1, 0)) == [])
        // After our RST_STREAM: all of it counts in the connection's window, and is credited.
        var reset = Peer.begun()
        _ = reset.send(TestFrame.headers(1, isLast: false) + TestFrame.data(1, 100))
        reset.conversation.streams.reset(0)
        reset.conversation.streams.take(100, nil)
        #expect(
            reset.send(
                (0..<3).flatMap { _ in TestFrame.data(1, 16_384) } + TestFrame.windowUpdate(1, 5) + TestFrame.reset(1)
            ) == []
        )
        #expect(reset.conversation.streams.held == 0 && reset.conversation.streams.connectionCredit() == 49_252)
    }

    /// The table of the connection follows even where a block is for nothing.
    @Test func aBlockForAStreamThatIsClosed() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        peer.conversation.streams.reset(0)
        #expect(peer.send(TestFrame.headers(1, FieldLiteral.indexed("x", "y"))) == [])
        #expect(peer.send(TestFrame.headers(3, TestFrame.request + hexBytes("be"))) == [.request(0, isLast: true)])
        #expect(peer.fields.lines.last == "x: y")
    }

    // MARK: 5.1.1 and 5.1.2 Identifiers and how many there may be

    @Test(arguments: [TestFrame.headers(2), TestFrame.headers(4)])
    func aClientOpensOddStreams(_ frame: [UInt8]) {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(5))
        #expect(peer.fault(frame) == .protocolError)
    }

    @Test func streamsAreOpenedInOrder() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(5))
        #expect(peer.fault(TestFrame.headers(3)) == .protocolError)
    }

    /// Trailers may be on their way when we reset a stream, or refuse it. Many streams later they cannot be.
    @Test func trailersOfAStreamThatWeHaveReset() {
        var peer = Peer.begun(maximumStreams: 1)
        _ = peer.send(TestFrame.headers(1, isLast: false))
        #expect(peer.send(TestFrame.headers(3, isLast: false)) == [.refused(stream: 3)])
        peer.conversation.streams.reset(0)
        #expect(peer.send(TestFrame.headers(1) + TestFrame.headers(3)) == [])
        for number in 2..<300 as Range<UInt32> {
            _ = peer.send(TestFrame.headers(2 * number + 1, isLast: false))
            peer.conversation.streams.reset(0)
        }
        #expect(peer.fault(TestFrame.headers(1)) == .protocolError)
    }

    @Test func streamsBeyondTheLimitAreRefused() {
        var peer = Peer.begun(maximumStreams: 2)
        let open = TestFrame.headers(1, isLast: false) + TestFrame.headers(3)
        #expect(peer.send(open) == [.request(0, isLast: false), .request(1, isLast: true)])
        let more =
            TestFrame.headers(5, isLast: false, TestFrame.request + FieldLiteral.indexed("x", "y"))
            + TestFrame.data(5, 10)
        #expect(peer.send(more) == [.refused(stream: 5)])
        #expect(peer.conversation.streams.held == 0)
        _ = peer.send(TestFrame.reset(1))
        #expect(peer.send(TestFrame.headers(7, TestFrame.request + hexBytes("be"))) == [.request(0, isLast: true)])
        #expect(peer.fields.lines.last == "x: y")
    }

    @Test func noStreamIsTakenWhileTheConnectionEnds() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        peer.conversation.streams.close()
        #expect(peer.send(TestFrame.headers(3)) == [.refused(stream: 3)])
        #expect(peer.send(TestFrame.data(1, 1, isLast: true)) == [.content(0, 9..<10, isLast: true, isClosed: false)])
    }

    // MARK: 4.3 and 8.1 Fields

    @Test func aBlockThatCannotBeDecoded() {
        var peer = Peer.begun()
        #expect(peer.fault(TestFrame.headers(1, [0x40])) == .compressionError)
        var unknown = Peer.begun()
        #expect(unknown.fault(TestFrame.headers(1, [0x82, 0xBE])) == .compressionError)
    }

    @Test func trailersEndTheStream() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        #expect(peer.streamFault(TestFrame.headers(1, isLast: false, FieldLiteral.field("x", "y"))) == [.protocolError])
        #expect(peer.conversation.streams.count == 0)
    }

    // MARK: 6.1 and 6.9 Windows

    @Test func whatAStreamMaySend() {
        var peer = Peer.begun(connectionWindow: 1 << 20, streamWindow: 1000)
        _ = peer.conversation.streams.connectionCredit()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        #expect(peer.send(TestFrame.data(1, 1000)).count == 1)
        #expect(peer.conversation.streams.held == 1000)
        #expect(peer.streamFault(TestFrame.data(1, 1)) == [.flowControlError])
        #expect(peer.conversation.streams.held == 1000)
    }

    @Test func whatAConnectionMaySend() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false) + TestFrame.headers(3, isLast: false))
        for _ in 0..<2 { _ = peer.send(TestFrame.data(1, 16_384) + TestFrame.data(3, 16_383)) }
        _ = peer.send(TestFrame.data(1, 1))
        #expect(peer.fault(TestFrame.data(3, 1)) == .flowControlError)
    }

    /// A frame can be padding alone, which nobody takes.
    @Test func paddingCountsAndIsCredited() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        let frame = TestFrame.frame(.data, 8, 1, [255] + [UInt8](repeating: 0, count: 256))
        var credited = 0
        for _ in 0..<300 {
            #expect(peer.send(frame).count == 1)
            credited += peer.conversation.streams.connectionCredit() ?? 0
            _ = peer.conversation.streams.credit(0)
        }
        #expect(credited > 30_000 && peer.conversation.streams.held == 300)
    }

    /// A larger window comes with the acknowledgement, and not with a WINDOW_UPDATE before it, too.
    @Test func aLargerWindowIsGivenOnce() {
        var peer = Peer(connectionWindow: 1 << 20, streamWindow: 131_072)
        _ = peer.send(TestFrame.preface + TestFrame.settings() + TestFrame.headers(1, isLast: false))
        #expect(peer.send(TestFrame.data(1, 1000)).count == 1)
        peer.conversation.streams.take(1000, 0)
        #expect(peer.conversation.streams.credit(0) == nil)
        #expect(peer.send(TestFrame.frame(.settings, 1)) == [.settingsAcknowledged])
        #expect(peer.conversation.streams.credit(0) == nil)
        _ = peer.conversation.streams.connectionCredit()
        for _ in 0..<7 { #expect(peer.send(TestFrame.data(1, 16_384)).count == 1) }
        #expect(peer.send(TestFrame.data(1, 15_384)).count == 1)
        #expect(peer.streamFault(TestFrame.data(1, 1)) == [.flowControlError])
    }

    /// Settings of ours bind the client once it has acknowledged them.
    @Test func ourWindowBindsAfterTheAcknowledgement() {
        var peer = Peer(connectionWindow: 1 << 20, streamWindow: 100)
        _ = peer.send(TestFrame.preface + TestFrame.settings() + TestFrame.headers(1, isLast: false))
        #expect(peer.send(TestFrame.data(1, 16_384)).count == 1)
        // Less than nothing is left of the window then.
        #expect(peer.send(TestFrame.frame(.settings, 1)) == [.settingsAcknowledged])
        #expect(peer.conversation.streams.credit(0) == nil)
        peer.conversation.streams.take(16_384, 0)
        #expect(peer.conversation.streams.credit(0) == 16_384)
        #expect(peer.send(TestFrame.data(1, 100)).count == 1)
        #expect(peer.streamFault(TestFrame.data(1, 1)) == [.flowControlError])
    }

    @Test func whatWeMaySend() {
        var peer = Peer.begun()
        #expect(
            peer.send(TestFrame.settings((4, 10)) + TestFrame.headers(1)) == [.settings, .request(0, isLast: true)]
        )
        #expect(peer.conversation.streams.room(0) == 10)
        peer.conversation.send(10, 0)
        #expect(peer.conversation.streams.room(0) == 0 && !peer.conversation.streams.hasWindow(0))
        #expect(peer.send(TestFrame.windowUpdate(1, 5)) == [.windowGrew(0)] && peer.conversation.streams.room(0) == 5)
        // Below zero, and back.
        #expect(peer.send(TestFrame.settings((4, 0))) == [.settings] && peer.conversation.streams.room(0) == 0)
        #expect(peer.send(TestFrame.windowUpdate(1, 7)) == [.windowGrew(0)] && peer.conversation.streams.room(0) == 2)
        #expect(
            peer.send(TestFrame.settings((4, 100_000)) + TestFrame.windowUpdate(0, 5)) == [.settings, .windowGrew(nil)]
        )
        #expect(peer.conversation.streams.room(0) == 65_530)
    }

    @Test func windowsThatAreTooLarge() {
        var connection = Peer.begun()
        #expect(connection.fault(TestFrame.windowUpdate(0, 0x7FFF_FFFF)) == .flowControlError)
        var stream = Peer.begun()
        _ = stream.send(TestFrame.headers(1))
        #expect(stream.streamFault(TestFrame.windowUpdate(1, 0x7FFF_FFFF)) == [.flowControlError])
        #expect(stream.send(TestFrame.headers(3)) == [.request(0, isLast: true)])
        var settings = Peer.begun()
        _ = settings.send(TestFrame.headers(1) + TestFrame.windowUpdate(1, 0x7FFF_0000))
        #expect(settings.fault(TestFrame.settings((4, 0x7FFF_FFFF))) == .flowControlError)
    }

    @Test func windowUpdatesByNothing() {
        var connection = Peer.begun()
        #expect(connection.fault(TestFrame.windowUpdate(0, 0)) == .protocolError)
        var stream = Peer.begun()
        _ = stream.send(TestFrame.headers(1))
        #expect(stream.streamFault(TestFrame.windowUpdate(1, 0)) == [.protocolError])
    }

    // MARK: 6.5 to 6.8 Frames of the connection

    @Test func framesOfTheConnection() {
        var peer = Peer.begun()
        #expect(peer.send(TestFrame.frame(.ping, 0, 0, Array(1...8))) == [.ping(0x0102_0304_0506_0708)])
        #expect(peer.send(TestFrame.frame(.ping, 1, 0, Array(1...8))) == [.pingAnswer(0x0102_0304_0506_0708)])
        #expect(peer.send(TestFrame.settings((5, 20_000), (3, 7), (0x99, 1))) == [.settings])
        #expect(peer.conversation.peerSettings.maximumStreams == 7)
        let goAway = TestFrame.frame(.goAway, 0, 0, TestFrame.word(0) + TestFrame.word(0))
        #expect(peer.send(goAway) == [.goAway(last: 0, .noError)])
        #expect(peer.conversation.farewell.isEmpty)
        let words = Array(repeating: UInt8(ascii: "a"), count: 300)
        #expect(peer.send(TestFrame.frame(.goAway, 0, 0, TestFrame.word(0) + TestFrame.word(11) + words)).count == 1)
        #expect(peer.conversation.farewell == Array(words.prefix(128)))
        #expect(peer.send(TestFrame.frame(0x42, 0, 0, [1]) + TestFrame.headers(1)) == [.request(0, isLast: true)])
    }

    @Test(arguments: [(2 as UInt16, 2 as UInt32, 1 as UInt32), (4, 0x8000_0000, 3), (5, 16_383, 1), (5, 16_777_216, 1)])
    func settingsThatAreInvalid(_ key: UInt16, _ value: UInt32, _ code: UInt32) {
        var peer = Peer.begun()
        #expect(peer.fault(TestFrame.settings((key, value)))?.rawValue == code)
    }

    @Test func aFrameThatIsTooLong() {
        var peer = Peer.begun()
        #expect(peer.fault(TestFrame.headers(1) + [0, 0x40, 1, 0, 0, 0, 0, 0, 1]) == .frameSizeError)
    }

    // MARK: Floods

    @Test(arguments: [
        TestFrame.frame(.ping, 0, 0, Array(1...8)), TestFrame.settings((4, 65_535)),
        TestFrame.frame(.priority, 0, 1, [0, 0, 0, 1, 5]),
        TestFrame.windowUpdate(0, 1), TestFrame.frame(0x42, 0, 0, []), TestFrame.frame(.settings, 1),
        TestFrame.frame(.goAway, 0, 0, TestFrame.word(0) + TestFrame.word(0)),
    ])
    func framesThatCarryNoMessage(_ frame: [UInt8]) {
        var peer = Peer.begun()
        #expect(peer.fault((0..<2000).flatMap { _ in frame }) == .enhanceYourCalm)
        // Over a long time the same are no flood.
        var slow = Peer.begun()
        for _ in 0..<20 {
            slow.time = slow.time + .seconds(31)
            #expect(slow.fault((0..<150).flatMap { _ in frame }) == nil)
        }
    }

    /// CVE-2023-44487
    @Test func rapidReset() {
        var peer = Peer.begun()
        var count = 0
        for number in 0..<2000 as Range<UInt32> {
            let events = peer.send(TestFrame.headers(2 * number + 1) + TestFrame.reset(2 * number + 1))
            if case .connectionFault(let fault)? = events.last {
                #expect(fault.code == .enhanceYourCalm)
                break
            }
            count += 1
        }
        #expect(count == FaultBudget.maximum)
    }

    /// CVE-2025-8671: faults that have us reset the streams instead.
    @Test func faultsOfStreams() {
        var peer = Peer.begun()
        var count = 0
        while count < 1000 {
            let id = UInt32(2 * count + 1)
            guard peer.fault(TestFrame.headers(id) + TestFrame.windowUpdate(id, 0)) == nil else { break }
            count += 1
        }
        #expect(count == FaultBudget.maximum)
    }

    @Test func streamsThatAreRefused() {
        var peer = Peer.begun(maximumStreams: 1)
        _ = peer.send(TestFrame.headers(1))
        let frames = (1...FaultBudget.maximum + 1).flatMap { TestFrame.headers(UInt32(2 * $0 + 1)) }
        #expect(peer.fault(frames) == .enhanceYourCalm)
    }

    @Test func blocksForAStreamThatIsClosed() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        peer.conversation.streams.reset(0)
        #expect(peer.fault((0...FaultBudget.maximum).flatMap { _ in TestFrame.headers(1) }) == .enhanceYourCalm)
    }

    @Test func contentThatIsEmpty() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        for _ in 0..<100 {
            #expect(peer.fault((0..<10).flatMap { _ in TestFrame.data(1, 0) } + TestFrame.data(1, 1)) == nil)
        }
        #expect(peer.fault((0..<11).flatMap { _ in TestFrame.data(1, 0) }) == .enhanceYourCalm)
    }

    /// The end of a stream makes none of them useful where the stream has ended before.
    @Test func contentThatIsEmptyOnAStreamThatIsOver() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        peer.conversation.streams.reset(0)
        #expect(peer.fault((0..<10).flatMap { _ in TestFrame.data(1, 0, isLast: true) }) == nil)
        #expect(peer.fault(TestFrame.data(1, 0, isLast: true)) == .enhanceYourCalm)
    }

    @Test(arguments: [0, 1])
    func contentOfAStreamThatIsOverPaysForNothing(_ count: Int) {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1, isLast: false))
        peer.conversation.streams.reset(0)
        let frames = TestFrame.data(1, count) + TestFrame.settings((4, 70_000))
        #expect(peer.fault((0..<2000).flatMap { _ in frames }) == .enhanceYourCalm)
    }

    @Test func aBlockWithoutEnd() {
        var peer = Peer.begun()
        let frames =
            TestFrame.frame(.headers, 0, 1, [0x82])
            + (0..<2000).flatMap { _ in TestFrame.frame(.continuation, 0, 1, []) }
        #expect(peer.fault(frames) == .enhanceYourCalm)
    }

    @Test func contentPaysForWindowUpdates() {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.settings((4, 0x7FFF_0000)) + TestFrame.headers(1))
        for _ in 0..<2000 {
            peer.conversation.send(16_384, 0)
            let updates = TestFrame.windowUpdate(0, 8192) + TestFrame.windowUpdate(0, 8192)
            #expect(peer.send(updates) == [.windowGrew(nil), .windowGrew(nil)])
        }
    }
}

@Suite("An HTTP/2 connection to an upstream", .timeLimit(.minutes(1)))
struct HTTP2UpstreamConversationTests {
    private static let response = hexBytes("88")

    @Test func aResponse() {
        var peer = Peer.begun(isClient: false)
        let place = peer.conversation.openStream(isLast: true)
        #expect(place == 0 && peer.conversation.streams.id(of: 0) == 1)
        #expect(
            peer.send(TestFrame.headers(1, isLast: false, hexBytes("08 03 31 30 33"))) == [
                .fields(0, isLast: false, isClosed: false)
            ]
        )
        #expect(peer.fields.text(peer.fields.pseudo.status) == "103")
        #expect(
            peer.send(
                TestFrame.headers(1, isLast: false, Self.response) + TestFrame.data(1, 3)
                    + TestFrame.headers(1, FieldLiteral.field("x", "y"))
            )
                == [
                    .fields(0, isLast: false, isClosed: false), .content(0, 19..<22, isLast: false, isClosed: false),
                    .fields(0, isLast: true, isClosed: true),
                ]
        )
        #expect(peer.conversation.streams.count == 0)
        #expect(peer.fault(TestFrame.data(1, 1)) == .streamClosed)
    }

    @Test(arguments: [
        TestFrame.headers(1, response), TestFrame.headers(2, response), TestFrame.data(1, 1),
        TestFrame.windowUpdate(1, 1), TestFrame.reset(1),
        TestFrame.frame(.pushPromise, 4, 1, [0, 0, 0, 2, 0x82]), TestFrame.settings((2, 1)),
    ])
    func streamsThatWeHaveNotOpened(_ frame: [UInt8]) {
        var peer = Peer.begun(isClient: false)
        #expect(peer.fault(frame) == .protocolError)
    }

    @Test func asManyStreamsAsTheUpstreamTakes() {
        var peer = Peer.begun(isClient: false)
        _ = peer.send(TestFrame.settings((3, 2)))
        #expect(peer.conversation.openStream(isLast: true) == 0)
        #expect(peer.conversation.openStream(isLast: true) == 1)
        #expect(peer.conversation.openStream(isLast: true) == nil)
        #expect(peer.send(TestFrame.headers(1, Self.response)) == [.fields(0, isLast: true, isClosed: true)])
        #expect(peer.conversation.openStream(isLast: true) == 0 && peer.conversation.streams.id(of: 0) == 5)
        // Fewer than are open.
        #expect(peer.send(TestFrame.settings((3, 0))) == [.settings])
        #expect(peer.send(TestFrame.headers(3, Self.response)) == [.fields(1, isLast: true, isClosed: true)])
        #expect(peer.conversation.openStream(isLast: true) == nil)
    }

    @Test func streamsAboveTheLastCanGoElsewhere() {
        var peer = Peer.begun(isClient: false)
        for _ in 0..<4 { _ = peer.conversation.openStream(isLast: true) }
        let goAway = TestFrame.frame(.goAway, 0, 0, TestFrame.word(3) + TestFrame.word(0))
        #expect(peer.send(goAway) == [.goAway(last: 3, .noError)])
        let ids = peer.conversation.streams.open.map { peer.conversation.streams.id(of: $0) }
        #expect(ids == [1, 3, 5, 7])
        #expect(peer.conversation.streams.receiveGoAway(last: 3) == [2, 3])
        #expect(peer.conversation.openStream(isLast: true) == nil && peer.conversation.streams.open == [0, 1])
        #expect(
            peer.send(TestFrame.headers(5, Self.response) + TestFrame.headers(3, Self.response)) == [
                .fields(1, isLast: true, isClosed: true)
            ]
        )
    }

    /// Servers reset each stream whose request they did not want whole; other resets have a bound.
    @Test func requestsPayForResets() {
        var peer = Peer.begun(isClient: false)
        for _ in 0..<5000 {
            guard let place = peer.conversation.openStream(isLast: false) else {
                Issue.record("no stream")
                return
            }
            let id = peer.conversation.streams.id(of: place)
            #expect(peer.send(TestFrame.reset(id, 0)) == [.reset(place, .noError)])
        }
        let last = peer.conversation.streams.lastID
        #expect(peer.fault((0..<70_000).flatMap { _ in TestFrame.reset(last) }) == .enhanceYourCalm)
    }

    /// Clients leave as often as they like; an upstream that knows nothing of that has done nothing wrong.
    @Test func responsesThatAreNotAwaitedAnyMoreAreNoFaults() {
        var peer = Peer.begun(isClient: false)
        var ids: [UInt32] = []
        for _ in 0..<1000 {
            guard let place = peer.conversation.openStream(isLast: true) else {
                Issue.record("no stream")
                return
            }
            ids.append(peer.conversation.streams.id(of: place))
            peer.conversation.streams.reset(place)
        }
        for id in ids {
            let response = TestFrame.headers(id, isLast: false, Self.response) + TestFrame.data(id, 1)
            #expect(peer.send(response + TestFrame.headers(id, FieldLiteral.field("x", "y"))) == [])
        }
        // Nobody has asked for these.
        let more = (0..<400).flatMap { _ in TestFrame.headers(ids[999], isLast: false, Self.response) }
        #expect(peer.fault(more) == .enhanceYourCalm)
    }

    /// Content whose frame has not come whole. It is the same in all, however it is cut.
    @Test(arguments: [1, 500, 521, 522, 700, 9_000, 16_000, 16_393, 20_000])
    func contentComesInParts(_ size: Int) {
        var peer = Peer.begun(isClient: false, connectionWindow: 1 << 20, streamWindow: 1 << 20)
        guard let place = peer.conversation.openStream(isLast: true) else {
            Issue.record("no stream")
            return
        }
        var frames = TestFrame.headers(1, isLast: false, Self.response)
        var sent: [UInt8] = []
        for length in [16_384, 0, 600, 16_384, 3000] {
            let content = (0..<length).map { UInt8(truncatingIfNeeded: $0 + length) }
            frames += TestFrame.frame(.data, sent.count > 30_000 ? 1 : 0, 1, content)
            frames += TestFrame.frame(.ping, 0, 0, Array(1...8))
            sent += content
        }
        let now = peer.time
        var (received, ends, rest, pings) = ([UInt8](), 0, [UInt8](), 0)
        for start in stride(from: 0, to: frames.count, by: size) {
            rest += frames[start..<min(frames.count, start + size)]
            var position = 0
            while true {
                var event = peer.conversation.receive(rest.span, from: &position, into: &peer.fields, at: { now })
                if case .needMore = event {
                    event = peer.conversation.receivePart(rest.span, from: &position, at: { now })
                }
                if case .needMore = event { break }
                if case .content(place, let range, let isLast, _) = event {
                    received += rest[range]
                    ends += isLast ? 1 : 0
                } else if case .ping = event {
                    pings += 1
                }
            }
            rest.removeFirst(position)
            // What has to be kept is little.
            #expect(rest.count < HTTP2FrameHeader.size + HTTP2FrameReader.smallestPart)
        }
        #expect(received == sent && ends == 1 && pings == 5 && rest.isEmpty)
        #expect(peer.conversation.streams.held == sent.count && peer.conversation.streams.count == 0)
    }

    /// What comes behind the part of a frame that has ended its stream with a fault is only counted.
    @Test func aPartThatExceedsTheWindow() {
        var peer = Peer.begun(isClient: false, connectionWindow: 65_535, streamWindow: 1000)
        let place = peer.conversation.openStream(isLast: true)
        let frames = TestFrame.headers(1, isLast: false, Self.response) + TestFrame.data(1, 3000)
        let (now, part) = (peer.time, Array(frames[..<2000]))
        _ = peer.send(Array(frames[..<10]))
        var position = 10
        let none = peer.conversation.receive(part.span, from: &position, into: &peer.fields, at: { now })
        let event = peer.conversation.receivePart(part.span, from: &position, at: { now })
        #expect(none == .needMore && event == .streamFault(stream: 1, place, .streamWindowExceeded) && position == 2000)
        let rest = peer.conversation.receive(frames.span, from: &position, into: &peer.fields, at: { now })
        #expect(rest == .nothing && position == frames.count && peer.conversation.streams.held == 0)
        // Other frames are read as before.
        #expect(peer.send(TestFrame.frame(.ping, 0, 0, Array(1...8))) == [.ping(0x0102_0304_0506_0708)])
    }

    /// It does not matter whether the frame has come whole, or in parts.
    @Test(arguments: [false, true])
    func contentAfterTheEndResetsTheStream(_ comesInParts: Bool) {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1))
        let events = peer.receive(TestFrame.data(1, 3000), inParts: comesInParts)
        #expect(events.first == .streamFault(stream: 1, 0, .afterEnd))
        #expect(events.dropFirst().allSatisfy { $0 == .nothing })
        // The client sent it before it learned of the reset.
        #expect(peer.send(TestFrame.data(1, 5) + TestFrame.headers(3)) == [.request(0, isLast: true)])
        #expect(peer.conversation.streams.held == 0)
    }

    @Test(arguments: [false, true])
    func contentAfterBothEndsEndsTheConnection(_ comesInParts: Bool) {
        var peer = Peer.begun()
        _ = peer.send(TestFrame.headers(1))
        _ = peer.conversation.streams.endLocal(0)
        #expect(peer.receive(TestFrame.data(1, 3000), inParts: comesInParts).first == .connectionFault(.afterEnd))
    }

    @Test func whatWasThrownAwayReturnsToTheWindow() {
        var peer = Peer.begun(isClient: false)
        guard let place = peer.conversation.openStream(isLast: false) else {
            Issue.record("no stream")
            return
        }
        #expect(peer.conversation.streams.unacknowledged(place) == 0)
        peer.conversation.send(65_000, place)
        #expect(peer.conversation.streams.unacknowledged(place) == 65_000)
        #expect(peer.conversation.streams.connectionRoom == 535)
        peer.conversation.streams.reset(place)
        peer.conversation.streams.unsend(65_000)
        #expect(peer.conversation.streams.connectionRoom == 65_535)
    }

    @Test func idsRunOut() {
        var table = HTTP2StreamTable(
            peerIsClient: false,
            maximumStreams: 10,
            connectionWindow: 65_535,
            streamWindow: 65_535
        )
        table.skip(to: (1 << 31) - 3)
        let hasIDs = table.hasIDs
        #expect(hasIDs)
        let (last, none) = (table.openStream(isLast: true), table.openStream(isLast: true))
        #expect(last == 0 && table.lastID == 0x7FFF_FFFF && none == nil && !table.hasIDs)
    }
}

@Suite("Random HTTP/2 connections", .timeLimit(.minutes(5)))
struct HTTP2RandomConversationTests {
    /// Whatever comes, the invariants hold (they are asserted), and it does not matter how it is cut.
    @Test(arguments: [true, false])
    func itDoesNotMatterHowFramesAreCut(_ isClient: Bool) {
        var random = SplitMix(seed: 11)
        for _ in 0..<300 {
            var (frames, next) = ([[UInt8]](), isClient ? UInt32?(1) : nil)
            for _ in 0..<Int.random(in: 1...40, using: &random) {
                frames.append(Self.frame(&random, &next))
            }
            var whole = Peer.begun(isClient: isClient)
            var parts = Peer.begun(isClient: isClient)
            if !isClient {
                for _ in 0..<5 {
                    _ = whole.conversation.openStream(isLast: true)
                    _ = parts.conversation.openStream(isLast: true)
                }
            }
            let bytes = frames.flatMap { $0 }
            let expected = whole.kinds(bytes, cut: { bytes.count })
            let actual = parts.kinds(bytes, cut: { Int.random(in: 1...40, using: &random) })
            #expect(expected == actual)
            #expect(whole.conversation.streams.open == parts.conversation.streams.open)
        }
    }

    /// - Parameter next: The stream that a client opens next; nil for an upstream. Most frames are for a recent one.
    private static func frame(_ random: inout SplitMix, _ next: inout UInt32?) -> [UInt8] {
        let back = 2 * UInt32.random(in: 1...4, using: &random)
        let stream = max(1, Int64(next ?? 11) - Int64(back))
        let (recent, isLast) = (UInt32(stream), Bool.random(using: &random))
        switch Int.random(in: 0..<30, using: &random) {
        case 0..<10:
            let block = FieldLiteral.indexed("x", "\(recent)") + [0xBE]
            guard let id = next, Int.random(in: 0..<10, using: &random) > 0 else {
                return TestFrame.headers(recent, isLast: isLast, block)
            }
            next = id + 2
            return TestFrame.headers(id, isLast: isLast, TestFrame.request + block)
        case 10..<17: return TestFrame.data(recent, Int.random(in: 0...50, using: &random), isLast: isLast)
        case 17..<20: return TestFrame.reset(recent)
        case 20..<23: return TestFrame.windowUpdate(recent, UInt32.random(in: 1...100_000, using: &random))
        case 23..<25: return TestFrame.windowUpdate(0, UInt32.random(in: 1...100_000, using: &random))
        case 25..<28: return TestFrame.settings((4, UInt32.random(in: 0...100_000, using: &random)))
        default:
            let type = UInt8.random(in: 0...11, using: &random)
            let payload = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            return TestFrame.frame(type, UInt8.random(in: 0...255, using: &random) & 0x2D, recent, payload)
        }
    }
}

extension Peer {
    /// The events without what depends on where the bytes were cut.
    fileprivate mutating func kinds(_ bytes: [UInt8], cut: () -> Int) -> [String] {
        var (rest, kinds, next) = ([UInt8](), [String](), 0)
        let now = time
        while next < bytes.count {
            let end = min(bytes.count, next + cut())
            rest += bytes[next..<end]
            next = end
            var position = 0
            loop: while true {
                let event = conversation.receive(rest.span, from: &position, into: &fields, at: { now })
                switch event {
                case .needMore: break loop
                case .content(let place, let range, let isLast, let isClosed):
                    kinds.append("content \(place) \(range.count) \(isLast) \(isClosed)")
                case .connectionFault: return kinds + ["\(event)"]
                default: kinds.append("\(event)")
                }
            }
            rest.removeFirst(position)
        }
        return kinds
    }
}
