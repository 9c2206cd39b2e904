import NIOCore

#if canImport(Glibc)
    import Glibc
#endif

/// The way from a handler to its socket.
///
/// A handler that is alone in its pipeline has nobody to pass an operation on to: it calls the channel's core, which is what
/// the head of the pipeline would do after some ten calls; and a message that is whole goes to the socket at once when
/// nothing is before it. With TLS in between, the pipeline is the way.
///
/// A class, because writing can lead back to the handler, and from there to here, before it returns.
final class Outlet {
    private var context: ChannelHandlerContext?
    private var core: (any ChannelCore)?
    private var socket: (any NIOTransportAccessibleChannelCore<NIOBSDSocket.Handle>)?
    /// The channel has been given bytes and may still hold some: whatever follows has to queue behind them.
    private var mayHoldBytes = false

    /// Its handler is added. Before that, and after ``close()``, it leads nowhere.
    func open(_ context: ChannelHandlerContext, isAlone: Bool) {
        self.context = context
        guard isAlone else { return }
        core = context.channel._channelCore
        socket = core as? any NIOTransportAccessibleChannelCore<NIOBSDSocket.Handle>
    }

    func close() {
        context = nil
        core = nil
        socket = nil
    }

    /// Leaves with the next flush.
    func write(_ bytes: ByteBuffer) {
        mayHoldBytes = true
        if let core { core.write0(NIOAny(bytes), promise: nil) } else { context?.write(NIOAny(bytes), promise: nil) }
    }

    func flush() {
        if let core { core.flush0() } else { context?.flush() }
    }

    /// Writes and flushes.
    ///
    /// What the socket does not take at once, and every error, is the channel's: it waits, counts and closes.
    func send(_ bytes: ByteBuffer) {
        let sent = sendDirectly(bytes)
        guard sent < bytes.readableBytes else { return }
        var rest = bytes
        rest.moveReaderIndex(forwardBy: sent)
        write(rest)
        flush()
    }

    /// - Returns: How many bytes the socket took.
    private func sendDirectly(_ bytes: ByteBuffer) -> Int {
        #if canImport(Glibc)
            guard let socket, !isHoldingBytes() else { return 0 }
            let sent = try? socket.withUnsafeTransport { descriptor in
                unsafe bytes.withUnsafeReadableBytes { bytes in
                    unsafe Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
                }
            }
            return max(0, sent ?? 0)
        #else
            return 0
        #endif
    }

    private func isHoldingBytes() -> Bool {
        guard mayHoldBytes else { return false }
        mayHoldBytes = (try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)) != 0
        return mayHoldBytes
    }

    func read() {
        if let core { core.read0() } else { context?.read() }
    }

    /// Asks for the next bytes before the channel does, which would take the way through the pipeline.
    func readAhead() { core?.read0() }
}
