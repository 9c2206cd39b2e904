import NIOCore
import NIOEmbedded
import Testing

@testable import GatewayProxy

@Suite("Frames that leave together", .timeLimit(.minutes(1)))
struct HTTP2FrameJoinerTests {
    private let channel: EmbeddedChannel

    init() throws {
        channel = EmbeddedChannel()
        try channel.pipeline.syncOperations.addHandler(HTTP2FrameJoiner(SpareBuffers()))
    }

    private func pieces() throws -> [[UInt8]] {
        var pieces: [[UInt8]] = []
        while let piece = try channel.readOutbound(as: IOData.self) {
            if case .byteBuffer(let bytes) = piece { pieces.append(Array(bytes.readableBytesView)) }
        }
        return pieces
    }

    private func write(_ bytes: [UInt8], _ promise: EventLoopPromise<Void>? = nil) {
        channel.write(IOData.byteBuffer(ByteBuffer(bytes: bytes)), promise: promise)
    }

    @Test func smallFramesAreOnePiece() throws {
        write([1, 2])
        write([3])
        channel.flush()
        write([4])
        channel.flush()
        #expect(try pieces() == [[1, 2, 3], [4]])
    }

    @Test func theOrderStaysWhereAFrameIsLarge() throws {
        let large = [UInt8](repeating: 9, count: 10_000)
        write([1])
        write(large)
        write([2])
        channel.flush()
        #expect(try pieces() == [[1], large, [2]])
    }

    /// An end of a stream without content: its head can be what fills the piece.
    @Test(arguments: [0, 16_383, 16_384])
    func thePromiseOfAnEmptyFrameIsKept(before: Int) throws {
        let promise = channel.eventLoop.makePromise(of: Void.self)
        var isKept = false
        promise.futureResult.assumeIsolated().whenSuccess { isKept = true }
        for start in stride(from: 0, to: before, by: 4096) {
            write([UInt8](repeating: 0, count: min(4096, before - start)))
        }
        write([], promise)
        channel.flush()
        #expect(isKept)
        #expect(try pieces().joined().count == before)
    }

    // MARK: Bounds

    @Test func onlyShortFramesAreCopied() throws {
        let longest = [UInt8](repeating: 9, count: HTTP2FrameJoiner.largestCopy)
        for (frame, pieces) in [(longest, 1), (longest + [9], 3)] {
            for bytes in [[1], frame, [2]] { write(bytes) }
            channel.flush()
            #expect(try self.pieces().map(\.count) == (pieces == 1 ? [frame.count + 2] : [1, frame.count, 1]))
        }
    }

    @Test func aPieceIsWrittenOnceItIsLongEnough() throws {
        let half = [UInt8](repeating: 9, count: HTTP2FrameJoiner.largestCopy)
        let count = HTTP2FrameJoiner.capacity / half.count
        // One byte short of a piece, so the next frame joins it.
        for _ in 1..<count { write(half) }
        write(Array(half.dropLast()))
        write(half)
        write([1])
        channel.flush()
        #expect(try pieces().map(\.count) == [HTTP2FrameJoiner.capacity - 1 + half.count, 1])
        for _ in 0..<count { write(half) }
        write([1])
        channel.flush()
        #expect(try pieces().map(\.count) == [HTTP2FrameJoiner.capacity, 1])
    }
}
