import NIOCore
import NIOEmbedded
import Testing

@testable import GatewayProxy

@Suite(.timeLimit(.minutes(5)))
struct SpareBuffersTests {
    private let buffers = SpareBuffers()

    private func read(_ text: String) -> ByteBuffer {
        var buffer = buffers.takeForReading()
        buffer.writeString(text)
        return buffer
    }

    private func address(_ buffer: ByteBuffer) -> UInt {
        unsafe buffer.withVeryUnsafeBytes { UInt(bitPattern: $0.baseAddress) }
    }

    @Test func whatIsReadNextGoesWhereTheLastReadWent() {
        var first = read("first")
        let place = address(first)
        first.moveReaderIndex(forwardBy: 5)
        buffers.finishReading(&first)
        #expect(first.storageCapacity < 100)
        #expect(address(read("second")) == place)
    }

    @Test func whatSomebodyHoldsIsNotWrittenOver() {
        var buffer = read("kept")
        var slice: ByteBuffer? = buffer.readSlice(length: 4)
        let place = address(buffer)
        buffers.finishReading(&buffer)
        let other = read("other")
        #expect(address(other) != place)
        #expect(slice == ByteBuffer(string: "kept"))
        slice = nil
        #expect(address(read("third")) == place)
    }

    @Test func theRestOfAReadIsKeptInASmallBuffer() {
        var buffer = read("HTTP/1.1 200 OK\r\nHTTP/1.1 2")
        let place = address(buffer)
        buffer.moveReaderIndex(forwardBy: 17)
        buffers.finishReading(&buffer)
        #expect(buffer == ByteBuffer(string: "HTTP/1.1 2"))
        #expect(buffer.storageCapacity < 100)
        #expect(address(read("next")) == place)
    }

    @Test func aLargeRestKeepsItsBuffer() {
        var buffer = read(String(repeating: "x", count: 40_000))
        let place = address(buffer)
        buffers.finishReading(&buffer)
        #expect(buffer.readableBytes == 40_000)
        #expect(address(buffer) == place)
    }

    @Test func aBufferThatHasGrownIsNotReadInto() {
        var buffer = read("HTTP/1.1 2")
        buffer.writeRepeatingByte(0, count: 400_000)
        buffer.moveReaderIndex(to: buffer.writerIndex)
        buffers.finishReading(&buffer)
        #expect(buffers.takeForReading().storageCapacity == 262_144)
    }

    @Test func aReadThatFilledItsBufferIsToldFromOneThatDidNot() {
        let loop = EmbeddedEventLoop()
        let wasFilled = NIOLoopBoundBox(false, eventLoop: loop)
        var reads = WatchedReadAllocator(wasFilled)
        for share in [2, 1, 1, 4, 4, 4, 1] {
            let count = reads.buffer(allocator: ByteBufferAllocator()).capacity / share
            _ = reads.record(actualReadBytes: count)
            #expect(wasFilled.value == (share == 1), "\(count)")
        }
    }

    // MARK: Frames

    @Test func aBufferThatFramesHaveGrownIsUsedAgain() {
        var frames = buffers.takeForFrames()
        frames.writeRepeatingByte(0, count: 20_000)
        let place = address(frames)
        buffers.giveBackFrames(consume frames)
        #expect(address(buffers.takeForFrames()) == place)
    }

    @Test func framesThatTheChannelHoldsAreNotWrittenOver() {
        var frames = buffers.takeForFrames()
        frames.writeRepeatingByte(7, count: 20_000)
        let held = frames
        buffers.giveBackFrames(consume frames)
        var next = buffers.takeForFrames()
        next.writeRepeatingByte(0, count: 20_000)
        #expect(held.readableBytesView.allSatisfy { $0 == 7 })
    }

    // MARK: Bounds

    @Test func theNumberOfFrameBuffersIsLimited() {
        buffers.giveBackFrames(ByteBufferAllocator().buffer(capacity: SpareBuffers.largest + 1))
        #expect(buffers.frames.isEmpty)
        for _ in 0...SpareBuffers.maximumFrames {
            buffers.giveBackFrames(ByteBufferAllocator().buffer(capacity: SpareBuffers.largest))
        }
        #expect(buffers.frames.count == SpareBuffers.maximumFrames)
    }

    @Test func largeBuffersAreNotKept() {
        for (size, isKept) in [(SpareBuffers.largest, true), (SpareBuffers.largest + 1, false)] {
            let buffers = SpareBuffers()
            buffers.giveBack(ByteBufferAllocator().buffer(capacity: size))
            #expect((buffers.take().capacity >= SpareBuffers.largest) == isKept)
        }
        #expect(SpareBuffers().take().capacity == SpareBuffers.capacity)
    }

    @Test func theNumberOfReadBuffersIsLimited() {
        var held = (0...SpareBuffers.maximumReads).map { read("\($0)") }
        for index in held.indices {
            held[index].moveReaderIndex(to: held[index].writerIndex)
            buffers.finishReading(&held[index])
            #expect(buffers.reads.count == min(index + 1, SpareBuffers.maximumReads))
        }
    }

    @Test func onlyAShortRestIsCopied() {
        for (count, isCopied) in [(SpareBuffers.smallRest, true), (SpareBuffers.smallRest + 1, false)] {
            let buffers = SpareBuffers()
            var buffer = buffers.takeForReading()
            buffer.writeRepeatingByte(0x78, count: count)
            let place = address(buffer)
            buffers.finishReading(&buffer)
            #expect(buffer.readableBytes == count)
            #expect((address(buffer) != place) == isCopied)
            #expect(buffers.reads.count == (isCopied ? 1 : 0))
        }
    }
}
