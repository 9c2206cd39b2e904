import GatewayHTTP
import Logging
import NIOCore

/// One stream of an HTTP/2 connection: brings one request to its exchange, and takes the response.
///
///     reading ── admitted ──▶ exchange ─────────────▶ ended: what waits is sent ──▶ closed
///      │  ▲                    │  │ └── WebSocket ──▶ tunnel ───────────────────────▲
///      │  └─── reload ─────────┘  └── cut: what waits is sent, then a reset ────────┤
///      ├── of an engine ──▶ asking: question, then authorization ──▶ ended          │
///      └── refused ──▶ ended                                                        │
///     any of them ── reset, or the connection is lost ──────────────────────────────┘
///
/// Its ``HTTP2ClientConnection`` owns it. It owns the ``ExchangeDriver``, or the ``AuthorizationExchange`` of an engine's request.
final class HTTP2ClientStream: DeadlineKeeper {
    let id: UInt32
    /// Its place in the table of the connection; nil once it is closed there.
    private(set) var place: HTTP2StreamTable.Place?
    private let connection: HTTP2ClientConnection
    private(set) var request: RequestMessage
    /// What the head has reserved on the connection (``HTTP2ClientConnection/reserveHead(_:)``).
    private var headBytes = 0
    private var phase = Phase.reading
    /// Only in the phase of this name. Not in the enum: each look at it would cost more than a retain.
    private var exchange: ExchangeDriver?
    /// For a request of an engine.
    private var asking: Asking?
    private var deadline: ClientDeadline
    /// The connection calls ``flushRequest()`` at the end of this read.
    private var isTouched = false
    private var use = Use.messages
    private var input: Input
    private var output: Output

    private enum Phase {
        /// The head is read, and decided on.
        case reading
        case exchange
        case asking
        /// The response is complete, or cut; what waits of it is sent.
        ///
        /// `isRefused`: answered without an exchange. Any stranger can cause that, so little is spent on the answer.
        case ended(isRefused: Bool)
        case closed
    }

    /// An engine's request.
    private struct Asking {
        var authorization: AuthorizationExchange
        /// Content of a call, as far as it has come; nil if none is expected.
        var question: ByteBuffer?
    }

    /// What is carried behind the heads.
    private enum Use {
        case messages
        /// The request asks for a WebSocket.
        case webSocket
        /// The WebSocket is open: both directions carry its bytes.
        case tunnel
    }

    /// The request on its way to the exchange.
    private struct Input {
        enum Phase {
            /// The request has no content: its head is all that the exchange gets.
            case headOnly
            case open
            /// The exchange has got the end of the request, or is over.
            case delivered
        }

        var phase = Phase.open
        /// Content that waits for the exchange.
        var bytes: ByteBuffer
        var trailers: Trailers?
        var declared = DeclaredLength(.none)
        /// The content has no declared length, so an HTTP/1 upstream gets it in chunks.
        var isChunked = false
        /// The client has ended its side.
        var hasEnded = false
        var isProcessing = false

        var isOpen: Bool { if case .open = phase { true } else { false } }
    }

    private enum Trailers {
        /// Lines of HTTP/1, with the empty line that ends them.
        case section([UInt8])
        case refused(HeadRefusal)
    }

    /// The response on its way to the client.
    private struct Output {
        enum Phase {
            case open
            /// The exchange has ended it, and its end waits behind the content.
            case complete
            /// Its end was sent.
            case ended
            /// The response is broken: the stream is reset once what has come of it was sent. `isComplete` says that the exchange had ended
            /// it before, as the upstream of a tunnel ends its side.
            case cutting(isComplete: Bool)
        }

        var phase = Phase.open
        /// Content that waits for the windows.
        var bytes: ByteBuffer
        /// Lines of HTTP/1, with the empty line that ends them.
        var trailers: ByteBuffer?
        /// Too much waits: the upstream is read no further.
        var isFull = false
        /// The stream is in the queue of the connection.
        var isWaiting = false
        var isSending = false

        var isComplete: Bool {
            switch phase {
            case .open: false
            case .complete, .ended: true
            case .cutting(let isComplete): isComplete
            }
        }
        var hasSentEnd: Bool { if case .ended = phase { true } else { false } }
        var isCutting: Bool { if case .cutting = phase { true } else { false } }

        mutating func complete() {
            switch phase {
            case .open: phase = .complete
            case .complete, .ended: break
            case .cutting: phase = .cutting(isComplete: true)
            }
        }

        mutating func cut() { phase = .cutting(isComplete: isComplete) }
    }

    /// - Parameter place: nil for a request that is only reported (``report(_:hasFields:)``).
    init(_ id: UInt32, at place: HTTP2StreamTable.Place?, on connection: HTTP2ClientConnection) {
        self.id = id
        self.place = place
        self.connection = connection
        let configuration = connection.configuration
        let worker = configuration.worker
        let empty = configuration.buffers.empty
        deadline = ClientDeadline(worker.spareParts.takeTimer(of: worker.deadlines))
        request = worker.spareParts.takeRequest(configuration.limits, empty)
        output = Output(bytes: empty)
        input = Input(bytes: empty)
    }

    private var isClosed: Bool { if case .closed = phase { true } else { false } }
    private var isReading: Bool { if case .reading = phase { true } else { false } }
    private var isRefused: Bool { if case .ended(isRefused: true) = phase { true } else { false } }

    /// The configuration of the exchange, which keeps the one that it began with.
    var configuration: WorkerConfiguration { exchange?.configuration ?? connection.configuration }

    /// It is in the queue of the connection.
    var isWaiting: Bool { output.isWaiting }

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) { exchange?.endIfWithdrawn(withdrawn) }

    /// The table of the connection has its place for another stream.
    func leavePlace() { place = nil }

    /// The connection calls ``flushRequest()``.
    ///
    /// - Returns: false if it was to do so already.
    func touch() -> Bool {
        guard !isTouched else { return false }
        isTouched = true
        return true
    }

    /// Sends one frame: other streams wait for the connection, too.
    func takeTurn() {
        assert(output.isWaiting, "A stream that is not waiting got a turn.")
        output.isWaiting = false
        send(atMost: HTTP2FrameHeader.defaultMaximum)
    }

    // MARK: End

    /// The client has broken a rule that concerns this stream alone.
    private func resetForFault() {
        reset(.protocolError)
        connection.countFault()
    }

    /// Ends the stream with an error, whatever is under way.
    func reset(_ code: HTTP2ErrorNumber) {
        guard !isClosed else { return }
        connection.reset(self, code)
    }

    /// The response has left, and the client still sends its request.
    func stopRequest() {
        if !input.hasEnded { reset(.noError) }
    }

    /// Both sides have ended, the stream was reset, or the connection is lost.
    ///
    /// - Parameter isCut: Not because both sides have ended.
    func closed(isCut: Bool) {
        guard !isClosed else { return }
        phase = .closed
        let parts = connection.configuration.worker.spareParts
        deadline.giveBack(to: parts)
        let exchange = exchange.take()
        asking.take()?.authorization.cancel()
        // What the client of a tunnel sent last may not have left yet.
        let isFinished = use == .tunnel && !isCut && exchange?.finishTunnel(input.bytes) ?? false
        dropIncoming()
        output.bytes = connection.configuration.buffers.empty
        exchange?.clientLeft(isCut: isCut && !isFinished)
        leaveHead()
        parts.giveBack(request)
    }

    private func dropIncoming() {
        let count = input.bytes.readableBytes
        guard count > 0 else { return }
        input.bytes = connection.configuration.buffers.empty
        connection.took(count, of: self)
    }

    /// Gives back what the head has reserved: it is not needed any more.
    private func leaveHead() {
        connection.releaseHead(headBytes)
        headBytes = 0
    }

    // MARK: Deadline

    func setDeadline(_ amount: TimeAmount) {
        deadline.set(connection.clock.now + amount, for: self)
    }

    func clearDeadline() { deadline.clear() }

    func deadlinePassed() {
        if let exchange { return exchange.deadlinePassed() }
        if engineIsLate() { return }
        if output.hasSentEnd { return stopRequest() }
        if isRefused, !connection.hasWindow(self) { return reset(.cancel) }
        // The rest of the response waits for the client.
        let next = connection.clock.now + connection.timeouts.response
        if !deadline.extend(to: next, for: self, untaken: untakenBytes) {
            reset(output.isCutting ? .internalError : .cancel)
        }
    }
}

/// What goes from the client to the exchange.
extension HTTP2ClientStream {
    // MARK: Head

    /// Takes the request whose fields have come.
    func begin(hasContent: Bool) {
        input.hasEnded = !hasContent
        do throws(HTTP2Malformation) {
            if case .refused(let reason) = try decode(hasContent: hasContent) {
                return refuse(reason.problem("The request was", under: connection.configuration.limits))
            }
        } catch {
            return refuse(malformed: error)
        }
        let count = request.bytes.readableBytes
        guard connection.reserveHead(count) else {
            observe(Self.noRoomForHead, under: connection.configuration, isReset: true)
            return reset(.refusedStream)
        }
        headBytes = count
        // Nothing else of HTTP/2 asks for an upgrade.
        if request.decoder.head.wantsUpgrade { use = .webSocket }
        let framing = request.decoder.head.framing
        input.isChunked = if case .chunked = framing { true } else { false }
        input.declared = DeclaredLength(use == .webSocket ? .untilClose : framing)
        if case .none = framing { input.phase = .headOnly }
        authorize()
    }

    private static let noRoomForHead = GatewayProblem(
        .clientLimitReached,
        "The headers of the open requests on this HTTP/2 connection exceed 1 MiB.",
        retryAfter: .seconds(1)
    )

    /// Reads the fields that the event loop's table holds.
    @inline(__always)
    private func decode(hasContent: Bool) throws(HTTP2Malformation) -> RequestHeadDecoder.DecodeResult {
        let buffers = connection.configuration.buffers
        return try request.decode(
            &buffers.fields,
            hasContent: hasContent,
            mustBeTLS: connection.connectionContext.intercepted?.scheme == .https,
            webSocketKey: Self.webSocketKey
        )
    }

    /// Reports a request that its connection refuses without opening this stream.
    ///
    /// - Parameter hasFields: The event loop's table holds the request's fields, and its stream is reset. Otherwise its connection ends, which
    ///   counts as the refusal that HTTP/1 would have answered with.
    func report(_ problem: GatewayProblem, hasFields: Bool) {
        assert(place == nil, "A request is reported whose stream was opened.")
        // Only for the log, so it does not matter if something is wrong with them.
        if hasFields { _ = try? decode(hasContent: true) }
        observe(problem, under: connection.configuration, isReset: hasFields)
        closed(isCut: true)
    }

    /// 16 random bytes in Base64 (RFC 6455 section 4.1). The answer to it is the upstream's, and HTTP/2 clients ask for none.
    private static func webSocketKey() -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        // 16 bytes are 21 digits and two bits of the last one.
        let key = (0..<21).map { _ in digits[Int.random(in: 0..<64)] } + [digits[16 * Int.random(in: 0..<4)]]
        return String(decoding: key, as: UTF8.self) + "=="
    }

    private func authorize() {
        if let engine = connection.connectionContext.engine { return answerEngine(engine) }
        if case .authority = request.decoder.head.form {
            return refuse(GatewayProblem(.methodRefused, "CONNECT is only supported over HTTP/1.1."))
        }
        let configuration = connection.configuration
        let id = configuration.nextRequestID()
        switch connection.decide(on: request) {
        case .refused(let refusal): refuse(refusal.problem, id: id, refusal)
        case .unrouted(let unrouted):
            let refusal = unrouted.refusalInHTTP2
            refuse(refusal.problem, id: id, refusal)
        case .preflight(let preflight): send(configuration.answer(preflight, of: request, id: id, isTLS: isTLS))
        case .admitted(let admitted):
            // What authenticates a connection cannot share it with other streams. Clients then come back with HTTP/1.1.
            guard !configuration.route(admitted.match.route).usesPrivateConnection else {
                return reset(.http11Required)
            }
            begin(id, admitted, configuration)
        }
    }

    private func begin(
        _ id: RequestID,
        _ admitted: consuming RequestAuthorizer.Admitted,
        _ configuration: WorkerConfiguration
    ) {
        let now = configuration.shared.clock.monotonic()
        let exchange = exchange(id, admitted, under: configuration, contentIsFramed: false, at: now)
        phase = .exchange
        self.exchange = exchange
        exchange.begin(at: now)
        process()
    }

    // MARK: Content

    func receive(_ data: ByteBuffer, isLast: Bool) {
        input.hasEnded = isLast
        guard input.declared.take(data.readableBytes, isLast: isLast) else {
            return broke(.contentLengthMismatch, data)
        }
        guard exchange != nil, input.isOpen || use != .messages else {
            let isQuestion = collect(data)
            drop(data.readableBytes)
            if isQuestion, isLast { ask() }
            return
        }
        if input.bytes.readableBytes == 0, exchange?.intake == .content {
            input.bytes = data
        } else {
            // A slice would keep the whole of the buffer that it came in.
            input.bytes.writeImmutableBuffer(data)
        }
        process()
    }

    /// Takes the trailers whose fields have come.
    func receiveTrailers() {
        input.hasEnded = true
        let buffers = connection.configuration.buffers
        guard input.declared.take(0, isLast: true) else { return broke(.contentLengthMismatch, nil) }
        if let reason = buffers.fields.malformation { return broke(reason, nil) }
        let section = buffers.fields.start..<buffers.fields.end
        input.trailers = buffers.fields.refusal.map { .refused($0) } ?? .section(Array(buffers.fields.bytes[section]))
        if exchange != nil, input.isOpen { process() } else { ask() }
    }

    /// Throws away content of a request that is over. The client may send as much again.
    private func drop(_ count: Int) { connection.took(count, of: self) }

    private func broke(_ reason: HTTP2Malformation, _ data: ByteBuffer?) {
        if let data { drop(data.readableBytes) }
        connection.shared.logger.debug("HTTP/2 stream reset", metadata: ["gateway.error": "\(reason.rawValue)"])
        resetForFault()
    }

    /// Gives the exchange as much of the request as it takes. Called whenever more has come, or the exchange takes more.
    private func process() {
        // A head alone was flushed when it was written.
        if case .headOnly = input.phase, use == .messages { return }
        guard !input.isProcessing else { return }
        input.isProcessing = true
        while let exchange, input.isOpen, exchange.intake == .content {
            if input.bytes.readableBytes > 0 {
                deliver(to: exchange)
            } else if input.hasEnded {
                deliverEnd(to: exchange)
            } else {
                break
            }
        }
        input.isProcessing = false
        connection.touch(self)
    }

    private func deliver(to exchange: ExchangeDriver) {
        let bytes = input.bytes
        input.bytes = connection.configuration.buffers.empty
        connection.took(bytes.readableBytes, of: self)
        guard use != .tunnel else { return exchange.receive(tunnelled: bytes) }
        let isLast = input.hasEnded && !input.isChunked
        if isLast { input.phase = .delivered }
        exchange.receive(bytes, length: bytes.readableBytes, isLast: isLast)
    }

    private func deliverEnd(to exchange: ExchangeDriver) {
        input.phase = .delivered
        guard use != .tunnel else { return exchange.clientClosedOutput() }
        guard input.isChunked else {
            // A body of known length has no trailers in HTTP/1.
            return exchange.receive(connection.configuration.buffers.empty, length: 0, isLast: true)
        }
        guard let trailers = input.trailers else { return exchange.receive(trailers: Self.noTrailers) }
        let limits = exchange.configuration.limits
        guard case .section(let lines) = trailers else {
            if case .refused(let reason) = trailers {
                exchange.requestBroke(reason.problem("The trailers were", under: limits))
            }
            return
        }
        var section = TrailerSection(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        switch section.read(lines.span, forbidden: exchange.namesKeptFromUpstream) {
        case .complete(let output, _): exchange.receive(trailers: ByteBuffer(bytes: output))
        case .refused(let reason): exchange.requestBroke(reason.problem("The trailers were", under: limits))
        case .needMore: exchange.requestBroke(GatewayProblem(.requestRefused, "The trailers are not valid."))
        }
    }

    private static let noTrailers = ByteBuffer(string: "\r\n")

    func flushRequest() {
        isTouched = false
        exchange?.flushRequest()
    }

    // MARK: Reload

    func followReload(_ reload: ReloadInProgress) {
        guard let exchange else { return engineFollowsReload() }
        guard reload.apply(to: exchange) else { return }
        self.exchange = nil
        guard !isClosed else { return }
        phase = .reading
        connection.takeConfiguration()
        authorize()
    }

    // MARK: Refusal

    /// A malformed request gets no answer: a client that sends it does not know what HTTP is (RFC 9113 section 8.1.1).
    private func refuse(malformed reason: HTTP2Malformation) {
        observe(.malformedRequest(reason.rawValue), under: connection.configuration, isReset: true)
        resetForFault()
    }

    /// Answers a request that no exchange has begun for.
    private func refuse(_ problem: GatewayProblem, id: RequestID? = nil, _ refusal: RequestAuthorizer.Refusal? = nil) {
        let subject = refused(problem, refusal, id: id, under: connection.configuration)
        respond(with: problem, as: subject, requestIsComplete: input.hasEnded)
    }
}

/// What goes from the exchange to the client.
extension HTTP2ClientStream: ClientStream {
    var clientAddress: String? { connection.context?.channel.remoteAddress?.ipAddress }
    var connectionContext: ConnectionContext { connection.connectionContext }
    var isTLS: Bool { connection.isTLS }
    var hasUnreadContent: Bool { input.bytes.readableBytes > 0 || input.hasEnded && input.isOpen }
    var unreadBytes: Int { input.bytes.readableBytes }
    var isWritable: Bool { !output.isFull && !isClosed }
    /// What the client's windows, or its connection, have no room for.
    var untakenBytes: Int { output.bytes.readableBytes }

    func resumeRequest() { process() }

    /// Routes with `connection_auth: true` are refused before they use one.
    var privateConnection: PrivateConnection? { nil }
    func use(_ connection: PrivateConnection) { assertionFailure("A stream gets a connection of its own.") }

    // MARK: Head

    func sendContinue() { connection.writeHead(on: self, room: 64) { $0.status(100) } }

    func sendInformational(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID
    ) {
        guard connection.passesInformational(head.status) else { return }
        write(head, bytes, by: route, options, id: id, tokenNote: nil, dateLine: nil)
    }

    func sendHead(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        requestIsComplete: Bool
    ) throws(HeadFault) -> ContentForm {
        guard use == .messages || !(200..<300).contains(head.status) else { throw .opensNothing }
        let dateLine =
            head.hasDate ? nil : configuration.worker.dateLine(at: configuration.shared.clock.now().wall)
        let dropsCookies = write(head, bytes, by: route, options, id: id, tokenNote: tokenNote, dateLine: dateLine)
        if dropsCookies { warnOfCookies(route.state.route, to: configuration.shared) }
        return .content
    }

    /// - Returns: Whether a cookie was dropped.
    @discardableResult
    private func write(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        dateLine: [UInt8]?
    ) -> Bool {
        var dropsCookies = false
        connection.writeHead(on: self, room: bytes.readableBytes + Self.roomForOwnFields) { frames in
            dropsCookies = route.responseWriter.write(
                head,
                bytes,
                id: id,
                opensWebSocket: use != .messages && head.status == 101,
                rules: route.responseFields,
                options: options,
                tokenNote: tokenNote,
                dateLine: dateLine,
                into: &frames
            )
        }
        return dropsCookies
    }

    /// Usually enough for what the gateway adds to a head.
    private static let roomForOwnFields = 512

    // MARK: Content

    func stageContent(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard !isClosed, !output.isSending, output.bytes.readableBytes == 0, count <= HTTP2FrameHeader.defaultMaximum
        else {
            return false
        }
        return connection.stage(count, of: &buffer, on: self)
    }

    func sendContent(_ bytes: ByteBuffer) {
        guard !isClosed, bytes.readableBytes > 0 else { return }
        if output.bytes.readableBytes == 0 {
            // Few bytes must not keep a large buffer while the client takes nothing.
            output.bytes = bytes.isWasteful ? ByteBuffer(buffer: bytes) : bytes
        } else {
            output.bytes.discardReadBytes()
            output.bytes.writeImmutableBuffer(bytes)
        }
        if output.bytes.readableBytes >= Self.maximumStaged { send() }
        output.isFull = output.bytes.readableBytes >= Self.highWaterMark
    }

    func sendEnd(trailers: ByteBuffer?) {
        // One that has no more than the empty line has no field.
        output.trailers = trailers.flatMap { $0.readableBytes > 2 ? $0 : nil }
        output.complete()
    }

    func flush() { send() }

    func finish(requestIsComplete: Bool) { end() }

    func respond(with problem: GatewayProblem, as subject: ProblemSubject, requestIsComplete: Bool) {
        let shared = configuration.shared
        let answer = shared.answer(problem, to: subject, of: request, on: connection.connectionContext, isHTTP2: true)
        send(answer)
    }

    /// Answers without an exchange, or in its place.
    func send(_ answer: ProblemAnswer) {
        let date = configuration.shared.clock.now().wall.httpDate
        connection.writeHead(on: self, room: Self.roomForOwnFields) { frames in
            frames.status(answer.status)
            frames.field(named: "date", date)
            for field in answer.fields { frames.field(named: field.name, field.value) }
        }
        output.bytes = ByteBuffer(bytes: answer.body)
        end()
    }

    /// The exchange is over, and what waits to be sent is the rest of the response.
    private func end() {
        let wasTunnel = use == .tunnel
        output.complete()
        leaveExchange(isRefused: isReading)
        send()
        guard !isClosed else { return }
        // A tunnel ends for both sides.
        guard !wasTunnel || !output.hasSentEnd || input.hasEnded else { return reset(.noError) }
        if isRefused { dropHead() }
        guard !output.hasSentEnd else { return }
        // Strangers get little time to take the answer to a refused request if they have opened no window for it.
        let isShut = isRefused && !connection.hasWindow(self)
        setDeadline(isShut ? connection.timeouts.linger : connection.timeouts.response)
    }

    /// Lets go of the head of a refused request: the client may take long to read the answer, and a few bytes from it can stand for a long
    /// head.
    private func dropHead() {
        // An exchange that a reload has ended may still look at it.
        guard isKnownUniquelyReferenced(&request) else { return }
        request.drop(connection.configuration.buffers.empty)
        leaveHead()
    }

    func cut(within limit: TimeAmount?) {
        leaveExchange(isRefused: false)
        guard !isClosed else { return }
        output.cut()
        send()
        guard !isClosed else { return }
        setDeadline(limit ?? connection.timeouts.response)
    }

    private func leaveExchange(isRefused: Bool) {
        if !isClosed { phase = .ended(isRefused: isRefused) }
        exchange = nil
        input.phase = .delivered
        use = .messages
        deadline.clear()
        dropIncoming()
    }

    private static let maximumStaged = 32_768
    private static let highWaterMark = 65_536
    private static let lowWaterMark = 32_768

    // MARK: Sending

    /// The client lets this stream send more, or less.
    func windowGrew() { send() }

    /// Sends what the windows allow.
    ///
    /// - Parameter maximum: Of content.
    private func send(atMost maximum: Int = .max) {
        guard !isClosed, !output.isSending else { return }
        output.isSending = true
        var rest = maximum
        while rest > 0, output.bytes.readableBytes > 0, connection.maySend() {
            let count = min(output.bytes.readableBytes, connection.room(for: self), rest, HTTP2Output.maximumUnflushed)
            guard count > 0 else { break }
            rest -= count
            sendContent(count)
        }
        if output.bytes.readableBytes == 0 { sendEndOrReset() } else { waitForConnection() }
        output.isSending = false
        guard output.isFull, output.bytes.readableBytes < Self.lowWaterMark else { return }
        output.isFull = false
        exchange?.clientBecameWritable()
    }

    private func sendContent(_ count: Int) {
        guard let part = output.bytes.readSlice(length: count) else { return }
        if output.bytes.readableBytes == 0 { output.bytes = connection.configuration.buffers.empty }
        let isLast = output.isComplete && output.bytes.readableBytes == 0 && output.trailers == nil
        if isLast, !output.isCutting { output.phase = .ended }
        connection.send(part, isLast: isLast, on: self)
        if isLast { endSent() }
    }

    private func sendEndOrReset() {
        if output.isCutting { return reset(.internalError) }
        guard case .complete = output.phase, !isClosed else { return }
        output.phase = .ended
        connection.end(self, trailers: output.trailers.take())
        endSent()
    }

    /// A client that still sends its request is told to stop, once the response has left (RFC 9113 section 8.1).
    private func endSent() {
        guard !isClosed else { return }
        guard !input.hasEnded, use != .tunnel else { return setDeadline(connection.timeouts.response) }
        if connection.hasPlaces { setDeadline(Self.stopDelay) } else { connection.stopLater(self) }
    }

    /// Some clients fail if they are told at once, although the response is complete (curl 7.88 exits with 92). Meanwhile what they send is
    /// thrown away.
    private static let stopDelay = TimeAmount.seconds(1)

    private func waitForConnection() {
        guard !isClosed, connection.hasWindow(self), !output.isWaiting else { return }
        output.isWaiting = true
        connection.wait(self)
    }

    // MARK: Tunnel

    func beginTunnel() {
        use = .tunnel
        input.phase = .open
        process()
    }

    func closeOutput() {
        output.complete()
        flush()
    }
}

/// A stream on which an engine asks. It has no exchange: nothing goes to an upstream.
///
/// Content of a request is thrown away. That of a call of gRPC is the question.
extension HTTP2ClientStream: EngineStream {
    private func answerEngine(_ name: String) {
        guard let engine = connection.shared.engines[name] else {
            return refuse(GatewayProblem(.draining, "The engine is no longer configured."))
        }
        let exchange = AuthorizationExchange(engine, on: self, under: connection.configuration)
        asking = Asking(authorization: exchange, question: asking?.question)
        phase = .asking
        guard isCall, exchange.isProven else { return exchange.begin() }
        if let problem = refusal(of: engine) { return exchange.refuse(problem) }
        let question = asking?.question ?? connection.configuration.buffers.empty
        asking?.question = question
        guard input.hasEnded else { return setDeadline(connection.timeouts.bodyIdle) }
        exchange.begin(call: question.readableBytesUInt8Span)
    }

    var isCall: Bool {
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    /// Why the method is not served here; nil where it is.
    private func refusal(of engine: AuthzClient) -> GatewayProblem? {
        let bytes = request.bytes
        let path = bytes.readableBytesUInt8Span.string(request.decoder.head.path)
        guard engine.plan.contract == .envoy, path == CheckResponse.path else {
            return GatewayProblem(.methodRefused, "Engines with contract: envoy call \(CheckResponse.path).")
        }
        return nil
    }

    // MARK: Question

    /// - Returns: Whether the content is a part of the question.
    private func collect(_ data: ByteBuffer) -> Bool {
        guard let authorization = asking?.authorization, let count = asking?.question?.readableBytes else {
            return false
        }
        guard count + data.readableBytes <= Self.maximumQuestion else {
            asking?.question = nil
            authorization.refuse(GatewayProblem(.contentTooLarge, "The authorization request exceeds 1 MiB."))
            return false
        }
        asking?.question?.writeImmutableBuffer(data)
        setDeadline(connection.timeouts.bodyIdle)
        return true
    }

    private static let maximumQuestion = 1_048_576

    /// The question is complete.
    private func ask() {
        guard asking?.question != nil, !isClosed, let engine = connection.connectionContext.engine else { return }
        deadline.clear()
        // A reload may have come since its head.
        connection.takeConfiguration()
        answerEngine(engine)
    }

    /// - Returns: Whether the deadline was for an engine.
    private func engineIsLate() -> Bool {
        guard let authorization = asking?.authorization else { return false }
        if authorization.isWaiting {
            authorization.deadlinePassed()
            return true
        }
        guard asking?.question != nil, !input.hasEnded else { return false }
        asking?.question = nil
        authorization.refuse(GatewayProblem(.requestTimeout, "The proxy's authorization request timed out."))
        return true
    }

    // MARK: Answer

    func send(_ write: (inout ByteBuffer) -> Void) {
        var text = configuration.buffers.take()
        defer { configuration.buffers.giveBack(text) }
        write(&text)
        text.writeStaticString("\r\n")
        let bytes = text.readableBytesUInt8Span
        connection.writeHead(on: self, room: 2 * bytes.count) { frames in
            // Behind `HTTP/1.1 `.
            frames.status(bytes.digits(9..<12))
            frames.fields(bytes, from: bytes.endOfFirstLine, isSecret: true)
        }
        end()
    }

    func send(message: ByteBuffer) {
        connection.writeHead(on: self, room: Self.roomForOwnFields) { frames in
            frames.status(200)
            frames.field(name: "content-type", "application/grpc")
        }
        output.bytes = message
        output.trailers = ByteBuffer(string: "grpc-status: 0\r\n\r\n")
        end()
    }

    private func engineFollowsReload() {
        guard let authorization = asking?.authorization, authorization.isWaiting else { return }
        authorization.cancel()
        phase = .reading
        connection.takeConfiguration()
        authorize()
    }
}

/// What a stream needs and the next one can use again: the memory of a head, and a timer. One event loop's.
///
/// The streams themselves are not kept, and nothing that comes late for one can reach the next request. Its exchange holds on to the request,
/// which is taken again only once nobody refers to it. The stream gives its timer up.
final class SpareStreamParts {
    private var requests: [RequestMessage] = []
    private var timers: [DeadlineTimer] = []

    static let maximum = 128
    /// A head that took more memory is not kept.
    static let maximumFields = 96

    var count: Int { requests.count }

    /// - Parameter limits: Those of a head in HTTP/1. One of HTTP/2 has met its limits when it was decoded, so it does not matter if the spare
    ///   one has those of an earlier configuration.
    func takeRequest(_ limits: Limits, _ empty: ByteBuffer) -> RequestMessage {
        while var request = requests.popLast() {
            guard isKnownUniquelyReferenced(&request) else { continue }
            request.renew()
            return request
        }
        let decoder = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        return RequestMessage(decoder, empty, isHTTP2: true)
    }

    func takeTimer(of queue: DeadlineQueue) -> DeadlineTimer {
        timers.popLast() ?? DeadlineTimer(queue: queue)
    }

    /// The stream has left its connection. Its exchange may still use the request.
    func giveBack(_ request: RequestMessage) {
        guard requests.count < Self.maximum, request.bytes.capacity <= SpareBuffers.capacity,
            request.decoder.head.fields.capacity <= Self.maximumFields
        else { return }
        requests.append(request)
    }

    /// - Parameter timer: The stream sets it no more.
    func giveBack(_ timer: DeadlineTimer) {
        guard timers.count < Self.maximum else { return timer.cancel() }
        timer.release()
        timers.append(timer)
    }
}

extension GatewayProblem {
    /// - Parameter reason: Which rule of HTTP/2 the request breaks.
    static func malformedRequest(_ reason: String) -> GatewayProblem {
        GatewayProblem(.requestRefused, "The HTTP/2 request is malformed: \(reason).")
    }
}

extension Span<UInt8> {
    fileprivate func digits(_ range: Range<Int>) -> Int {
        var number = 0
        for index in range { number = number * 10 + Int(self[index] &- 0x30) }
        return number
    }

    fileprivate var endOfFirstLine: Int {
        var end = 0
        while end < count, self[end] != 0x0A { end += 1 }
        return end + 1
    }
}
