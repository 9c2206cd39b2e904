/// Writes frames in memory that was reserved for them, field blocks included.
///
/// A connection writes all that one turn of its loop has for a peer behind each other, and sends it once. What does not fit is not
/// written, and ``isComplete`` says so.
///
/// Field blocks (RFC 7541) are stateless: a field is an entry of the static table or is spelled out, and no table is built. Nothing
/// has to be remembered for the connection, nothing of one client can be guessed from the length of what another is sent, and a block
/// can be thrown away before it was sent. Huffman's code is left out, too: it would cost more than the bytes that it saves.
@safe package struct HTTP2FrameWriter: ~Copyable {
    private let target: UnsafeMutableRawBufferPointer
    package private(set) var count = 0
    package private(set) var isComplete = true
    /// Where the header of the frame with the field block begins.
    private var blockStart = 0

    /// - Parameter target: Has room for all that is written: ``room(for:_:)`` for each field, ``roomForBlock`` for each block.
    package init(_ target: UnsafeMutableRawBufferPointer) { unsafe self.target = target }

    // MARK: Frames

    @inline(__always)
    package mutating func header(_ header: HTTP2FrameHeader) {
        guard reserve(HTTP2FrameHeader.size) else { return }
        put(header, at: count)
        count &+= HTTP2FrameHeader.size
    }

    package mutating func header(_ type: HTTP2FrameType, _ flags: HTTP2Flags, stream: UInt32, length: Int) {
        header(HTTP2FrameHeader(length: length, type: type.rawValue, flags: flags, stream: stream))
    }

    /// The content follows.
    @inline(__always)
    package mutating func dataHeader(stream: UInt32, length: Int, isLast: Bool) {
        header(.data, isLast ? .endStream : [], stream: stream, length: length)
    }

    /// A frame with content, at most as long as the peer takes.
    @inline(__always)
    package mutating func data(_ content: UnsafeRawBufferPointer, stream: UInt32, isLast: Bool) {
        guard reserve(HTTP2FrameHeader.size &+ content.count) else { return }
        dataHeader(stream: stream, length: content.count, isLast: isLast)
        unsafe write(content)
    }

    /// What a client begins with (RFC 9113 section 3.4).
    package mutating func preface() {
        HTTP2FrameReader.preface.withUTF8Buffer { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    package mutating func settings(_ settings: [(key: HTTP2SettingKey, value: Int)]) {
        header(.settings, [], stream: 0, length: settings.count * 6)
        for (key, value) in settings {
            write(UInt8(truncatingIfNeeded: key.rawValue >> 8))
            write(UInt8(truncatingIfNeeded: key.rawValue))
            write(UInt32(truncatingIfNeeded: value))
        }
    }

    package mutating func settingsAcknowledgement() { header(.settings, .acknowledgement, stream: 0, length: 0) }

    package mutating func ping(_ data: UInt64, isAnswer: Bool) {
        header(.ping, isAnswer ? .acknowledgement : [], stream: 0, length: 8)
        write(UInt32(truncatingIfNeeded: data >> 32))
        write(UInt32(truncatingIfNeeded: data))
    }

    package mutating func goAway(last: UInt32, _ code: HTTP2ErrorNumber) {
        header(.goAway, [], stream: 0, length: 8)
        write(last)
        write(code.rawValue)
    }

    package mutating func reset(stream: UInt32, _ code: HTTP2ErrorNumber) {
        header(.reset, [], stream: stream, length: 4)
        write(code.rawValue)
    }

    /// - Parameter stream: 0 for the connection.
    package mutating func windowUpdate(stream: UInt32, _ increment: Int) {
        header(.windowUpdate, [], stream: stream, length: 4)
        write(UInt32(truncatingIfNeeded: increment))
    }

    // MARK: Field blocks

    /// For the first frame of a block, and the size of the table.
    package static let roomForBlock = HTTP2FrameHeader.size + 1

    /// What a field needs at most; also for its share in the headers of CONTINUATION frames, of which there is one for 16 KiB.
    package static func room(for nameLength: Int, _ valueLength: Int) -> Int {
        let length = nameLength + valueLength + 2 + 2 * roomForLength
        return length + (length / HTTP2FrameHeader.defaultMaximum + 1) * HTTP2FrameHeader.size
    }

    /// - Parameter isFirst: Of our blocks on the connection: it tells the peer that we use no table (RFC 7541 section 4.2).
    package mutating func beginFields(stream: UInt32, isFirst: Bool) {
        blockStart = count
        header(.headers, [], stream: stream, length: 0)
        if isFirst { write(0x20 as UInt8) }
    }

    /// Completes the block: patches the length of its frame, and cuts it where it is longer than a frame.
    ///
    /// - Parameter maximumFrame: The payload that the peer takes.
    package mutating func endFields(isLast: Bool, maximumFrame: Int = HTTP2FrameHeader.defaultMaximum) {
        guard isComplete else { return }
        let stream = unsafe UnsafeRawBufferPointer(target).bigEndian(at: blockStart &+ 5)
        let end: HTTP2Flags = isLast ? .endStream : []
        var rest = count &- blockStart &- HTTP2FrameHeader.size
        let first = min(rest, maximumFrame)
        rest &-= first
        let flags: HTTP2Flags = rest == 0 ? .endHeaders : []
        put(.headers, first, end.union(flags), stream, at: blockStart)
        guard rest > 0 else { return }
        let frames = (rest &+ maximumFrame &- 1) / maximumFrame
        guard reserve(frames &* HTTP2FrameHeader.size) else { return }
        // From the last part on, so that each is moved once.
        var source = count
        count &+= frames &* HTTP2FrameHeader.size
        var place = count
        for index in stride(from: frames &- 1, through: 0, by: -1) {
            let length = index == frames &- 1 ? rest &- index &* maximumFrame : maximumFrame
            source &-= length
            place &-= length
            // Bounds: reserve.
            if let base = unsafe target.baseAddress {
                unsafe (base + place).copyMemory(from: base + source, byteCount: length)
            }
            place &-= HTTP2FrameHeader.size
            let flags: HTTP2Flags = index == frames &- 1 ? .endHeaders : []
            put(.continuation, length, flags, stream, at: place)
        }
    }

    /// `:status`.
    package mutating func status(_ status: Int) {
        switch status {
        case 200: write(0x88 as UInt8)
        case 204: write(0x89 as UInt8)
        case 206: write(0x8A as UInt8)
        case 304: write(0x8B as UInt8)
        case 400: write(0x8C as UInt8)
        case 404: write(0x8D as UInt8)
        case 500: write(0x8E as UInt8)
        default:
            guard reserve(5) else { return }
            write(0x08 as UInt8)
            write(3 as UInt8)
            for power in [100, 10, 1] { write(0x30 &+ UInt8(truncatingIfNeeded: status / power % 10)) }
        }
    }

    /// `:method`.
    package mutating func method(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        if bytes.equals(value, "GET") { return write(0x82 as UInt8) }
        if bytes.equals(value, "POST") { return write(0x83 as UInt8) }
        field(index: 2, bytes, value)
    }

    package mutating func method(_ value: StaticString) {
        write(0x02 as UInt8)
        string(value)
    }

    /// `:scheme`.
    package mutating func scheme(isTLS: Bool) { write(isTLS ? 0x87 as UInt8 : 0x86) }

    /// `:path`.
    ///
    /// - Parameter isSecret: The target holds a credential.
    package mutating func path(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>, isSecret: Bool) {
        if !isSecret, bytes.equals(value, "/") { return write(0x84 as UInt8) }
        field(index: 4, bytes, value, isSecret: isSecret)
    }

    /// `:path`, whose value follows in parts (``value(_:)``).
    ///
    /// - Parameter length: Of all parts.
    package mutating func path(length: Int, isSecret: Bool) {
        guard reserve(1 &+ Self.roomForLength) else { return }
        put((isSecret ? 0x10 : 0x00) | 4)
        integer(length)
    }

    /// `:authority`.
    package mutating func authority(_ bytes: borrowing Span<UInt8>, _ value: Range<Int>) {
        field(index: 1, bytes, value)
    }

    /// `:protocol` (RFC 8441).
    package mutating func protocolName(_ value: StaticString) {
        field(name: ":protocol", value)
    }

    /// A field of a head, with its name in lower case. The caller leaves those of the connection out.
    ///
    /// - Parameter isSecret: No table on its way may remember the value (RFC 7541 section 7.1.3). Credentials and cookies are always
    ///   secret, and so is what came as such.
    @inline(__always)
    package mutating func field(_ bytes: borrowing Span<UInt8>, _ field: HeadField, isSecret: Bool = false) {
        let isSecret = isSecret || field.isNeverIndexed || field.kind.isSecret
        self.field(bytes, name: field.name, value: field.value, isSecret: isSecret)
    }

    /// - Parameter name: Of a field; its letters may be large.
    @inline(__always)
    package mutating func field(
        _ bytes: borrowing Span<UInt8>,
        name: Range<Int>,
        value: Range<Int>,
        isSecret: Bool = false
    ) {
        let index = StaticFieldTable.index(bytes, name)
        if index != 0 { return field(index: index, bytes, value, isSecret: isSecret) }
        guard reserve(1 &+ Self.roomForLength &+ name.count &+ Self.roomForLength &+ value.count) else { return }
        write(isSecret ? 0x10 as UInt8 : 0x00)
        integer(name.count)
        lowercased(bytes, name)
        integer(value.count)
        copy(bytes, value)
    }

    /// A field of our own.
    ///
    /// - Parameter name: In lower case.
    package mutating func field(name: StaticString, _ value: StaticString) {
        write(0x00 as UInt8)
        string(name)
        string(value)
    }

    /// A field whose value follows in parts (``value(_:)``).
    ///
    /// - Parameters:
    ///   - name: Its letters may be large.
    ///   - valueLength: Of all parts.
    package mutating func field(
        _ bytes: borrowing Span<UInt8>,
        name: Range<Int>,
        valueLength: Int,
        isSecret: Bool = false
    ) {
        guard reserve(2 &+ Self.roomForLength &+ name.count &+ Self.roomForLength &+ valueLength) else { return }
        let index = StaticFieldTable.index(bytes, name)
        put(index: index, isSecret: isSecret)
        if index == 0 {
            integer(name.count)
            lowercased(bytes, name)
        }
        integer(valueLength)
    }

    package mutating func field(_ name: StaticString, valueLength: Int) {
        name.withUTF8Buffer { name in
            let name = unsafe Span(_unsafeElements: name)
            field(name, name: 0..<name.count, valueLength: valueLength)
        }
    }

    /// A part of the value of the field that was begun last.
    package mutating func value(_ part: borrowing Span<UInt8>) {
        unsafe part.withUnsafeBytes { unsafe write($0) }
    }

    package mutating func value(_ part: StaticString) {
        part.withUTF8Buffer { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    /// The text of a request's id, as the value of the field whose ``fieldWithoutValue(_:)`` was written last.
    package mutating func value(_ id: RequestID) {
        guard reserve(1 &+ RequestID.maximumLength) else { return }
        let start = count &+ 1
        let length = unsafe id.write(into: UnsafeMutableRawBufferPointer(rebasing: target[start...]))
        integer(length)
        assert(count == start, "The length of an id takes more than a byte.")
        count &+= length
    }

    /// What the fields are encoded as that `body` writes. It can be copied into each block.
    package static func encoded(room: Int, _ body: (inout HTTP2FrameWriter) -> Void) -> [UInt8] {
        unsafe [UInt8](unsafeUninitializedCapacity: room) { buffer, count in
            var writer = unsafe HTTP2FrameWriter(UnsafeMutableRawBufferPointer(buffer))
            body(&writer)
            assert(writer.isComplete, "The fields need more room.")
            count = writer.count
        }
    }

    /// The beginning of a field whose value differs: its name, without the length of the value.
    ///
    /// - Parameter name: Its letters may be large.
    package static func fieldWithoutValue(_ name: [UInt8]) -> [UInt8] {
        encoded(room: room(for: name.count, 0)) { $0.field(name.span, name: name.indices, valueLength: 0) }.dropLast()
    }

    /// Fields of our own.
    ///
    /// - Parameter name: Its letters may be large.
    package mutating func field(named name: String, _ value: String) {
        let (name, value) = (Array(name.utf8), Array(value.utf8))
        field(name.span, name: name.indices, valueLength: value.count)
        self.value(value.span)
    }

    package mutating func value(_ part: [UInt8]) { unsafe part.withUnsafeBytes { unsafe write($0) } }
    package mutating func value(_ bytes: borrowing Span<UInt8>, _ part: Range<Int>) { copy(bytes, part) }

    /// Sixteen lower-case hexadecimal digits.
    package mutating func value(digitsOf number: UInt64) {
        guard reserve(16) else { return }
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: number >> shift & 0xF)
            put(digit < 10 ? 0x30 + digit : 0x57 + digit)
        }
    }

    /// Lines of HTTP/1, up to an empty one or the end. They are valid; those of the connection are left out.
    ///
    /// - Parameters:
    ///   - isRequest: `Host` becomes `:authority`.
    ///   - isSecret: All of them are.
    ///   - secretNames: Names, in lower case, of those that are.
    package mutating func fields(
        _ bytes: borrowing Span<UInt8>,
        from start: Int = 0,
        isRequest: Bool = false,
        isSecret: Bool = false,
        secretNames: [[UInt8]] = []
    ) {
        var line = start
        while line < bytes.count, bytes[line] != 0x0D {
            var colon = line
            while colon < bytes.count, bytes[colon] != 0x3A { colon &+= 1 }
            var end = colon
            while end < bytes.count, bytes[end] != 0x0D { end &+= 1 }
            guard colon < end else { return }
            let (name, value) = (line..<colon, bytes.trimmed(colon &+ 1..<end))
            if isRequest, FieldKind.classify(bytes, name) == .host {
                authority(bytes, value)
            } else {
                self.line(bytes, name, value: value, isSecret: isSecret, secretNames)
            }
            line = end &+ 2
        }
    }

    private mutating func line(
        _ bytes: borrowing Span<UInt8>,
        _ name: Range<Int>,
        value: Range<Int>,
        isSecret: Bool,
        _ secretNames: [[UInt8]]
    ) {
        let kind = FieldKind.classify(bytes, name)
        guard !kind.isForbiddenInHTTP2 else { return }
        var isSecret = isSecret || kind.isSecret
        for secret in secretNames where bytes.equalsLowercased(name, secret) { isSecret = true }
        field(bytes, name: name, value: value, isSecret: isSecret)
    }

    @inline(__always)
    private mutating func field(
        index: UInt8,
        _ bytes: borrowing Span<UInt8>,
        _ value: Range<Int>,
        isSecret: Bool = false
    ) {
        guard reserve(2 &+ Self.roomForLength &+ value.count) else { return }
        put(index: index, isSecret: isSecret)
        integer(value.count)
        copy(bytes, value)
    }

    /// The name of a field, by its index in the static table; 0 where the name is spelled out behind it. There is room for it.
    @inline(__always)
    private mutating func put(index: UInt8, isSecret: Bool) {
        let pattern: UInt8 = isSecret ? 0x10 : 0x00
        guard index >= 0x0F else { return put(pattern | index) }
        put(pattern | 0x0F)
        put(index &- 0x0F)
    }

    private mutating func string(_ text: StaticString) {
        guard reserve(Self.roomForLength &+ text.utf8CodeUnitCount) else { return }
        integer(text.utf8CodeUnitCount)
        text.withUTF8Buffer { unsafe write(UnsafeRawBufferPointer($0)) }
    }

    /// What a length below 2^35 needs at most.
    private static let roomForLength = 6

    /// A length, with a prefix of 7 bits and without Huffman's code. There is room for it.
    @inline(__always)
    private mutating func integer(_ value: Int) {
        guard value >= 0x7F else { return put(UInt8(truncatingIfNeeded: value)) }
        put(0x7F)
        var rest = value &- 0x7F
        while rest >= 0x80 {
            put(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        put(UInt8(truncatingIfNeeded: rest))
    }

    // MARK: Bytes

    @inline(__always)
    private mutating func reserve(_ length: Int) -> Bool {
        guard unsafe target.count &- count >= length else {
            isComplete = false
            return false
        }
        return true
    }

    @inline(__always)
    private mutating func write(_ byte: UInt8) {
        guard reserve(1) else { return }
        put(byte)
    }

    private mutating func write(_ word: UInt32) {
        guard reserve(4) else { return }
        for shift in [24, 16, 8, 0] as [UInt32] { put(UInt8(truncatingIfNeeded: word >> shift)) }
    }

    /// Bounds: `reserve`, of all callers.
    @inline(__always)
    private mutating func put(_ byte: UInt8) {
        unsafe target[count] = byte
        count &+= 1
    }

    private func put(_ type: HTTP2FrameType, _ length: Int, _ flags: HTTP2Flags, _ stream: UInt32, at start: Int) {
        put(HTTP2FrameHeader(length: length, type: type.rawValue, flags: flags, stream: stream), at: start)
    }

    /// Bounds: `reserve`, of all callers.
    @inline(__always)
    private func put(_ header: HTTP2FrameHeader, at start: Int) {
        let first = UInt32(truncatingIfNeeded: header.length) << 8 | UInt32(header.type)
        unsafe target.storeBytes(of: first.bigEndian, toByteOffset: start, as: UInt32.self)
        unsafe target[start &+ 4] = header.flags.rawValue
        unsafe target.storeBytes(of: header.stream.bigEndian, toByteOffset: start &+ 5, as: UInt32.self)
    }

    @inline(__always)
    private mutating func write(_ bytes: UnsafeRawBufferPointer) {
        guard reserve(bytes.count) else { return }
        guard let from = bytes.baseAddress, let to = unsafe target.baseAddress else { return }
        unsafe (to + count).copyMemory(from: from, byteCount: bytes.count)
        count &+= bytes.count
    }

    @inline(__always)
    private mutating func copy(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
        unsafe bytes.extracting(range).withUnsafeBytes { unsafe write($0) }
    }

    @inline(__always)
    private mutating func lowercased(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
        for index in range { put(bytes[index].asciiLowercased) }
    }
}

extension FieldKind {
    /// Credentials and cookies: no table on their way may remember the value (RFC 7541 section 7.1.3).
    fileprivate var isSecret: Bool {
        switch self {
        case .authorization, .cookie, .proxyAuthorization, .setCookie: true
        default: false
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func bigEndian(at start: Int) -> UInt32 {
        unsafe loadUnaligned(fromByteOffset: start, as: UInt32.self).bigEndian
    }
}
