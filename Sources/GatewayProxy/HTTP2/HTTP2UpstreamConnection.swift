import GatewayHTTP
import GatewayTokens
import NIOCore
import NIOSSL

/// One HTTP/2 connection to an upstream: carries many exchanges at one time, each on an ``HTTP2UpstreamStream``.
///
///     opening ── SETTINGS ──▶ open ── GOAWAY ──▶ open, and retired: no more streams ──▶ closed
///                              └── idle, silent, or a rule was broken ─────────────────────▲
///
///     UpstreamPool ──▶ HTTP2UpstreamConnection ──▶ HTTP2UpstreamStream ◀── ExchangeDriver
///                 owns                        owns                    leases
///
/// `HTTP2Conversation` knows frames, field blocks, windows and the states of streams. What it returns is carried out here.
final class HTTP2UpstreamConnection: ChannelInboundHandler, DeadlineKeeper, Flushable {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    typealias Ready = (Result<HTTP2UpstreamConnection, GatewayProblem>) -> Void

    enum Phase {
        /// The upstream's settings have not come.
        case opening
        case open
        case closed
    }

    /// Maximum content of one response that may wait for its client.
    static let streamWindow = 262_144
    /// The window of a connection, as large as those of all its streams together: streams whose clients take nothing do not stop
    /// the others.
    private static let connectionWindow = PoolState.Rules.streamsPerConnection * streamWindow
    /// Maximum number of answers to frames of the upstream that wait because it does not read.
    private static let maximumAnswers = 1000
    /// A connection to which more than this waits takes no new requests while its upstream does not read. Uploads alone do not reach it.
    private static let maximumWaiting = 1_048_576

    let pool: UpstreamPool
    let id: ConnectionID
    private let origin: Origin
    private let isEncrypted: Bool
    let limits: Limits
    let buffers: SpareBuffers
    let clock: LoopClock
    let timeouts: Timeouts
    private let timer: DeadlineTimer
    private var context: ChannelHandlerContext?
    private(set) var phase = Phase.opening
    private var ready: Ready?
    private var conversation: HTTP2Conversation
    // Streams.
    /// By ``HTTP2StreamTable/Place``.
    private var streams: [HTTP2UpstreamStream?] = []
    private var hasCarried = false
    /// The upstream takes no more streams.
    private var isRetired = false
    /// What the upstream's settings allow.
    private(set) var streamLimit = Int.max
    // What is sent.
    private let writer = SocketWriter()
    private let output: HTTP2Output
    /// Streams that wait for room on the connection, in turn.
    private var waiting: [HTTP2UpstreamStream] = []
    private var isWritable = true
    /// Answers to frames of the upstream that were written while it did not take what was sent to it.
    private var answers = 0
    /// The rights of finished requests whose bytes the channel may still hold.
    private var unsentRights = HTTP2Remains<SentRight>()
    /// Cut DATA gave window back; waiting streams are served at the next flush.
    private var windowWasReturned = false
    /// Called once the heads of their streams were flushed.
    private var awaitingFlush: [(stream: HTTP2UpstreamStream, done: () -> Void)] = []
    // What is received.
    private var input: HTTP2Input
    private var isReading = false
    /// Streams whose clients are flushed at the end of this read.
    private var touched: [HTTP2UpstreamStream] = []
    /// Those that are being flushed: both lists keep their memory.
    private var flushing: [HTTP2UpstreamStream] = []
    /// Streams whose content was taken in this turn: at its end the upstream gets credit for them.
    private var uncredited: [HTTP2UpstreamStream] = []
    /// A PING was sent, and its answer has not come.
    private var isProbing = false
    /// Servers of gRPC close a connection on which several PINGs come, while they send no header block and no content in between. So one
    /// client's cancelled calls would end the calls of others. They allow one in five minutes.
    private var mayProbeAt: MonotonicTime?
    private static let probePeriod = Duration.seconds(300)
    /// How many of them were sent. The last has this number.
    private var probes: UInt64 = 0
    private var restsUntil: NIODeadline?
    /// A server that refuses the client certificate says so after the handshake, in place of its settings (TLS 1.3).
    private(set) var alert: TLSAlert?
    /// Why it ends the connection; nil while it has not said so.
    private(set) var farewell: HTTP2Farewell?
    /// The gateway has reset the connection, because the channel held bytes whose right was withdrawn.
    private(set) var isResetByGateway = false

    init(
        pool: UpstreamPool,
        id: ConnectionID,
        origin: Origin,
        isEncrypted: Bool,
        limits: Limits,
        worker: (clock: LoopClock, buffers: SpareBuffers),
        timeouts: Timeouts,
        _ ready: @escaping Ready
    ) {
        self.pool = pool
        self.id = id
        self.origin = origin
        self.isEncrypted = isEncrypted
        self.limits = limits
        clock = worker.clock
        buffers = worker.buffers
        self.timeouts = timeouts
        self.ready = ready
        timer = DeadlineTimer(queue: pool.deadlines)
        output = HTTP2Output(writer, buffers: worker.buffers, flushes: pool.flushes)
        input = HTTP2Input(worker.buffers)
        conversation = HTTP2Conversation(
            peerIsClient: false,
            limits: Self.allowances(limits),
            at: clock.monotonic()
        )
    }

    /// What an upstream is allowed.
    private static func allowances(_ limits: Limits) -> HTTP2Conversation.Limits {
        HTTP2Conversation.Limits(
            headerBytes: limits.headerBytes,
            headerFields: limits.headerFields,
            maximumStreams: .max,
            connectionWindow: connectionWindow,
            streamWindow: streamWindow
        )
    }

    var isOpen: Bool { phase == .open && !isRetired }
    /// The scheme of requests is `https`.
    var isTLS: Bool { origin.scheme == .https }
    /// Whether the upstream takes WebSockets (RFC 8441).
    var takesWebSocket: Bool { conversation.peerSettings.allowsExtendedConnect }

    // MARK: Opening

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: !isEncrypted)
        try? context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: HTTP2Output.waterMarks)
        isWritable = context.channel.isWritable
        pool.upstreams.add(self)
        setDeadline(timeouts.connect)
        output.write(room: 128) { frames in
            frames.preface()
            frames.settings([
                (.enablePush, 0), (.maximumStreams, 0), (.initialWindow, Self.streamWindow),
                (.maximumHeaderList, Self.allowances(limits).headerList),
            ])
        }
        creditConnection()
        output.flushNow()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    private func settle(_ result: Result<HTTP2UpstreamConnection, GatewayProblem>) { ready.take()?(result) }

    // MARK: Streams

    /// For a request that the pool has given a stream to.
    func makeStream(for client: PoolClient) -> HTTP2UpstreamStream {
        restsUntil = nil
        if !isProbing { timer.clear() }
        defer { hasCarried = true }
        return HTTP2UpstreamStream(on: self, for: client, isReused: hasCarried)
    }

    /// The stream's exchange is over, or goes on elsewhere.
    ///
    /// - Parameters:
    ///   - code: nil if the stream has ended on both sides; otherwise CANCEL is sent.
    ///   - exchange: That of the stream; nil if it has left before.
    /// - Returns: Whether the upstream may know of the stream; false also if it was over before.
    @discardableResult
    func end(_ stream: HTTP2UpstreamStream, _ code: HTTP2ErrorNumber?, of exchange: ExchangeDriver?) -> Bool {
        guard stream.phase != .over else { return false }
        take(stream.held, of: stream)
        stream.drop()
        let isUnsent = takeBack(stream, exchange)
        if let place = stream.place {
            release(place, stream)
            conversation.streams.reset(place)
            if !isUnsent, phase == .open, let id = stream.id {
                output.reset(id, code ?? .cancel)
                flush()
            }
        }
        if stream.waitsForRoom { waiting.removeAll { $0 === stream } }
        pool.streamEnded(self, of: stream.client)
        return !isUnsent && stream.id != nil
    }

    /// Cuts a stream whose exchange goes on: neither side sends on it any more.
    func reset(_ stream: HTTP2UpstreamStream, _ code: HTTP2ErrorNumber) {
        guard let place = stream.place, let id = stream.id else { return }
        release(place, stream)
        conversation.streams.reset(place)
        output.reset(id, code)
        flush()
    }

    /// The stream is closed: nothing is sent on it.
    private func release(_ place: HTTP2StreamTable.Place, _ stream: HTTP2UpstreamStream) {
        assert(streams[place] === stream, "A stream is not at its place.")
        streams[place] = nil
        stream.closed()
    }

    // MARK: Channel events

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard phase != .closed else { return }
        clock.begin()
        isReading = true
        var bytes = unwrapInboundIn(data)
        input.append(&bytes)
        while phase != .closed {
            let event = input.next(of: &conversation, into: &buffers.fields, at: { clock.monotonic() })
            if case .needMore = event { break }
            if isProbing, isAnswer(event) { upstreamLives() }
            switch event {
            case .fields, .content: mayProbeAt = nil
            default: break
            }
            receive(event)
        }
        if phase == .closed { input.drop(buffers) } else { input.finish(buffers) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        isReading = false
        swap(&touched, &flushing)
        for stream in flushing { stream.flushTouched() }
        flushing.removeAll(keepingCapacity: true)
        creditAll()
    }

    /// The client gets what was sent to it when this read is dealt with.
    func flushLater(_ stream: HTTP2UpstreamStream) {
        if isReading, stream.touch() { touched.append(stream) }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        guard isWritable else { return }
        answers = 0
        serveWaiting()
    }

    func channelInactive(context: ChannelHandlerContext) {
        clock.end()
        phase = .closed
        timer.cancel()
        if !awaitingFlush.isEmpty { tellFlushed() }
        output.drop()
        unsentRights = HTTP2Remains()
        pool.upstreams.remove(self)
        settle(.failure(lost))
        pool.connectionEnded(id)
        waiting = []
        for stream in takeStreams() { stream.lose(isRefused: false) }
    }

    private func takeStreams() -> [HTTP2UpstreamStream] {
        conversation.streams.open.compactMap { place in
            guard let stream = streams[place] else { return nil }
            release(place, stream)
            conversation.streams.reset(place)
            return stream
        }
    }

    private var lost: GatewayProblem {
        let detail = "\(origin) closed the connection before it spoke HTTP/2."
        return GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        alert = TLSAlert(error)
        if let alert {
            settle(.failure(UpstreamFailure.problem(alert, origin)))
        } else if UpstreamFailure.isRenegotiation(error), phase != .opening {
            return close(failing: UpstreamFailure.renegotiation)
        } else {
            settle(.failure(lost))
        }
        close()
    }

    /// The upstream has broken a rule, or sends more than it has a use for.
    private func broken(_ fault: HTTP2Fault) {
        guard phase == .opening else { return close(fault.code, failing: Self.detail(of: fault)) }
        settle(.failure(.speaksNoHTTP2(origin)))
        close(fault.code)
    }

    private static let brokenRule = "It broke a rule of HTTP/2."

    private static func detail(of fault: HTTP2Fault) -> String {
        switch fault {
        // In the words for a head that was decoded.
        case .longBlock, .expandingBlock:
            "It sent a response that is not valid HTTP: \(HeadRefusal.headTooLarge.rawValue)."
        default: brokenRule
        }
    }

    private func failStreams(_ detail: String) {
        for place in conversation.streams.open {
            guard let stream = streams[place], !stream.hasArrived else { continue }
            release(place, stream)
            conversation.streams.reset(place)
            stream.fail(detail)
        }
    }

    // MARK: Writing

    /// What was written leaves when all that the loop has read is dealt with.
    func flush() { output.flushLater(self) }

    func flushNow() {
        creditAll()
        if windowWasReturned {
            windowWasReturned = false
            serveWaiting()
        }
        output.flushNow()
        if !awaitingFlush.isEmpty { tellFlushed() }
        if !unsentRights.isEmpty { unsentRights.forget(upTo: output.taken()) }
    }

    /// Calls `done` once the head of the stream was flushed; never if it is withdrawn before.
    func whenFlushed(_ stream: HTTP2UpstreamStream, _ done: @escaping () -> Void) {
        guard output.holdsHead(of: stream.written) else { return done() }
        awaitingFlush.append((stream, done))
    }

    private func tellFlushed() {
        let awaiting = awaitingFlush
        awaitingFlush = []
        for (stream, done) in awaiting where !output.holdsHead(of: stream.written) { done() }
    }

    /// An answer to a frame of the upstream was written.
    private func answered() {
        flush()
        guard !isWritable else { return }
        answers += 1
        if answers > Self.maximumAnswers { broken(.tooManyFrames) }
    }
}

/// What the upstream says.
extension HTTP2UpstreamConnection {
    private func receive(_ event: HTTP2Conversation.Event) {
        switch event {
        // Upstreams open no streams.
        case .needMore, .nothing, .settingsAcknowledged, .pingAnswer, .request, .refused: break
        case .fields(let place, let isLast, let isClosed):
            stream(at: place, isClosed: isClosed)?.receiveFields(isLast: isLast)
        case .content(let place, let range, let isLast, let isClosed):
            let content = input.content(range)
            guard let stream = stream(at: place, isClosed: isClosed) else {
                return conversation.streams.take(content.readableBytes, isClosed ? nil : place)
            }
            stream.receive(content, isLast: isLast)
        case .reset(let place, let code): stream(at: place, isClosed: true)?.receiveReset(code)
        case .windowGrew(let place): grew(place)
        case .settings: receiveSettings()
        case .ping(let data):
            output.ping(data, isAnswer: true)
            answered()
        case .goAway(let last, let code): receiveGoAway(last, code)
        case .streamFault(let id, let place, let fault):
            output.reset(id, fault.code)
            answered()
            guard let place, let stream = stream(at: place, isClosed: true), !stream.hasArrived else { return }
            stream.fail(Self.brokenRule)
        case .connectionFault(let fault): broken(fault)
        }
    }

    /// - Parameter isClosed: The place is free.
    private func stream(at place: HTTP2StreamTable.Place, isClosed: Bool) -> HTTP2UpstreamStream? {
        guard let stream = streams[place] else { return nil }
        if isClosed { release(place, stream) }
        return stream
    }

    private func receiveSettings() {
        output.acknowledgeSettings()
        answered()
        let settings = conversation.peerSettings
        let limit = settings.maximumStreams
        guard phase == .opening else {
            if limit != streamLimit {
                streamLimit = limit
                pool.streamLimitChanged(id, to: limit)
            }
            for stream in streams { stream?.sendContent(maximum: Self.maximumTurn) }
            return serveWaiting()
        }
        streamLimit = limit
        phase = .open
        pool.learned(takesWebSocket: settings.allowsExtendedConnect)
        timer.clear()
        settle(.success(self))
    }

    private func receiveGoAway(_ last: UInt32, _ code: HTTP2ErrorNumber) {
        farewell = HTTP2Farewell(goAway: code, saying: conversation.farewell)
        retire()
        for place in conversation.streams.receiveGoAway(last: last) {
            guard let stream = streams[place] else { continue }
            release(place, stream)
            if code == .http11Required { stream.wantsHTTP1() } else { stream.lose(isRefused: true) }
        }
    }
}

/// Never more content than the upstream allows, and never more from it than clients take.
extension HTTP2UpstreamConnection {
    // MARK: Sending

    /// Maximum content that a stream sends before the next one that waits.
    private static let maximumTurn = 65_536

    /// Begins a stream with the head of a request.
    ///
    /// - Parameters:
    ///   - isLast: Nothing follows the head.
    /// - Returns: nil where the connection takes no more streams: it was lost, retired or limited since the lease, or the upstream does
    ///   not read what waits for it.
    func begin(
        _ stream: HTTP2UpstreamStream,
        isLast: Bool,
        room: Int,
        _ fields: (inout HTTP2FrameWriter) -> Void
    ) -> (id: UInt32, place: HTTP2StreamTable.Place)? {
        // What the channel holds does not count what this turn of the loop has written.
        if isWritable, output.unflushed >= HTTP2Output.maximumUnflushed { output.flushNow() }
        guard isOpen else { return nil }
        guard isWritable || output.waiting < Self.maximumWaiting else {
            retire()
            return nil
        }
        guard let place = conversation.openStream(isLast: isLast) else {
            retireIfExhausted()
            return nil
        }
        let id = conversation.streams.id(of: place)
        while streams.count <= place { streams.append(nil) }
        assert(streams[place] == nil, "Two streams have one place.")
        streams[place] = stream
        output.writeFields(stream: id, isLast: isLast, room: room, fields)
        stream.begins(output.written)
        retireIfExhausted()
        return (id, place)
    }

    private func retireIfExhausted() {
        if !conversation.streams.hasIDs { retire() }
    }

    /// Content that the stream can send now.
    func room(_ place: HTTP2StreamTable.Place) -> Int { isWritable ? conversation.streams.room(place) : 0 }
    func hasWindow(_ place: HTTP2StreamTable.Place) -> Bool { conversation.streams.hasWindow(place) }
    func unacknowledged(_ place: HTTP2StreamTable.Place) -> Int { conversation.streams.unacknowledged(place) }

    /// Ends a request without more content.
    func sendEnd(of stream: HTTP2UpstreamStream) {
        guard let place = stream.place, let id = stream.id else { return }
        ended(place, stream)
        if !output.endInPlace(id) { output.end(id) }
        stream.goesOn(to: output.position)
        flush()
    }

    /// The connection can be lost when this returns.
    func send(_ content: ByteBuffer, isLast: Bool, of stream: HTTP2UpstreamStream) {
        guard let place = stream.place, let id = stream.id else { return }
        var content = content
        conversation.send(content.readableBytes, place)
        if isLast { ended(place, stream) }
        output.writeData(content.readableBytes, of: &content, stream: id, isLast: isLast)
        stream.goesOn(to: output.position)
        flush()
    }

    /// - Parameter section: A field section of HTTP/1, with its empty line.
    func send(trailers section: ByteBuffer, of stream: HTTP2UpstreamStream) {
        guard let place = stream.place, let id = stream.id else { return }
        ended(place, stream)
        let room = 4 * section.readableBytes
        output.writeFields(stream: id, isLast: true, room: room) { $0.fields(section.readableBytesUInt8Span) }
        stream.goesOn(to: output.position)
        flush()
    }

    /// END_STREAM leaves.
    private func ended(_ place: HTTP2StreamTable.Place, _ stream: HTTP2UpstreamStream) {
        if conversation.streams.endLocal(place) { release(place, stream) }
    }

    /// The stream has more to send than there is room for.
    func wait(_ stream: HTTP2UpstreamStream) { waiting.append(stream) }

    /// There is room on the connection: each stream that waits has its turn.
    private func serveWaiting() {
        while phase == .open, isWritable, conversation.streams.connectionRoom > 0, !waiting.isEmpty {
            waiting.removeFirst().takeTurn(maximum: Self.maximumTurn)
        }
    }

    private func grew(_ place: HTTP2StreamTable.Place?) {
        if let place { streams[place]?.sendContent(maximum: Self.maximumTurn) }
        serveWaiting()
    }

    // MARK: Receiving

    /// The client has taken content, or it is thrown away: the upstream may send as much again.
    func take(_ count: Int, of stream: HTTP2UpstreamStream) {
        guard count > 0 else { return }
        conversation.streams.take(count, stream.place)
        if stream.place != nil, uncredited.last !== stream { uncredited.append(stream) }
        if !isReading { flush() }
    }

    /// Writes what the upstream may send since the last turn.
    private func creditAll() {
        guard phase == .open else { return uncredited.removeAll() }
        creditConnection()
        for stream in uncredited {
            guard let place = stream.place, let id = stream.id,
                let increment = conversation.streams.credit(place)
            else { continue }
            output.windowUpdate(id, increment)
            flush()
        }
        uncredited.removeAll(keepingCapacity: true)
    }

    private func creditConnection() {
        guard let increment = conversation.streams.connectionCredit() else { return }
        output.windowUpdate(0, increment)
        flush()
    }
}

/// Nothing leaves whose right was withdrawn.
extension HTTP2UpstreamConnection {
    /// Takes what was not flushed of a stream that is over out of the output. If the channel may hold a part of it, its right is kept.
    ///
    /// A request without a credential has a right, too: a reload can take its client or its route.
    ///
    /// - Returns: Whether the upstream never hears of the stream.
    private func takeBack(_ stream: HTTP2UpstreamStream, _ exchange: ExchangeDriver?) -> Bool {
        guard let id = stream.id, !output.hasLeft(stream.written.end) else { return false }
        if let content = output.withdraw(id, stream.written) {
            regain(content)
            if !awaitingFlush.isEmpty { awaitingFlush.removeAll { $0.stream === stream } }
            return true
        }
        // The upstream may need all of a stream that has ended in order (one without a place), so its rest stays.
        if stream.place != nil { regain(stream.withdrawRest(from: output, as: id)) }
        if let right = exchange?.right ?? stream.right { unsentRights.add(right, upTo: stream.written.end) }
        return false
    }

    private func regain(_ content: Int) {
        guard content > 0 else { return }
        conversation.streams.unsend(content)
        windowWasReturned = true
        flush()
    }

    /// An operator has withdrawn credentials. The exchanges that go with them have ended. What the channel holds of them can only be
    /// taken away with the connection.
    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials, at now: MonotonicTime) {
        endIfHeld { $0.isOver(by: withdrawn, at: now) }
    }

    /// A reload has come, and has ended exchanges.
    func followReload(_ isOver: (SentRight) -> Bool) { endIfHeld(isOver) }

    private func endIfHeld(_ isOver: (SentRight) -> Bool) {
        guard phase != .closed else { return }
        let taken = output.taken()
        let isHeld =
            unsentRights.contains(beyond: taken, isOver) || streams.contains { self.isHeld($0, beyond: taken, isOver) }
        guard isHeld else { return }
        phase = .closed
        isResetByGateway = true
        retire()
        output.drop()
        writer.reset()
    }

    /// Whether the channel may hold bytes of a tunnel whose client has left and whose right is over.
    private func isHeld(_ stream: HTTP2UpstreamStream?, beyond taken: Int, _ isOver: (SentRight) -> Bool) -> Bool {
        guard let stream, stream.written.end > taken, let right = stream.right else { return false }
        return isOver(right)
    }
}

/// How a connection rests, is asked whether it lives, and ends.
extension HTTP2UpstreamConnection {
    // MARK: Rest

    /// The connection has no streams, and is closed at `end`.
    func rest(until end: NIODeadline) {
        restsUntil = end
        if !isProbing { timer.set(end, for: self) }
    }

    /// Sends PING, because the upstream was silent for long. Without an answer, the connection takes no more requests.
    func probe() {
        guard phase == .open, !isProbing, !isRetired else { return }
        let now = clock.monotonic()
        guard mayProbeAt.map({ now >= $0 }) ?? true else { return }
        isProbing = true
        mayProbeAt = now + Self.probePeriod
        probes &+= 1
        let number = probes
        output.ping(number, isAnswer: false)
        flush()
        setDeadline(timeouts.connect)
    }

    private func setDeadline(_ amount: TimeAmount) { timer.set(clock.now + amount, for: self) }

    /// Whether an event shows that the upstream reads what is sent to it, or works on requests. Other frames come without that.
    private func isAnswer(_ event: HTTP2Conversation.Event) -> Bool {
        switch event {
        case .pingAnswer(let number): number == probes
        case .fields, .content, .reset: true
        default: false
        }
    }

    private func upstreamLives() {
        isProbing = false
        if let restsUntil { timer.set(restsUntil, for: self) } else { timer.clear() }
    }

    func deadlinePassed() {
        switch phase {
        case .opening:
            let detail = "\(origin) did not begin HTTP/2 in time."
            settle(.failure(GatewayProblem(.upstreamTimeout, detail, hopError: .connectionTimeout)))
            close()
        case .open where isProbing:
            // Requests that wait have deadlines of their own: the upstream may be busy. Without any, the pool closes the connection.
            isProbing = false
            retire()
        case .open:
            pool.removeIdle(id)
            close()
        case .closed: break
        }
    }

    // MARK: Closing

    /// No other stream begins.
    func retire() {
        guard !isRetired else { return }
        isRetired = true
        pool.retire(self)
    }

    /// With TLS the upstream's close_notify would be waited for, in a place that others may need.
    ///
    /// - Parameter detail: Why responses that are under way are not valid any more; nil where they only end early.
    func close(_ code: HTTP2ErrorNumber = .noError, failing detail: String? = nil) {
        guard phase != .closed else { return }
        let isTold = phase == .open || code != .noError
        // First: what is written can fail, and leads back to here. The pool must know, too, before a request that fails makes room for
        // another one.
        phase = .closed
        retire()
        if let detail { failStreams(detail) }
        if isTold { output.goAway(last: 0, code) }
        output.flushNow()
        writer.closeAtOnce()
    }
}

extension GatewayProblem {
    /// The route says `http2`, and the upstream does something else.
    static func speaksNoHTTP2(_ origin: Origin) -> GatewayProblem {
        let detail = "\(origin) does not speak HTTP/2. Set protocol of the route to auto or http1."
        return GatewayProblem(.upstreamUnreachable, detail, hopError: .protocolError)
    }
}
