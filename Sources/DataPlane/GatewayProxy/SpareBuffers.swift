import NIOCore

/// Buffers of one event loop for what is about to be written, so that a connection that waits holds none.
final class SpareBuffers {
    /// Stands for "nothing": the library's own empty buffer belongs to all threads, which would meet at its count.
    let empty = ByteBufferAllocator().buffer(capacity: 1)
    private var spare: ByteBuffer?

    private static let capacity = 4096
    private static let largest = 65_536

    func take() -> ByteBuffer {
        spare.take() ?? ByteBufferAllocator().buffer(capacity: Self.capacity)
    }

    /// Takes back what was written and flushed.
    func giveBack(_ buffer: consuming ByteBuffer) {
        guard buffer.capacity <= Self.largest else { return }
        // While the channel still holds it, this makes a new one.
        buffer.clear()
        spare = buffer
    }
}
