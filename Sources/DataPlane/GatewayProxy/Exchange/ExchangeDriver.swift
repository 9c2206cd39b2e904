import GatewayCore
import NIOCore

/// Carries out one exchange: tells its ``Exchange`` what happens, and does what that answers. Holds no rule.
///
/// The one object that a request takes. Belongs to its connection's event loop. An end that comes while an event is carried out
/// waits until that is done: sending can find out that a connection is lost.
final class ExchangeDriver {
    private(set) var rules: Exchange
    private(set) var record: ExchangeRecord
    let configuration: WorkerConfiguration
    let client: any ClientStream
    let admitted: RequestAuthorizer.Admitted
    /// What it injects counts once the request is authorized.
    private(set) var route: CredentialedRoute
    /// It is known what is injected: ``credential``, or nothing.
    private(set) var isAuthorized = false
    private(set) var upstream: (any UpstreamStream)?
    private var content: RequestContent
    private var wait = CredentialWait()
    /// In the queue for a connection to the upstream.
    private var place: WaiterTicket?
    /// Tells the answer of a wait or a connection attempt from that of an earlier one.
    private var attemptID: UInt64 = 0
    /// What the stream before this one could not send any of.
    private var unsent: ByteBuffer?
    /// What the response says of the token.
    private var note = ResponseNote.none
    private var watch = TransferWatch()
    private var backlog = Backlog()

    private struct CredentialWait {
        var isWaiting = false
        var ticket: CredentialTicket?
    }

    /// Ends that came while an event was carried out: one of each side at most.
    private struct Backlog {
        var depth = 0
        var clientLeft: (isCut: Bool, Void)?
        var upstreamEnd: UpstreamEnd?
    }

    private enum UpstreamEnd {
        case lost(ConnectionLoss)
        case complete
    }

    init(
        _ id: consuming RequestID,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        admitted: consuming RequestAuthorizer.Admitted,
        client: any ClientStream,
        configuration: WorkerConfiguration,
        at now: MonotonicTime
    ) {
        route = configuration.routes[admitted.match.route]
        rules = Exchange(
            RequestFacts(
                isIdempotent: head.isIdempotent,
                hasContent: head.framing != .none,
                expectsContinue: head.expectsContinue,
                isHTTP10: head.isHTTP10
            ),
            isRenewable: (admitted.chosen ?? route.state.route.source)?.isRenewable ?? false
        )
        record = ExchangeRecord(
            requestID: id,
            worker: configuration.worker.number,
            route: Int(route.number),
            client: admitted.client,
            method: head.methodName(bytes),
            startedAt: now
        )
        self.admitted = admitted
        self.client = client
        self.configuration = configuration
        content = RequestContent(head.framing)
    }

    var shared: ProxyShared { configuration.shared }
    var compiled: CompiledRoute { route.state.route }
    var source: (any CredentialSource)? { admitted.chosen ?? compiled.source }
    var credential: Credential? { isAuthorized ? route.credential : nil }
    var credentialRequest: CredentialDemand {
        CredentialDemand(route: compiled.plan.name, client: record.client, requestID: record.requestID.description)
    }

    /// How much of the request the exchange takes now.
    enum Intake {
        /// Nothing, until ``ClientStream/resumeRequest()``.
        case nothing
        case content
        /// The request is complete.
        case complete
    }

    var intake: Intake {
        switch rules.phase {
        case .forwarding, .tunnelling: upstream?.isWritable ?? false ? .content : .nothing
        case .responding: .complete
        case .authorizing, .connecting, .replaying, .done: .nothing
        }
    }

    var clientIsWritable: Bool { client.isWritable }

    // MARK: One event after the other

    private func enter() { backlog.depth += 1 }

    private func leave() {
        backlog.depth -= 1
        guard backlog.depth == 0, backlog.upstreamEnd != nil || backlog.clientLeft != nil else { return }
        if let end = backlog.clientLeft.take() {
            backlog.upstreamEnd = nil
            return leaveClient(isCut: end.isCut)
        }
        guard let end = backlog.upstreamEnd.take() else { return }
        upstreamEnded(end)
        client.resumeRequest()
    }

    // MARK: Credential

    func begin(at now: MonotonicTime) {
        enter()
        if case .length(let length) = client.request.decoder.head.framing,
            let problem = configuration.limits.refusal(ofContent: length)
        {
            end(with: .requestInvalid, problem)
        } else {
            authorize(at: now)
        }
        leave()
    }

    /// Takes the credential that is at hand, or waits for one.
    private func authorize(at now: MonotonicTime) {
        // The source has to be told first of one that is sent again.
        if rules.phase != .replaying, admitted.chosen == nil, route.isOffered(at: now) { return connect(by: route) }
        guard let source else { return connect(with: nil) }
        switch source.current(at: now) {
        case .ready(let credential): connect(with: credential)
        case .wait: waitForCredential(source)
        case .unavailable(let problem): credentialUnavailable(problem)
        }
    }

    private func waitForCredential(_ source: any CredentialSource) {
        guard route.state.beginWaiting(limit: shared.pendingPerRoute) else {
            let detail = "Too many requests already wait for a credential of this route."
            return credentialUnavailable(GatewayProblem(.overloaded, detail, retryAfter: .seconds(1)))
        }
        wait.isWaiting = true
        _ = rules.handle(.credentialAwaited)
        followDeadline()
        let attempt = nextAttempt()
        let loop = configuration.loop
        let bound = NIOLoopBound(self, eventLoop: loop)
        let ticket = source.wait(for: credentialRequest) { result in
            loop.execute { bound.value.credentialCame(result, attempt) }
        }
        wait.ticket = ticket
    }

    private func nextAttempt() -> UInt64 {
        attemptID &+= 1
        return attemptID
    }

    private func credentialCame(_ result: Result<Credential, GatewayProblem>, _ attempt: UInt64) {
        guard wait.isWaiting, attemptID == attempt else { return }
        enter()
        stopWaiting()
        switch result {
        case .success(let credential): connect(with: credential)
        case .failure(let problem): credentialUnavailable(problem)
        }
        leave()
        client.resumeRequest()
    }

    private func stopWaiting() {
        guard wait.isWaiting else { return }
        wait = CredentialWait()
        route.state.endWaiting()
        client.clearDeadline()
    }

    private func credentialTimedOut() {
        if let ticket = wait.ticket { source?.cancel(ticket) }
        stopWaiting()
        let detail = "No token came within \(ConfigUnits.text(configuration.limits.credentialTimeout))."
        credentialUnavailable(GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1)))
    }

    private func credentialUnavailable(_ problem: GatewayProblem) {
        if case .passHeldResponse(let note) = rules.handle(.credentialUnavailable(problem.kind)), let upstream {
            self.note = note
            followDeadline()
            return upstream.passHeldResponse()
        }
        source?.note(.withheld, generation: 0, by: credentialRequest)
        respond(with: problem)
    }

    // MARK: Connection

    private func connect(with credential: Credential?) {
        if rules.phase == .replaying {
            let rejected = self.credential?.generation ?? 0
            source?.note(.replayed, generation: rejected, by: credentialRequest)
            dropHeldResponse()
        }
        connect(by: configuration.prepare(self, with: credential))
    }

    private func dropHeldResponse() {
        guard let upstream = upstream.take() else { return }
        upstream.dropHeldResponse(requestWasSent: hasSentAll(to: upstream))
    }

    private func connect(by prepared: CredentialedRoute) {
        if route !== prepared { route = prepared }
        isAuthorized = true
        if let problem = refusalOfHead() { return end(with: .requestInvalid, problem) }
        guard case .connect(let isFresh) = rules.handle(.authorized) else { return }
        connect(isFresh: isFresh)
    }

    /// What can be said of a head only once it is known what is injected.
    private func refusalOfHead() -> GatewayProblem? {
        let passesAuthorization = route.keepsAuthorization && !admitted.stripsAuthorization
        if passesAuthorization, client.request.decoder.head.present.contains(.secondAuthorization) {
            return GatewayProblem(.requestRefused, "The request has more than one Authorization.")
        }
        guard client.request.decoder.head.section.hasUnderscore else { return nil }
        let bytes = client.request.bytes
        let hasLookAlike = requestWriter().hasLookAlike(client.request.decoder.head, bytes.readableBytesUInt8Span)
        return hasLookAlike
            ? GatewayProblem(.requestRefused, "A field's name could be read as one that the gateway sets.") : nil
    }

    /// - Parameter isFresh: Never a pooled connection: the last one died under this request.
    private func connect(isFresh: Bool) {
        let pool = route.pool
        client.clearDeadline()
        let mayRepeat = rules.mayRepeat
        let own = route.usesPrivateConnection ? client.privateConnection(to: pool, for: record.client) : nil
        guard mayRepeat || isFresh || !(own?.isBusyReading ?? pool.isBusyReading) else { return connectNextTurn() }
        if !isFresh, let stream = takeIdle(from: own, mayRepeat: mayRepeat) { return send(on: stream) }
        let attempt = nextAttempt()
        place = pool.connect(client: record.client, isFresh: isFresh, for: own) { [self] result in
            connected(result, attempt)
        }
    }

    private func takeIdle(from own: PrivateConnection?, mayRepeat: Bool) -> HTTP1UpstreamConnection? {
        guard let own else { return route.pool.takeIdle(mayRepeat: mayRepeat) }
        return own.takeIdle()
    }

    /// By then it is known whether a connection that has just brought a response has ended with it.
    private func connectNextTurn() {
        let attempt = nextAttempt()
        configuration.loop.assumeIsolated()
            .execute { [self] in
                guard rules.phase == .connecting, attemptID == attempt else { return }
                enter()
                connect(isFresh: false)
                leave()
                client.resumeRequest()
            }
    }

    private func connected(_ result: Result<any UpstreamStream, GatewayProblem>, _ attempt: UInt64) {
        guard rules.phase == .connecting, attemptID == attempt else {
            if case .success(let stream) = result { stream.returnUnused() }
            return
        }
        enter()
        place = nil
        switch result {
        case .success(let stream): send(onceConnected: stream)
        case .failure(let problem): end(with: .connectionFailed, problem)
        }
        leave()
        client.resumeRequest()
    }

    /// The credential may have been taken away, or have expired, while the connection was waited for.
    private func send(onceConnected stream: any UpstreamStream) {
        let now = shared.clock.monotonic()
        if let credential, !credential.isOffered(at: now) {
            stream.returnUnused()
            _ = rules.handle(.withdrawn)
            return reauthorize(at: now)
        }
        send(on: stream)
    }

    /// Gives up the place in the queue for a connection, and asks the source again.
    private func reauthorize(at now: MonotonicTime) {
        if let place = place.take() { route.pool.leave(place) }
        // A connection that comes for the earlier attempt is given back.
        attemptID &+= 1
        authorize(at: now)
    }

    // MARK: Request

    private func send(on stream: any UpstreamStream) {
        guard rules.handle(.connected(isReused: stream.isReused)) == .sendRequest else {
            return stream.abandon(isCut: false)
        }
        stream.begin(for: self, answersHead: client.request.decoder.head.isHead)
        upstream = stream
        record.wasSent = true
        if let unsent = unsent.take() {
            stream.sendAgain(unsent, isChunked: content.isChunked)
        } else {
            guard isAuthorized, writeHead(on: stream) else {
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The head could not be rewritten."))
            }
            sendCopy(on: stream)
        }
        followDeadline()
        if rules.awaitsContinue, client.hasUnreadContent { setDeadline(configuration.timeouts.bodyIdle) }
        // What has come of the content goes in the same write.
        if rules.requestIsComplete || !client.hasUnreadContent { stream.flush() }
    }

    private func requestWriter() -> RequestWriter {
        RequestWriter(
            route: route,
            match: admitted.match,
            stripsAuthorization: admitted.stripsAuthorization,
            // A second try has the content at hand.
            sendsExpect: !rules.contentHasBegun
        )
    }

    private func writeHead(on stream: any UpstreamStream) -> Bool {
        var writer = requestWriter()
        let bytes = client.request.bytes
        if route.addsForwarded {
            writer.forwarded = compiled.forwarded.lines(
                client: client.clientAddress,
                host: bytes.readableBytesUInt8Span.string(client.request.decoder.head.host),
                isTLS: client.isTLS
            )
        }
        let end = shared.requestEnd.line(isHTTP10: client.request.decoder.head.isHTTP10)
        return stream.sendHead(client.request.decoder.head, bytes, by: writer, end: end)
    }

    private func sendCopy(on stream: any UpstreamStream) {
        guard let held = content.held else { return }
        content.resumeBehindCopy()
        stream.sendContent(held, as: content.form)
        if let trailers = content.heldTrailers { stream.sendEnd(trailers: trailers) }
    }

    /// Takes content of the request, framing included.
    ///
    /// - Parameter length: Without framing.
    func receive(_ wire: ByteBuffer, length: Int, isLast: Bool) {
        enter()
        defer { leave() }
        setDeadline(configuration.timeouts.bodyIdle)
        content.count(length)
        if let problem = configuration.limits.refusal(ofContent: content.received) {
            return end(with: .requestInvalid, problem)
        }
        record.bytesReceived += wire.readableBytes
        guard let isHeld = contentCame(length, isLast: isLast) else { return }
        let form = content.form
        upstream?.sendContent(content.take(wire, isHeld: isHeld), as: form)
        if isLast { requestCompleted() }
    }

    /// - Parameter trailers: With the empty line that ends them.
    func receive(trailers: ByteBuffer) {
        enter()
        defer { leave() }
        guard let isHeld = contentCame(trailers.readableBytes, isLast: true) else { return }
        content.takeTrailers(trailers, isHeld: isHeld)
        switch content.form {
        case .wire: upstream?.sendContent(trailers, as: .wire)
        case .content: upstream?.sendEnd(trailers: trailers)
        }
        requestCompleted()
    }

    /// - Returns: Whether a copy of it is kept; nil when it is not sent.
    private func contentCame(_ count: Int, isLast: Bool) -> Bool? {
        let fits = HoldPolicy.fits(count, behind: content.heldBytes, limit: configuration.limits.replayBodyBytes)
        guard case .sendContent(let isHeld) = rules.handle(.requestContent(isHeld: fits, isLast: isLast)) else {
            return nil
        }
        return isHeld
    }

    private func requestCompleted() {
        followDeadline()
        upstream?.flush()
    }

    /// The client has sent all that has come so far.
    func flushRequest() {
        enter()
        upstream?.flush()
        leave()
    }

    /// The rest of the request breaks a rule of its protocol.
    ///
    /// - Parameter length: Of the content before that.
    func requestBroke(_ problem: GatewayProblem, behind length: Int = 0) {
        enter()
        content.count(length)
        end(with: .requestInvalid, configuration.limits.refusal(ofContent: content.received) ?? problem)
        leave()
    }

    /// Nothing of the request can be mistaken for the next one on its upstream connection.
    private func hasSentAll(to stream: any UpstreamStream) -> Bool {
        rules.requestIsComplete && (!rules.contentHasBegun || stream.untakenBytes == 0)
    }

    // MARK: Response

    /// What becomes of the head of a final response.
    enum ResponseDecision {
        case pass(ContentForm)
        /// What follows it is no HTTP: ``tunnelBegan()`` comes next.
        case tunnel
        /// Keep the response back: the token was rejected and the request can be sent again. ``sendAgain()`` comes next.
        case hold
        /// The exchange is over, and so is the lease of the stream.
        case over
    }

    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        if head.status == 403 { AsUserAdvice.log(head, bytes, of: compiled, to: shared) }
        let facts = responseFacts(head, bytes)
        switch rules.handle(.responseHead(facts)) {
        case .passResponse(let note):
            self.note = note
            if note.tellsSource { tellRejected() }
            return pass(head, bytes)
        case .holdResponse:
            if case .token = facts.rejection { tellRejected() }
            return .hold
        case .tunnel:
            guard case .pass = pass(head, bytes) else { return .over }
            return .tunnel
        default:
            respond(with: upstreamProblem(.upgradeFailed, "It switched to a protocol that was not asked for."))
            return .over
        }
    }

    private func responseFacts(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseFacts {
        let rejection = TokenRejection.judge(
            head,
            bytes.readableBytesUInt8Span,
            retryOn: compiled.policy.retryOn,
            credential: credential,
            of: source
        )
        guard head.status == 101 else { return ResponseFacts(status: head.status, rejection: rejection) }
        let request = client.request.bytes
        let isOffered = UpgradeRule.isOffered(
            by: client.request.decoder.head,
            request.readableBytesUInt8Span,
            head,
            bytes.readableBytesUInt8Span
        )
        return ResponseFacts(status: head.status, rejection: rejection, switchesAsOffered: isOffered)
    }

    /// Also of one that only a person can replace: it is dead, and the next request is told so.
    private func tellRejected() {
        guard let credential else { return }
        source?.rejected(generation: credential.generation, by: credentialRequest)
    }

    private func pass(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        record.status = head.status
        content.stopHolding()
        let tokenNote = note.fieldValue(generation: credential?.generation ?? 0)
        let isComplete = rules.requestIsComplete
        guard
            let form = client.sendHead(head, bytes, by: route, tokenNote: tokenNote, requestIsComplete: isComplete)
        else {
            end(with: .responseInvalid, upstreamProblem(.upstreamInvalidResponse, "Its head could not be rewritten."))
            return .over
        }
        if rules.phase == .responding { setDeadline(configuration.timeouts.response) }
        return .pass(form)
    }

    /// Passes the head on that was held back.
    func passHeld(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        return pass(head, bytes)
    }

    func receiveInformational(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        enter()
        defer { leave() }
        // An upstream that says that it is still busy is not silent (RFC 9110 section 15.2).
        let isWaitedFor = rules.phase == .responding || rules.awaitsContinue && !client.hasUnreadContent
        let step = rules.handle(.informational(status: head.status))
        if isWaitedFor { followDeadline() }
        if step == .passInformational { client.sendInformational(head, bytes, by: route) }
    }

    /// Takes the first `count` bytes of `buffer`, unless they are so many that ``receive(content:)`` is better.
    ///
    /// - Returns: Whether they were taken.
    @inline(__always)
    func stage(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard client.stageContent(count, of: &buffer) else { return false }
        passed(count)
        return true
    }

    /// Passes content of the response on to the client.
    func receive(content: ByteBuffer) {
        enter()
        passed(content.readableBytes)
        client.sendContent(content)
        leave()
    }

    /// - Parameter trailers: With the empty line that ends them.
    func receive(responseTrailers trailers: ByteBuffer) {
        enter()
        defer { leave() }
        passed(trailers.readableBytes)
        client.sendEnd(trailers: trailers)
    }

    private func passed(_ count: Int) {
        record.bytesSent += count
        switch rules.phase {
        case .responding, .tunnelling: setDeadline(configuration.timeouts.response)
        default: break
        }
    }

    func flushResponse() {
        enter()
        client.flush()
        leave()
    }

    /// The response is complete; its connection may go on.
    func responseCompleted() {
        guard let upstream = upstream.take() else { return }
        enter()
        let step = rules.handle(.responseEnded(isReusable: hasSentAll(to: upstream)))
        upstream.release(isReusable: step == .finish(reusesConnection: true))
        finish()
        leave()
    }

    /// Sends the request again with a newer token. The response that was held back waits until one is there.
    func sendAgain() {
        enter()
        client.clearDeadline()
        authorize(at: shared.clock.monotonic())
        leave()
        client.resumeRequest()
    }

    // MARK: Tunnel

    func tunnelBegan() {
        enter()
        followDeadline()
        client.beginTunnel()
        leave()
    }

    /// Takes what the client of a tunnel sends.
    func receive(tunnelled bytes: ByteBuffer) {
        enter()
        setDeadline(configuration.timeouts.response)
        record.bytesReceived += bytes.readableBytes
        upstream?.sendContent(bytes, as: .wire)
        upstream?.flush()
        leave()
    }

    /// The client of a tunnel sends no more, and may still read.
    func clientClosedOutput() { upstream?.closeOutput() }

    /// The upstream of a tunnel sends no more, and may still read.
    func upstreamClosedOutput() {
        enter()
        client.flush()
        client.closeOutput()
        leave()
    }

    /// Both ends of a tunnel have ended in good order: what the client sent last may not have left yet.
    ///
    /// - Returns: Whether it is so.
    func finishTunnel(_ rest: ByteBuffer) -> Bool {
        guard rules.phase == .tunnelling, let upstream, upstream.inputHasEnded else { return false }
        if rest.readableBytes > 0 {
            record.bytesReceived += rest.readableBytes
            upstream.sendContent(rest, as: .wire)
            upstream.flush()
        }
        self.upstream = nil
        upstream.finishTunnel()
        return true
    }

    // MARK: Pace

    func clientBecameWritable() { upstream?.resumeReading() }
    func upstreamBecameWritable() { client.resumeRequest() }

    // MARK: Deadline

    private func followDeadline() {
        switch rules.deadline {
        case .none: client.clearDeadline()
        case .credential: setDeadline(configuration.timeouts.credential)
        case .bodyIdle: setDeadline(configuration.timeouts.bodyIdle)
        case .response: setDeadline(configuration.timeouts.response)
        }
    }

    private func setDeadline(_ amount: TimeAmount) {
        watch.reset()
        client.setDeadline(amount)
    }

    func deadlinePassed() {
        enter()
        switch rules.phase {
        case .authorizing, .connecting, .replaying: if wait.isWaiting { credentialTimedOut() }
        case .forwarding, .responding: transferStalled()
        // Nobody has said that this was all.
        case .tunnelling:
            let moves = moves(within: configuration.timeouts.response) { last, now in now.tunnelMoves(since: last) }
            if !moves, rules.handle(.stalled(.upstreamSilent)) == .cut { cut(within: .zero) }
        case .done: break
        }
        leave()
        client.resumeRequest()
    }

    /// Neither end has moved the deadline.
    private func transferStalled() {
        let policy = StallPolicy(
            requestIsComplete: rules.requestIsComplete,
            awaitsContinue: rules.awaitsContinue && !client.hasUnreadContent,
            clientIsWritable: client.isWritable,
            upstreamIsWritable: upstream?.isWritable ?? true
        )
        let isAnswered = rules.responseHasBegun || rules.phase == .responding
        let timeouts = configuration.timeouts
        var stall: Stall?
        let moves = moves(within: isAnswered ? timeouts.response : timeouts.bodyIdle) { last, now in
            stall = policy.stall(from: last, to: now)
            return stall == nil
        }
        guard !moves, let stall else { return }
        let problem = stall.problem(responseTimeout: configuration.limits.responseTimeout)
        // A client that does not read takes no part of it either.
        end(with: .stalled(stall), problem, cutWithin: stall == .clientStoppedReading ? .zero : nil)
    }

    /// Looks again after `amount` if something has moved.
    private func moves(within amount: TimeAmount, _ rule: (TransferProgress, TransferProgress) -> Bool) -> Bool {
        let progress = TransferProgress(
            untakenByClient: client.untakenBytes,
            untakenByUpstream: upstream?.untakenBytes ?? 0,
            responseSent: rules.responseHasBegun ? record.bytesSent : nil
        )
        guard watch.hasMoved(progress, by: rule) else { return false }
        client.setDeadline(amount)
        return true
    }

    // MARK: Withdrawal

    /// - Parameter sources: Those whose credential an operator has taken away.
    func endIfWithdrawn(_ sources: Set<ObjectIdentifier>) {
        let now = shared.clock.monotonic()
        guard let source, sources.contains(ObjectIdentifier(source)),
            // One that has the credential that came afterwards goes on.
            let credential, !credential.isOffered(at: now)
        else { return }
        enter()
        switch rules.handle(.withdrawn) {
        case .reauthorize: reauthorize(at: now)
        case .respond: respond(with: withdrawn(source))
        case .cut:
            record.problem = .locked
            cut(within: Self.withdrawalLimit)
        default: break
        }
        leave()
        client.resumeRequest()
    }

    /// The operator is promised that responses are cut within a second.
    private static let withdrawalLimit = TimeAmount.milliseconds(900)

    private func withdrawn(_ source: any CredentialSource) -> GatewayProblem {
        let detail = "\(source.name) was taken away while this request was under way."
        return GatewayProblem(.locked, detail, retryAfter: .seconds(1))
    }

    // MARK: Loss

    /// The client reads no more, or its connection is lost.
    ///
    /// - Parameter isCut: A tunnel must not pass its end on as an end.
    func clientLeft(isCut: Bool) {
        guard backlog.depth == 0 else { return backlog.clientLeft = (isCut, ()) }
        leaveClient(isCut: isCut)
    }

    private func leaveClient(isCut: Bool) {
        _ = rules.handle(.clientLeft)
        leaveUpstream(isCut: isCut)
        report()
    }

    /// The connection ended before the response did.
    func upstreamLost(hasAnswered: Bool) {
        upstreamCame(to: .lost(ConnectionLoss(hasAnswered: hasAnswered, isUnprocessed: false)))
    }

    /// The end of the connection is the end of the response, or of the tunnel.
    func responseEndedWithConnection() { upstreamCame(to: .complete) }

    private func upstreamCame(to end: UpstreamEnd) {
        guard backlog.depth == 0 else { return backlog.upstreamEnd = end }
        upstreamEnded(end)
        client.resumeRequest()
    }

    private func upstreamEnded(_ end: UpstreamEnd) {
        guard let upstream = upstream.take() else { return }
        enter()
        defer { leave() }
        switch end {
        case .lost(let loss): lost(upstream, loss)
        case .complete:
            if rules.phase == .tunnelling {
                _ = rules.handle(.tunnelEnded)
            } else {
                client.sendEnd(trailers: nil)
                _ = rules.handle(.responseEnded(isReusable: false))
            }
            finish()
        }
    }

    private func lost(_ upstream: any UpstreamStream, _ loss: ConnectionLoss) {
        unsent = upstream.takeUnsent()
        var loss = loss
        loss.isUnprocessed = unsent != nil
        switch rules.handle(.upstreamLost(loss)) {
        case .connect(let isFresh): connect(isFresh: isFresh)
        case .respond:
            let detail = "\(compiled.plan.upstream) closed the connection early."
            respond(with: GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated))
        case .cut:
            record.problem = .upstreamUnreachable
            cut(within: nil)
        default: break
        }
    }

    /// The response breaks a rule of its protocol; its connection is closed already.
    func upstreamBroke(_ detail: String) {
        enter()
        upstream = nil
        end(with: .responseInvalid, upstreamProblem(.upstreamInvalidResponse, detail))
        leave()
    }

    private func upstreamProblem(_ kind: ProblemKind, _ detail: String) -> GatewayProblem {
        GatewayProblem(kind, "\(compiled.plan.upstream): \(detail)")
    }

    // MARK: End

    /// Ends the exchange with a problem that the event brings.
    private func end(with event: ExchangeEvent, _ problem: GatewayProblem, cutWithin limit: TimeAmount? = nil) {
        switch rules.handle(event) {
        case .respond: respond(with: problem)
        case .cut:
            record.problem = problem.kind
            cut(within: limit)
        default: break
        }
    }

    private func respond(with problem: GatewayProblem) {
        record.problem = problem.kind
        record.status = problem.kind.status
        leaveUpstream(isCut: false)
        report()
        let subject = ProblemSubject(requestID: record.requestID, route: compiled, credential: admitted.chosen?.name)
        client.respond(with: problem, as: subject, requestIsComplete: rules.requestIsComplete)
    }

    private func cut(within limit: TimeAmount?) {
        leaveUpstream(isCut: true)
        report()
        client.cut(within: limit)
    }

    private func finish() {
        report()
        client.finish(requestIsComplete: rules.requestIsComplete)
    }

    private func leaveUpstream(isCut: Bool) {
        if let ticket = wait.ticket { source?.cancel(ticket) }
        if let place = place.take() { route.pool.leave(place) }
        upstream.take()?.abandon(isCut: isCut)
    }

    private func report() {
        stopWaiting()
        record.credential = credential
        record.wasReplayed = rules.wasReplayed
        record.finishedAt = shared.clock.monotonic()
        shared.observer.finished(record)
    }
}
