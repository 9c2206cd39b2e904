import NIOCore
import Testing

@testable import GatewayProxy

/// What a request has still to send on its stream of HTTP/2.
@Suite("Content on its way to an upstream of HTTP/2", .timeLimit(.minutes(1)))
struct HTTP2OutgoingTests {
    private static let readSize = 131_072

    /// A part of what a connection was read into.
    private static func piece(_ length: Int, filledWith byte: UInt8 = 0x63) -> ByteBuffer {
        var read = ByteBuffer(repeating: byte, count: readSize)
        return read.readSlice(length: length) ?? ByteBuffer()
    }

    @Test func manySmallPiecesCostNoMoreThanTheirBytes() {
        var outgoing = HTTP2Outgoing()
        let count = 65_536
        for number in 0..<count {
            outgoing.append(ByteBuffer(bytes: [UInt8(truncatingIfNeeded: number)]))
            outgoing.settle()
        }
        #expect(outgoing.count == count && outgoing.pieces <= 9 && outgoing.capacity <= 4 * count)
        var next = 0
        while let part = outgoing.take(1000) {
            for byte in part.readableBytesView {
                #expect(byte == UInt8(truncatingIfNeeded: next))
                next += 1
            }
        }
        #expect(next == count && outgoing.count == 0)
    }

    @Test(arguments: [1, 100, 16_383, 16_384, 30_000])
    func aPieceThatStaysDoesNotKeepWhatItWasReadInto(_ length: Int) {
        var outgoing = HTTP2Outgoing()
        for number in 0..<(65_536 / length).clamped(to: 1...1000) {
            outgoing.append(Self.piece(length, filledWith: UInt8(truncatingIfNeeded: number)))
        }
        let count = outgoing.count
        outgoing.settle()
        #expect(outgoing.count == count && outgoing.capacity <= max(1024, 4 * count))
        #expect(outgoing.take(length)?.readableBytes == length)
    }

    /// One that is long leaves from where it was read into.
    @Test func aLongPieceIsNotCopied() {
        var outgoing = HTTP2Outgoing()
        outgoing.append(Self.piece(100_000))
        outgoing.settle()
        #expect(outgoing.capacity >= Self.readSize)
        // What is left of it is.
        _ = outgoing.take(99_000)
        outgoing.settle()
        #expect(outgoing.capacity <= 4096 && outgoing.take(.max)?.readableBytes == 1000)
    }

    /// The windows of an upstream may open by a byte at a time, while a client sends as slowly.
    @Test func whatHasLeftKeepsNoMemory() {
        var outgoing = HTTP2Outgoing()
        outgoing.append(ByteBuffer(string: "first"))
        for _ in 0..<100_000 {
            outgoing.append(ByteBuffer(string: "x"))
            _ = outgoing.take(1)
            outgoing.settle()
        }
        #expect(outgoing.count == 5 && outgoing.pieces == 1 && outgoing.capacity <= 2048)
    }
}

extension Int {
    fileprivate func clamped(to range: ClosedRange<Int>) -> Int {
        Swift.min(Swift.max(self, range.lowerBound), range.upperBound)
    }
}
