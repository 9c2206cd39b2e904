import NIOCore
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

/// The way from a handler to its socket.
///
/// A handler that is alone in its pipeline writes at its end directly. A complete message goes to the socket at once when no
/// earlier bytes wait. With TLS, operations go through the pipeline.
///
/// A class, because writing can lead back to the handler, and from there to here, before it returns.
final class SocketWriter {
    private var context: ChannelHandlerContext?
    /// nil where other handlers stand before it.
    private var end: ChannelEnd?
    /// The socket, for questions to the system about the connection. It is there even if other handlers stand before it.
    private var socket: ChannelSocket?
    /// The channel has been given bytes and may still hold some: whatever follows has to queue behind them.
    private var mayHoldBytes = false
    /// Since ``beginMessage()``. With TLS the answer is unknown, so it is true as soon as there is something to send.
    private var mayHaveSent = false
    /// What the system refused because the connection is gone, where that is all that was to be sent since ``beginMessage()``.
    private(set) var unsent: ByteBuffer?
    /// The handler has closed both ways.
    private(set) var isClosed = false

    /// Its handler is added. Before that, and after ``close()``, it leads nowhere.
    func open(_ context: ChannelHandlerContext, hasDirectSocket: Bool) {
        self.context = context
        socket = ChannelSocket(of: context.channel)
        if hasDirectSocket { end = ChannelEnd(of: context.channel) }
    }

    func close() {
        context = nil
        end = nil
        socket = nil
    }

    private func write(_ bytes: ByteBuffer) {
        mayHoldBytes = true
        if let end { end.write(bytes) } else { context?.write(NIOAny(bytes), promise: nil) }
    }

    private func flush() {
        if let end { end.flush() } else { context?.flush() }
    }

    func beginMessage() {
        mayHaveSent = false
        if unsent != nil { unsent = nil }
    }

    /// Writes and flushes.
    ///
    /// What the socket does not take at once, and every error, is the channel's: it waits, counts and closes.
    func send(_ bytes: ByteBuffer) {
        let sent = sendDirectly { descriptor in
            unsafe bytes.withUnsafeReadableBytes { bytes in
                unsafe Self.send(bytes, to: descriptor)
            }
        }
        guard sent < bytes.readableBytes else { return }
        if !mayHaveSent { keep(bytes) }
        queue(bytes, from: sent)
        flush()
    }

    /// Writes and flushes both, one behind the other.
    func send(_ first: ByteBuffer, _ second: ByteBuffer) {
        guard first.readableBytes > 0 else { return send(second) }
        let sent = sendDirectly { descriptor in
            unsafe first.withUnsafeReadableBytes { first in
                unsafe second.withUnsafeReadableBytes { second in
                    unsafe Self.send(first, second, to: descriptor)
                }
            }
        }
        guard sent < first.readableBytes + second.readableBytes else { return }
        if !mayHaveSent {
            keep(first)
            keep(second)
        }
        queue(first, from: min(sent, first.readableBytes))
        queue(second, from: max(0, sent - first.readableBytes))
        flush()
    }

    /// Writes and flushes all of them, one behind the other.
    func send(_ parts: [ByteBuffer]) {
        mayLeave()
        for part in parts { write(part) }
        flush()
    }

    private func keep(_ bytes: ByteBuffer) {
        if unsent == nil { unsent = ByteBuffer() }
        unsent?.writeImmutableBuffer(bytes)
    }

    private func queue(_ bytes: ByteBuffer, from start: Int) {
        var rest = bytes
        rest.moveReaderIndex(forwardBy: start)
        guard rest.readableBytes > 0 else { return }
        // A socket that takes no more may do so for long: a few bytes must not keep a large buffer all the while.
        let isWasteful = end != nil && socket != nil && rest.isWasteful
        write(isWasteful ? ByteBuffer(buffer: rest) : rest)
    }

    /// - Returns: How many bytes the socket took.
    private func sendDirectly(_ send: (NIOBSDSocket.Handle) -> Int) -> Int {
        guard let socket, end != nil, !isHoldingBytes() else {
            mayLeave()
            return 0
        }
        let sent = socket.with(send) ?? 0
        if sent != Self.isGone { mayLeave() }
        return max(0, sent)
    }

    private func mayLeave() {
        mayHaveSent = true
        // Without what follows it, it is of no use.
        if unsent != nil { unsent = nil }
    }

    /// The channel has bytes that the system has not taken yet.
    func isHoldingBytes() -> Bool {
        guard mayHoldBytes else { return false }
        mayHoldBytes = (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) != 0
        return mayHoldBytes
    }

    /// What the channel has and the system has not taken yet.
    var heldBytes: Int {
        mayHoldBytes ? (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0 : 0
    }

    /// Calls back when all that was written is with the system, or lost with the channel.
    ///
    /// The call comes on a later turn of the event loop. In this turn the channel still flushes. A close would then
    /// lose what it has to send itself, with TLS the close_notify.
    func afterWrites(_ done: @escaping () -> Void) {
        guard let context else { return }
        let loop = context.eventLoop.assumeIsolated()
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in loop.execute(done) }
        context.writeAndFlush(NIOAny(ByteBuffer()), promise: written)
    }

    /// What the other end has not taken yet: what the channel holds, and what the system has sent without being told that it came.
    ///
    /// Costs a system call; call only after a deadline.
    func untakenBytes() -> Int {
        let held = (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        return held + (socket?.with(Self.unacknowledged) ?? 0)
    }

    /// Bytes or the end of the stream wait to be read. A connection on which no request was sent is then of no
    /// further use.
    var hasInput: Bool { socket?.with(Self.hasInput) ?? true }

    func read() {
        if let end { end.read() } else { context?.read() }
    }

    /// Tells the other end that no more will come, with TLS by a close_notify.
    ///
    /// Where the close_notify cannot be written, the channel reads what is left and closes before this returns; the handler may
    /// close as well. NIOSSLHandler (2.37.6) then goes back to being half closed, with the timer of its shutdown running, and
    /// traps when the timer fires. One more close takes it to a state that the timer expects.
    func closeOutput() {
        guard let context else { return }
        context.close(mode: .output, promise: nil)
        if isClosed || !context.channel.isActive { context.close(promise: nil) }
    }

    /// Closes both ways, with TLS by a close_notify that waits for the one of the other end.
    func closeConnection() {
        isClosed = true
        context?.close(promise: nil)
    }

    /// Ends the connection so that the other end cannot take it for a normal end. Bytes that have not arrived are
    /// lost.
    func reset() {
        isClosed = true
        guard let channel = context?.channel else { return }
        guard let provider = channel as? any SocketOptionProvider else { return channel.close(promise: nil) }
        provider.setSoLinger(linger(l_onoff: 1, l_linger: 0)).assumeIsolated().whenComplete { _ in
            Self.closeAtOnce(channel)
        }
    }

    /// Closes without waiting for anything: with TLS, for the other end's close_notify, nor is one sent.
    func closeAtOnce() {
        isClosed = true
        if let channel = context?.channel { Self.closeAtOnce(channel) }
    }

    static func closeAtOnce(_ channel: any Channel) {
        // Past the TLS handler.
        let pipeline = channel.pipeline.syncOperations
        let tls =
            (try? pipeline.context(handlerType: NIOSSLServerHandler.self))
            ?? (try? pipeline.context(handlerType: NIOSSLClientHandler.self))
        if let tls { tls.close(promise: nil) } else { channel.close(promise: nil) }
    }

    /// Asks for the next bytes before the channel does, which would take the way through the pipeline.
    func readAhead() { end?.read() }
}

// MARK: System calls

/// The system calls.
extension SocketWriter {
    /// What the ways to send return instead of a count when the connection has ended: nothing will be sent.
    private static let isGone = -2

    #if canImport(Glibc)
        private static func send(_ bytes: UnsafeRawBufferPointer, to descriptor: NIOBSDSocket.Handle) -> Int {
            sent(unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL)))
        }

        private static func send(
            _ first: UnsafeRawBufferPointer,
            _ second: UnsafeRawBufferPointer,
            to descriptor: NIOBSDSocket.Handle
        ) -> Int {
            unsafe withUnsafeTemporaryAllocation(of: iovec.self, capacity: 2) { parts in
                unsafe parts[0] = Self.part(first)
                unsafe parts[1] = Self.part(second)
                var message = unsafe msghdr()
                unsafe message.msg_iov = parts.baseAddress
                unsafe message.msg_iovlen = 2
                return sent(unsafe sendmsg(descriptor, &message, Int32(MSG_NOSIGNAL)))
            }
        }

        private static func sent(_ count: Int) -> Int {
            count < 0 && (errno == EPIPE || errno == ECONNRESET) ? isGone : count
        }

        private static func part(_ bytes: UnsafeRawBufferPointer) -> iovec {
            unsafe iovec(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
        }

        private static func unacknowledged(_ descriptor: NIOBSDSocket.Handle) -> Int {
            var count: Int32 = 0
            return unsafe ioctl(descriptor, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
        }

        private static func hasInput(_ descriptor: NIOBSDSocket.Handle) -> Bool {
            var byte: UInt8 = 0
            let count = unsafe recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
            return count >= 0 || errno != EAGAIN
        }
    #else
        // Without MSG_NOSIGNAL a closed connection would end the process: the channel knows how to write there.
        private static func send(_: UnsafeRawBufferPointer, to _: NIOBSDSocket.Handle) -> Int { 0 }
        private static func send(_: UnsafeRawBufferPointer, _: UnsafeRawBufferPointer, to _: NIOBSDSocket.Handle) -> Int
        { 0 }
        private static func unacknowledged(_: NIOBSDSocket.Handle) -> Int { 0 }
        private static func hasInput(_: NIOBSDSocket.Handle) -> Bool { false }
    #endif
}
