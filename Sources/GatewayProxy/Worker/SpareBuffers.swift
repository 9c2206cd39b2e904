import GatewayHTTP
import NIOCore

/// Buffers of one event loop, so that a connection that waits holds none and what is used next is still in the cache.
final class SpareBuffers {
    /// Stands for "nothing": the library's own empty buffer belongs to all threads, which would meet at its count.
    let empty = ByteBufferAllocator().buffer(capacity: 1)
    private var spare: ByteBuffer?
    /// For the frames of a turn: what many streams of a connection have grows far beyond one head.
    private(set) var frames: [ByteBuffer] = []
    /// What is decoded of HTTP/2: the fields of one message at a time. What outlives the message is copied.
    var fields = HTTP2FieldTable()
    private var lines: ByteBuffer
    /// What reads went into, the latest last; a client's connection may still hold one.
    private(set) var reads: [ByteBuffer] = []

    static let capacity = 4096
    static let largest = 65_536
    static let maximumFrames = 8
    /// The size of a read buffer: more than most reads bring, and small enough to stay in the cache of a processor.
    static let readCapacity = 262_144
    static let maximumReads = 8
    /// Up to here the rest of a read is copied, so that it does not keep the buffer that the loop reads into.
    static let smallRest = 16_384

    init() { lines = empty }

    /// A copy of the first bytes of ``fields``, in memory that is reused once the copy is released.
    func takeLines(_ count: Int) -> ByteBuffer {
        if lines.capacity > Self.largest { lines = empty }
        lines.clear()
        lines.writeBytes(fields.bytes[..<count])
        return lines
    }

    /// For what is about to be written.
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

    /// For the frames of a connection that others write to in the same turn.
    func takeForFrames() -> ByteBuffer { frames.popLast() ?? take() }

    /// Takes back what frames were written into and flushed.
    func giveBackFrames(_ buffer: consuming ByteBuffer) {
        guard buffer.capacity > Self.capacity, buffer.capacity <= Self.largest, frames.count < Self.maximumFrames else {
            return giveBack(buffer)
        }
        // While the channel still holds it, there is nothing to keep.
        guard buffer.modifyIfUniquelyOwned({ $0.clear() }) != nil else { return }
        frames.append(buffer)
    }

    func takeForReading() -> ByteBuffer {
        var index = reads.count &- 1
        while index >= 0 {
            if reads[index].modifyIfUniquelyOwned({ $0.clear() }) != nil {
                // Mostly it is the last one, for which no place has to be closed.
                return index == reads.count &- 1 ? reads.removeLast() : reads.remove(at: index)
            }
            index &-= 1
        }
        return ByteBufferAllocator().buffer(capacity: Self.readCapacity)
    }

    /// A read is dealt with: takes back what it was read into. What is left of the read stays in `buffer`.
    func finishReading(_ buffer: inout ByteBuffer) {
        guard buffer.storageCapacity >= Self.readCapacity else {
            if buffer.readableBytes == 0 { buffer = empty }
            return
        }
        let rest = buffer.readableBytes
        guard rest <= Self.smallRest else { return }
        var read = rest == 0 ? empty : ByteBuffer(buffer: buffer)
        swap(&read, &buffer)
        // One that has grown would be grown further by the next rest, until all of them hold what a socket can.
        guard read.storageCapacity == Self.readCapacity else { return }
        if reads.count == Self.maximumReads { reads.removeFirst() }
        reads.append(read)
        assert(reads.count <= Self.maximumReads, "More buffers are kept than there may be.")
    }
}

extension ByteBuffer {
    /// It keeps much more memory than it has bytes: what may wait for long is copied.
    var isWasteful: Bool { storageCapacity > max(4 &* readableBytes, 1024) }

    /// Appends what was read to what is left of earlier reads.
    mutating func takeBehindRest(_ bytes: inout ByteBuffer) {
        guard readableBytes > 0 else {
            swap(&self, &bytes)
            return
        }
        // What was taken out of a buffer stays in it: with a rest at each read it would grow for ever.
        discardReadBytes()
        writeBuffer(&bytes)
    }
}

/// Has the connections of one event loop read into one buffer, one after the other.
///
/// Only for channels with `maxMessagesPerRead` 1 whose reader calls ``SpareBuffers/finishReading(_:)`` before the next
/// channel reads. The library keeps the first buffer of a channel for itself, whatever it is: that one is small.
struct SharedReadAllocator: RecvByteBufferAllocator {
    private let buffers: NIOLoopBound<SpareBuffers>
    private var isFirst = true

    init(_ buffers: SpareBuffers, of loop: any EventLoop) {
        self.buffers = NIOLoopBound(buffers, eventLoop: loop)
    }

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        isFirst ? allocator.buffer(capacity: 2048) : buffers.value.takeForReading()
    }

    /// - Returns: Always that the next buffer has to be another one.
    mutating func record(actualReadBytes: Int) -> Bool {
        isFirst = false
        return true
    }
}

/// The allocator of a connection with TLS. It notes whether a read has filled its buffer: the reader gets decrypted bytes, and
/// cannot see it.
struct WatchedReadAllocator: RecvByteBufferAllocator {
    private var sizes = AdaptiveRecvByteBufferAllocator(minimum: 2048, initial: 4096, maximum: 262_144)
    private let wasFilled: NIOLoopBoundBox<Bool>

    /// - Parameter wasFilled: Whether the last read has filled its buffer.
    init(_ wasFilled: NIOLoopBoundBox<Bool>) { self.wasFilled = wasFilled }

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer { sizes.buffer(allocator: allocator) }
    func nextBufferSize() -> Int? { sizes.nextBufferSize() }

    mutating func record(actualReadBytes: Int) -> Bool {
        wasFilled.value = actualReadBytes >= sizes.nextBufferSize() ?? 0
        return sizes.record(actualReadBytes: actualReadBytes)
    }
}
