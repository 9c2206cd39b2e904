import GatewayHTTP
import NIOCore
import NIOEmbedded
import NIOHPACK
import Testing

@testable import GatewayProxy

/// Between the output and the socket: a peer that reads nothing, as long as it holds.
private final class Dam: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer

    var holds = false

    func flush(context: ChannelHandlerContext) {
        if !holds { context.flush() }
    }
}

private final class Owner: ChannelInboundHandler, Flushable {
    typealias InboundIn = ByteBuffer

    let writer = SocketWriter()
    let buffers = SpareBuffers()
    private(set) lazy var output = HTTP2Output(writer, buffers: buffers, flushes: flushes)
    private let flushes: FlushQueue
    private(set) var flushCount = 0

    init(_ loop: any EventLoop) { flushes = FlushQueue(loop: loop) }

    func handlerAdded(context: ChannelHandlerContext) { writer.open(context, hasDirectSocket: false) }

    func flushNow() {
        flushCount += 1
        output.flushNow()
    }
}

@Suite("Output of an HTTP/2 connection", .timeLimit(.minutes(1)))
struct HTTP2OutputTests {
    private let loop = EmbeddedEventLoop()
    private let channel: EmbeddedChannel
    private let dam = Dam()
    private let owner: Owner
    private var output: HTTP2Output { owner.output }

    init() throws {
        channel = EmbeddedChannel(loop: loop)
        owner = Owner(loop)
        try channel.pipeline.syncOperations.addHandlers([dam, owner])
        try channel.connect(to: SocketAddress(unixDomainSocketPath: "/peer")).wait()
    }

    private struct Frame: Equatable {
        let type: UInt8
        let flags: UInt8
        let stream: UInt32
        let payload: [UInt8]
    }

    /// All that has come to the socket.
    private func frames() throws -> [Frame] {
        var bytes: [UInt8] = []
        while let part = try channel.readOutbound(as: ByteBuffer.self) { bytes += part.readableBytesView }
        var frames: [Frame] = []
        while bytes.count >= HTTP2FrameHeader.size {
            let header = HTTP2FrameHeader(bytes.span, at: 0)
            let end = HTTP2FrameHeader.size + header.length
            try #require(end <= bytes.count)
            frames.append(
                Frame(
                    type: header.type,
                    flags: header.flags.rawValue,
                    stream: header.stream,
                    payload: Array(bytes[HTTP2FrameHeader.size..<end])
                )
            )
            bytes.removeFirst(end)
        }
        #expect(bytes.isEmpty)
        return frames
    }

    @discardableResult
    private func open(_ stream: UInt32, valueLength: Int = 10) -> HTTP2Output.Written {
        let line = Array("authorization: ".utf8) + [UInt8](repeating: 0x61, count: valueLength)
        output.writeFields(stream: stream, isLast: false, room: 1) {
            $0.field(line.span, name: 0..<13, value: 15..<line.count, isSecret: true)
        }
        return output.written
    }

    private func send(_ content: [UInt8], on stream: UInt32, isLast: Bool = false) {
        var bytes = ByteBuffer(bytes: content)
        output.writeData(content.count, of: &bytes, stream: stream, isLast: isLast)
        #expect(bytes.readableBytes == 0)
    }

    // MARK: Turns

    @Test func aTurnIsFlushedOnce() throws {
        for stream in [1, 3, 5] as [UInt32] {
            open(stream)
            output.flushLater(owner)
        }
        #expect(try frames().isEmpty)
        loop.run()
        #expect(owner.flushCount == 1)
        #expect(try frames().map(\.stream) == [1, 3, 5])
        loop.run()
        #expect(owner.flushCount == 1)
    }

    @Test func muchIsFlushedWithinTheTurn() throws {
        send([UInt8](repeating: 1, count: HTTP2Output.maximumUnflushed), on: 1)
        #expect(output.unflushed == 0)
        #expect(try !frames().isEmpty)
    }

    // MARK: Field blocks

    @Test func aLongBlockIsWrittenAgainWithMoreRoom() throws {
        open(1, valueLength: 50_000)
        output.flushNow()
        let frames = try frames()
        #expect(frames.map(\.type) == [1, 9, 9, 9])
        #expect(frames.map(\.flags) == [0, 0, 0, 4])
        var decoder = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: 4096,
            maxHeaderListSize: 1 << 20
        )
        var block = ByteBuffer(bytes: frames.flatMap(\.payload))
        let fields = try decoder.decodeHeaders(from: &block)
        #expect(fields.first(name: "authorization")?.utf8.count == 50_000)
    }

    /// The table size is told with each block until one has left: any of them could be cut.
    @Test func theTableSizeIsToldUntilABlockHasLeft() throws {
        let first = open(1)
        open(3)
        #expect(output.withdraw(1, first) == 0)
        output.flushNow()
        open(5)
        output.flushNow()
        #expect(try frames().map { $0.payload.first == 0x20 } == [true, false])
    }

    @Test func theTableSizeIsToldAgainIfTheOnlyBlockWasCut() throws {
        let first = open(1)
        output.write(room: 17) { $0.ping(0, isAnswer: false) }
        #expect(output.withdraw(1, first) == 0)
        output.flushNow()
        open(3)
        output.flushNow()
        #expect(try frames().last?.payload.first == 0x20)
    }

    // MARK: Content

    @Test(arguments: [0, 1, 16_384, 16_385, 65_535, 65_536, 100_000])
    func contentIsCutIntoFrames(_ count: Int) throws {
        let content = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        open(1)
        send(content, on: 1, isLast: true)
        open(3)
        output.flushNow()
        let data = try frames().dropFirst().dropLast()
        #expect(data.flatMap(\.payload) == content)
        #expect(data.count == max(1, (count + 16_383) / 16_384))
        #expect(data.allSatisfy { $0.type == 0 && $0.stream == 1 })
        #expect(data.map(\.flags) == data.indices.map { $0 == data.endIndex - 1 ? 1 : 0 })
    }

    private func stage(_ content: [UInt8], on stream: UInt32) {
        var bytes = ByteBuffer(bytes: content)
        output.stageData(content.count, of: &bytes, stream: stream)
        #expect(bytes.readableBytes == 0)
    }

    @Test func whatFollowsAtOnceJoinsTheFrame() throws {
        open(1)
        stage([1], on: 1)
        stage([2, 3], on: 1)
        #expect(output.endInPlace(1))
        output.flushNow()
        let frames = try frames()
        #expect(frames.map(\.type) == [1, 0] && frames.map(\.flags) == [4, 1])
        #expect(frames.last?.payload == [1, 2, 3])
    }

    @Test func aFrameIsJoinedOnlyWhereItIsTheLast() throws {
        stage([1], on: 1)
        output.write(room: 17) { $0.ping(0, isAnswer: true) }
        stage([2], on: 1)
        stage([3], on: 3)
        stage([4], on: 1)
        #expect(!output.endInPlace(3) && output.endInPlace(1) && !output.endInPlace(1))
        output.flushNow()
        stage([5], on: 1)
        output.flushNow()
        let frames = try frames()
        #expect(frames.map(\.type) == [0, 6, 0, 0, 0, 0])
        #expect(frames.map(\.flags) == [0, 1, 0, 0, 1, 0])
        #expect(frames.filter { $0.type == 0 }.map(\.payload) == [[1], [2], [3], [4], [5]])
    }

    @Test func aFrameGrowsToItsLimit() throws {
        let piece = [UInt8](repeating: 7, count: 5000)
        for _ in 0..<4 { stage(piece, on: 1) }
        stage([UInt8](repeating: 8, count: 16_384), on: 1)
        output.flushNow()
        #expect(try frames().map(\.payload.count) == [15_000, 5000, 16_384])
    }

    @Test func aHeadEndsItsStreamInPlaceUntilItHasLeft() throws {
        open(1)
        #expect(output.endInPlace(1))
        open(3, valueLength: 40_000)
        #expect(output.endInPlace(3))
        open(5)
        output.flushNow()
        #expect(!output.endInPlace(5))
        let frames = try frames()
        #expect(frames.map(\.stream) == [1, 3, 3, 3, 5])
        #expect(frames.map(\.flags) == [5, 1, 0, 4, 4])
    }

    // MARK: Withdrawal

    @Test func whatWasNotFlushedIsCutOut() throws {
        let first = open(1)
        let third = open(3, valueLength: 40_000)
        send([1, 2], on: 1)
        send([UInt8](repeating: 3, count: 70_000), on: 3)
        send([4], on: 1, isLast: true)
        open(5)
        #expect(output.withdraw(3, third) == 70_000)
        // Once: its content would be given back twice.
        #expect(output.withdraw(3, third) == nil)
        output.flushNow()
        let frames = try frames()
        #expect(frames.map(\.stream) == [1, 1, 1, 5])
        #expect(frames[1].payload == [1, 2])
        #expect(frames[2].payload == [4])
        #expect(output.withdraw(1, first) == nil && output.hasLeft(first.end))
    }

    @Test func whatWaitsOfAStreamIsTakenOut() throws {
        var first = open(1)
        output.flushNow()
        _ = try frames()
        send([1, 2, 3], on: 1)
        first.end = output.position
        send([4], on: 3)
        #expect(!output.hasLeft(first.end) && output.withdraw(1, first) == nil)
        let position = first.end
        #expect(output.withdrawRest(of: 1, &first) == 3)
        // What the peer has of it was flushed.
        #expect(output.hasLeft(first.end) && !output.hasLeft(position))
        // The stream is reset next, and that has to leave.
        output.write(room: 13) { $0.reset(stream: 1, .cancel) }
        output.flushNow()
        #expect(try frames().map(\.stream) == [3, 1])
        #expect(output.hasLeft(position))
        send([5], on: 1)
        first.end = output.position
        output.flushNow()
        #expect(output.hasLeft(first.end) && output.withdrawRest(of: 1, &first) == 0)
        #expect(try frames().map(\.payload) == [[5]])
    }

    @Test func whatTheChannelHoldsHasNotLeft() throws {
        send([1], on: 1)
        let first = output.position
        output.flushNow()
        dam.holds = true
        send([2], on: 1)
        let second = output.position
        output.flushNow()
        #expect(output.hasLeft(first) && !output.hasLeft(second) && output.taken() == first)
        dam.holds = false
        channel.flush()
        #expect(output.hasLeft(second) && output.taken() == second)
    }

    /// Positions behind what was taken out are higher than what has left, until nothing waits any more.
    @Test func whatIsBehindAStreamThatWasTakenOutLeavesNoEarlier() throws {
        dam.holds = true
        let first = open(1, valueLength: 1000)
        let third = open(3)
        #expect(output.withdraw(1, first) == 0)
        output.flushNow()
        #expect(output.position < third.end && !output.hasLeft(third.end))
        let fifth = open(5)
        #expect(!output.hasLeft(fifth.end))
        dam.holds = false
        channel.flush()
        // The fifth stream waits here, and its position is below that of the third.
        #expect(fifth.end < third.end && !output.hasLeft(fifth.end))
        output.flushNow()
        #expect(output.hasLeft(third.end) && output.hasLeft(fifth.end))
        #expect(output.position >= third.end)
        let seventh = open(7)
        #expect(!output.hasLeft(seventh.end) && output.withdraw(7, seventh) == 0)
        #expect(try frames().map(\.stream) == [3, 5])
    }

    /// They are taken out once, when the rest is flushed.
    @Test func manyThatAreWithdrawnInOneTurnAreCutOutTogether() throws {
        for stream in stride(from: 1, through: 199, by: 2) as StrideThrough<UInt32> {
            let written = open(stream, valueLength: 1000)
            send([UInt8](repeating: 1, count: 10), on: stream)
            let waiting = output.unflushed
            if stream == 101 { send([UInt8](repeating: 2, count: 70_000), on: 1) }
            guard stream != 1 else { continue }
            #expect(output.withdraw(stream, written) == 10)
            #expect(output.unflushed >= waiting)
        }
        output.write(room: 17) { $0.ping(0, isAnswer: false) }
        output.flushNow()
        let left = try frames()
        #expect(Set(left.map(\.stream)) == [0, 1] && output.unflushed == 0)
        #expect(left.filter { $0.type == 0 }.reduce(0) { $0 + $1.payload.count } == 70_010)
        open(201)
        output.flushNow()
        #expect(try frames().map(\.stream) == [201])
    }

    /// Nothing of it is left for what is written later.
    @Test func nothingIsFlushedWhereAllWasWithdrawn() throws {
        let first = open(1)
        #expect(output.withdraw(1, first) == 0)
        output.flushNow()
        #expect(try frames().isEmpty && output.unflushed == 0)
        open(3)
        output.flushNow()
        #expect(try frames().map(\.stream) == [3])
    }

    /// As after a flush.
    @Test func theBufferOfWhatWasWithdrawnIsUsedAgain() {
        let first = open(1, valueLength: 2 * SpareBuffers.capacity)
        #expect(output.withdraw(1, first) == 0 && owner.buffers.frames.isEmpty)
        output.flushNow()
        #expect(owner.buffers.frames.count == 1)
        open(3)
        #expect(owner.buffers.frames.isEmpty)
    }

    @Test func aHeadThatThePeerDoesNotTakeHasNotLeft() throws {
        let first = open(1)
        output.flushNow()
        dam.holds = true
        let third = open(3)
        output.flushNow()
        let fifth = open(5)
        #expect(output.hasLeft(first.end) && output.withdraw(1, first) == nil)
        #expect(!output.hasLeft(third.end) && output.withdraw(3, third) == nil)
        #expect(!output.hasLeft(fifth.end) && output.withdraw(5, fifth) == 0)
        dam.holds = false
        channel.flush()
        #expect(output.hasLeft(third.end))
        #expect(try frames().map(\.stream) == [1, 3])
    }

    /// Its frames that follow later hold nothing back.
    @Test func aHeadThatLeftBeforeTheRestWasHeldHasLeft() throws {
        let first = open(1)
        output.flushNow()
        dam.holds = true
        send([1, 2, 3], on: 1)
        output.flushNow()
        #expect(output.hasLeft(first.end) && output.withdraw(1, first) == nil)
    }

    /// A flush within the turn counts, too.
    @Test func aHeadIsHeldUntilItIsFlushed() {
        let first = open(1)
        #expect(output.holdsHead(of: first))
        send([UInt8](repeating: 1, count: HTTP2Output.maximumUnflushed), on: 3)
        #expect(!output.holdsHead(of: first) && output.withdraw(1, first) == nil)
    }

    @Test func whatHasNoHeadIsNeverCut() {
        send([1], on: 1)
        #expect(output.withdraw(1, HTTP2Output.Written()) == nil)
    }

    // MARK: Bounds

    /// A frame that was left out would be missed by the peer.
    @Test func moreThanWasExpectedIsWrittenAllTheSame() throws {
        let part = [UInt8](repeating: 7, count: 11_000_000)
        unsafe part.withUnsafeBytes { part in
            output.write(room: 9_000_000) { frames in
                for _ in 0..<3 { unsafe frames.data(part, stream: 1, isLast: false) }
            }
        }
        #expect(output.unflushed == 3 * (HTTP2FrameHeader.size + part.count))
    }
}

@Suite("What streams that are over have left", .timeLimit(.minutes(1)))
struct HTTP2RemainsTests {
    @Test func whatTheSystemHasTakenIsForgotten() {
        var remains = HTTP2Remains<Int>()
        #expect(remains.isEmpty && !remains.contains(beyond: 0) { _ in true })
        remains.add(1, upTo: 100)
        remains.add(2, upTo: 50)
        remains.forget(upTo: 60)
        #expect(remains.contains(beyond: 60) { $0 == 1 } && !remains.contains(beyond: 60) { $0 == 2 })
        #expect(remains.contains(beyond: 40) { $0 == 2 } && !remains.contains(beyond: 40) { $0 == 3 })
        remains.forget(upTo: 99)
        #expect(!remains.isEmpty)
        remains.forget(upTo: 100)
        #expect(remains.isEmpty)
    }

    /// Flushes to an upstream that reads slowly look at few of them, however many there are.
    @Test func theyAreLookedThroughWhenTheyHaveDoubled() {
        var remains = HTTP2Remains<Int>()
        var largest = 0
        for number in 1...10_000 {
            remains.add(number, upTo: number)
            // The last fifty are held.
            remains.forget(upTo: number - 50)
            largest = max(largest, remains.count)
        }
        #expect(largest < 200 && remains.count >= 50)
        for number in 1...10_000 { #expect(remains.contains(beyond: 9950) { $0 == number } == (number > 9950)) }
    }
}

@Suite("Input of an HTTP/2 connection", .timeLimit(.minutes(1)))
struct HTTP2InputTests {
    private static let limits = HTTP2Conversation.Limits(
        headerBytes: 16_384,
        headerFields: 100,
        maximumStreams: 10,
        connectionWindow: 1_000_000,
        streamWindow: 100_000
    )

    /// Reads of whatever length bring the same events.
    @Test(arguments: [1, 2, 5, 9, 13, 100])
    func framesThatComeInPartsAreJoined(_ length: Int) throws {
        let buffers = SpareBuffers()
        var input = HTTP2Input(buffers)
        var fields = HTTP2FieldTable()
        let now = MonotonicTime(nanoseconds: 0)
        var conversation = HTTP2Conversation(peerIsClient: true, limits: Self.limits, at: now)
        var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        bytes += [0, 0, 0, 4, 0, 0, 0, 0, 0]
        bytes += [0, 0, 1, 1, 4, 0, 0, 0, 1, 0x82]
        bytes += [0, 0, 3, 0, 1, 0, 0, 0, 1, 7, 8, 9]
        var content: [UInt8] = []
        var requests = 0
        for start in stride(from: 0, to: bytes.count, by: length) {
            var part = ByteBuffer(bytes: bytes[start..<min(start + length, bytes.count)])
            input.append(&part)
            reading: while true {
                switch input.next(of: &conversation, into: &fields, at: { now }) {
                case .needMore: break reading
                case .request: requests += 1
                case .content(_, let range, let isLast, _):
                    content += input.content(range).readableBytesView
                    #expect(isLast)
                case .settings: break
                case let event: Issue.record("\(event)")
                }
            }
            input.finish(buffers)
        }
        #expect(requests == 1)
        #expect(content == [7, 8, 9])
    }
}
