import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One request and its response on an ``HTTP2UpstreamConnection``.
///
/// What arrives for a client that takes no more waits here. The upstream is told that it may send more once the client has
/// taken that, so no more waits than the window of the stream allows.
final class HTTP2UpstreamStream: UpstreamStream {
    enum Phase {
        case head
        case body
        /// The response is held back until it is known whether the request can be sent again.
        case held
        case over
    }

    enum Arrival {
        case fields(HPACKHeaders, isLast: Bool)
        /// - Parameter size: As flow control counts it, with padding.
        case content(ByteBuffer, size: Int, isLast: Bool)
    }

    let connection: HTTP2UpstreamConnection
    let isReused: Bool
    /// nil before the head has left.
    var id: HTTP2StreamID?
    var exchange: ExchangeDriver?
    var phase = Phase.head
    // What is sent.
    var outgoing = HTTP2Outgoing()
    var sendWindow = SendWindow(0)
    /// Nothing more can be sent on it.
    var isClosed = false
    /// It is in the connection's queue of streams that wait for room.
    var waitsForRoom = false
    private var isFull = false
    // What is received.
    private var answersHead = false
    private var decoder: ResponseHeadDecoder
    private var heldHead = ByteBuffer()
    private var length = DeclaredLength(.none)
    private var endsAsChunks = false
    private var arrivals: [Arrival] = []
    /// The end of the response has come, and may be among ``arrivals``.
    private(set) var hasArrived = false
    private var hasReceivedHead = false
    /// The connection was lost while the response was held back, or the upstream has reset the stream.
    private var isLost = false
    var receiveWindow = ReceiveWindow(
        target: HTTP2UpstreamConnection.streamWindow,
        size: HTTP2UpstreamConnection.streamWindow
    )

    init(on connection: HTTP2UpstreamConnection, isReused: Bool) {
        self.connection = connection
        self.isReused = isReused
        decoder = ResponseHeadDecoder(
            maxBytes: connection.limits.headerBytes,
            maxFields: connection.limits.headerFields
        )
    }

    // MARK: Request

    /// Up to here content of a request waits for the window of the stream.
    private static let maximumQueue = 65_536

    var requestForm: ContentForm { .content }
    var canRefuse: Bool { true }
    var isWritable: Bool { outgoing.count < Self.maximumQueue }
    /// What waits, and what the upstream has not made room for again.
    var untakenBytes: Int { outgoing.count + max(0, connection.peerStreamWindow - sendWindow.size) }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        self.exchange = exchange
        self.answersHead = answersHead
        sendWindow = SendWindow(connection.peerStreamWindow)
    }

    func sendHead(_ head: borrowing RequestHead, _ bytes: ByteBuffer, by writer: RequestWriter, end: [UInt8]) -> Bool {
        var written = connection.buffers.take()
        defer { connection.buffers.giveBack(written) }
        guard writer.write(head, bytes, end: end, into: &written) else { return false }
        let translation = HTTP2RequestFields(head, bytes, by: writer.route, scheme: connection.scheme)
        guard let fields = translation.read(written) else { return false }
        outgoing.begin(fields, head.framing)
        return true
    }

    /// A stream never has what an HTTP/1 connection could not send: the exchange writes the head anew.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {}

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        guard phase != .over else { return }
        outgoing.append(bytes)
        if !isWritable { flush() }
    }

    func sendEnd(trailers: ByteBuffer) {
        let fields = HTTP2RequestFields.read(trailers: trailers)
        outgoing.end(fields.isEmpty ? nil : fields)
    }

    func flush() {
        guard phase != .over else { return }
        connection.send(self)
    }

    func whenSent(_ done: @escaping () -> Void) {
        flush()
        if id != nil, phase != .over { done() }
    }

    func takeUnsent() -> ByteBuffer? { nil }

    /// Content has left, or was added.
    func contentMoved() {
        let wasFull = isFull
        isFull = !isWritable
        if wasFull, !isFull { exchange?.upstreamBecameWritable() }
    }

    // MARK: Response

    func receive(_ arrival: Arrival) {
        guard phase != .over, !hasArrived else { return }
        hasArrived = arrival.isLast
        guard arrivals.isEmpty, takes(arrival) else { return arrivals.append(arrival.copied) }
        handle(arrival)
    }

    private func takes(_ arrival: Arrival) -> Bool {
        switch (phase, arrival) {
        case (.held, _): false
        case (_, .fields): true
        case (_, .content): exchange?.clientIsWritable ?? true
        }
    }

    func resumeReading() {
        guard !arrivals.isEmpty else { return }
        process()
    }

    private func process() {
        while phase != .over, let first = arrivals.first, takes(first) {
            arrivals.removeFirst()
            handle(first)
        }
        flushResponse()
        if isLost, phase != .held, phase != .over, arrivals.isEmpty { lose(isRefused: false) }
    }

    private func handle(_ arrival: Arrival) {
        switch (arrival, phase) {
        case (_, .over): break
        case (.fields(let fields, let isLast), .head): receiveHead(fields, isLast: isLast)
        case (.fields(let fields, let isLast), _): receiveTrailers(fields, isLast: isLast)
        case (.content, .head): fail("It sent content before the head of its response.")
        case (.content(let bytes, let size, let isLast), _): receiveContent(bytes, size: size, isLast: isLast)
        }
    }

    private func receiveHead(_ fields: HPACKHeaders, isLast: Bool) {
        guard let exchange else { return }
        let bytes: [UInt8]
        do throws(HTTP2Malformation) {
            var head = HTTP2ResponseHead()
            for (name, value, _) in fields {
                if let reason = head.add(name, value) { throw reason }
            }
            bytes = try head.head(isLast: isLast, answersHead: answersHead)
        } catch {
            return fail("It sent a response that is not valid HTTP: \(error.rawValue).")
        }
        let head = ByteBuffer(bytes: bytes)
        decoder.reset()
        switch decoder.decode(head.readableBytesUInt8Span, answersHead: answersHead) {
        case .head: break
        case .needMore: return fail("It sent a response that is not valid HTTP.")
        case .refused(let reason): return fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
        }
        hasReceivedHead = true
        guard !decoder.head.isInformational else {
            guard !isLast else { return fail("It ended the response with an informational one.") }
            exchange.receiveInformational(decoder.head, head)
            return connection.flushLater(self)
        }
        length = DeclaredLength(decoder.head.framing)
        endsAsChunks = if case .untilClose = decoder.head.framing { true } else { false }
        follow(exchange.receive(decoder.head, head), head, exchange)
    }

    private func follow(_ decision: ExchangeDriver.ResponseDecision, _ head: ByteBuffer, _ exchange: ExchangeDriver) {
        // Passing the head on may have found out that the client has left.
        guard self.exchange === exchange, phase != .over else { return }
        switch decision {
        case .pass:
            phase = .body
            connection.flushLater(self)
            if hasArrived, arrivals.isEmpty { complete(with: nil) }
        case .hold:
            phase = .held
            heldHead = head
            flushResponse()
            exchange.sendAgain()
        // HTTP/2 has no Upgrade, so no response leads to a tunnel.
        case .tunnel: fail("It switched to another protocol.")
        case .over: break
        }
    }

    private func receiveContent(_ bytes: ByteBuffer, size: Int, isLast: Bool) {
        guard let exchange else { return }
        guard length.take(bytes.readableBytes, isLast: isLast) else {
            return fail("It sent a response whose content is not as long as it says.")
        }
        connection.flushLater(self)
        var content = bytes
        let count = content.readableBytes
        if count > 0, !exchange.stage(count, of: &content) { exchange.receive(content: content) }
        connection.took(size, of: self)
        if isLast, phase != .over { complete(with: nil) }
    }

    private func receiveTrailers(_ fields: HPACKHeaders, isLast: Bool) {
        guard let exchange else { return }
        guard isLast, length.take(0, isLast: true) else {
            return fail("It sent fields behind the content that do not end the response.")
        }
        var trailers = HTTP2Trailers()
        for (name, value, _) in fields {
            if let reason = trailers.add(name, value) {
                return fail("It sent trailers that are not valid: \(reason.rawValue).")
            }
        }
        let bytes = trailers.section()
        var section = TrailerSection(maxBytes: connection.limits.headerBytes, maxFields: connection.limits.headerFields)
        let forbidden = decoder.head.options.nominatedAsOwned + exchange.namesKeptFromClient
        guard case .complete(let output, _) = section.read(bytes.span, forbidden: forbidden) else {
            return fail("It sent trailers that are not valid.")
        }
        complete(with: ByteBuffer(bytes: output))
    }

    /// - Parameter trailers: With the empty line that ends them.
    private func complete(with trailers: ByteBuffer?) {
        guard let exchange else { return }
        connection.flushLater(self)
        // Where the length is known the client knows the end, and HTTP/1 has no place for trailers.
        if endsAsChunks { exchange.receive(responseTrailers: trailers) }
        exchange.responseCompleted()
    }

    func flushResponse() { exchange?.flushResponse() }

    // MARK: Held responses

    func passHeldResponse() {
        guard phase == .held, let exchange else { return }
        // What `follow` compares: the rest of the response may wait behind the head.
        let head = heldHead
        heldHead = ByteBuffer()
        phase = .head
        follow(exchange.passHeld(decoder.head, head), head, exchange)
        process()
    }

    func dropHeldResponse(requestWasSent: Bool) {
        guard phase == .held else { return }
        heldHead = ByteBuffer()
        exchange = nil
        connection.end(self, hasArrived && outgoing.isEnded ? nil : .cancel)
    }

    // MARK: End

    func release(isReusable: Bool) {
        exchange = nil
        // After an early response the rest of the request is not wanted.
        connection.end(self, outgoing.isEnded ? nil : .cancel)
    }

    func returnUnused() {
        exchange = nil
        connection.end(self, nil)
    }

    func abandon(isCut: Bool) {
        exchange = nil
        if phase != .over, !hasReceivedHead, id != nil { connection.probe() }
        connection.end(self, hasArrived && outgoing.isEnded ? nil : .cancel)
    }

    /// The response breaks a rule.
    func fail(_ detail: String) {
        let exchange = exchange.take()
        connection.end(self, .protocolError)
        exchange?.upstreamBroke(detail)
    }

    /// The upstream has reset the stream, or the connection is lost.
    ///
    /// - Parameter isRefused: The upstream has not looked at the request.
    func lose(isRefused: Bool) {
        guard phase != .over else { return }
        // A whole response that the client has not taken yet stays whole.
        guard !hasArrived || phase == .head else { return }
        guard phase != .held else { return isLost = true }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.upstreamLost(hasAnswered: hasReceivedHead, isRefused: isRefused)
    }

    /// Throws away what waits.
    func drop() {
        phase = .over
        arrivals = []
        outgoing.drop()
    }

    // MARK: Tunnel

    var inputHasEnded: Bool { hasArrived }
    func closeOutput() {}
    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        abandon(isCut: false)
        whenEnded()
    }
}

extension HTTP2UpstreamStream.Arrival {
    var isLast: Bool {
        switch self {
        case .fields(_, let isLast), .content(_, _, let isLast): isLast
        }
    }

    /// What waits does not keep the buffer that was read into.
    fileprivate var copied: Self {
        guard case .content(let bytes, let size, let isLast) = self else { return self }
        return .content(ByteBuffer(buffer: bytes), size: size, isLast: isLast)
    }
}
