import GatewayHTTP
import NIOCore

/// Reads requests from the bytes that an HTTP/1 client sends: heads, content, trailers, one request after the other.
struct RequestReader {
    /// What the next bytes of the content are.
    enum Part {
        /// Framing included.
        ///
        /// - Parameters:
        ///   - length: The length of the content in it.
        ///   - isLast: The request ends with it.
        case content(ByteBuffer, length: Int, isLast: Bool)
        /// The trailers, with the empty line that ends them and the request.
        case trailers(ByteBuffer)
        case needMore
        /// - Parameter length: The length of the content before what is broken.
        case broken(length: Int)
        case refusedTrailers(HeadRefusal)
    }

    private(set) var bytes: ByteBuffer
    let message: RequestMessage
    private var body = MessageBody(.none)
    private var trailers: TrailerSection
    private var limits: HeadLimits
    /// Those of the next head, where the configuration has changed meanwhile.
    private var nextLimits: HeadLimits?
    /// The client, which sends no more, has left; found out once, because what it has sent stays the same.
    private var hasLeft: Bool?
    private let empty: ByteBuffer

    /// What is read of ``Limits``, which have hundreds of bytes.
    private struct HeadLimits: Equatable {
        let bytes: Int
        let fields: Int

        init(_ limits: Limits) { (bytes, fields) = (limits.headerBytes, limits.headerFields) }

        var decoder: RequestHeadDecoder { RequestHeadDecoder(maxBytes: bytes, maxFields: fields) }
        var trailers: TrailerSection { TrailerSection(maxBytes: bytes, maxFields: fields) }
    }

    /// - Parameter empty: Stands for no bytes.
    init(limits: Limits, empty: ByteBuffer) {
        self.limits = HeadLimits(limits)
        self.empty = empty
        bytes = empty
        message = RequestMessage(self.limits.decoder, empty)
        trailers = self.limits.trailers
    }

    /// Whether bytes of an unfinished head have come.
    var isWithinHead: Bool { message.decoder.isWithinHead }
    var awaitsTrailers: Bool { body.awaitsTrailers }
    var isEmpty: Bool { bytes.readableBytes == 0 }

    /// Takes on other limits. Those of the head at hand stay.
    mutating func change(to new: Limits) { change(to: HeadLimits(new)) }

    private mutating func change(to new: HeadLimits) {
        guard message.bytes.readableBytes == 0 else {
            nextLimits = new
            return
        }
        guard new != limits else { return }
        limits = new
        message.decoder = new.decoder
        trailers = new.trailers
    }

    mutating func append(_ new: consuming ByteBuffer) { bytes.takeBehindRest(&new) }

    /// Keeps no more memory than a part of a head needs.
    ///
    /// - Returns: How much that is.
    mutating func shrink() -> Int {
        if bytes.storageCapacity > 4 * bytes.readableBytes { bytes = ByteBuffer(buffer: bytes) }
        return bytes.storageCapacity
    }

    mutating func dropAll() { bytes = empty }

    /// A buffer without another owner is used for the next read.
    mutating func releaseIfEmpty() {
        if isEmpty { bytes = empty }
    }

    mutating func takeAll() -> ByteBuffer {
        defer { bytes = empty }
        return bytes
    }

    // MARK: Head

    mutating func readHead() -> RequestHeadDecoder.DecodeResult {
        let result = message.decoder.decode(bytes.readableBytesUInt8Span)
        if case .needMore = result { bytes.moveReaderIndex(forwardBy: message.decoder.takeEmptyLine()) }
        return result
    }

    /// Moves the bytes of the head that was just read to ``message``.
    mutating func takeHead() {
        body = MessageBody(message.decoder.head.framing)
        message.bytes = bytes.readSlice(length: message.decoder.head.end) ?? empty
    }

    /// Makes ready for the next request.
    mutating func nextRequest() {
        message.decoder.reset()
        message.bytes = empty
        if let limits = nextLimits.take() { change(to: limits) }
    }

    // MARK: Content

    /// - Parameter forbidden: Names, in lower case, of fields that no trailer may bring; asked only where ``awaitsTrailers``.
    mutating func nextPart(forbidden: [[UInt8]]) -> Part {
        guard !body.awaitsTrailers else { return nextTrailers(forbidden) }
        let bytes = bytes
        var length = 0
        switch body.receive(bytes.readableBytesUInt8Span, onData: { length += $0.count }) {
        case .forward(let count): return part(count, length)
        case .last(let count): return part(count, length, isLast: true)
        case .trailers(let count):
            trailers.reset()
            return part(count, length)
        case .broken: return .broken(length: length)
        }
    }

    private mutating func part(_ count: Int, _ length: Int, isLast: Bool = false) -> Part {
        .content(bytes.readSlice(length: count) ?? empty, length: length, isLast: isLast)
    }

    private mutating func nextTrailers(_ forbidden: [[UInt8]]) -> Part {
        let bytes = bytes
        switch trailers.read(bytes.readableBytesUInt8Span, forbidden: forbidden) {
        case .needMore: return .needMore
        case .refused(let reason): return .refusedTrailers(reason)
        case .complete(let output, let consumed):
            self.bytes.moveReaderIndex(forwardBy: consumed)
            body.trailersReceived()
            return .trailers(ByteBuffer(bytes: output))
        }
    }

    // MARK: Clients that left

    /// Whether a client that sends no more has left: a request of it lacks a part, or the last one was not said to be the last.
    mutating func clientHasLeft() -> Bool {
        if let hasLeft { return hasLeft }
        let answer = lacksPart()
        hasLeft = answer
        return answer
    }

    /// Requests that are looked through at most: a client may have sent more than the loop has time for.
    static let maximumLookedThrough = 1000

    private func lacksPart() -> Bool {
        var (body, isLast, mayChange) = (
            self.body, !message.decoder.head.clientKeepsAlive, message.decoder.head.wantsUpgrade
        )
        var next = limits.decoder
        var rest = bytes
        for _ in 0..<Self.maximumLookedThrough {
            switch body.extent(of: rest.readableBytesUInt8Span) {
            case .part: return true
            case .rest: return !isLast
            case .broken: return false
            case .more(let start):
                // What follows an Upgrade may be no request.
                guard !isLast, !mayChange else { return false }
                rest.moveReaderIndex(forwardBy: start)
            }
            switch next.decode(rest.readableBytesUInt8Span) {
            case .needMore: return true
            case .refused: return false
            case .head: rest.moveReaderIndex(forwardBy: next.head.end)
            }
            (body, isLast, mayChange) =
                (MessageBody(next.head.framing), !next.head.clientKeepsAlive, next.head.wantsUpgrade)
            next.reset()
        }
        return false
    }
}
