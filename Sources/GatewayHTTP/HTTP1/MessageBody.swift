/// Follows one body by its framing: how much has come and where it ends.
package struct MessageBody: Sendable {
    package enum Progress: Sendable {
        /// Forward this many bytes; more are expected.
        case forward(Int)
        /// Forward this many bytes; they are the last.
        case last(Int)
        /// Forward this many bytes of chunks, then the trailer section follows.
        case trailers(Int)
        case broken
    }

    private enum State: Sendable {
        case complete
        case length(remaining: Int)
        case chunked
        case trailers
        case untilClose
    }

    private var state: State
    private var chunks = ChunkDecoder()
    /// Bytes seen, framing included, trailers not.
    package private(set) var received = 0

    package init(_ framing: BodyFraming) {
        switch framing {
        case .none: state = .complete
        case .untilClose: state = .untilClose
        case .length(let length): state = .length(remaining: length)
        case .chunked: state = .chunked
        }
    }

    package var isComplete: Bool {
        if case .complete = state { return true }
        return false
    }

    package var awaitsTrailers: Bool {
        if case .trailers = state { return true }
        return false
    }

    /// Whether the end of the connection is the end of the body.
    package var endsWithConnection: Bool {
        if case .untilClose = state { return true }
        return false
    }

    /// - Parameter onData: Given each run of content, without the framing of chunks.
    package mutating func receive(
        _ bytes: borrowing Span<UInt8>,
        onData: (Range<Int>) -> Void = { _ in }
    ) -> Progress {
        switch state {
        case .complete, .trailers:
            return .broken
        case .untilClose:
            received += bytes.count
            onData(0..<bytes.count)
            return .forward(bytes.count)
        case .length(let remaining):
            assert(remaining >= 0, "A body is longer than it says.")
            let taken = min(remaining, bytes.count)
            received += taken
            onData(0..<taken)
            guard taken < remaining else {
                state = .complete
                return .last(taken)
            }
            state = .length(remaining: remaining - taken)
            return .forward(taken)
        case .chunked:
            switch chunks.feed(bytes, from: 0, onData: onData) {
            case .pass(let count):
                received += count
                return .forward(count)
            case .trailers(let count):
                received += count
                state = .trailers
                return .trailers(count)
            case .broken:
                return .broken
            }
        }
    }

    package mutating func trailersReceived() { state = .complete }

    /// What bytes are of a body when nothing comes behind them.
    package enum Extent: Hashable, Sendable {
        case part
        case rest
        /// The body has ended, and the bytes from here on belong to another message.
        case more(from: Int)
        /// The bytes cannot be part of the body.
        case broken
    }

    /// Whether `bytes`, which come next, are the end of this body; takes nothing of them.
    package func extent(of bytes: borrowing Span<UInt8>) -> Extent {
        var body = self
        var taken = 0
        while taken < bytes.count, !body.isComplete, !body.awaitsTrailers {
            switch body.receive(bytes.extracting(taken..<bytes.count)) {
            case .forward(0): return .part
            case .forward(let count), .last(let count), .trailers(let count): taken += count
            case .broken: return .broken
            }
        }
        if body.awaitsTrailers {
            guard let end = Self.endOfTrailers(bytes, from: taken) else { return .part }
            taken = end
        } else if !body.isComplete {
            return .part
        }
        return taken == bytes.count ? .rest : .more(from: taken)
    }

    private static func endOfTrailers(_ bytes: borrowing Span<UInt8>, from start: Int) -> Int? {
        var lineStart = start
        for index in start..<bytes.count where bytes[index] == 0x0A {
            if index - lineStart == 1 { return index + 1 }
            lineStart = index + 1
        }
        return nil
    }
}

/// What the fields of a head say about the length of its content. Both kinds of heads read it alike: two readings of one message
/// are how requests get smuggled (RFC 9112 section 6).
struct DeclaredFraming {
    private(set) var contentLength: Int?
    private(set) var isChunked = false

    @inline(__always)
    mutating func addContentLength(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> HeadRefusal? {
        guard contentLength == nil else { return .duplicateContentLength }
        guard !FieldSection.hasTabAround(bytes, field),
            let length = FieldSection.contentLength(bytes, field.value)
        else { return .invalidContentLength }
        contentLength = length
        return nil
    }

    @inline(__always)
    mutating func addTransferEncoding(_ bytes: borrowing Span<UInt8>, _ field: HeadField) -> HeadRefusal? {
        guard !isChunked, !FieldSection.hasTabAround(bytes, field),
            bytes.equalsLowercased(field.value, "chunked")
        else { return .invalidTransferEncoding }
        isChunked = true
        return nil
    }

    /// What the fields may not say together, once all were read.
    @inline(__always)
    func conflict(isHTTP10: Bool) -> HeadRefusal? {
        guard isChunked else { return nil }
        guard contentLength == nil else { return .conflictingFraming }
        return isHTTP10 ? .transferEncodingInHTTP10 : nil
    }
}
