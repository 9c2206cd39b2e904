import GatewayHTTP
import GatewayTokens
import NIOCore

/// Reads responses from the bytes that an HTTP/1 upstream sends: heads, content, trailers, one response after the other.
struct ResponseReader: ~Copyable {
    /// What the next bytes of the content are.
    enum Part {
        /// A number of bytes, framing included.
        ///
        /// - Parameter isLast: The response ends with them.
        case content(Int, isLast: Bool)
        /// The trailers, with the empty line that ends them and the response.
        case trailers(ByteBuffer)
        case needMore
        case broken
        case refusedTrailers(HeadRefusal)
    }

    private var bytes: ByteBuffer
    private var decoder: ResponseHeadDecoder
    private var body = MessageBody(.none)
    private var trailers: TrailerSection
    private var answersHead = false
    private var inspection = Inspection(of: MessageBody(.none))

    /// What was seen of content that has not been taken yet.
    private struct Inspection {
        var body: MessageBody
        /// Bytes, framing included.
        var seen = 0
        /// Enough for the limit of a body that comes in chunks of one byte.
        var beginning = BodyInspection(waitingLimit: 8 * RejectionRule.bodyLimit)

        init(of body: MessageBody) { self.body = body }
    }

    init(limits: Limits, empty: ByteBuffer) {
        bytes = empty
        decoder = ResponseHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        trailers = TrailerSection(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
    }

    var head: ResponseHead { _read { yield decoder.head } }
    var isEmpty: Bool { count == 0 }
    var isComplete: Bool { body.isComplete }
    /// Whether the end of the connection is the end of the content.
    var endsWithConnection: Bool { body.endsWithConnection }

    /// Bytes that have come and were not taken yet.
    var count: Int { bytes.readableBytes }

    mutating func append(_ new: consuming ByteBuffer) { bytes.takeBehindRest(&new) }
    mutating func take(_ count: Int) -> ByteBuffer? { bytes.readSlice(length: count) }
    mutating func dropAll(leaving empty: ByteBuffer) { bytes = empty }
    mutating func finishReading(by buffers: SpareBuffers) { buffers.finishReading(&bytes) }

    /// Takes content into what waits for the client, where that takes it.
    @inline(__always)
    mutating func stage(_ count: Int, in exchange: ExchangeDriver) -> Bool { exchange.stage(count, of: &bytes) }

    /// - Parameter answersHead: The request was HEAD.
    mutating func begin(answersHead: Bool) {
        self.answersHead = answersHead
        decoder.reset()
    }

    // MARK: Head

    mutating func readHead() -> ResponseHeadDecoder.DecodeResult {
        Self.decode(bytes, by: &decoder, answersHead: answersHead)
    }

    // Its parts are passed on their own: the bytes are lent while the decoder changes, and need not be kept for that.

    @inline(__always)
    private static func decode(
        _ bytes: ByteBuffer,
        by decoder: inout ResponseHeadDecoder,
        answersHead: Bool
    ) -> ResponseHeadDecoder.DecodeResult {
        decoder.decode(bytes.readableBytesUInt8Span, answersHead: answersHead)
    }

    @inline(__always)
    private static func take(_ bytes: ByteBuffer, as body: inout MessageBody) -> MessageBody.Progress {
        body.receive(bytes.readableBytesUInt8Span)
    }

    /// - Returns: The bytes of the head that was just read.
    mutating func takeHead() -> ByteBuffer? { bytes.readSlice(length: decoder.head.end) }

    /// Another head follows an informational one.
    mutating func nextHead() { decoder.reset() }
    mutating func beginContent() { body = MessageBody(decoder.head.framing) }

    // MARK: Content

    /// - Parameter forbidden: Names, in lower case, of fields that no trailer may bring, beside those that the head nominates. Asked only
    ///   where trailers come.
    mutating func nextPart(forbidden: @autoclosure () -> [[UInt8]]) -> Part {
        guard !body.awaitsTrailers else { return nextTrailers(forbidden()) }
        return part(Self.take(bytes, as: &body))
    }

    /// The same without the framing: `runs` are where the content is.
    mutating func nextPart(forbidden: @autoclosure () -> [[UInt8]], runs: inout [Range<Int>]) -> Part {
        guard !body.awaitsTrailers else { return nextTrailers(forbidden()) }
        let bytes = bytes
        var found: [Range<Int>] = []
        let progress = body.receive(bytes.readableBytesUInt8Span) { found.append($0) }
        runs = found
        return part(progress)
    }

    private mutating func part(_ progress: MessageBody.Progress) -> Part {
        switch progress {
        case .forward(let count): return .content(count, isLast: false)
        case .last(let count): return .content(count, isLast: true)
        case .trailers(let count):
            trailers.reset()
            return .content(count, isLast: false)
        case .broken: return .broken
        }
    }

    private mutating func nextTrailers(_ forbidden: [[UInt8]]) -> Part {
        let bytes = bytes
        let nominated = decoder.head.options.nominatedAsOwned
        switch trailers.read(bytes.readableBytesUInt8Span, forbidden: nominated + forbidden) {
        case .needMore: return .needMore
        case .refused(let reason): return .refusedTrailers(reason)
        case .complete(let output, let consumed):
            self.bytes.moveReaderIndex(forwardBy: consumed)
            body.trailersReceived()
            return .trailers(ByteBuffer(bytes: output))
        }
    }

    mutating func beginInspection() { inspection = Inspection(of: body) }

    /// Looks at the content and takes nothing of it.
    ///
    /// - Parameter isLast: Nothing will follow what has arrived.
    /// - Returns: Its beginning, once enough has arrived; nil before.
    mutating func inspectedContent(isLast: Bool) -> [UInt8]? {
        while !inspection.beginning.isEnough, inspection.seen < bytes.readableBytes {
            let rest = bytes.getSlice(
                at: bytes.readerIndex + inspection.seen,
                length: bytes.readableBytes - inspection.seen
            )
            guard let rest else { break }
            var runs: [Range<Int>] = []
            let count: Int
            switch inspection.body.receive(rest.readableBytesUInt8Span, onData: { runs.append($0) }) {
            case .forward(let taken): count = taken
            case .last(let taken), .trailers(let taken):
                count = taken
                inspection.beginning.end()
            // The reader of these bytes will report the fault.
            case .broken:
                count = 0
                inspection.beginning.end()
            }
            for run in runs {
                let content = rest.readableBytesView.dropFirst(run.lowerBound).prefix(run.count)
                inspection.beginning.receive(content: content)
            }
            inspection.beginning.receive(bytes: count)
            inspection.seen += count
            if count == 0 { break }
        }
        guard isLast || inspection.beginning.isEnough else { return nil }
        defer { inspection = Inspection(of: MessageBody(.none)) }
        return inspection.beginning.content
    }

    /// Drops the bytes that have arrived of a response that is not forwarded.
    mutating func dropContent() {
        guard !body.isComplete, !isEmpty else { return }
        let bytes = bytes
        if case .last(let count) = body.receive(bytes.readableBytesUInt8Span) {
            self.bytes.moveReaderIndex(forwardBy: count)
        }
    }
}
