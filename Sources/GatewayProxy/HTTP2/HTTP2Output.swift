import GatewayHTTP
import NIOCore

/// What one HTTP/2 connection has for its peer, in the order in which it leaves.
///
/// Frames are written in place into one buffer, and sent once for each turn of the event loop. The connection writes, and calls
/// ``flushLater(_:)``; at the end of the turn its ``Flushable/flushNow()`` calls ``flushNow()``.
///
/// It is also the one that knows how far a stream has left. What was written and not flushed can be taken back
/// (``withdraw(_:_:)``, ``withdrawRest(of:_:)``). What was flushed may be held by the channel until the system takes it
/// (``taken()``), and can only be stopped by closing the connection without sending more (``SocketWriter/reset()``).
///
/// A class: a flush can find the connection closed, and its owner then calls ``drop()`` before the flush returns.
final class HTTP2Output {
    /// How far a stream was written: what its owner keeps, to withdraw it.
    struct Written: Hashable {
        /// The number of the flush that its head leaves with; 0 where it has none.
        fileprivate var flush = 0
        /// Where its last bytes end (``HTTP2Output/position``).
        var end = 0
    }

    /// Whether the peer knows that our field blocks use no table. A block that tells it can be cut, so all blocks do until one of them was
    /// flushed.
    private enum TableSize {
        case untold
        /// A block that tells it waits to be flushed.
        case waiting
        case told
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
    private var tableSize = TableSize.untold
    /// The head or the frame of DATA that was written last, and where it stands in ``staged``, while it can still be changed. Whoever
    /// replaces ``staged`` clears it.
    private var last: (stream: UInt32, place: Int)?
    /// The number of the flush that comes next.
    private var nextFlush = 1
    /// The position up to which everything was flushed.
    private var flushed = 0
    /// The position up to which the system is known to have everything.
    private var left = 0
    /// The last position of a flush that streams were taken out of. What was written behind them has left a little earlier than its
    /// position says, which errs on the safe side.
    private var lastCut = 0
    /// Streams whose frames are left out of the next flush, up to this byte of what waits.
    private var withdrawn: [UInt32: Int] = [:]

    /// From here on content is not copied: two more pieces for each frame then cost less.
    static let smallestSlice = 65_536
    /// How much is written before it is flushed within the turn.
    static let maximumUnflushed = 196_608
    /// Marks of the channel: it takes what is flushed at once, and a little more.
    static let waterMarks = ChannelOptions.Types.WriteBufferWaterMark(low: 65_536, high: maximumUnflushed + 65_536)

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

    /// Where the bytes end that were written so far, of all that were ever written (``hasLeft(_:)``).
    var position: Int { flushed &+ unflushed }

    /// What to keep of a stream whose head has just been written.
    var written: Written { Written(flush: nextFlush, end: position) }

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
        // Heads have limits, so this ends. A head that was left out would leave its stream open without the peer knowing of it.
        while !write(within: room, body) { room &*= 4 }
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

    func reset(_ stream: UInt32, _ code: HTTP2ErrorNumber) {
        write(room: HTTP2FrameHeader.size &+ 4) { $0.reset(stream: stream, code) }
    }

    /// - Parameter stream: 0 for the connection.
    func windowUpdate(_ stream: UInt32, _ increment: Int) {
        write(room: HTTP2FrameHeader.size &+ 4) { $0.windowUpdate(stream: stream, increment) }
    }

    func ping(_ data: UInt64, isAnswer: Bool) {
        write(room: HTTP2FrameHeader.size &+ 8) { $0.ping(data, isAnswer: isAnswer) }
    }

    func goAway(last: UInt32, _ code: HTTP2ErrorNumber) {
        write(room: HTTP2FrameHeader.size &+ 8) { $0.goAway(last: last, code) }
    }

    func acknowledgeSettings() { write(room: HTTP2FrameHeader.size) { $0.settingsAcknowledgement() } }

    /// An empty frame of DATA, where ``endInPlace(_:)`` cannot.
    func end(_ stream: UInt32) {
        write(room: HTTP2FrameHeader.size) { $0.dataHeader(stream: stream, length: 0, isLast: true) }
    }

    /// Writes a field block, with CONTINUATION frames where it is long.
    ///
    /// - Parameter body: Writes the fields; called again, with more room, if they did not fit.
    @inline(__always)
    func writeFields(
        stream: UInt32,
        isLast: Bool,
        room: Int,
        _ body: (inout HTTP2FrameWriter) -> Void
    ) {
        let tellsTableSize = tableSize != .told
        let place = staged.readableBytes
        write(room: room &+ HTTP2FrameWriter.roomForBlock) { frames in
            frames.beginFields(stream: stream, isFirst: tellsTableSize)
            body(&frames)
            frames.endFields(isLast: isLast)
        }
        if tableSize == .untold { tableSize = .waiting }
        last = (stream, place)
    }

    /// Ends a stream with a flag of the head or the DATA that was written last, if that is of this stream and was not flushed. Frames
    /// that are neither, such as resets and credit, may have been written since, whichever stream they are for.
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
        nextFlush &+= 1
        if tableSize == .waiting { tableSize = .told }
        if parts.isEmpty {
            writer.send(rest)
        } else {
            if rest.readableBytes > 0 { parts.append(rest) }
            let all = parts
            (parts, partBytes) = ([], 0)
            writer.send(all)
        }
        buffers.giveBackFrames(consume rest)
    }

    /// What was written and not flushed is lost.
    func drop() {
        flushed = position
        (parts, partBytes) = ([], 0)
        staged = buffers.empty
        last = nil
        withdrawn = [:]
    }

    // MARK: Withdrawal

    /// The position up to which the system has taken what was written. Asks the channel.
    func taken() -> Int {
        // With TLS the channel counts the encrypted bytes, which are more: that errs on the safe side.
        let held = writer.heldBytes
        // Nothing waits anywhere, so all that was ever written has left or was taken out.
        if held == 0, unflushed == 0, flushed < lastCut { flushed = lastCut }
        left = max(left, flushed &- held)
        return left
    }

    /// Whether the system has taken all that was written up to a ``position``. Asks the channel only if that is not known already.
    func hasLeft(_ position: Int) -> Bool { position <= left || position <= taken() }

    /// Whether the head of a stream waits for the next flush.
    func holdsHead(of written: Written) -> Bool { written.flush == nextFlush }

    /// Takes out all that was written for a stream, if its head was not flushed.
    ///
    /// - Returns: The bytes of content that were taken out, which the windows get back; nil if the head was flushed. After a withdrawal
    ///   the peer never hears of the stream, so it must not be reset.
    func withdraw(_ stream: UInt32, _ written: Written) -> Int? {
        guard holdsHead(of: written), withdrawn[stream] == nil else { return nil }
        return cut(stream)
    }

    /// Takes out what was not flushed of a stream whose head was. The stream is reset next.
    ///
    /// - Returns: The bytes of content that were taken out, which the window of the connection gets back.
    func withdrawRest(of stream: UInt32, _ written: inout Written) -> Int {
        guard written.end > flushed else { return 0 }
        written.end = flushed
        return cut(stream)
    }

    /// Has all frames of a stream taken out before the rest is flushed.
    ///
    /// Not at once: many streams can be withdrawn in one turn, and each would copy all that waits. Nothing is sent before they are out:
    /// ``flushNow()`` begins with ``dropWithdrawn()``.
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
        lastCut = max(lastCut, position)
        var all = ByteBuffer()
        all.reserveCapacity(unflushed)
        for part in parts { all.writeImmutableBuffer(part) }
        all.writeImmutableBuffer(staged)
        (parts, partBytes) = ([], 0)
        last = nil
        if tableSize == .waiting { tableSize = .untold }
        // Swapped, so that it belongs to nobody else when it is cleared.
        var kept = buffers.empty
        swap(&kept, &staged)
        if kept.readableBytes == 0 { kept = buffers.takeForFrames() }
        kept.clear()
        while let header = Self.header(of: all) {
            let place = all.readerIndex
            guard let frame = all.readSlice(length: HTTP2FrameHeader.size + header.length) else { break }
            // What was written later may be the frame that resets the stream.
            if let end = withdrawn[header.stream], place < end { continue }
            if header.type == HTTP2FrameType.headers.rawValue, tableSize == .untold { tableSize = .waiting }
            kept.writeImmutableBuffer(frame)
        }
        assert(all.readableBytes == 0, "A frame that waits is not whole.")
        withdrawn = [:]
        if kept.readableBytes > 0 { staged = kept } else { buffers.giveBackFrames(consume kept) }
    }

    private static func header(of bytes: ByteBuffer) -> HTTP2FrameHeader? {
        guard bytes.readableBytes >= HTTP2FrameHeader.size else { return nil }
        return HTTP2FrameHeader(bytes.readableBytesUInt8Span, at: 0)
    }
}

/// What streams were sent with that are over, until the system has taken the last of their bytes. Positions are those of the output.
///
/// All of it is forgotten once the system has taken everything. Before that, it is looked through only when it has doubled: an upstream
/// that reads slowly must not make each flush look at what all requests have left.
struct HTTP2Remains<Right> {
    private struct Entry {
        /// Where the last bytes of the stream end.
        let end: Int
        let right: Right
    }

    private var entries: [Entry] = []
    /// Where the last bytes of all of them end.
    private var end = 0
    /// How many there are when they are looked through.
    private var limit = Self.smallestLimit

    private static var smallestLimit: Int { 64 }

    var isEmpty: Bool { entries.isEmpty }
    /// For tests.
    var count: Int { entries.count }

    mutating func add(_ right: Right, upTo end: Int) {
        entries.append(Entry(end: end, right: right))
        self.end = max(self.end, end)
    }

    /// - Parameter taken: The system has everything up to here.
    mutating func forget(upTo taken: Int) {
        guard taken < end else { return self = Self() }
        guard entries.count >= limit else { return }
        entries.removeAll { $0.end <= taken }
        limit = max(Self.smallestLimit, 2 * entries.count)
    }

    /// - Parameter taken: The system has everything up to here.
    func contains(beyond taken: Int, _ isOver: (Right) -> Bool) -> Bool {
        entries.contains { $0.end > taken && isOver($0.right) }
    }
}
