import NIOCore
import NIOHPACK

/// A client that speaks HTTP/2 frame by frame, so that a test says which ones are sent.
final class RawHTTP2Client {
    struct Frame {
        var kind: UInt8
        var flags: UInt8
        var stream: UInt32
        var payload: [UInt8]

        /// Of a RST_STREAM; of a GOAWAY it is the second number.
        func number(_ index: Int) -> UInt32 {
            payload[4 * index..<4 * index + 4].reduce(0) { $0 << 8 | UInt32($1) }
        }

        /// Of SETTINGS: SETTINGS_INITIAL_WINDOW_SIZE, where it is among them.
        var initialWindow: Int? {
            for start in stride(from: 0, to: payload.count, by: 6) where payload[start..<start + 2] == [0, 4] {
                return payload[start + 2..<start + 6].reduce(0) { $0 << 8 | Int($1) }
            }
            return nil
        }

        var endsStream: Bool { flags & 1 == 1 }
    }

    enum Kind {
        static let data: UInt8 = 0
        static let headers: UInt8 = 1
        static let reset: UInt8 = 3
        static let settings: UInt8 = 4
        static let ping: UInt8 = 6
        static let goAway: UInt8 = 7
        static let windowUpdate: UInt8 = 8
        static let continuation: UInt8 = 9
    }

    /// What has come of one response.
    struct Response {
        var status = ""
        var fields: [String: String] = [:]
        /// The names of fields that no table may keep (RFC 7541 section 7.1.3).
        var neverIndexed: Set<String> = []
        var body: [UInt8] = []
        var reset: UInt32?
        /// Frames with fields.
        fileprivate(set) var blockFrames = 0
        /// The frame that has ended it.
        fileprivate(set) var lastKind: UInt8 = 0
        fileprivate var block: [UInt8] = []
        fileprivate var endsWithBlock = false
        fileprivate(set) var hasEnded = false
        var text: String { String(decoding: body, as: UTF8.self) }
    }

    let connection: RawConnection
    private var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
    private var decoder = HPACKDecoder(
        allocator: ByteBufferAllocator(),
        maxDynamicTableSize: 4096,
        maxHeaderListSize: 1 << 20
    )
    private var nextStream: UInt32 = 1
    /// By stream, as far as they have come.
    private var responses: [UInt32: Response] = [:]

    /// - Parameters:
    ///   - settings: Payload of the client's SETTINGS.
    ///   - receiveBuffer: See ``RawConnection``.
    init(port: Int, settings: [UInt8] = [], receiveBuffer: Int32? = nil) throws {
        connection = try RawConnection(port: port, receiveBuffer: receiveBuffer)
        connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        send(Kind.settings, stream: 0, settings)
        send(Kind.settings, flags: 1, stream: 0)
    }

    func close() { connection.close() }

    /// See ``RawConnection``.
    func waitAtMost(milliseconds: Int) { connection.waitAtMost(milliseconds: milliseconds) }

    // MARK: Sending

    func send(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8] = []) {
        connection.send(Self.frame(kind, flags: flags, stream: stream, payload))
    }

    private static func frame(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8]) -> [UInt8] {
        let length = payload.count
        let head = [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), kind, flags]
        return head + bytes(stream) + payload
    }

    static func bytes(_ number: UInt32) -> [UInt8] {
        [UInt8(number >> 24), UInt8(number >> 16 & 0xFF), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)]
    }

    func block(_ fields: [(String, String)]) throws -> [UInt8] {
        var buffer = ByteBuffer()
        try encoder.encode(headers: HPACKHeaders(fields), to: &buffer)
        return Array(buffer.readableBytesView)
    }

    static func head(_ method: String = "GET", _ path: String = "/api/x", _ more: [(String, String)] = []) -> [(
        String, String
    )] {
        [(":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)] + more
    }

    /// - Returns: The number of its stream.
    @discardableResult
    func begin(_ fields: [(String, String)] = head(), isLast: Bool = true) throws -> UInt32 {
        let stream = nextStream
        nextStream += 2
        send(Kind.headers, flags: isLast ? 5 : 4, stream: stream, try block(fields))
        return stream
    }

    /// Begins a request and resets it in one write, so that both are read together.
    func beginAndReset(_ fields: [(String, String)] = head()) throws {
        let stream = nextStream
        nextStream += 2
        let request = Self.frame(Kind.headers, flags: 5, stream: stream, try block(fields))
        connection.send(request + Self.frame(Kind.reset, stream: stream, Self.bytes(8)))
    }

    /// The same as ``begin(_:isLast:)``, with its fields in frames of this length.
    @discardableResult
    func begin(_ fields: [(String, String)], cutAt length: Int, isLast: Bool = true) throws -> UInt32 {
        let stream = nextStream
        nextStream += 2
        let block = try block(fields)
        for start in stride(from: 0, to: block.count, by: length) {
            let end = min(start + length, block.count)
            let flags: UInt8 = (end == block.count ? 4 : 0) | (start == 0 && isLast ? 1 : 0)
            let kind = start == 0 ? Kind.headers : Kind.continuation
            send(kind, flags: flags, stream: stream, Array(block[start..<end]))
        }
        return stream
    }

    func content(_ bytes: [UInt8], isLast: Bool = false, stream: UInt32) {
        send(Kind.data, flags: isLast ? 1 : 0, stream: stream, bytes)
    }

    // MARK: Reading

    /// - Returns: nil when the connection has ended.
    func next() -> Frame? {
        guard let head = connection.readBytes(9) else { return nil }
        let length = head[0..<3].reduce(0) { $0 << 8 | Int($1) }
        guard let payload = length == 0 ? [] : connection.readBytes(length) else { return nil }
        let stream = head[5..<9].reduce(0) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
        return Frame(kind: head[3], flags: head[4], stream: stream, payload: payload)
    }

    func next(_ kind: UInt8, stream: UInt32 = 0) throws -> Frame {
        while let frame = next() {
            if frame.kind == kind, frame.stream == stream { return frame }
        }
        throw RawError("the connection has ended before frame \(kind)")
    }

    /// Reads until the stream has ended, or has brought `count` bytes of content. Keeps what comes of other streams for later calls.
    func response(_ stream: UInt32, until count: Int = .max) throws -> Response {
        while true {
            let response = responses[stream] ?? Response()
            if response.hasEnded || response.body.count >= count {
                responses[stream] = nil
                return response
            }
            guard let frame = next() else {
                guard count == .max else { throw RawError("the connection has ended within a response") }
                return response
            }
            try take(frame)
        }
    }

    private func take(_ frame: Frame) throws {
        guard frame.stream > 0, frame.kind != Kind.windowUpdate else { return }
        var response = responses[frame.stream] ?? Response()
        switch frame.kind {
        case Kind.headers, Kind.continuation:
            response.block += frame.payload
            response.blockFrames += 1
            if frame.kind == Kind.headers, frame.endsStream { response.endsWithBlock = true }
            guard frame.flags & 4 != 0 else { break }
            var block = ByteBuffer(bytes: response.block)
            response.block = []
            for (name, value, indexing) in try decoder.decodeHeaders(from: &block) {
                response.fields[name] = value
                if indexing == .neverIndexed { response.neverIndexed.insert(name) }
            }
            response.status = response.fields[":status"] ?? response.status
        case Kind.data: response.body += frame.payload
        case Kind.reset: response.reset = frame.number(0)
        default: break
        }
        response.lastKind = frame.kind
        response.hasEnded =
            switch frame.kind {
            case Kind.reset: true
            case Kind.headers, Kind.continuation: response.endsWithBlock && frame.flags & 4 != 0
            default: frame.endsStream
            }
        responses[frame.stream] = response
    }

    /// The code of the GOAWAY that ends the connection; nil where it ends without one.
    func end() -> UInt32? {
        var code: UInt32?
        while let frame = next() {
            if frame.kind == Kind.goAway { code = frame.number(1) }
        }
        return code
    }
}
