import GatewayHTTP
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One request and its response on an ``HTTP2UpstreamConnection``.
///
///     head ───────────────────▶ body ────▶ over
///      │ │ └── WebSocket ──▶ tunnel ───────▲
///      │ └──▶ inspecting ──▶ body, or held │
///      ▼                                   │
///     held ── passed on ──▶ body           │
///       └── dropped, to be sent again ─────┘
///
/// Its connection owns it, and an ``ExchangeDriver`` has it on lease.
///
/// Content waits here while the client takes none. The upstream may send more once the client has taken it, so the window of the stream
/// bounds what waits.
final class HTTP2UpstreamStream: UpstreamStream {
    enum Phase {
        case head
        case body
        /// A WebSocket: what follows is neither content nor trailers.
        case tunnel
        /// The response is held back until so much of its body has come as its exchange wants to see.
        case inspecting
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
    private(set) var id: HTTP2StreamID?
    private var exchange: ExchangeDriver?
    private(set) var phase = Phase.head
    // What is sent.
    private var outgoing = HTTP2Outgoing()
    private var sendWindow = SendWindow(0)
    /// Nothing more can be sent on it.
    private var isClosed = false
    /// It is in the connection's queue of streams that wait for room.
    private(set) var waitsForRoom = false
    private var isFull = false
    // What is received.
    private var answersHead = false
    private var decoder: ResponseHeadDecoder
    private var heldHead = ByteBuffer()
    private var inspection = HTTP2UpstreamStream.newInspection
    private var order = HTTP2ResponseOrder()
    private var endsAsChunks = false
    private var arrivals: [Arrival] = []
    /// The end of the response has come, and may be among ``arrivals``.
    private(set) var hasArrived = false
    /// The connection was lost while the response was held back, or the upstream has reset the stream.
    private var isLost = false
    /// `Sec-WebSocket-Accept` for the client that asked for a WebSocket.
    private var webSocketAccept: String?
    /// The upstream has ended both directions of a tunnel.
    private var wantsNoMore = false
    /// The end of a tunnel whose client has left.
    private var tunnelEnd: HTTP2TunnelEnd?
    private(set) var receiveWindow = ReceiveWindow(
        target: HTTP2UpstreamConnection.streamWindow,
        size: HTTP2UpstreamConnection.streamWindow
    )

    init(on connection: HTTP2UpstreamConnection, isReused: Bool) {
        self.connection = connection
        self.isReused = isReused
        decoder = ResponseHeadDecoder(
            maxBytes: connection.limits.headerBytes,
            maxFields: connection.limits.headerFields,
            isHTTP2: true
        )
    }

    // MARK: Request

    /// Maximum content of a request that waits for the windows; then the client is read no further.
    private static let maximumQueue = 65_536

    var requestForm: ContentForm { .content }
    var canRefuse: Bool { true }
    var takesUpgrade: Bool { connection.takesWebSocket }
    var isWritable: Bool { outgoing.count < Self.maximumQueue }
    /// What waits, and what the upstream has not made room for again.
    var untakenBytes: Int { outgoing.count + max(0, connection.peerStreamWindow - sendWindow.size) }

    var heldBytes: Int { outgoing.count }
    /// All of the request has left, and all of the response has come.
    var isComplete: Bool { hasArrived && outgoing.isEnded }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        self.exchange = exchange
        self.answersHead = answersHead
        sendWindow = SendWindow(connection.peerStreamWindow)
    }

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: RequestWriter,
        end: [UInt8]
    ) throws(HeadFault) {
        var written = connection.buffers.take()
        defer { connection.buffers.giveBack(written) }
        guard writer.write(head, bytes, end: end, into: &written) else { throw .unwritable }
        let translation = HTTP2RequestFields(head, bytes, by: writer.route, scheme: connection.scheme)
        let fields = try translation.read(written, within: connection.maximumFrame)
        guard !head.wantsUpgrade else { return try beginWebSocket(fields, head, bytes) }
        outgoing.begin(fields, head.framing)
    }

    /// A stream never has what an HTTP/1 connection could not send: the exchange writes the head anew.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {}

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        guard phase != .over else { return }
        outgoing.append(bytes)
        if !isWritable { flush() }
    }

    func sendEnd(trailers: ByteBuffer) {
        let fields = HTTP2RequestFields.read(trailers: trailers, within: connection.maximumFrame)
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

    // MARK: Sending

    func takeHead() -> HPACKHeaders? { outgoing.head.take() }

    /// The head leaves now.
    ///
    /// - Parameter window: The upstream's, for each stream.
    /// - Returns: Whether nothing follows the head.
    func begin(as id: HTTP2StreamID, window: Int) -> Bool {
        self.id = id
        sendWindow = SendWindow(window)
        return outgoing.endsHere()
    }

    /// The upstream takes more, or less. The library refuses an increment that is too large.
    func windowGrew(by increment: Int) { _ = sendWindow.grow(by: increment) }

    /// The library knows the stream no more: nothing can be sent on it.
    func forgotten() { isClosed = true }

    /// Sends what waits, as far as there is room for it.
    func sendContent(maximum: Int = .max) {
        guard let id, !isClosed, !outgoing.isEnded else { return }
        var turn = maximum
        while outgoing.count > 0 {
            guard sendWindow.available > 0 else { return contentMoved() }
            let room = connection.room
            guard room > 0, turn > 0 else { return waitForRoom() }
            guard let bytes = outgoing.take(min(room, sendWindow.available, connection.maximumFrame, turn)) else {
                break
            }
            turn -= bytes.readableBytes
            sendWindow.spend(bytes.readableBytes)
            connection.send(bytes, isLast: outgoing.endsHere(), on: id)
        }
        switch outgoing.takeEnd() {
        case .content: connection.write(id, .data(.init(data: .byteBuffer(ByteBuffer()), endStream: true)))
        case .trailers(let fields): connection.write(id, .headers(.init(headers: fields, endStream: true)))
        case nil: break
        }
        contentMoved()
    }

    private func waitForRoom() {
        contentMoved()
        guard !waitsForRoom else { return }
        waitsForRoom = true
        connection.wait(self)
    }

    /// There is room on the connection.
    func takeTurn(maximum: Int) {
        assert(waitsForRoom, "A stream that is not waiting got a turn.")
        waitsForRoom = false
        sendContent(maximum: maximum)
    }

    /// Content has left, or was added.
    private func contentMoved() {
        let wasFull = isFull
        isFull = !isWritable
        exchange?.uploadMoved()
        if wasFull, !isFull { exchange?.upstreamBecameWritable() }
        if phase == .tunnel { endTunnelIfOver() }
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
        guard isCut || !leavesTunnelInOrder() else { return }
        if phase != .over, !order.hasHead, id != nil { connection.probe() }
        connection.end(self, isComplete ? nil : .cancel)
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
        guard phase != .tunnel else { return loseTunnel() }
        // A whole response that the client has not taken yet stays whole.
        guard !hasArrived || phase == .head else { return }
        guard phase != .held else { return isLost = true }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.upstreamLost(hasAnswered: order.hasHead, isRefused: isRefused, alert: connection.alert)
    }

    /// The upstream does not take the request in HTTP/2 (RFC 9113 section 7).
    func wantsHTTP1() {
        guard !order.hasHead, exchange?.goOnInHTTP1() ?? false else {
            return fail("It wants HTTP/1.1 for this request. Set protocol of the route to http1.")
        }
        lose(isRefused: true)
    }

    /// Throws away what waits.
    func drop() {
        phase = .over
        arrivals = []
        outgoing.drop()
        tunnelEnd.take()?.came()
    }
}

/// What goes from the upstream to the exchange.
extension HTTP2UpstreamStream {
    // MARK: Response

    func receive(_ bytes: ByteBuffer, size: Int, isLast: Bool) {
        _ = receiveWindow.receive(size)
        receive(.content(bytes, size: size, isLast: isLast))
    }

    func receive(_ arrival: Arrival) {
        guard phase != .over, !hasArrived else { return }
        hasArrived = arrival.isLast
        guard arrivals.isEmpty, takes(arrival) else {
            append(arrival)
            guard phase == .inspecting else { return }
            inspection.receive(arrival)
            return inspect()
        }
        handle(arrival)
    }

    /// Content that waits is joined: a byte in each frame would take a hundred times its size.
    private func append(_ arrival: Arrival) {
        guard case .content(let bytes, let size, let isLast) = arrival,
            case .content(var waiting, let waitingSize, _)? = arrivals.last
        else { return arrivals.append(arrival.copied) }
        arrivals.removeLast()
        waiting.writeImmutableBuffer(bytes)
        arrivals.append(.content(waiting, size: waitingSize + size, isLast: isLast))
    }

    private func takes(_ arrival: Arrival) -> Bool {
        switch (phase, arrival) {
        case (.held, _), (.inspecting, _): false
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
        guard phase != .over else { return }
        do throws(HTTP2ResponseOrder.Fault) {
            switch arrival {
            case .fields(let fields, let isLast):
                switch try order.receiveFields(isLast: isLast) {
                case .head: try receiveHead(fields, isLast: isLast)
                case .trailers: receiveTrailers(fields)
                }
            case .content(let bytes, let size, let isLast):
                try order.receiveContent(bytes.readableBytes, isLast: isLast)
                if phase == .tunnel {
                    receive(tunnelled: bytes, size: size, isLast: isLast)
                } else {
                    receiveContent(bytes, size: size, isLast: isLast)
                }
            }
        } catch {
            fail(error.detail)
        }
    }

    private func receiveHead(_ fields: HPACKHeaders, isLast: Bool) throws(HTTP2ResponseOrder.Fault) {
        guard let exchange else { return }
        let bytes: [UInt8]
        do throws(HTTP2Malformation) {
            var head = HTTP2ResponseHead(webSocketAccept: webSocketAccept)
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
        let isInformational = decoder.head.isInformational && decoder.head.status != 101
        try order.receiveHead(decoder.head.framing, isInformational: isInformational, isLast: isLast)
        guard !isInformational else {
            // They are only advice, and nothing bounds what would wait of them.
            guard exchange.clientIsWritable else { return }
            exchange.receiveInformational(decoder.head, head)
            return connection.flushLater(self)
        }
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
        case .inspect:
            phase = .inspecting
            heldHead = head
            inspection = Self.newInspection
            for arrival in arrivals { inspection.receive(arrival) }
            flushResponse()
            inspect()
        case .hold:
            phase = .held
            heldHead = head
            flushResponse()
            exchange.sendAgain()
        case .tunnel: beginTunnel(exchange)
        case .over: break
        }
    }

    private func receiveContent(_ bytes: ByteBuffer, size: Int, isLast: Bool) {
        guard let exchange else { return }
        pass(bytes, size: size, to: exchange)
        if isLast, phase != .over { complete(with: nil) }
    }

    /// Hands content to the exchange. The upstream may then send as much again.
    private func pass(_ bytes: ByteBuffer, size: Int, to exchange: ExchangeDriver) {
        connection.flushLater(self)
        var content = bytes
        let count = content.readableBytes
        if count > 0, !exchange.stage(count, of: &content) { exchange.receive(content: content) }
        credit(size)
    }

    /// The client has taken this many bytes: the upstream may send as many again.
    private func credit(_ size: Int) {
        guard phase != .over else { return }
        receiveWindow.take(size)
        if !hasArrived, !isClosed, let id, let increment = receiveWindow.credit() {
            connection.write(id, .windowUpdate(windowSizeIncrement: increment))
            connection.flush()
        }
        connection.credit(size)
    }

    private func receiveTrailers(_ fields: HPACKHeaders) {
        guard let exchange else { return }
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

    /// Padding takes from the window too, and what is held back is not credited: the limit has to be reached before the window is used up.
    private static var newInspection: BodyInspection {
        BodyInspection(waitingLimit: HTTP2UpstreamConnection.streamWindow / 2)
    }

    func endInspection() {
        inspection.end()
        inspect()
    }

    /// Lets the exchange see the beginning of the body.
    private func inspect() {
        guard phase == .inspecting, hasArrived || inspection.isEnough, let exchange else { return }
        let content = inspection.content
        inspection = Self.newInspection
        let head = heldHead
        heldHead = ByteBuffer()
        phase = .head
        follow(exchange.receive(decoder.head, head, content: content), head, exchange)
        process()
    }

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
        connection.end(self, isComplete ? nil : .cancel)
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

extension BodyInspection {
    fileprivate mutating func receive(_ arrival: HTTP2UpstreamStream.Arrival) {
        guard case .content(let bytes, let size, _) = arrival else { return }
        receive(content: bytes.readableBytesView)
        receive(bytes: size)
    }
}

/// A WebSocket on a stream (RFC 8441). END_STREAM ends one direction; a reset cuts both.
extension HTTP2UpstreamStream {
    // MARK: Request

    private func beginWebSocket(
        _ fields: HPACKHeaders,
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer
    ) throws(HeadFault) {
        guard let accept = WebSocketHandshake.accept(head, bytes.readableBytesUInt8Span) else { throw .unwritable }
        webSocketAccept = accept
        outgoing.beginTunnel(HTTP2RequestFields.webSocket(fields))
    }

    // MARK: From the upstream

    private func beginTunnel(_ exchange: ExchangeDriver) {
        phase = .tunnel
        order.beginTunnel()
        connection.flushLater(self)
        exchange.tunnelBegan()
        if hasArrived, arrivals.isEmpty { inputEnded() }
    }

    private func receive(tunnelled bytes: ByteBuffer, size: Int, isLast: Bool) {
        // The client has left, which the upstream learns as it would from a closed socket.
        guard let exchange else { return connection.end(self, isLast && outgoing.isEnded ? nil : .cancel) }
        pass(bytes, size: size, to: exchange)
        if isLast { inputEnded() }
    }

    private func inputEnded() {
        guard phase == .tunnel else { return }
        exchange?.upstreamClosedOutput()
        endTunnelIfOver()
    }

    /// Both directions have ended.
    private func endTunnelIfOver() {
        guard phase == .tunnel, hasArrived, arrivals.isEmpty, outgoing.isEnded || wantsNoMore else { return }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.responseEndedWithConnection()
    }

    /// The upstream has ended its direction and says that it does not need the rest of the other one (RFC 9113 section 8.1).
    func endsWithoutRest() -> Bool {
        guard phase == .tunnel, hasArrived else { return false }
        wantsNoMore = true
        endTunnelIfOver()
        return true
    }

    /// The upstream has reset the stream, or the connection is lost.
    private func loseTunnel() {
        // What came before it is passed on first.
        guard arrivals.isEmpty || !hasArrived else { return isLost = true }
        let exchange = exchange.take()
        connection.end(self, nil)
        exchange?.upstreamLost(hasAnswered: true)
    }

    // MARK: From the client

    var inputHasEnded: Bool { hasArrived }

    func closeOutput() {
        guard phase == .tunnel, !outgoing.isComplete else { return }
        outgoing.end(nil)
        flush()
    }

    /// Ends the client's direction, where all of it has left. The upstream then has time to end its own.
    ///
    /// - Returns: false where the tunnel has to be cut.
    private func leavesTunnelInOrder() -> Bool {
        guard phase == .tunnel, outgoing.count == 0, !isClosed, connection.phase == .open else { return false }
        tunnelEnd = HTTP2TunnelEnd(of: self, within: connection.timeouts.linger)
        closeOutput()
        endTunnelIfOver()
        return true
    }

    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        exchange = nil
        guard phase != .over, !isClosed, connection.phase == .open else {
            connection.end(self, nil)
            return whenEnded()
        }
        tunnelEnd = HTTP2TunnelEnd(of: self, within: connection.timeouts.response, whenEnded)
        closeOutput()
        endTunnelIfOver()
    }
}

/// Waits for the end of a tunnel whose client has left.
private final class HTTP2TunnelEnd: DeadlineKeeper {
    private let stream: HTTP2UpstreamStream
    private let timer: DeadlineTimer
    private let whenCame: () -> Void

    /// - Parameter whenCame: Called once.
    init(of stream: HTTP2UpstreamStream, within amount: TimeAmount, _ whenCame: @escaping () -> Void = {}) {
        self.stream = stream
        self.whenCame = whenCame
        timer = DeadlineTimer(queue: stream.connection.pool.deadlines)
        timer.set(stream.connection.clock.now + amount, for: self)
    }

    func deadlinePassed() { stream.connection.end(stream, .cancel) }

    /// The stream is over.
    func came() {
        timer.cancel()
        whenCame()
    }
}

extension HTTP2RequestFields {
    /// - Parameter fields: The fields of an upgrade to a WebSocket; the key stays behind, because HTTP/2 has none (RFC 8441 section 5).
    static func webSocket(_ fields: HPACKHeaders) -> HPACKHeaders {
        var connect = HPACKHeaders()
        connect.reserveCapacity(fields.count + 1)
        connect.add(name: ":method", value: "CONNECT")
        connect.add(name: ":protocol", value: "websocket")
        for (name, value, indexing) in fields where name != ":method" && name != "sec-websocket-key" {
            connect.add(name: name, value: value, indexing: indexing)
        }
        return connect
    }
}

/// What a request has still to send on its stream.
private struct HTTP2Outgoing {
    var head: HPACKHeaders?
    private var content: [ByteBuffer] = []
    private(set) var count = 0
    private var trailers: HPACKHeaders?
    /// How many bytes of the content are not here yet; nil if its length is unknown.
    private var remaining: Int?
    /// Nothing follows what is here.
    private(set) var isComplete = false
    /// The end of the request was sent.
    private(set) var isEnded = false

    mutating func begin(_ head: HPACKHeaders, _ framing: BodyFraming) {
        self.head = head
        switch framing {
        case .none: isComplete = true
        case .length(let length): remaining = length
        case .chunked, .untilClose: break
        }
    }

    /// Content follows, until the client of the tunnel ends it.
    mutating func beginTunnel(_ head: HPACKHeaders) { self.head = head }

    mutating func append(_ bytes: ByteBuffer) {
        guard bytes.readableBytes > 0 else { return }
        defer { checkInvariants() }
        content.append(bytes)
        count += bytes.readableBytes
        guard let rest = remaining else { return }
        remaining = rest - bytes.readableBytes
        if rest <= bytes.readableBytes { isComplete = true }
    }

    /// - Parameter trailers: nil where there are none.
    mutating func end(_ trailers: HPACKHeaders?) {
        isComplete = true
        self.trailers = trailers
    }

    /// At most this number of bytes of the content.
    mutating func take(_ maximum: Int) -> ByteBuffer? {
        defer { checkInvariants() }
        guard let first = content.first else { return nil }
        guard first.readableBytes > maximum else {
            content.removeFirst()
            count -= first.readableBytes
            return first
        }
        count -= maximum
        return content[0].readSlice(length: maximum)
    }

    /// Whether what was just taken ends the request; it counts as sent.
    mutating func endsHere() -> Bool {
        guard isComplete, content.isEmpty, trailers == nil, !isEnded else { return false }
        isEnded = true
        return true
    }

    enum End {
        case content
        case trailers(HPACKHeaders)
    }

    /// What ends the request when its content has been sent; it counts as sent.
    mutating func takeEnd() -> End? {
        guard isComplete, content.isEmpty, !isEnded else { return nil }
        isEnded = true
        return trailers.take().map { .trailers($0) } ?? .content
    }

    mutating func drop() {
        content = []
        count = 0
    }

    private func checkInvariants() {
        assert(count >= 0 && content.isEmpty == (count == 0), "Content was counted that has left.")
        assert(
            content.count > 8 || content.reduce(0) { $0 + $1.readableBytes } == count,
            "The parts of the content do not add up to its length."
        )
        assert(!isEnded || isComplete && content.isEmpty, "A request has ended before all of it was sent.")
    }
}
