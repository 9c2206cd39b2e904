import NIOCore
import NIOHPACK

/// An upstream that speaks HTTP/2 frame by frame on one connection.
final class RawHTTP2Server {
    typealias Frame = RawHTTP2Client.Frame
    typealias Kind = RawHTTP2Client.Kind

    private let connection: RawConnection
    private var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
    private var decoder = HPACKDecoder(
        allocator: ByteBufferAllocator(),
        maxDynamicTableSize: 4096,
        maxHeaderListSize: 1 << 20
    )

    /// - Parameter settings: Payload of the server's SETTINGS.
    init(_ connection: RawConnection, settings: [UInt8] = []) throws {
        self.connection = connection
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        guard connection.readBytes(preface.count) == preface else { throw RawError("no preface") }
        send(Kind.settings, stream: 0, settings)
        send(Kind.settings, flags: 1, stream: 0)
    }

    // MARK: Sending

    func send(_ kind: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8] = []) {
        let length = payload.count
        let head = [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), kind, flags]
        connection.send(head + RawHTTP2Client.bytes(stream) + payload)
    }

    func head(_ fields: [(String, String)] = [(":status", "200")], isLast: Bool = false, stream: UInt32) throws {
        var buffer = ByteBuffer()
        try encoder.encode(headers: HPACKHeaders(fields), to: &buffer)
        send(Kind.headers, flags: isLast ? 5 : 4, stream: stream, Array(buffer.readableBytesView))
    }

    /// Sends 61 informational responses and a 200, all in one write: 1.7 MB, out of 6 KB.
    func expandingHints(stream: UInt32) {
        let stream = RawHTTP2Client.bytes(stream)
        // A value of 3900 bytes goes into the table, where the other heads have it from.
        let status: [UInt8] = [0x08, 3] + "103".utf8
        let entry: [UInt8] = [0x40, 3] + "x-a".utf8 + [0x7F, 0xBD, 0x1D] + [UInt8](repeating: 0x76, count: 3900)
        let length = status.count + entry.count
        var bytes = [0, UInt8(length >> 8), UInt8(length & 0xFF), Kind.headers, 4] + stream + status + entry
        for _ in 0..<60 {
            bytes += [0, 0, 12, Kind.headers, 4] + stream + status + [UInt8](repeating: 0xBE, count: 7)
        }
        connection.send(bytes + [0, 0, 1, Kind.headers, 5] + stream + [0x88])
    }

    func content(_ text: String, isLast: Bool = true, stream: UInt32) {
        send(Kind.data, flags: isLast ? 1 : 0, stream: stream, Array(text.utf8))
    }

    func answer(_ text: String, stream: UInt32) throws {
        try head([(":status", "200"), ("content-length", "\(text.utf8.count)")], stream: stream)
        content(text, stream: stream)
    }

    func reset(_ code: UInt32, stream: UInt32) { send(Kind.reset, stream: stream, RawHTTP2Client.bytes(code)) }

    func grow(_ stream: UInt32, by increment: UInt32) {
        send(Kind.windowUpdate, stream: stream, RawHTTP2Client.bytes(increment))
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

    func next(_ kind: UInt8) throws -> Frame {
        while let frame = next() {
            if frame.kind == kind { return frame }
        }
        throw RawError("the connection has ended before frame \(kind)")
    }

    /// All that comes until the connection ends or is silent.
    func rest() -> [Frame] {
        var frames: [Frame] = []
        while let frame = next() { frames.append(frame) }
        return frames
    }

    /// The next head of a request.
    func request() throws -> (stream: UInt32, fields: [(name: String, value: String)], isLast: Bool) {
        let frame = try next(Kind.headers)
        var block = ByteBuffer(bytes: frame.payload)
        let fields = try decoder.decodeHeaders(from: &block)
        return (frame.stream, fields.map { ($0.name, $0.value) }, frame.endsStream)
    }

    /// Content until the stream ends, or until there is so much.
    func content(of stream: UInt32, until count: Int = .max) throws -> String {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let frame = try next(Kind.data)
            guard frame.stream == stream else { continue }
            bytes += frame.payload
            if frame.endsStream { break }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
