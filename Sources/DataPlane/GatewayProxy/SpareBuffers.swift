import NIOCore

/// Buffers of one event loop for what is about to be written, so that a connection that waits holds none.
final class SpareBuffers {
    /// Stands for "nothing": the library's own empty buffer belongs to all threads, which would meet at its count.
    let empty = ByteBufferAllocator().buffer(capacity: 1)
    private var spares: [ByteBuffer] = []

    private static let capacity = 4096
    private static let limit = 4
    private static let largest = 65_536

    func take() -> ByteBuffer { spares.popLast() ?? ByteBufferAllocator().buffer(capacity: Self.capacity) }

    /// Takes back what was written and flushed, unless the channel still holds it; leaves ``empty``.
    func giveBack(_ buffer: inout ByteBuffer) {
        let isFree: Void? = buffer.modifyIfUniquelyOwned { $0.clear() }
        if isFree != nil, spares.count < Self.limit, buffer.capacity <= Self.largest { spares.append(buffer) }
        buffer = empty
    }
}
