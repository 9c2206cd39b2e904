import GatewayHTTP
import Logging
import NIOCore

/// One HTTP/2 connection of a client: its streams, the windows of the connection and the ways to end.
///
///     opening ──▶ open ──▶ announcing ──▶ draining ──▶ lingering ──▶ closed
///     SETTINGS ───┘        │              │            │             │
///     drain, or its age ───┘              │            │             │
///     PING was answered, or client ends ──┘            │             │
///     no stream is left, or a rule was broken ─────────┘             │
///     client is gone, or a deadline has passed ──────────────────────┘
///
///     HTTP2ClientConnection ──▶ HTTP2ClientStream ──▶ ExchangeDriver, or AuthorizationExchange for an engine
///                          owns                  owns
///
/// Bytes go to ``HTTP2Conversation``, which says what they mean; what leaves goes to ``HTTP2Output``. Lives on one event loop. Decides
/// nothing about a request: each ``HTTP2ClientStream`` has an exchange of its own.
///
/// It shares ``HTTP2Output`` with ``HTTP2UpstreamConnection``, but not the order in which streams send, nor what waits on a stream.
/// Responses take turns of one frame, so that a browser gets all of them at the same time; requests take turns of four frames. A response
/// waits in one buffer, is paused at a high-water mark, and can be cut behind what has come of it. A request (``HTTP2Outgoing``) waits in
/// the pieces in which its client sends it, knows its end from its declared length, and can be dropped to be sent elsewhere. One type for
/// both would have all of these states on both paths, to save a list and a loop of a few lines.
final class HTTP2ClientConnection: ChannelDuplexHandler, DeadlineKeeper, Flushable, ClientConnection {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        /// The client's SETTINGS have not come.
        case opening
        case open
        /// A GOAWAY has left. Streams that the client opened before it has read that are served.
        case announcing
        /// Open streams are finished, and new ones are refused.
        case draining
        /// Everything is sent. What still comes is thrown away until the client closes.
        case lingering
        case closed
    }

    private(set) var configuration: WorkerConfiguration
    let connectionContext: ConnectionContext
    let listenerNumber: Int
    let isTLS: Bool
    private(set) var context: ChannelHandlerContext?
    private let writer = SocketWriter()
    /// TLS is not in the pipeline.
    private let hasDirectSocket: Bool
    let clock: LoopClock
    private var deadline: ClientDeadline
    private var conversation: HTTP2Conversation
    private var input: HTTP2Input
    private let output: HTTP2Output
    private var phase = Phase.opening
    /// When the client is told to open another connection (`limits.connection_max_age`).
    private let endsAt: MonotonicTime
    /// By ``HTTP2StreamTable/Place``; nil where no stream is open.
    private var streams: [HTTP2ClientStream?] = []
    /// Streams that wait for room on the connection, in the order of their turns.
    private var waiting: [HTTP2ClientStream] = []
    /// Streams whose response is written, but whose client still sends its request (``stopLater(_:)``).
    private var stopping: [HTTP2ClientStream] = []
    /// What the client has proved on this connection, valid under ``shared``.
    private var clientCache = ClientAuthenticationCache()
    private var places: ConnectionPlaces
    /// The size of the heads of all open streams together (``reserveHead(_:)``).
    private var headBytes = 0
    /// A field block has begun and is not whole. It has a deadline, and ``unfinishedHead`` counts it.
    private var awaitsBlock = false
    private var unfinishedHead = UnfinishedHead()
    private var isReading = false
    /// The client takes more: what is on its way to it is below the high-water mark.
    private var isWritable = true
    private var pendingRead = false
    /// Streams whose requests are flushed to their upstreams at the end of this read.
    private var touched: [HTTP2ClientStream] = []
    /// This read has brought SETTINGS.
    private var hasNewSettings = false
    /// Those that are being flushed: both lists keep their memory.
    private var flushing: [HTTP2ClientStream] = []

    var shared: ProxyShared { configuration.shared }
    var timeouts: Timeouts { configuration.timeouts }
    private var isOld: Bool { MonotonicTime(clock.now) >= endsAt }

    /// - Parameter places: What the connection takes of the limits; it has begun as one of HTTP/1.
    init(
        configuration: WorkerConfiguration,
        connectionContext: ConnectionContext,
        listenerNumber: Int,
        isTLS: Bool,
        hasDirectSocket: Bool,
        places: ConnectionPlaces
    ) {
        self.configuration = configuration
        self.isTLS = isTLS
        self.listenerNumber = listenerNumber
        self.hasDirectSocket = hasDirectSocket
        self.places = places
        self.connectionContext = connectionContext
        clock = configuration.clock
        deadline = ClientDeadline(queue: configuration.worker.deadlines)
        let now = MonotonicTime(clock.now)
        endsAt = ConnectionAge.end(configuration.limits.connectionMaxAge, jitter: .random(in: 0 ... .max), from: now)
        conversation = HTTP2Conversation(
            peerIsClient: true,
            limits: HTTP2Configuration.ofClient(configuration.limits),
            at: clock.monotonic()
        )
        input = HTTP2Input(configuration.buffers)
        output = HTTP2Output(writer, buffers: configuration.buffers, flushes: configuration.worker.flushes)
    }

    /// Takes the next request under the configuration of the last reload.
    func takeConfiguration() {
        guard configuration.isReplaced, let current = configuration.worker.current else { return }
        configuration = current
        clientCache = ClientAuthenticationCache()
        conversation.changeHeads(bytes: current.limits.headerBytes, fields: current.limits.headerFields)
    }

    func decide(on request: RequestMessage) -> RequestAuthorizer.Decision {
        shared.authorizer.decide(request, on: connectionContext, cache: &clientCache)
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        writer.open(context, hasDirectSocket: hasDirectSocket)
        isWritable = context.channel.isWritable
        try? context.channel.syncOptions?.setOption(.writeBufferWaterMark, value: HTTP2Output.waterMarks)
        configuration.worker.register(self)
        deadline.move(to: clock.now + timeouts.header, for: self)
        let settings = HTTP2Configuration.settings(configuration.limits)
        write { $0.write(room: 64) { $0.settings(settings) } }
        creditConnection()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        writer.close()
    }

    func channelInactive(context: ChannelHandlerContext) {
        phase = .closed
        isWritable = false
        places.giveBack(to: shared)
        configuration.worker.unregister(self)
        clock.end()
        deadline.cancel()
        endStreams()
        output.drop()
        input.drop(configuration.buffers)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        shared.logger.debug("HTTP/2 client connection failed", metadata: ["gateway.error": "\(type(of: error))"])
        guard phase != .lingering else { return }
        closeNow()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .inputClosed? = event as? ChannelEvent { clientClosedOutput() }
        context.fireUserInboundEventTriggered(event)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isReading {
            isReading = true
            clock.begin()
        }
        guard isServing else { return }
        takeConfiguration()
        var bytes = unwrapInboundIn(data)
        input.append(&bytes)
        receive()
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        clock.end()
        // First: a flush can make another stream writable, whose request is then flushed at once.
        isReading = false
        if hasNewSettings {
            hasNewSettings = false
            for stream in openStreams { stream.windowGrew() }
        }
        swap(&touched, &flushing)
        for stream in flushing { stream.flushRequest() }
        flushing.removeAll(keepingCapacity: true)
        if isWritable { writer.readAhead() }
        context.fireChannelReadComplete()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        isWritable = context.channel.isWritable
        if isWritable {
            sendWaiting()
            resumeReading()
        }
        context.fireChannelWritabilityChanged()
    }

    // MARK: Pace

    /// A client that sends requests but reads no answers would fill the memory with them.
    func read(context: ChannelHandlerContext) {
        if isWritable { context.read() } else { pendingRead = true }
    }

    private func resumeReading() {
        guard pendingRead else { return }
        pendingRead = false
        context?.read()
    }

    /// The exchange of the stream has got a part of the request, which is flushed to the upstream at the end of this read.
    func touch(_ stream: HTTP2ClientStream) {
        guard isReading else { return stream.flushRequest() }
        if stream.touch() { touched.append(stream) }
    }

    // MARK: Writing

    /// Writes frames, which leave when all that the loop has read is dealt with.
    private func write(_ body: (HTTP2Output) -> Void) {
        guard context != nil, phase != .closed else { return }
        body(output)
        output.flushLater(self)
    }

    func flushNow() {
        output.flushNow()
        guard !stopping.isEmpty else { return }
        let streams = stopping
        stopping.removeAll(keepingCapacity: true)
        for stream in streams { stream.stopRequest() }
    }
}

/// What the client sends.
extension HTTP2ClientConnection {
    /// Frames are taken.
    private var isServing: Bool { phase != .lingering && phase != .closed }

    private func receive() {
        let buffers = configuration.buffers
        var goesOn = true
        while goesOn, isServing {
            goesOn = follow(input.next(of: &conversation, into: &buffers.fields, at: { clock.monotonic() }))
        }
        guard isServing else { return input.drop(buffers) }
        input.finish(buffers)
        watchBlock()
    }

    /// An unfinished field block is what an unfinished head is in HTTP/1: it has as long to arrive, and counts in `limits.head_memory`.
    private func watchBlock() {
        guard conversation.isWithinBlock else { return }
        if !awaitsBlock {
            awaitsBlock = true
            setBlockDeadline()
        }
        unfinishedHead.count(conversation.blockMemory, of: self, in: configuration.worker)
        configuration.worker.endOldHeads()
    }

    private func setBlockDeadline() {
        // While the drain is announced, the connection has another deadline.
        if phase != .announcing { deadline.move(to: clock.now + timeouts.header, for: self) }
    }

    private func blockEnded() {
        awaitsBlock = false
        unfinishedHead.release(in: configuration.worker)
        guard phase != .announcing else { return }
        if conversation.streams.count > 0 {
            deadline.clear()
        } else if phase == .open {
            deadline.move(to: clock.now + timeouts.idle, for: self)
        }
    }

    /// Nobody waits for the rest of the field block any more.
    private func dropBlock() {
        awaitsBlock = false
        unfinishedHead.release(in: configuration.worker)
        conversation.dropBlock()
    }

    /// HTTP/2 cannot answer a request whose fields have not all come, and without them no other request can be read.
    private func refuseBlock(_ problem: GatewayProblem) {
        guard isServing else { return }
        shared.logger.debug("HTTP/2 client connection failed", metadata: ["gateway.error": "\(problem.detail)"])
        report(problem, hasFields: false)
        end(with: .enhanceYourCalm)
    }

    /// Reports a request that gets no stream.
    private func report(_ problem: GatewayProblem, hasFields: Bool) {
        HTTP2ClientStream(0, at: nil, on: self).report(problem, hasFields: hasFields)
    }

    func refuseForHeadMemory() {
        unfinishedHead.forget()
        refuseBlock(shared.state.headMemory.problem)
    }

    /// - Returns: Whether there is more to do with what has come.
    private func follow(_ event: HTTP2Conversation.Event) -> Bool {
        if awaitsBlock, !conversation.isWithinBlock { blockEnded() }
        switch event {
        case .needMore: return false
        case .nothing: creditConnection()
        case .request(let place, let isLast): begin(place, isLast: isLast)
        case .fields(let place, let isLast, let isClosed):
            assert(isLast, "Trailers of a request do not end it.")
            deliver(to: place, isClosed: isClosed) { $0.receiveTrailers() }
        case .content(let place, let range, let isLast, let isClosed):
            let content = input.content(range)
            deliver(to: place, isClosed: isClosed) { $0.receive(content, isLast: isLast) }
        case .refused(let id): refuse(id)
        case .reset(let place, _): if let stream = leave(place) { closed(stream, isCut: true) }
        case .windowGrew(let place?): streams[place]?.windowGrew()
        case .windowGrew(nil): sendWaiting()
        case .settings: receiveSettings()
        case .ping(let data): write { $0.ping(data, isAnswer: true) }
        case .pingAnswer(let number): if number == Self.announcement { refuseNewStreams() }
        case .goAway: beginFinalDrain()
        case .streamFault(let id, let place, let fault): fail(id, place, fault)
        case .connectionFault(let fault): fail(fault)
        case .settingsAcknowledged: break
        }
        return true
    }

    private func receiveSettings() {
        write { $0.acknowledgeSettings() }
        if phase == .opening {
            phase = .open
            if conversation.streams.count == 0 { deadline.move(to: clock.now + timeouts.idle, for: self) }
        }
        // A larger initial window lets every stream send more. Once for all SETTINGS of this read: each would wake up every stream.
        hasNewSettings = true
    }

    // MARK: Streams

    private var openStreams: [HTTP2ClientStream] { conversation.streams.open.compactMap { streams[$0] } }

    private func begin(_ place: HTTP2StreamTable.Place, isLast: Bool) {
        if phase != .announcing { deadline.clear() }
        // The one that was opened last.
        let stream = HTTP2ClientStream(conversation.streams.lastID, at: place, on: self)
        while streams.count <= place { streams.append(nil) }
        streams[place] = stream
        stream.begin(hasContent: !isLast)
    }

    /// - Parameter isClosed: The request ends with it and the response has ended, so the place is free.
    private func deliver(
        to place: HTTP2StreamTable.Place,
        isClosed: Bool,
        _ body: (HTTP2ClientStream) -> Void
    ) {
        guard isClosed else {
            if let stream = streams[place] { body(stream) }
            return
        }
        guard let stream = leave(place) else { return }
        body(stream)
        closed(stream, isCut: false)
    }

    /// Frees the place of a stream for the next one.
    private func leave(_ place: HTTP2StreamTable.Place) -> HTTP2ClientStream? {
        let stream = streams[place]
        streams[place] = nil
        stream?.leavePlace()
        return stream
    }

    private func closed(_ stream: HTTP2ClientStream, isCut: Bool) {
        stream.closed(isCut: isCut)
        // A window that stays closed must not collect the streams that were reset meanwhile.
        if stream.isWaiting { waiting.removeAll { $0 === stream } }
        creditConnection()
        if phase == .open, isOld { return drain() }
        guard conversation.streams.count == 0 else { return }
        switch phase {
        // A field block that has begun has its own deadline.
        case .open where awaitsBlock: break
        case .open: deadline.move(to: clock.now + timeouts.idle, for: self)
        case .draining: closeAfterWrites()
        case .opening, .announcing, .lingering, .closed: break
        }
    }

    /// There are as many streams as there may be, or the connection ends.
    private func refuse(_ id: UInt32) {
        writeReset(id, .refusedStream)
        // The client has not seen the GOAWAY yet, and sends the request again on another connection.
        guard !conversation.streams.isClosing else { return }
        let limit = conversation.streams.maximumStreams
        let detail = "Too many concurrent requests on an HTTP/2 connection (limits.streams_per_connection: \(limit))."
        report(GatewayProblem(.clientLimitReached, detail, retryAfter: .seconds(1)), hasFields: true)
    }

    /// Ends a stream with an error.
    func reset(_ stream: HTTP2ClientStream, _ code: HTTP2ErrorNumber) {
        if let place = stream.place {
            conversation.streams.reset(place)
            _ = leave(place)
            writeReset(stream.id, code)
        }
        closed(stream, isCut: true)
    }

    private func writeReset(_ id: UInt32, _ code: HTTP2ErrorNumber) {
        write { $0.reset(id, code) }
    }

    /// The client has broken a rule that concerns one stream alone.
    private func fail(_ id: UInt32, _ place: HTTP2StreamTable.Place?, _ fault: HTTP2Fault) {
        shared.logger.debug("HTTP/2 stream reset", metadata: ["gateway.error": "\(fault.rawValue)"])
        writeReset(id, fault.code)
        if let stream = place.flatMap({ leave($0) }) { closed(stream, isCut: true) } else { creditConnection() }
    }

    private func fail(_ fault: HTTP2Fault) {
        guard isServing else { return }
        shared.logger.debug("HTTP/2 client connection failed", metadata: ["gateway.error": "\(fault.rawValue)"])
        if let problem = problem(of: fault) { report(problem, hasFields: false) }
        end(with: fault.code)
    }

    /// Why a request is refused whose field block is at fault; nil for other faults.
    private func problem(of fault: HTTP2Fault) -> GatewayProblem? {
        switch fault {
        case .longBlock, .expandingBlock:
            HeadRefusal.headTooLarge.problem("The request was", under: configuration.limits)
        case .truncatedBlock, .invalidIndex, .largeInteger, .invalidHuffman, .invalidTableSize:
            .malformedRequest(fault.rawValue)
        default: nil
        }
    }

    // MARK: Heads

    /// A stream keeps its head, and with HPACK a few bytes from the client can stand for a long one.
    static let maximumHeadBytes = 1_048_576

    /// Reserves memory for the head of a stream. A head may exceed what is left, so that none is too long for an idle connection.
    ///
    /// - Returns: false if the heads of the open streams have reached the limit.
    func reserveHead(_ count: Int) -> Bool {
        guard headBytes < Self.maximumHeadBytes else { return false }
        headBytes += count
        return true
    }

    func releaseHead(_ count: Int) {
        headBytes -= count
        assert(headBytes >= 0, "A head is released twice.")
    }

    // MARK: Credit

    /// An exchange has taken this many bytes of a stream, or they were thrown away: the client may send as much again.
    func took(_ count: Int, of stream: HTTP2ClientStream) {
        conversation.streams.take(count, stream.place)
        if let place = stream.place, isServing, let increment = conversation.streams.credit(place) {
            write { $0.windowUpdate(stream.id, increment) }
        }
        creditConnection()
    }

    private func creditConnection() {
        guard isServing, let increment = conversation.streams.connectionCredit() else { return }
        write { $0.windowUpdate(0, increment) }
    }

    // MARK: Responses

    func passesInformational(_ status: Int) -> Bool {
        InformationalRule.passes(status, unflushed: output.unflushed, isWritable: isWritable)
    }

    /// Writes a head of a response.
    @inline(__always)
    func writeHead(on stream: HTTP2ClientStream, room: Int, _ body: (inout HTTP2FrameWriter) -> Void) {
        guard stream.place != nil, context != nil, phase != .closed else { return }
        output.writeFields(stream: stream.id, isLast: false, room: room, body)
        output.flushLater(self)
    }

    /// How many bytes of content the windows let the stream send now.
    func room(for stream: HTTP2ClientStream) -> Int { stream.place.map { conversation.streams.room($0) } ?? 0 }

    /// Whether the window of the stream itself is open.
    func hasWindow(_ stream: HTTP2ClientStream) -> Bool {
        stream.place.map { conversation.streams.hasWindow($0) } ?? false
    }

    /// - Parameters:
    ///   - content: At most as much as there is room for (``room(for:)``).
    ///   - isLast: The response ends with it.
    func send(_ content: consuming ByteBuffer, isLast: Bool, on stream: HTTP2ClientStream) {
        guard let place = stream.place, context != nil, phase != .closed else { return }
        let count = content.readableBytes
        conversation.send(count, place)
        let isClosed = isLast && endLocal(stream)
        // Can find out that the connection is lost.
        output.writeData(count, of: &content, stream: stream.id, isLast: isLast)
        output.flushLater(self)
        if isClosed { closed(stream, isCut: false) }
    }

    /// Takes the first bytes of `buffer`, which the caller may still be using: nothing is flushed here.
    ///
    /// - Returns: Whether they were taken.
    func stage(_ count: Int, of buffer: inout ByteBuffer, on stream: HTTP2ClientStream) -> Bool {
        guard let place = stream.place, context != nil, phase != .closed, isWritable, waiting.isEmpty,
            output.unflushed &+ count < HTTP2Output.maximumUnflushed, conversation.sendWhole(count, place)
        else { return false }
        output.stageData(count, of: &buffer, stream: stream.id)
        output.flushLater(self)
        return true
    }

    /// Ends the response behind its content.
    ///
    /// - Parameter trailers: Lines of HTTP/1, with the empty one.
    func end(_ stream: HTTP2ClientStream, trailers: ByteBuffer?) {
        guard stream.place != nil, context != nil, phase != .closed else { return }
        let isClosed = endLocal(stream)
        if let trailers {
            output.writeFields(stream: stream.id, isLast: true, room: 2 * trailers.readableBytes) {
                $0.fields(trailers.readableBytesUInt8Span)
            }
        } else if !output.endInPlace(stream.id) {
            output.end(stream.id)
        }
        output.flushLater(self)
        if isClosed { closed(stream, isCut: false) }
    }

    /// - Returns: Whether the client has ended its side, too.
    private func endLocal(_ stream: HTTP2ClientStream) -> Bool {
        guard let place = stream.place, conversation.streams.endLocal(place) else { return false }
        _ = leave(place)
        return true
    }

    /// Less than half of the streams that the client may open are open.
    var hasPlaces: Bool { 2 * conversation.streams.count < conversation.streams.maximumStreams }

    /// Tells the client of a stream to send no more, once the response has left (RFC 9113 section 8.1).
    func stopLater(_ stream: HTTP2ClientStream) { stopping.append(stream) }

    // MARK: Turns

    /// The stream sends when its turn comes.
    func wait(_ stream: HTTP2ClientStream) { waiting.append(stream) }

    /// Whether a stream can send content now. Otherwise it waits for its turn.
    func maySend() -> Bool { isWritable && waiting.isEmpty && conversation.streams.connectionRoom > 0 }

    /// Lets the streams that wait send one frame each, in turn, as long as the connection has room.
    private func sendWaiting() {
        var turns = waiting[...]
        waiting = []
        while let stream = turns.first, maySend() {
            turns.removeFirst()
            stream.takeTurn()
            turns += waiting
            waiting = []
        }
        waiting = Array(turns) + waiting
    }
}

/// The ways in which the connection ends.
extension HTTP2ClientConnection {
    // MARK: Withdrawal and reload

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        for stream in openStreams { stream.endIfWithdrawn(withdrawn) }
        // An answer that the engine has not taken yet may hold what was withdrawn.
        guard connectionContext.engine != nil else { return }
        let holdsAnswer = output.unflushed > 0 || openStreams.contains { $0.untakenBytes > 0 }
        if holdsAnswer || writer.untakenBytes() > 0 { closeAtOnce() }
    }

    /// Resets the connection: what the client has not taken is lost.
    private func closeAtOnce() {
        endStreams()
        phase = .closed
        output.drop()
        writer.reset()
    }

    func followReload(_ reload: ReloadInProgress) {
        for stream in openStreams { stream.followReload(reload) }
    }

    // MARK: Drain

    /// What the PING behind the announcement holds, and its answer has to.
    private static let announcement: UInt64 = 0x6472_6169_6E69_6E67

    /// Tells the client to open no more streams. Those that are on their way are served: the answer to a PING comes behind them
    /// (RFC 9113 section 6.8).
    func drain() {
        guard phase == .open || phase == .opening else { return }
        phase = .announcing
        // No stream is refused yet.
        write { output in
            output.goAway(last: HTTP2StreamTable.largestID, .noError)
            output.ping(Self.announcement, isAnswer: false)
        }
        deadline.move(to: clock.now + timeouts.linger, for: self)
    }

    /// The client has read the announcement, or had time to.
    private func refuseNewStreams() {
        guard phase == .announcing else { return }
        phase = .draining
        if awaitsBlock { setBlockDeadline() } else { deadline.clear() }
        conversation.streams.close()
        writeGoAway(.noError)
        if conversation.streams.count == 0 { closeAfterWrites() }
    }

    /// The client opens no more streams.
    private func beginFinalDrain() {
        guard phase == .open || phase == .opening || phase == .announcing else { return }
        phase = .announcing
        refuseNewStreams()
    }

    private func writeGoAway(_ code: HTTP2ErrorNumber) {
        let last = conversation.streams.lastID
        write { $0.goAway(last: last, code) }
    }

    /// Closing at once would reset the connection while the client sends, and take away what it has not read.
    private func closeAfterWrites() {
        guard phase != .lingering, phase != .closed else { return }
        phase = .lingering
        dropBlock()
        flushNow()
        deadline.set(clock.now + timeouts.linger, for: self)
        writer.closeOutput()
    }

    /// A stream was reset for what the client has done.
    func countFault() {
        guard !conversation.spendFault(at: { clock.monotonic() }) else { return }
        fail(.tooManyFaults)
    }

    /// Ends the connection with GOAWAY, which tells the client why.
    private func end(with code: HTTP2ErrorNumber) {
        guard isServing else { return }
        writeGoAway(code)
        endStreams()
        closeAfterWrites()
    }

    func stop() {
        if phase == .open || phase == .announcing { writeGoAway(.noError) }
        flushNow()
        closeNow()
    }

    /// The client sends nothing more, so its windows do not open again.
    private func clientClosedOutput() {
        guard phase != .closed else { return }
        closeNow()
    }

    /// Ends all requests: their responses cannot reach the client any more.
    private func endStreams() {
        dropBlock()
        let places = conversation.streams.open
        (waiting, stopping) = ([], [])
        let ended = places.compactMap { place in
            conversation.streams.reset(place)
            return leave(place)
        }
        for stream in ended { stream.closed(isCut: true) }
    }

    private func closeNow() {
        endStreams()
        phase = .closed
        output.drop()
        writer.closeConnection()
    }

    // MARK: Deadline

    func deadlinePassed() {
        switch phase {
        case .opening: closeNow()
        case .open where awaitsBlock, .draining where awaitsBlock:
            refuseBlock(GatewayProblem(.requestTimeout, "The head of the request took too long."))
        case .open:
            guard conversation.streams.count == 0 else { return }
            guard !deadline.clientTakes(within: timeouts.idle, from: writer, by: clock, for: self) else { return }
            beginFinalDrain()
        case .announcing: refuseNewStreams()
        case .draining, .closed: break
        case .lingering:
            if !deadline.clientTakes(within: timeouts.response, from: writer, by: clock, for: self) { closeNow() }
        }
    }
}
