/// Cuts what a peer sends into frames, and checks what can be judged without knowing the streams: length, flags, stream ID and order of
/// frames (RFC 9113 sections 4 and 6). ``HTTP2StreamTable`` judges what a frame means for its stream.
///
/// A field block in several frames is put together here, up to a limit.
package struct HTTP2FrameReader: Sendable {
    package enum Frame: Hashable, Sendable {
        /// The content without its padding; `padding` has the byte with its length.
        case data(stream: UInt32, content: Range<Int>, padding: Int, isLast: Bool)
        /// A whole field block: a range of the bytes that were read, or nil if ``HTTP2FrameReader/takeBlock()`` has it.
        case fields(stream: UInt32, block: Range<Int>?, isLast: Bool)
        case reset(stream: UInt32, HTTP2ErrorNumber)
        /// A whole number of settings.
        case settings(Range<Int>)
        case settingsAcknowledgement
        case ping(UInt64)
        case pingAnswer(UInt64)
        /// - `last`: The last stream that the peer has dealt with, or will.
        case goAway(last: UInt32, HTTP2ErrorNumber)
        /// `stream` is 0 for the connection.
        case windowUpdate(stream: UInt32, increment: Int)
        /// PRIORITY, a part of a field block, or a frame that we do not know.
        case ignored
        /// The rest of the connection can go on.
        case streamFault(stream: UInt32, HTTP2Fault)
    }

    package enum Result: Hashable, Sendable {
        case needMore
        /// `type` as it came, and where the next frame begins.
        case frame(Frame, type: UInt8, next: Int)
    }

    /// What has to come next.
    private enum Awaited: Sendable {
        /// The preface of a client, and its SETTINGS.
        case preface
        case settings
        case frame
        /// More of a field block, of which `count` CONTINUATION frames have come.
        case block(stream: UInt32, isLast: Bool, count: Int)
        /// `rest` more bytes of a frame of DATA whose beginning was taken (``nextPart(_:from:)``).
        case data(rest: Int, stream: UInt32, isLast: Bool)
    }

    package static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    /// A field block that does not come in one frame.
    private var block: [UInt8] = []
    private var awaited: Awaited
    /// What the last GOAWAY says in words, up to ``maximumFarewell`` bytes.
    package private(set) var farewell: [UInt8] = []
    private static let maximumFarewell = 128
    private let maximumBlock: Int
    private let maximumContinuations: Int

    /// - Parameters:
    ///   - ofClient: The peer is a client, and begins with the preface (RFC 9113 section 3.4).
    ///   - maximumList: Bytes of fields that the peer is told to send at most. A block may have twice as many: one that is too long for a
    ///     head, but not absurdly so, is decoded and answered.
    package init(ofClient: Bool, maximumList: Int) {
        awaited = ofClient ? .preface : .settings
        maximumBlock = 2 * maximumList + HTTP2FrameHeader.defaultMaximum
        maximumContinuations = max(5, maximumBlock / HTTP2FrameHeader.defaultMaximum + 1)
    }

    /// A field block is unfinished, and only the rest of it may follow.
    package var isWithinBlock: Bool { if case .block = awaited { true } else { false } }
    /// The memory that the unfinished field block takes.
    package var blockMemory: Int { block.capacity }

    /// Reads the next frame.
    ///
    /// - Parameter start: Where the last one ended. If more is needed, pass the bytes from there on again, followed by more.
    package mutating func next(_ bytes: borrowing Span<UInt8>, from start: Int) throws(HTTP2Fault) -> Result {
        var start = start
        switch awaited {
        case .data(let rest, let stream, let isLast):
            guard start &+ rest <= bytes.count else { return .needMore }
            awaited = .frame
            return Self.data(stream, start..<start &+ rest, isLast: isLast)
        case .preface:
            guard try readPreface(bytes, from: start) else { return .needMore }
            start &+= Self.preface.utf8CodeUnitCount
        case .settings, .frame, .block: break
        }
        guard start &+ HTTP2FrameHeader.size <= bytes.count else { return .needMore }
        let header = HTTP2FrameHeader(bytes, at: start)
        // Before the payload is awaited.
        guard header.length <= HTTP2FrameHeader.defaultMaximum else {
            throw .longFrame
        }
        switch awaited {
        case .preface, .settings:
            guard header.type == HTTP2FrameType.settings.rawValue, !header.flags.contains(.acknowledgement) else {
                throw .missingSettings
            }
        case .block(let stream, _, _):
            guard header.type == HTTP2FrameType.continuation.rawValue, header.stream == stream else {
                throw .interruptedBlock
            }
        case .frame, .data: break
        }
        let payload = start &+ HTTP2FrameHeader.size..<start &+ HTTP2FrameHeader.size &+ header.length
        guard payload.upperBound <= bytes.count else { return .needMore }
        switch awaited {
        case .preface, .settings: awaited = .frame
        case .frame, .block, .data: break
        }
        return .frame(try read(bytes, header, payload), type: header.type, next: payload.upperBound)
    }

    /// With fewer bytes than this, it is better to wait for the rest.
    package static let smallestPart = 512

    /// Takes what has come of a frame of DATA that is not whole. Otherwise it would have to be kept, and be copied with what follows.
    ///
    /// - Parameter start: Where ``next(_:from:)`` needs more.
    /// - Returns: `needMore` for other frames, for one with padding, and where little has come.
    package mutating func nextPart(_ bytes: borrowing Span<UInt8>, from start: Int) -> Result {
        guard bytes.count &- start >= HTTP2FrameHeader.size &+ Self.smallestPart else { return .needMore }
        if case .data(let rest, let stream, let isLast) = awaited {
            return takePart(start..<bytes.count, of: rest, stream, isLast: isLast)
        }
        guard case .frame = awaited else { return .needMore }
        let header = HTTP2FrameHeader(bytes, at: start)
        guard header.type == HTTP2FrameType.data.rawValue, !header.flags.contains(.padded), header.stream != 0,
            header.length <= HTTP2FrameHeader.defaultMaximum,
            bytes.count &- start < HTTP2FrameHeader.size &+ header.length
        else { return .needMore }
        let isLast = header.flags.contains(.endStream)
        return takePart(start &+ HTTP2FrameHeader.size..<bytes.count, of: header.length, header.stream, isLast: isLast)
    }

    /// - Parameter rest: What the frame still has; `isLast` holds for the last part of it.
    private mutating func takePart(_ content: Range<Int>, of rest: Int, _ stream: UInt32, isLast: Bool) -> Result {
        assert(content.count < rest, "A part is a whole frame.")
        awaited = .data(rest: rest &- content.count, stream: stream, isLast: isLast)
        return Self.data(stream, content, isLast: false)
    }

    private static func data(_ stream: UInt32, _ content: Range<Int>, isLast: Bool) -> Result {
        let frame = Frame.data(stream: stream, content: content, padding: 0, isLast: isLast)
        return .frame(frame, type: HTTP2FrameType.data.rawValue, next: content.upperBound)
    }

    private func readPreface(_ bytes: borrowing Span<UInt8>, from start: Int) throws(HTTP2Fault) -> Bool {
        let length = Self.preface.utf8CodeUnitCount
        let come = min(length, bytes.count &- start)
        guard Self.hasPreface(bytes, from: start, count: come) else { throw .missingPreface }
        return come == length
    }

    /// Whether the bytes begin with the first line of the preface, which HTTP/1 takes for a request of an unknown version.
    package static func beginsPreface(_ bytes: borrowing Span<UInt8>) -> Bool {
        bytes.count >= lengthOfFirstLine && hasPreface(bytes, from: 0, count: lengthOfFirstLine)
    }

    private static let lengthOfFirstLine = 16

    private static func hasPreface(_ bytes: borrowing Span<UInt8>, from start: Int, count: Int) -> Bool {
        preface.withUTF8Buffer { preface in
            for index in 0..<count where unsafe bytes[start &+ index] != preface[index] { return false }
            return true
        }
    }

    @inline(__always)
    private mutating func read(
        _ bytes: borrowing Span<UInt8>,
        _ header: HTTP2FrameHeader,
        _ payload: Range<Int>
    ) throws(HTTP2Fault) -> Frame {
        switch HTTP2FrameType(rawValue: header.type) {
        case .data:
            try Self.requireStream(header)
            let content = try Self.withoutPadding(bytes, header, payload)
            return .data(
                stream: header.stream,
                content: content,
                padding: payload.count &- content.count,
                isLast: header.flags.contains(.endStream)
            )
        case .headers: return try readHeaders(bytes, header, payload)
        case .continuation: return try readContinuation(bytes, header, payload)
        case .priority:
            try Self.requireStream(header)
            guard payload.count == 5 else {
                return .streamFault(stream: header.stream, .prioritySize)
            }
            return .ignored
        case .reset:
            try Self.requireStream(header)
            try Self.require(payload.count == 4, .resetSize)
            return .reset(
                stream: header.stream,
                HTTP2ErrorNumber(rawValue: bytes.bigEndian(at: payload.lowerBound))
            )
        case .settings: return try Self.readSettings(header, payload)
        case .pushPromise: throw .pushPromise
        case .ping:
            try Self.requireConnection(header)
            try Self.require(payload.count == 8, .pingSize)
            let high = UInt64(bytes.bigEndian(at: payload.lowerBound))
            let data = high << 32 | UInt64(bytes.bigEndian(at: payload.lowerBound &+ 4))
            return header.flags.contains(.acknowledgement) ? .pingAnswer(data) : .ping(data)
        case .goAway:
            try Self.requireConnection(header)
            try Self.require(payload.count >= 8, .goAwaySize)
            farewell = []
            for index in payload.dropFirst(8).prefix(Self.maximumFarewell) { farewell.append(bytes[index]) }
            return .goAway(
                last: bytes.bigEndian(at: payload.lowerBound) & 0x7FFF_FFFF,
                HTTP2ErrorNumber(rawValue: bytes.bigEndian(at: payload.lowerBound &+ 4))
            )
        case .windowUpdate:
            try Self.require(payload.count == 4, .windowUpdateSize)
            let increment = Int(bytes.bigEndian(at: payload.lowerBound) & 0x7FFF_FFFF)
            guard increment > 0 else {
                guard header.stream != 0 else { throw .zeroIncrement }
                return .streamFault(stream: header.stream, .zeroIncrement)
            }
            return .windowUpdate(stream: header.stream, increment: increment)
        case nil: return .ignored
        }
    }

    // MARK: Frames

    private mutating func readHeaders(
        _ bytes: borrowing Span<UInt8>,
        _ header: HTTP2FrameHeader,
        _ payload: Range<Int>
    ) throws(HTTP2Fault) -> Frame {
        try Self.requireStream(header)
        var fragment = try Self.withoutPadding(bytes, header, payload)
        if header.flags.contains(.priority) {
            try Self.require(fragment.count >= 5, .headersSize)
            fragment = fragment.lowerBound &+ 5..<fragment.upperBound
        }
        let isLast = header.flags.contains(.endStream)
        guard !header.flags.contains(.endHeaders) else {
            return .fields(stream: header.stream, block: fragment, isLast: isLast)
        }
        awaited = .block(stream: header.stream, isLast: isLast, count: 0)
        block = []
        append(bytes, fragment)
        return .ignored
    }

    private mutating func readContinuation(
        _ bytes: borrowing Span<UInt8>,
        _ header: HTTP2FrameHeader,
        _ payload: Range<Int>
    ) throws(HTTP2Fault) -> Frame {
        guard case .block(let stream, let isLast, let count) = awaited else { throw .strayContinuation }
        guard count < maximumContinuations, block.count + payload.count <= maximumBlock else {
            throw .longBlock
        }
        append(bytes, payload)
        guard header.flags.contains(.endHeaders) else {
            awaited = .block(stream: stream, isLast: isLast, count: count &+ 1)
            return .ignored
        }
        awaited = .frame
        return .fields(stream: stream, block: nil, isLast: isLast)
    }

    private mutating func append(_ bytes: borrowing Span<UInt8>, _ range: Range<Int>) {
        unsafe bytes.extracting(range).withUnsafeBufferPointer { unsafe block.append(contentsOf: $0) }
    }

    /// The whole block that came in several frames. A connection that waits keeps no memory for the next one.
    package mutating func takeBlock() -> [UInt8] {
        defer { block = [] }
        return block
    }

    /// Gives up the memory of a field block whose rest is not waited for: the connection ends.
    package mutating func dropBlock() { block = [] }

    private static func readSettings(
        _ header: HTTP2FrameHeader,
        _ payload: Range<Int>
    ) throws(HTTP2Fault) -> Frame {
        try requireConnection(header)
        guard !header.flags.contains(.acknowledgement) else {
            try require(payload.isEmpty, .acknowledgementSize)
            return .settingsAcknowledgement
        }
        try require(payload.count.isMultiple(of: 6), .settingsSize)
        return .settings(payload)
    }

    // MARK: Rules

    @inline(__always)
    private static func withoutPadding(
        _ bytes: borrowing Span<UInt8>,
        _ header: HTTP2FrameHeader,
        _ payload: Range<Int>
    ) throws(HTTP2Fault) -> Range<Int> {
        guard header.flags.contains(.padded) else { return payload }
        try require(!payload.isEmpty, .missingPadding)
        let padding = Int(bytes[payload.lowerBound])
        guard padding < payload.count else { throw .longPadding }
        return payload.lowerBound &+ 1..<payload.upperBound &- padding
    }

    @inline(__always)
    private static func require(_ condition: Bool, _ fault: HTTP2Fault) throws(HTTP2Fault) {
        guard condition else { throw fault }
    }

    @inline(__always)
    private static func requireStream(_ header: HTTP2FrameHeader) throws(HTTP2Fault) {
        guard header.stream != 0 else { throw .missingStream }
    }

    private static func requireConnection(_ header: HTTP2FrameHeader) throws(HTTP2Fault) {
        guard header.stream == 0 else { throw .unexpectedStream }
    }
}
