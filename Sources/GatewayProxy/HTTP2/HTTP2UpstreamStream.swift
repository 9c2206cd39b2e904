import GatewayHTTP
import NIOCore

/// One request and its response on an ``HTTP2UpstreamConnection``.
///
///     head ───────────────────▶ body ────▶ over
///      │ │ └── WebSocket ──▶ tunnel ───────▲
///      │ └──▶ inspecting ──▶ body, or held │
///      ▼                                   │
///     held ── passed on ──▶ body           │
///       └── dropped, to be sent again ─────┤
///     head ──▶ turned away ────────────────┘
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
        /// The connection took no stream when the head was to be written.
        case turnedAway
        case over
    }

    /// What more of the response may come.
    private enum Incoming {
        case open
        /// The end has come, and may be among ``arrivals``.
        case ended
        /// The end of a tunnel has come, and the upstream does not need the rest of the client's direction.
        case endedBothWays
        /// The stream was lost while the response was held back.
        case lost
        /// A tunnel was lost whose end waits for the client.
        case lostBehindEnd
    }

    private enum Arrival {
        /// The end of the response.
        case trailers(Trailers)
        case content(ByteBuffer, isLast: Bool)

        var isLast: Bool {
            switch self {
            case .trailers: true
            case .content(_, let isLast): isLast
            }
        }
    }

    private enum Trailers {
        /// Those that may pass, with the empty line.
        case section([UInt8])
        case invalid(String)
    }

    let connection: HTTP2UpstreamConnection
    /// The client that the stream counts for.
    let client: PoolClient
    let isReused: Bool
    /// nil before the head was written.
    private(set) var id: UInt32?
    /// nil before the head was written, and once the stream is closed: nothing more can be sent on it.
    private(set) var place: HTTP2StreamTable.Place?
    private var exchange: ExchangeDriver?
    /// What it was sent with, once its exchange has left.
    private(set) var right: SentRight?
    /// How far it was written.
    private(set) var written = HTTP2Output.Written()
    private(set) var phase = Phase.head
    // What is sent.
    private var outgoing = HTTP2Outgoing()
    /// It is in the connection's queue of streams that wait for room.
    private(set) var waitsForRoom = false
    private var isFull = false
    // What is received.
    private var answersHead = false
    private var decoder: ResponseHeadDecoder
    private var heldHead: ByteBuffer
    private var inspection = HTTP2UpstreamStream.newInspection
    private var order = HTTP2ResponseOrder()
    private var endsAsChunks = false
    /// The connection calls ``flushTouched()`` at the end of this read.
    private var isTouched = false
    /// At most content, which is joined and which the window bounds, and trailers behind it.
    private var arrivals: [Arrival] = []
    /// Content that has come and that no client has taken.
    private(set) var held = 0
    private var incoming = Incoming.open
    /// `Sec-WebSocket-Accept` for the client that asked for a WebSocket.
    private var webSocketAccept: String?
    /// The end of a tunnel whose client has left.
    private var tunnelEnd: HTTP2TunnelEnd?

    init(on connection: HTTP2UpstreamConnection, for client: PoolClient, isReused: Bool) {
        self.connection = connection
        self.client = client
        self.isReused = isReused
        heldHead = connection.buffers.empty
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
    var untakenBytes: Int { outgoing.count + (place.map(connection.unacknowledged) ?? 0) }

    var heldBytes: Int { outgoing.count }
    /// The end of the response has come, and may be among ``arrivals``.
    var hasArrived: Bool {
        switch incoming {
        case .ended, .endedBothWays, .lostBehindEnd: true
        case .open, .lost: false
        }
    }
    /// All of the request has left, and all of the response has come.
    var isComplete: Bool { hasArrived && outgoing.isEnded }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        self.exchange = exchange
        self.answersHead = answersHead
    }

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: borrowing RequestWriter,
        end: RequestEnd
    ) throws(HeadFault) {
        assert(id == nil, "A stream begins twice.")
        if head.wantsUpgrade {
            guard let accept = WebSocketHandshake.accept(head, bytes.readableBytesUInt8Span) else { throw .unwritable }
            webSocketAccept = accept
        } else {
            outgoing.begin(head.framing)
        }
        let opened = connection.begin(
            self,
            isLast: outgoing.endsHere(),
            room: writer.roomToEncode(head, end: end)
        ) { frames in
            writer.encode(head, bytes, end: end, isTLS: connection.isTLS, into: &frames)
        }
        guard let opened else { return phase = .turnedAway }
        (id, place) = opened
    }

    /// A stream never has what an HTTP/1 connection could not send: the exchange writes the head anew.
    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {}

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        guard phase != .over else { return }
        outgoing.append(bytes)
        if !isWritable { flush() }
    }

    func sendEnd(trailers: ByteBuffer) {
        outgoing.end(trailers.readableBytes > 2 ? trailers : nil)
    }

    func flush() {
        guard phase != .over else { return }
        // The connection was lost, or retired, between the lease and the head.
        guard phase != .turnedAway else { return lose(isRefused: true) }
        sendContent()
        connection.flush()
    }

    func whenSent(_ done: @escaping () -> Void) {
        flush()
        if id != nil, phase != .over { connection.whenFlushed(self, done) }
    }

    func takeUnsent() -> ByteBuffer? { nil }

    // MARK: Sending

    /// Both sides have ended, the stream was reset, or the connection is lost: nothing more can be sent.
    func closed() { place = nil }

    /// The head was written.
    func begins(_ written: HTTP2Output.Written) { self.written = written }

    /// More was written.
    func goesOn(to end: Int) { written.end = end }

    /// Takes what was not flushed out of the output.
    ///
    /// - Returns: The bytes of content that were taken out.
    func withdrawRest(from output: HTTP2Output, as id: UInt32) -> Int { output.withdrawRest(of: id, &written) }

    /// Sends what waits, as far as there is room for it.
    ///
    /// - Parameter maximum: How much, so that other streams have their turns.
    func sendContent(maximum: Int = .max) {
        defer { outgoing.settle() }
        guard place != nil, !outgoing.isEnded else { return }
        var turn = maximum
        // Sending can find out that the connection is lost.
        while outgoing.count > 0, let place {
            guard connection.hasWindow(place) else { return contentMoved() }
            let room = min(connection.room(place), turn)
            guard room > 0 else { return waitForRoom() }
            guard let bytes = outgoing.take(room) else { break }
            turn -= bytes.readableBytes
            connection.send(bytes, isLast: outgoing.endsHere(), of: self)
        }
        if place != nil {
            switch outgoing.takeEnd() {
            case .content: connection.sendEnd(of: self)
            case .trailers(let section): connection.send(trailers: section, of: self)
            case nil: break
            }
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
        // After an early response the rest of the request is not wanted.
        connection.end(self, outgoing.isEnded ? nil : .cancel, of: exchange.take())
    }

    func returnUnused() { connection.end(self, nil, of: exchange.take()) }

    func abandon(isCut: Bool) {
        let exchange = exchange.take()
        // A tunnel that ends in order has left its right here already.
        if phase == .tunnel, let exchange { right = exchange.right }
        guard isCut || !leavesTunnelInOrder() else { return }
        let isUnanswered = phase != .over && !order.hasHead
        let isKnown = connection.end(self, isComplete ? nil : .cancel, of: exchange)
        if isUnanswered, isKnown { connection.probe() }
    }

    /// The response breaks a rule.
    func fail(_ detail: String) {
        let exchange = exchange.take()
        connection.end(self, .protocolError, of: exchange)
        exchange?.upstreamBroke(detail)
    }

    /// The upstream has reset the stream, or the connection is lost.
    ///
    /// - Parameters:
    ///   - isRefused: The upstream has not looked at the request.
    ///   - reset: The code with which the upstream has reset the stream; nil where the connection ends.
    func lose(isRefused: Bool, reset: HTTP2ErrorNumber? = nil) {
        guard phase != .over else { return }
        guard phase != .tunnel else { return loseTunnel() }
        // A whole response that the client has not taken yet stays whole.
        guard !hasArrived || phase == .head else { return }
        guard phase != .held else { return incoming = .lost }
        let exchange = exchange.take()
        connection.end(self, nil, of: exchange)
        exchange?.upstreamLost(
            hasAnswered: order.hasHead,
            isRefused: isRefused,
            alert: connection.alert,
            farewell: reset.map { HTTP2Farewell(reset: $0) } ?? connection.farewell,
            isByGateway: connection.isResetByGateway
        )
    }

    /// The upstream has reset the stream, which is closed.
    func receiveReset(_ code: HTTP2ErrorNumber) {
        guard code != .noError || !acceptEndWithoutUpload() else { return }
        guard code != .http11Required || phase != .head else { return wantsHTTP1() }
        lose(isRefused: code == .refusedStream, reset: code)
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
        held = 0
        outgoing.drop()
        tunnelEnd.take()?.came()
    }
}

/// What goes from the upstream to the exchange.
extension HTTP2UpstreamStream {
    // MARK: Response

    /// - Parameter bytes: Of the buffer that was read into.
    func receive(_ bytes: ByteBuffer, isLast: Bool) {
        guard phase != .over else { return connection.take(bytes.readableBytes, of: self) }
        held += bytes.readableBytes
        // Not even to wait: it would become the body of the head that follows.
        guard phase != .head else { return fail(HTTP2ResponseOrder.Fault.contentBeforeHead.detail) }
        receive(.content(bytes, isLast: isLast))
    }

    /// The fields are in the table of the event loop.
    func receiveFields(isLast: Bool) {
        guard phase != .over, !hasArrived else { return }
        guard phase == .head else {
            return isLast ? receive(.trailers(readTrailers())) : receiveUnfinishedFields()
        }
        if isLast { incoming = .ended }
        do throws(HTTP2ResponseOrder.Fault) {
            if case .head = try order.receiveFields(isLast: isLast) { try receiveHead(isLast: isLast) }
        } catch {
            fail(error.detail)
        }
    }

    /// Fields behind the head that do not end the stream. The response fails at once, even if nobody takes it: there is no flow control
    /// for fields, so nothing else would bound how many of them wait.
    private func receiveUnfinishedFields() {
        let fault: HTTP2ResponseOrder.Fault = phase == .tunnel ? .fieldsInTunnel : .unfinishedTrailers
        guard phase == .held else { return fail(fault.detail) }
        // The request may still be sent again. If it is not, the response fails when it is passed on.
        connection.reset(self, .protocolError)
        receive(.trailers(.invalid(fault.detail)))
    }

    private func receive(_ arrival: Arrival) {
        guard phase != .over, !hasArrived else { return }
        if arrival.isLast { incoming = .ended }
        guard arrivals.isEmpty, takes(arrival) else {
            append(arrival)
            guard phase == .inspecting else { return }
            look(at: arrival)
            return inspect()
        }
        handle(arrival)
    }

    /// Content that waits is joined, and copied: a byte in each frame would take a hundred times its size, and a slice would keep the
    /// buffer that was read into.
    private func append(_ arrival: Arrival) {
        defer { assert(arrivals.count <= 2, "More waits than content and its trailers.") }
        guard case .content(let bytes, let isLast) = arrival else { return arrivals.append(arrival) }
        guard case .content(var waiting, _)? = arrivals.last else {
            return arrivals.append(.content(ByteBuffer(buffer: bytes), isLast: isLast))
        }
        arrivals.removeLast()
        waiting.writeImmutableBuffer(bytes)
        arrivals.append(.content(waiting, isLast: isLast))
    }

    private func takes(_ arrival: Arrival) -> Bool {
        switch (phase, arrival) {
        case (.held, _), (.inspecting, _): false
        case (_, .trailers): true
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
        let isLost = incoming == .lost || incoming == .lostBehindEnd
        if isLost, phase != .held, phase != .over, arrivals.isEmpty { lose(isRefused: false) }
    }

    private func handle(_ arrival: Arrival) {
        guard phase != .over else { return }
        do throws(HTTP2ResponseOrder.Fault) {
            switch arrival {
            case .trailers(let trailers):
                _ = try order.receiveFields(isLast: true)
                pass(trailers)
            case .content(let bytes, let isLast):
                try order.receiveContent(bytes.readableBytes, isLast: isLast)
                if phase == .tunnel {
                    receive(tunnelled: bytes, isLast: isLast)
                } else {
                    receiveContent(bytes, isLast: isLast)
                }
            }
        } catch {
            fail(error.detail)
        }
    }

    private func receiveHead(isLast: Bool) throws(HTTP2ResponseOrder.Fault) {
        guard let exchange else { return }
        let result: ResponseHeadDecoder.DecodeResult
        do throws(HTTP2Malformation) {
            result = try decoder.decode(
                &connection.buffers.fields,
                isLast: isLast,
                answersHead: answersHead,
                webSocketAccept: webSocketAccept
            )
        } catch {
            return fail("It sent a response that is not valid HTTP: \(error.rawValue).")
        }
        if case .refused(let reason) = result {
            return fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
        }
        let head = connection.buffers.takeLines(decoder.head.end)
        let isInformational = decoder.head.isInformational && decoder.head.status != 101
        try order.receiveHead(decoder.head.framing, isInformational: isInformational, isLast: isLast)
        guard !isInformational else {
            // They are only advice, and nothing else bounds how much of them would wait for a client that reads nothing. A 100 passes once,
            // and some clients wait for it.
            guard decoder.head.status == 100 || exchange.clientIsWritable else { return }
            exchange.receiveInformational(decoder.head, head)
            decoder.giveBackFields(to: &connection.buffers.fields)
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
            decoder.giveBackFields(to: &connection.buffers.fields)
            connection.flushLater(self)
            if hasArrived, arrivals.isEmpty { complete(with: nil) }
        case .inspect:
            phase = .inspecting
            heldHead = head
            inspection = Self.newInspection
            for arrival in arrivals { look(at: arrival) }
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

    private func receiveContent(_ bytes: ByteBuffer, isLast: Bool) {
        guard let exchange else { return }
        pass(bytes, to: exchange)
        if isLast, phase != .over { complete(with: nil) }
    }

    /// Hands content to the exchange. The upstream may then send as much again.
    private func pass(_ bytes: ByteBuffer, to exchange: ExchangeDriver) {
        connection.flushLater(self)
        var content = bytes
        let count = content.readableBytes
        if count > 0, !exchange.stage(count, of: &content) { exchange.receive(content: content) }
        guard phase != .over else { return }
        held -= count
        connection.take(count, of: self)
    }

    private func readTrailers() -> Trailers {
        if let reason = connection.buffers.fields.malformationOfTrailers {
            return .invalid("It sent trailers that are not valid: \(reason.rawValue).")
        }
        guard connection.buffers.fields.refusal == nil else { return .invalid("It sent trailers that are not valid.") }
        let forbidden = decoder.head.options.nominatedAsOwned + (exchange?.namesKeptFromClient ?? [])
        return .section(TrailerSection.output(of: connection.buffers.fields, forbidden: forbidden))
    }

    private func pass(_ trailers: Trailers) {
        switch trailers {
        case .section(let bytes): complete(with: ByteBuffer(bytes: bytes))
        case .invalid(let detail): fail(detail)
        }
    }

    /// - Parameter trailers: With the empty line that ends them.
    private func complete(with trailers: ByteBuffer?) {
        guard let exchange else { return }
        connection.flushLater(self)
        // Behind content of known length, HTTP/1 has no place for trailers.
        if endsAsChunks || trailers != nil && exchange.clientIsHTTP2 { exchange.receive(responseTrailers: trailers) }
        exchange.responseCompleted()
    }

    private func flushResponse() { exchange?.flushResponse() }

    /// The connection calls ``flushTouched()``.
    ///
    /// - Returns: false if it was to do so already.
    func touch() -> Bool {
        guard !isTouched else { return false }
        isTouched = true
        return true
    }

    func flushTouched() {
        isTouched = false
        flushResponse()
    }

    // MARK: Held responses

    /// Padding takes from the window too, and what is held back is not credited: the limit has to be reached before the window is used up.
    private static var newInspection: BodyInspection {
        BodyInspection(waitingLimit: HTTP2UpstreamConnection.streamWindow / 2)
    }

    private func look(at arrival: Arrival) {
        guard case .content(let bytes, _) = arrival else { return }
        inspection.receive(content: bytes.readableBytesView)
        inspection.receive(bytes: bytes.readableBytes)
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
        heldHead = connection.buffers.empty
        phase = .head
        follow(exchange.receive(decoder.head, head, content: content), head, exchange)
        process()
    }

    func passHeldResponse() {
        guard phase == .held, let exchange else { return }
        // What `follow` compares: the rest of the response may wait behind the head.
        let head = heldHead
        heldHead = connection.buffers.empty
        phase = .head
        follow(exchange.passHeld(decoder.head, head), head, exchange)
        process()
    }

    func dropHeldResponse(requestWasSent: Bool) {
        guard phase == .held else { return }
        heldHead = connection.buffers.empty
        connection.end(self, isComplete ? nil : .cancel, of: exchange.take())
    }
}

/// A WebSocket on a stream (RFC 8441). END_STREAM ends one direction; a reset cuts both.
extension HTTP2UpstreamStream {
    // MARK: From the upstream

    private func beginTunnel(_ exchange: ExchangeDriver) {
        phase = .tunnel
        order.beginTunnel()
        connection.flushLater(self)
        exchange.tunnelBegan()
        if hasArrived, arrivals.isEmpty { inputEnded() }
    }

    private func receive(tunnelled bytes: ByteBuffer, isLast: Bool) {
        // The client has left, which the upstream learns as it would from a closed socket.
        guard let exchange else {
            connection.end(self, isLast && outgoing.isEnded ? nil : .cancel, of: nil)
            return
        }
        pass(bytes, to: exchange)
        if isLast { inputEnded() }
    }

    private func inputEnded() {
        guard phase == .tunnel else { return }
        exchange?.upstreamClosedOutput()
        endTunnelIfOver()
    }

    /// Both directions have ended.
    private func endTunnelIfOver() {
        guard phase == .tunnel, hasArrived, arrivals.isEmpty, outgoing.isEnded || incoming == .endedBothWays
        else { return }
        let exchange = exchange.take()
        connection.end(self, nil, of: exchange)
        exchange?.responseEndedWithConnection()
    }

    /// The upstream has ended its direction and says that it does not need the rest of the other one (RFC 9113 section 8.1).
    private func acceptEndWithoutUpload() -> Bool {
        guard phase == .tunnel, hasArrived else { return false }
        incoming = .endedBothWays
        endTunnelIfOver()
        return true
    }

    /// The upstream has reset the stream, or the connection is lost.
    private func loseTunnel() {
        // What came before it is passed on first.
        guard arrivals.isEmpty || !hasArrived else { return incoming = .lostBehindEnd }
        let exchange = exchange.take()
        connection.end(self, nil, of: exchange)
        exchange?.upstreamLost(hasAnswered: true, isByGateway: connection.isResetByGateway)
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
        guard phase == .tunnel, outgoing.count == 0, place != nil, connection.phase == .open else { return false }
        tunnelEnd = HTTP2TunnelEnd(of: self, within: connection.timeouts.linger)
        closeOutput()
        endTunnelIfOver()
        return true
    }

    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        right = exchange.take()?.right
        guard phase != .over, place != nil, connection.phase == .open else {
            connection.end(self, nil, of: nil)
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

    func deadlinePassed() { stream.connection.end(stream, .cancel, of: nil) }

    /// The stream is over.
    func came() {
        timer.cancel()
        whenCame()
    }
}

/// What a request has still to send on its stream.
///
/// Clients choose how large the pieces are in which content comes, and each is part of what a connection was read into. Small ones are
/// joined, so that many of them cost no more than their bytes and leave as one frame. What stays is copied where it would keep much more
/// memory than it has bytes (``settle()``).
struct HTTP2Outgoing {
    private var content: [ByteBuffer] = []
    private(set) var count = 0
    /// Lines of HTTP/1.
    private var trailers: ByteBuffer?
    /// How many bytes of the content are not here yet; nil if its length is unknown.
    private var remaining: Int?
    /// Nothing follows what is here.
    private(set) var isComplete = false
    /// The end of the request was sent.
    private(set) var isEnded = false

    /// Two pieces that are both shorter are joined.
    static let smallestPiece = 16_384

    /// Without this, content follows until the client of a tunnel ends it.
    mutating func begin(_ framing: BodyFraming) {
        switch framing {
        case .none: isComplete = true
        case .length(let length): remaining = length
        case .chunked, .untilClose: break
        }
    }

    mutating func append(_ bytes: ByteBuffer) {
        guard bytes.readableBytes > 0 else { return }
        defer { checkInvariants() }
        add(bytes)
        count += bytes.readableBytes
        guard let rest = remaining else { return }
        remaining = rest - bytes.readableBytes
        if rest <= bytes.readableBytes { isComplete = true }
    }

    private mutating func add(_ bytes: ByteBuffer) {
        guard bytes.readableBytes < Self.smallestPiece, let last = content.last?.readableBytes,
            last < Self.smallestPiece
        else { return content.append(bytes) }
        content[content.count - 1].writeImmutableBuffer(bytes)
    }

    /// What is here waits for long.
    mutating func settle() {
        for index in content.indices where content[index].isWasteful {
            content[index] = ByteBuffer(buffer: content[index])
        }
    }

    /// The memory that what is here keeps, and in how many pieces it is. For tests.
    var capacity: Int { content.reduce(0) { $0 + $1.storageCapacity } }
    var pieces: Int { content.count }

    /// - Parameter trailers: nil where there are none.
    mutating func end(_ trailers: ByteBuffer?) {
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
        case trailers(ByteBuffer)
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
            content.count <= 2 + 2 * count / Self.smallestPiece,
            "Pieces of content were not joined."
        )
        assert(
            content.count > 8 || content.reduce(0) { $0 + $1.readableBytes } == count,
            "The parts of the content do not add up to its length."
        )
        assert(!isEnded || isComplete && content.isEmpty, "A request has ended before all of it was sent.")
    }
}
