import NIOCore

/// Buffers of one event loop for what is about to be written, so that a connection that waits holds none.
final class SpareBuffers {
    /// Stands for "nothing": the library's own empty buffer belongs to all threads, which would meet at its count.
    let empty = ByteBufferAllocator().buffer(capacity: 1)
    private var spare: ByteBuffer?

    private static let capacity = 4096
    private static let largest = 65_536

    func take() -> ByteBuffer {
        guard let spare else { return ByteBufferAllocator().buffer(capacity: Self.capacity) }
        self.spare = nil
        return spare
    }

    /// Takes back what was written and flushed; leaves ``empty``.
    func giveBack(_ buffer: inout ByteBuffer) {
        if buffer.capacity <= Self.largest {
            // While the channel still holds it, this makes a new one.
            buffer.clear()
            spare = buffer
        }
        buffer = empty
    }
}
