import GatewayHTTP
import NIOCore

/// What one HTTP/2 connection has for its peer, in the order in which it leaves.
///
/// Frames are written in place into one buffer, and sent once for each turn of the event loop. The connection writes, and calls
/// ``flushLater(_:)``; at the end of the turn its ``Flushable/flushNow()`` calls ``flushNow()``.
///
/// What was written and not flushed can still be taken back (``withdraw(_:)``).
///
/// A class: sending can find out that the connection is lost, which its owner deals with before the call returns.
final class HTTP2Output {
    /// What became of the head of a stream that must not leave any more.
    enum Withdrawal: Hashable {
        /// Nothing of the stream leaves: for the peer it was never opened, so it must not be reset either. DATA with so many bytes was
        /// thrown away, which the windows get back.
        case cut(content: Int)
        /// It is with the system. The stream can be reset.
        case left
        /// The channel holds it, or a part of it: the connection has to be closed without sending more (``SocketWriter/reset()``).
        case stuck
    }

    private let writer: SocketWriter
    private let buffers: SpareBuffers
    private let flushes: FlushQueue
    /// Leave before ``staged``: long content is sent from where it was read into.
    private var parts: [ByteBuffer] = []
    private var partBytes = 0
    private var staged: ByteBuffer
    /// The connection is in the worker's queue of those that flush.
    private var isFlushDue = false
    /// The peer may not know yet that our field blocks use no table. A block that tells it can be cut, so all blocks do until one of them
    /// was flushed.
    private var tellsTableSize = true
    /// A field block waits to be flushed.
    private var hasBlock = false
    /// The head or the frame of DATA that was written last, and where it stands in ``staged``, while it can still be changed.
    private var last: (stream: UInt32, place: Int)?
    /// Bytes that were flushed, ever.
    private var flushed = 0
    /// Streams whose secret heads wait here.
    private var secrets: [UInt32] = []
    /// Streams whose frames are left out of the next flush, up to this byte of what waits.
    private var withdrawn: [UInt32: Int] = [:]
    /// Streams whose secret heads were flushed, and may be held by the channel; up to which byte.
    private var heldSecrets: [(stream: UInt32, end: Int)] = []
    /// So many bytes are known to be with the system, of those that were written ever.
    private var left = 0

    /// From here on content is not copied: two more pieces for each frame then cost less.
    static let smallestSlice = 65_536
    /// How much is written before it is flushed within the turn.
    static let maximumUnflushed = 196_608
    /// Marks of the channel: it takes what is flushed at once, and a little more.
    static let waterMarks = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: maximumUnflushed + 65_536)
    /// No field block needs more: heads have limits.
    private static let maximumRoom = 33_554_432

    init(_ writer: SocketWriter, buffers: SpareBuffers, flushes: FlushQueue) {
        self.writer = writer
        self.buffers = buffers
        self.flushes = flushes
        staged = buffers.empty
    }

    /// Bytes that were written and not flushed.
    var unflushed: Int { partBytes &+ staged.readableBytes }

    /// Bytes that were written and that the system has not taken.
    var waiting: Int { unflushed &+ writer.heldBytes }

    /// Where the bytes end that were written so far (``hasLeft(_:)``).
    var position: Int { flushed &+ unflushed }

    // MARK: Writing

    /// Writes frames.
    ///
    /// - Parameters:
    ///   - room: What they usually need.
    ///   - body: Called again, with more room, if it did not fit.
    @inline(__always)
    func write(room: Int, _ body: (inout HTTP2FrameWriter) -> Void) {
        if staged.readableBytes == 0 { staged = buffers.takeForFrames() }
        var room = room
        while !write(within: room, body) {
            room &*= 4
            guard room <= Self.maximumRoom else { return assertionFailure("A field block has no bound.") }
        }
    }

    @inline(__always)
    private func write(within room: Int, _ body: (inout HTTP2FrameWriter) -> Void) -> Bool {
        var isComplete = false
        unsafe staged.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { target in
            var writer = unsafe HTTP2FrameWriter(target)
            body(&writer)
            isComplete = writer.isComplete
            return isComplete ? writer.count : 0
        }
        return isComplete
    }

    /// Writes a field block, with CONTINUATION frames where it is long.
    ///
    /// - Parameters:
    ///   - isSecret: It opens a stream and has a credential, which can be withdrawn.
    ///   - body: Writes the fields; called again, with more room, if they did not fit.
    @inline(__always)
    func writeFields(
        stream: UInt32,
        isLast: Bool,
        room: Int,
        isSecret: Bool = false,
        _ body: (inout HTTP2FrameWriter) -> Void
    ) {
        let tellsTableSize = tellsTableSize
        let place = staged.readableBytes
        write(room: room &+ HTTP2FrameWriter.roomForBlock) { frames in
            frames.beginFields(stream: stream, isFirst: tellsTableSize)
            body(&frames)
            frames.endFields(isLast: isLast)
        }
        hasBlock = true
        last = (stream, place)
        if isSecret { secrets.append(stream) }
    }

    /// Has the last frame of a stream end it, if nothing but frames of the connection was written since, and it has not left.
    ///
    /// - Returns: Whether it does. An empty frame of DATA has to otherwise.
    func endInPlace(_ stream: UInt32) -> Bool {
        guard let last, last.stream == stream else { return false }
        self.last = nil
        return unsafe staged.withUnsafeMutableReadableBytes { bytes in
            let flags = last.place &+ 4
            guard flags < bytes.count else { return false }
            unsafe bytes[flags] |= HTTP2Flags.endStream.rawValue
            return true
        }
    }

    /// Writes the first bytes of `content`, at most 16 KiB, as DATA: as more of the stream's last frame, if it is the last that was written
    /// and has room. The windows allow it. It does not flush; what follows may end the stream in place (``endInPlace(_:)``).
    func stageData(_ count: Int, of content: inout ByteBuffer, stream: UInt32) {
        let length = lengthOfLast(stream, for: count)
        unsafe content.withUnsafeReadableBytes { bytes in
            let part = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<count])
            if length > 0 {
                unsafe staged.writeBytes(part)
            } else {
                last = (stream, staged.readableBytes)
                write(room: HTTP2FrameHeader.size &+ count) { unsafe $0.data(part, stream: stream, isLast: false) }
            }
        }
        content.moveReaderIndex(forwardBy: count)
        guard length > 0, let last else { return }
        let (total, place) = (length &+ count, staged.readerIndex &+ last.place)
        staged.setInteger(UInt16(truncatingIfNeeded: total >> 8), at: place)
        staged.setInteger(UInt8(truncatingIfNeeded: total), at: place &+ 2)
    }

    /// The length of the frame that so many bytes can be added to; 0 where there is none.
    private func lengthOfLast(_ stream: UInt32, for count: Int) -> Int {
        guard let last, last.stream == stream else { return 0 }
        let place = staged.readerIndex &+ last.place
        // The length is below 2^16: frames of ours are no longer than 16 KiB.
        guard staged.getInteger(at: place &+ 3, as: UInt8.self) == HTTP2FrameType.data.rawValue,
            let length = staged.getInteger(at: place &+ 1, as: UInt16.self).map(Int.init),
            last.place &+ HTTP2FrameHeader.size &+ length == staged.readableBytes,
            length &+ count <= HTTP2FrameHeader.defaultMaximum
        else { return 0 }
        return length
    }

    /// Writes the first bytes of `content` as DATA. The windows allow it.
    ///
    /// It flushes when there is much, so the connection can be lost when this returns.
    func writeData(_ count: Int, of content: inout ByteBuffer, stream: UInt32, isLast: Bool) {
        if last?.stream == stream { last = nil }
        if count < Self.smallestSlice {
            copy(count, of: &content, stream, isLast)
        } else {
            slice(count, of: &content, stream, isLast)
        }
        if unflushed >= Self.maximumUnflushed { flushNow() }
    }

    private func copy(_ count: Int, of content: inout ByteBuffer, _ stream: UInt32, _ isLast: Bool) {
        var rest = count
        repeat {
            let length = min(rest, HTTP2FrameHeader.defaultMaximum)
            rest &-= length
            let isLast = isLast && rest == 0
            unsafe content.withUnsafeReadableBytes { bytes in
                let part = unsafe UnsafeRawBufferPointer(rebasing: bytes[..<length])
                write(room: HTTP2FrameHeader.size &+ length) { unsafe $0.data(part, stream: stream, isLast: isLast) }
            }
            content.moveReaderIndex(forwardBy: length)
        } while rest > 0
    }

    private func slice(_ count: Int, of content: inout ByteBuffer, _ stream: UInt32, _ isLast: Bool) {
        let maximum = HTTP2FrameHeader.defaultMaximum
        let frames = (count &+ maximum &- 1) / maximum
        seal()
        // All of them first: writing to a buffer after a part of it was passed on would copy it.
        write(room: frames &* HTTP2FrameHeader.size) { writer in
            for index in 0..<frames {
                let isLastFrame = index == frames &- 1
                let length = isLastFrame ? count &- index &* maximum : maximum
                writer.dataHeader(stream: stream, length: length, isLast: isLast && isLastFrame)
            }
        }
        var heads = staged
        staged = buffers.empty
        var rest = count
        while rest > 0, let head = heads.readSlice(length: HTTP2FrameHeader.size),
            let part = content.readSlice(length: min(rest, maximum))
        {
            rest &-= part.readableBytes
            add(head)
            add(part)
        }
        assert(rest == 0, "There is less content than frames for it.")
    }

    /// What is written from here on goes into another buffer.
    private func seal() {
        guard staged.readableBytes > 0 else { return }
        last = nil
        add(staged)
        staged = buffers.empty
    }

    private func add(_ part: ByteBuffer) {
        parts.append(part)
        partBytes &+= part.readableBytes
    }

    // MARK: Flushing

    /// Flushes when all that the event loop has read is dealt with.
    ///
    /// - Parameter connection: Owns this output. Its ``Flushable/flushNow()`` ends with ``flushNow()``.
    func flushLater(_ connection: any Flushable) {
        guard !isFlushDue else { return }
        isFlushDue = true
        flushes.add(connection)
    }

    /// The connection can be lost when this returns.
    func flushNow() {
        isFlushDue = false
        if !withdrawn.isEmpty { dropWithdrawn() }
        let count = unflushed
        guard count > 0 else { return }
        // Swapped, so that it belongs to nobody else when it is given back.
        var rest = buffers.empty
        swap(&rest, &staged)
        last = nil
        flushed &+= count
        if hasBlock { (tellsTableSize, hasBlock) = (false, false) }
        for stream in secrets { heldSecrets.append((stream, flushed)) }
        secrets.removeAll(keepingCapacity: true)
        if parts.isEmpty {
            writer.send(rest)
        } else {
            if rest.readableBytes > 0 { parts.append(rest) }
            let all = parts
            (parts, partBytes) = ([], 0)
            writer.send(all)
        }
        buffers.giveBackFrames(consume rest)
        forgetSentSecrets()
    }

    /// What was written and not flushed is lost.
    func drop() {
        (parts, partBytes) = ([], 0)
        staged = buffers.empty
        last = nil
        secrets = []
        withdrawn = [:]
    }

    // MARK: Withdrawal

    /// Whether the system has all that was written up to a ``position``.
    ///
    /// When a stream was cut out in between, it can say no for a little longer.
    func hasLeft(_ position: Int) -> Bool {
        if position <= left { return true }
        // With TLS the channel holds more than was written here, which errs on the safe side.
        let held = writer.heldBytes
        left = max(left, flushed &- held)
        return position <= left || held == 0 && unflushed == 0
    }

    /// Takes what waits here of a stream whose head has left, and which is about to be reset.
    ///
    /// - Parameter position: Where the last bytes of the stream end.
    /// - Returns: The bytes of content, which the window of the connection gets back.
    func withdrawRest(of stream: UInt32, upTo position: Int) -> Int { position > flushed ? cut(stream) : 0 }

    /// The credential in the head of a stream must not leave any more. What was written for the stream since goes with it.
    func withdraw(_ stream: UInt32) -> Withdrawal {
        if let index = secrets.firstIndex(of: stream) {
            secrets.remove(at: index)
            return .cut(content: cut(stream))
        }
        forgetSentSecrets()
        return heldSecrets.contains { $0.stream == stream } ? .stuck : .left
    }

    private func forgetSentSecrets() {
        guard !heldSecrets.isEmpty else { return }
        _ = hasLeft(flushed)
        heldSecrets.removeAll { $0.end <= left }
    }

    /// Has all frames of a stream taken out before the rest is flushed.
    ///
    /// Not at once: many streams can be withdrawn in one turn, and each would copy all that waits.
    ///
    /// - Returns: The bytes of content that they have.
    private func cut(_ stream: UInt32) -> Int {
        last = nil
        withdrawn[stream] = unflushed
        var (content, next) = (0, 0)
        for part in parts { content &+= Self.content(of: stream, in: part, from: &next) }
        return content &+ Self.content(of: stream, in: staged, from: &next)
    }

    /// - Parameter next: Where the next frame begins in these bytes, and then in those behind them.
    private static func content(of stream: UInt32, in bytes: ByteBuffer, from next: inout Int) -> Int {
        let span = bytes.readableBytesUInt8Span
        var content = 0
        while next < span.count {
            let header = HTTP2FrameHeader(span, at: next)
            if header.stream == stream, header.type == HTTP2FrameType.data.rawValue { content &+= header.length }
            next &+= HTTP2FrameHeader.size &+ header.length
        }
        next &-= span.count
        return content
    }

    /// Takes the frames of all streams that were withdrawn out.
    private func dropWithdrawn() {
        seal()
        var all = ByteBuffer()
        all.reserveCapacity(partBytes)
        for part in parts { all.writeImmutableBuffer(part) }
        (parts, partBytes) = ([], 0)
        staged = buffers.take()
        hasBlock = false
        while let header = Self.header(of: all) {
            let place = all.readerIndex
            guard let frame = all.readSlice(length: HTTP2FrameHeader.size + header.length) else { break }
            // What was written later may be the frame that resets the stream.
            if let end = withdrawn[header.stream], place < end { continue }
            if header.type == HTTP2FrameType.headers.rawValue { hasBlock = true }
            staged.writeImmutableBuffer(frame)
        }
        assert(all.readableBytes == 0, "A frame that waits is not whole.")
        withdrawn = [:]
    }

    private static func header(of bytes: ByteBuffer) -> HTTP2FrameHeader? {
        guard bytes.readableBytes >= HTTP2FrameHeader.size else { return nil }
        return HTTP2FrameHeader(bytes.readableBytesUInt8Span, at: 0)
    }
}

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
        let isWasteful = bytes.readableBytes > 0 && bytes.storageCapacity > 4 * bytes.readableBytes
        if isWasteful { bytes = ByteBuffer(buffer: bytes) }
    }

    mutating func drop(_ buffers: SpareBuffers) {
        position = bytes.readableBytes
        finish(buffers)
    }
}
