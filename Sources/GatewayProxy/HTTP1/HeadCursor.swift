import GatewayHTTP
import NIOCore

/// Puts a head together, run by run, in memory that was reserved for all of it.
///
/// A `ByteBuffer` asks before every write whether it is the only owner and whether there is room; heads are many short
/// writes. What does not fit is not written, and ``isComplete`` says so.
@safe struct HeadCursor: ~Copyable {
    private let target: UnsafeMutableRawBufferPointer
    private let source: UnsafeRawBufferPointer
    private var count = 0
    private var isComplete = true

    private init(target: UnsafeMutableRawBufferPointer, source: UnsafeRawBufferPointer) {
        unsafe self.target = target
        unsafe self.source = source
    }

    /// Copies a range of the head that is being rewritten.
    @inline(__always)
    mutating func copy(_ range: Range<Int>) {
        guard !range.isEmpty else { return }
        guard range.lowerBound >= 0, unsafe range.upperBound <= source.count else { return isComplete = false }
        unsafe write(UnsafeRawBufferPointer(rebasing: source[range]))
    }

    @inline(__always)
    mutating func write(_ bytes: [UInt8]) {
        unsafe bytes.withUnsafeBytes { unsafe write($0) }
    }

    @inline(__always)
    mutating func write(_ text: StaticString) {
        text.withUTF8Buffer { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    mutating func write(text: String) {
        var text = text
        text.withUTF8 { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    mutating func write(_ id: RequestID) {
        let written = unsafe id.write(into: UnsafeMutableRawBufferPointer(rebasing: target[count...]))
        if written == 0 { isComplete = false }
        count &+= written
    }

    @inline(__always)
    mutating func write(_ byte: UInt8) {
        guard unsafe count < target.count else { return isComplete = false }
        unsafe target[count] = byte
        count &+= 1
    }

    /// Sixteen lower-case hexadecimal digits.
    mutating func write(digitsOf number: UInt64) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: number >> shift & 0xF)
            write(digit < 10 ? 0x30 + digit : 0x57 + digit)
        }
    }

    @inline(__always)
    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        guard unsafe bytes.count <= target.count &- count else { return isComplete = false }
        guard let from = bytes.baseAddress, let to = unsafe target.baseAddress else { return }
        unsafe (to + count).copyMemory(from: from, byteCount: bytes.count)
        count &+= bytes.count
    }

    /// Appends to `out` what `build` writes.
    ///
    /// - Parameters:
    ///   - source: The bytes of the head that is being rewritten; ranges count from its first readable one.
    ///   - capacity: At least as much as `build` can write.
    /// - Returns: Whether there was room for everything; nothing was appended otherwise.
    @inline(__always)
    static func append(
        to out: inout ByteBuffer,
        from source: ByteBuffer,
        capacity: Int,
        _ build: (inout HeadCursor) -> Void
    ) -> Bool {
        var isComplete = false
        unsafe out.appendDirectly(upTo: capacity) { target in
            unsafe source.withUnsafeReadableBytes { source in
                var cursor = unsafe HeadCursor(target: target, source: source)
                build(&cursor)
                isComplete = cursor.isComplete
                return isComplete ? cursor.count : 0
            }
        }
        return isComplete
    }
}

extension ByteBuffer {
    /// Appends what `body` writes into the memory behind the bytes that are there.
    ///
    /// As `writeWithUnsafeMutableBytes` does, which cuts that memory out of a slice by the ways of any collection: they cost more
    /// than most of what is written here.
    ///
    /// - Parameters:
    ///   - capacity: At least so much room there is.
    ///   - body: Returns how many bytes it has written.
    @inline(__always)
    mutating func appendDirectly(upTo capacity: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int) {
        // First: it may move the bytes, and the writer index with them.
        reserveCapacity(minimumWritableBytes: capacity)
        let start = writerIndex
        let count = unsafe withVeryUnsafeMutableBytes { storage in
            guard let base = storage.baseAddress, start < storage.count else { return 0 }
            return unsafe body(UnsafeMutableRawBufferPointer(start: base + start, count: storage.count - start))
        }
        moveWriterIndex(forwardBy: count)
    }
}
