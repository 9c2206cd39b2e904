import GatewayCore
import NIOCore
import NIOHTTP2

/// What the upstream says.
extension HTTP2UpstreamConnection {
    // MARK: Settings

    func receive(_ settings: HTTP2Settings) {
        var streamLimit: Int?
        for setting in settings {
            switch setting.parameter {
            case .maxConcurrentStreams: streamLimit = setting.value
            case .maxFrameSize: maximumFrame = setting.value
            case .enableConnectProtocol: takesWebSocket = setting.value == 1
            case .initialWindowSize: changeStreamWindow(to: setting.value)
            default: break
            }
        }
        guard phase == .opening else {
            if let streamLimit { pool.streamLimitChanged(id, to: streamLimit) }
            return
        }
        self.streamLimit = streamLimit ?? .max
        phase = .open
        pool.learned(takesWebSocket: takesWebSocket)
        timer.clear()
        settle(.success(self))
    }

    private func changeStreamWindow(to size: Int) {
        let delta = size - peerStreamWindow
        peerStreamWindow = size
        // The library refuses settings that are too large.
        for stream in streams.values { _ = stream.sendWindow.grow(by: delta) }
        guard delta > 0 else { return }
        for stream in Array(streams.values) { sendContent(of: stream) }
        flush()
    }

    // MARK: Streams

    func receive(_ data: HTTP2Frame.FramePayload.Data, on id: HTTP2StreamID) {
        guard let stream = streams[id], case .byteBuffer(let bytes) = data.data else { return }
        let size = bytes.readableBytes + (data.paddingBytes.map { $0 + 1 } ?? 0)
        _ = receiveWindow.receive(size)
        _ = stream.receiveWindow.receive(size)
        stream.receive(.content(bytes, size: size, isLast: data.endStream))
    }

    func receiveReset(_ code: HTTP2ErrorCode, on id: HTTP2StreamID) {
        guard let stream = streams[id] else { return }
        forget(stream, id)
        guard code != .noError || !stream.endsWithoutRest() else { return }
        guard code != .http11Required || stream.phase != .head else {
            return stream.wantsHTTP1()
        }
        stream.lose(isRefused: code == .refusedStream)
    }

    func receiveGoAway(_ last: HTTP2StreamID, _ code: HTTP2ErrorCode) {
        retire()
        for (id, stream) in streams where id > last {
            forget(stream, id)
            if code == .http11Required { stream.wantsHTTP1() } else { stream.lose(isRefused: true) }
        }
    }
}
