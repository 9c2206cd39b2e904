import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// Never more content than the upstream allows, and never more from it than clients take.
extension HTTP2UpstreamConnection {
    // MARK: Sending

    /// Maximum content that a stream sends before the next one that waits.
    private static let maximumTurn = 65_536

    /// Sends what the stream has, as far as there is room for it.
    func send(_ stream: HTTP2UpstreamStream) {
        if let head = stream.outgoing.head.take() {
            // The connection was lost, or retired, between the lease and this moment.
            guard isOpen else { return stream.lose(isRefused: true) }
            begin(stream, head)
        }
        guard phase == .open else { return }
        sendContent(of: stream)
        flush()
    }

    private func begin(_ stream: HTTP2UpstreamStream, _ head: HPACKHeaders) {
        let id = nextID
        nextID = id.advanced(by: 2)
        assert(streams[id] == nil && stream.id == nil, "A stream begins twice.")
        stream.id = id
        stream.sendWindow = SendWindow(peerStreamWindow)
        streams[id] = stream
        meter.sentRequest()
        write(id, .headers(.init(headers: head, endStream: stream.outgoing.endsHere())))
    }

    func sendContent(of stream: HTTP2UpstreamStream, maximum: Int = .max) {
        guard let id = stream.id, !stream.isClosed, !stream.outgoing.isEnded else { return }
        var turn = maximum
        while stream.outgoing.count > 0 {
            guard stream.sendWindow.available > 0 else { return stream.contentMoved() }
            guard isWritable, sendWindow.available > 0, turn > 0 else { return wait(stream) }
            let room = min(sendWindow.available, stream.sendWindow.available, maximumFrame, turn)
            guard let bytes = stream.outgoing.take(room) else { break }
            turn -= bytes.readableBytes
            sendWindow.spend(bytes.readableBytes)
            stream.sendWindow.spend(bytes.readableBytes)
            meter.sent(bytes.readableBytes)
            write(id, .data(.init(data: .byteBuffer(bytes), endStream: stream.outgoing.endsHere())))
        }
        switch stream.outgoing.takeEnd() {
        case .content: write(id, .data(.init(data: .byteBuffer(ByteBuffer()), endStream: true)))
        case .trailers(let fields): write(id, .headers(.init(headers: fields, endStream: true)))
        case nil: break
        }
        stream.contentMoved()
    }

    private func wait(_ stream: HTTP2UpstreamStream) {
        stream.contentMoved()
        guard !stream.waitsForRoom else { return }
        stream.waitsForRoom = true
        waiting.append(stream)
    }

    /// There is room on the connection: each stream that waits has its turn.
    func serveWaiting() {
        guard phase == .open, !waiting.isEmpty else { return }
        while isWritable, sendWindow.available > 0, !waiting.isEmpty {
            let stream = waiting.removeFirst()
            assert(stream.waitsForRoom, "A stream that is not waiting got a turn.")
            stream.waitsForRoom = false
            sendContent(of: stream, maximum: Self.maximumTurn)
        }
        flush()
    }

    /// The upstream takes more. The library refuses an increment that is too large.
    func grow(_ id: HTTP2StreamID, by increment: Int) {
        guard id != .rootStream else {
            _ = sendWindow.grow(by: increment)
            return serveWaiting()
        }
        guard let stream = streams[id] else { return }
        _ = stream.sendWindow.grow(by: increment)
        sendContent(of: stream)
        flush()
    }

    // MARK: Receiving

    /// The client has taken this many bytes of the stream: the upstream may send as many again.
    func credit(_ size: Int, of stream: HTTP2UpstreamStream) {
        guard stream.phase != .over else { return }
        stream.receiveWindow.take(size)
        if !stream.hasArrived, !stream.isClosed, let id = stream.id, let increment = stream.receiveWindow.credit() {
            write(id, .windowUpdate(windowSizeIncrement: increment))
            flush()
        }
        credit(size)
    }

    /// Lets the upstream send as many bytes again on the connection.
    func credit(_ size: Int) {
        receiveWindow.take(size)
        guard phase == .open, let increment = receiveWindow.credit() else { return }
        write(.rootStream, .windowUpdate(windowSizeIncrement: increment))
        flush()
    }
}
