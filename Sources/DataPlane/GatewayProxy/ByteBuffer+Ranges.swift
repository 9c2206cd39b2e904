import NIOCore

extension ByteBuffer {
    /// Copies a range of another buffer's readable bytes, without a slice and its reference count.
    mutating func write(_ range: Range<Int>, of source: ByteBuffer) {
        let start = source.readerIndex + range.lowerBound
        let end = source.readerIndex + range.upperBound
        // Ranges come from heads that were decoded from these bytes; the check keeps a slip from reading past them.
        guard !range.isEmpty, start >= source.readerIndex, end <= source.writerIndex else { return }
        unsafe source.withVeryUnsafeBytes { pointer in
            _ = unsafe writeBytes(UnsafeRawBufferPointer(rebasing: pointer[start..<end]))
        }
    }
}
