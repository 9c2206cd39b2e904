import GatewayCore
import NIOCore

/// The content of a request on its way to the upstream, and the copy that is kept for a second try.
///
/// The copy is content without framing. A second try frames it anew, and so has to be the rest that follows it.
struct RequestContent {
    /// Bytes of content that have come, without framing.
    private(set) var received = 0
    private(set) var held: ByteBuffer?
    /// Of the copy; nil while the content is not complete.
    private(set) var heldTrailers: ByteBuffer?
    private(set) var form = ContentForm.wire
    /// Follows the chunks; nil where the length is known.
    private var chunks: ChunkDecoder?
    /// It comes with the framing of HTTP/1.
    private let isFramed: Bool

    init(_ framing: BodyFraming, isFramed: Bool) {
        self.isFramed = isFramed
        guard case .chunked = framing else { return }
        chunks = ChunkDecoder()
        if !isFramed { form = .content }
    }

    var isChunked: Bool { chunks != nil }
    var heldBytes: Int { held?.readableBytes ?? 0 }

    mutating func count(_ length: Int) { received += length }

    /// Takes what came, framing included.
    ///
    /// - Returns: What is to be sent, in the form that ``form`` says.
    mutating func take(_ wire: ByteBuffer, isHeld: Bool) -> ByteBuffer {
        guard isHeld || form == .content else {
            stopHolding()
            return wire
        }
        let content = unframed(wire)
        if isHeld {
            // A copy: a slice would keep the whole of the buffer that it came in.
            if held == nil { held = ByteBuffer() }
            held?.writeImmutableBuffer(content)
        } else {
            stopHolding()
        }
        return form == .content ? content : wire
    }

    mutating func takeTrailers(_ trailers: ByteBuffer, isHeld: Bool) {
        if isHeld { heldTrailers = trailers } else { stopHolding() }
    }

    mutating func stopHolding() {
        if held != nil { held = nil }
        if heldTrailers != nil { heldTrailers = nil }
    }

    /// The copy is sent; what comes from now on follows it.
    mutating func resumeBehindCopy() { sendUnframed() }

    /// What comes from now on is sent as content.
    mutating func sendUnframed() {
        if isChunked { form = .content }
    }

    /// The chunks were found valid where they were read.
    private mutating func unframed(_ wire: ByteBuffer) -> ByteBuffer {
        guard isChunked, isFramed else { return wire }
        var content = ByteBuffer()
        let bytes = wire.readableBytesUInt8Span
        _ = chunks?.feed(bytes, from: 0) { run in
            content.writeImmutableBuffer(
                wire.getSlice(at: wire.readerIndex + run.lowerBound, length: run.count) ?? ByteBuffer()
            )
        }
        return content
    }
}
