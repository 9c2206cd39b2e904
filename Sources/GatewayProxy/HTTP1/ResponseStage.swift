import NIOCore

/// Joins small parts of responses, so that they leave in one write.
///
/// A class: sending can find out that the connection is lost, which its owner deals with before the call returns.
final class ResponseStage {
    private var staged: ByteBuffer
    private let buffers: SpareBuffers
    private let writer: SocketWriter

    /// Up to here copying behind what is staged is cheaper than writing from two places.
    private static let maximumJoined = 16_384
    /// Up to here what comes next is waited for until the read is dealt with.
    private static let maximumStaged = 1024

    init(_ writer: SocketWriter, buffers: SpareBuffers) {
        self.writer = writer
        self.buffers = buffers
        staged = buffers.empty
    }

    /// Bytes that ``flush()`` would send.
    var count: Int { staged.readableBytes }

    /// Has `body` append to what is staged.
    @discardableResult
    func append<Result>(_ body: (inout ByteBuffer) -> Result) -> Result {
        if staged.readableBytes == 0 { staged = buffers.take() }
        return body(&staged)
    }

    /// Takes the first bytes of `source`, unless they are so many that they are better sent from where they are.
    ///
    /// - Returns: Whether they were taken.
    func take(_ count: Int, of source: inout ByteBuffer) -> Bool {
        let maximum = staged.readableBytes == 0 ? Self.maximumStaged : Self.maximumJoined
        guard count <= maximum else { return false }
        append { staged in
            unsafe staged.appendDirectly(upTo: count) { target in
                unsafe source.withUnsafeReadableBytes { bytes in
                    guard let from = bytes.baseAddress, let to = target.baseAddress else { return 0 }
                    let count = min(count, bytes.count, target.count)
                    unsafe to.copyMemory(from: from, byteCount: count)
                    return count
                }
            }
        }
        source.moveReaderIndex(forwardBy: count)
        return true
    }

    /// Sends `bytes` behind what is staged.
    func send(_ bytes: ByteBuffer) {
        var rest = bytes
        guard !take(rest.readableBytes, of: &rest) else { return }
        let first = takeStaged()
        writer.send(first, bytes)
        if first.readableBytes > 0 { buffers.giveBack(first) }
    }

    func appendChunk(_ count: Int, of source: inout ByteBuffer) {
        append { staged in
            staged.writeString(String(count, radix: 16) + "\r\n")
            if var content = source.readSlice(length: count) { staged.writeBuffer(&content) }
            staged.writeString("\r\n")
        }
    }

    /// - Parameter trailers: With the empty line that ends them; nil where there are none.
    func appendLastChunk(_ trailers: ByteBuffer?) {
        append { staged in
            staged.writeString("0\r\n")
            if let trailers { staged.writeImmutableBuffer(trailers) } else { staged.writeString("\r\n") }
        }
    }

    func flush() {
        guard staged.readableBytes > 0 else { return }
        let out = takeStaged()
        writer.send(out)
        buffers.giveBack(out)
    }

    private func takeStaged() -> ByteBuffer {
        var out = buffers.empty
        swap(&out, &staged)
        return out
    }
}
