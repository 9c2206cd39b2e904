import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// What the client sends.
extension HTTP2ClientConnection {
    func receive(_ frame: HTTP2Frame) {
        switch frame.payload {
        case .headers(let headers): receive(headers.headers, isLast: headers.endStream, on: frame.streamID)
        case .data(let data): receive(data, on: frame.streamID)
        case .windowUpdate(let increment): windowGrew(by: increment, of: frame.streamID)
        case .settings(.settings(let settings)): receive(settings)
        case .ping(_, let isAnswer): if isAnswer { announced() }
        case .goAway: clientEnds()
        // The library answers, or tells of a stream that is closed.
        case .settings(.ack), .rstStream, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    // MARK: Streams

    private func receive(_ fields: HPACKHeaders, isLast: Bool, on id: HTTP2StreamID) {
        if let stream = streams[id] { return stream.receive(trailers: fields, isLast: isLast) }
        lastStream = max(lastStream, id)
        guard phase == .open || phase == .announcing else { return write(.rstStream(.refusedStream), on: id) }
        guard streams.count < maximumStreams else {
            write(.rstStream(.refusedStream), on: id)
            return countFault()
        }
        takeConfiguration()
        deadline.clear()
        let stream = HTTP2ClientStream(id, on: self)
        streams[id] = stream
        assert(streams.count <= maximumStreams, "The connection has more streams than it may.")
        stream.begin(fields, hasContent: !isLast)
    }

    private func receive(_ data: HTTP2Frame.FramePayload.Data, on id: HTTP2StreamID) {
        guard case .byteBuffer(let bytes) = data.data else { return }
        // Flow control counts the padding and the byte with its length (RFC 9113 section 6.1).
        let padding = data.paddingBytes.map { $0 + 1 } ?? 0
        _ = flow.receiving.receive(bytes.readableBytes + padding)
        flow.receiving.take(padding)
        guard let stream = streams[id] else { return flow.receiving.take(bytes.readableBytes) }
        stream.receive(bytes, padding: padding, isLast: data.endStream)
    }

    func streamClosed(_ id: HTTP2StreamID, isCut: Bool) {
        guard let stream = streams.removeValue(forKey: id) else { return }
        stream.closed(isCut: isCut)
        creditConnection()
        flush()
        if phase == .open, isOld { return drain() }
        guard streams.isEmpty else { return }
        switch phase {
        case .open: deadline.move(to: clock.now + timeouts.idle, for: self)
        case .draining: closeAfterWrites()
        case .opening, .announcing, .lingering, .closed: break
        }
    }

    // MARK: Windows

    private func receive(_ settings: HTTP2Settings) {
        if phase == .opening {
            phase = .open
            if streams.isEmpty { deadline.move(to: clock.now + timeouts.idle, for: self) }
        }
        if let setting = settings.last(where: { $0.parameter == .maxFrameSize }) { maximumFrame = setting.value }
        guard let setting = settings.last(where: { $0.parameter == .initialWindowSize }) else { return }
        let delta = setting.value - flow.initialSending
        flow.initialSending = setting.value
        for stream in Array(streams.values) { stream.windowGrew(by: delta) }
        flush()
    }

    private func windowGrew(by increment: Int, of id: HTTP2StreamID) {
        guard id == .rootStream else {
            streams[id]?.windowGrew(by: increment)
            return flush()
        }
        _ = flow.sending.grow(by: increment)
        sendWaiting()
    }

    /// The client has taken note of our settings.
    func windowsChanged(by delta: Int) {
        flow.initialReceiving += delta
        for stream in streams.values { stream.receiveWindowChanged(by: delta) }
    }

    /// Lets the client send more where enough of what it has sent is taken.
    func creditConnection() {
        guard phase != .lingering, phase != .closed, let increment = flow.receiving.credit() else { return }
        write(.windowUpdate(windowSizeIncrement: increment), on: .rootStream)
    }

    // MARK: Turns

    /// Whether a stream can send content now. Otherwise it waits for its turn.
    func maySend() -> Bool {
        flow.sending.available > 0 && flow.waiting.isEmpty && context?.channel.isWritable ?? false
    }

    func spend(_ count: Int) {
        flow.sending.spend(count)
        meter.sent(count)
        flow.unflushed += count
        if flow.unflushed >= HTTP2ConnectionFlow.maximumUnflushed { flushNow() }
    }

    /// Gives each stream that waits one frame after the other.
    func sendWaiting() {
        var waiting = flow.waiting[...]
        flow.waiting = []
        while let stream = waiting.first, maySend() {
            waiting.removeFirst()
            stream.takeTurn()
            waiting += flow.waiting
            flow.waiting = []
        }
        flow.waiting = Array(waiting) + flow.waiting
        flush()
    }
}
