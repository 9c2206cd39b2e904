import GatewayHTTP
import NIOCore

/// What an HTTP/2 peer has sent, and the start of a frame that is not whole: at most 16 KiB, since longer frames are refused by their
/// header.
struct HTTP2Input {
    private var bytes: ByteBuffer
    /// Where the next frame begins.
    private var position = 0

    init(_ buffers: SpareBuffers) { bytes = buffers.empty }

    /// A read has come. What it brings is then taken by ``next(of:into:at:)``, until that needs more or the connection is broken.
    mutating func append(_ more: inout ByteBuffer) { bytes.takeBehindRest(&more) }

    @inline(__always)
    mutating func next(
        of conversation: inout HTTP2Conversation,
        into fields: inout HTTP2FieldTable,
        at now: () -> MonotonicTime
    ) -> HTTP2Conversation.Event {
        var end = position
        defer { position = end }
        let event = conversation.receive(bytes.readableBytesUInt8Span, from: &end, into: &fields, at: now)
        guard case .needMore = event, bytes.readableBytes &- end > HTTP2FrameReader.smallestPart else { return event }
        return conversation.receivePart(bytes.readableBytesUInt8Span, from: &end, at: now)
    }

    /// The content of a frame, or of a part of one, that has come, which shares its memory with the read.
    func content(_ range: Range<Int>) -> ByteBuffer {
        bytes.getSlice(at: bytes.readerIndex &+ range.lowerBound, length: range.count) ?? ByteBuffer()
    }

    /// The read is dealt with.
    mutating func finish(_ buffers: SpareBuffers) {
        bytes.moveReaderIndex(forwardBy: position)
        position = 0
        buffers.finishReading(&bytes)
        // A connection that waits for the rest of a frame must not keep all that it was read into.
        if bytes.readableBytes > 0, bytes.isWasteful { bytes = ByteBuffer(buffer: bytes) }
    }

    mutating func drop(_ buffers: SpareBuffers) {
        position = bytes.readableBytes
        finish(buffers)
    }
}
