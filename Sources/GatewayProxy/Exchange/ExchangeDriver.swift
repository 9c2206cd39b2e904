import GatewayEvents
import GatewayHTTP
import GatewayTokens
import Logging
import NIOCore

/// Carries out one exchange: a request of a client, and the response of an upstream.
///
///                  request ──▶                    request ──▶
///     ClientStream             ExchangeDriver                  UpstreamStream ─── UpstreamPool
///                 ◀── response     │    ▲        ◀── response
///                            event │    │ step
///                                  ▼    │
///                                 Exchange
///
/// It reports what happens on either side to its ``Exchange``, carries out the step that this returns, and holds no rule. The phases
/// and the ways between them are drawn there.
///
/// The only object that a request allocates. It belongs to its connection's event loop. If a connection ends while an event is
/// carried out, the end waits until that is done: sending can find out that a connection is lost.
final class ExchangeDriver {
    let configuration: WorkerConfiguration
    let client: any ClientStream
    /// That of ``client``, which stays the same. To ask for it each time would be a call that returns it retained.
    private let request: RequestMessage
    private var rules: Exchange
    private var record: ExchangeRecord
    private let admitted: RequestAuthorizer.Admitted
    /// Its credential counts once the request is authorized.
    private var route: CredentialedRoute
    /// Whether it is known what is injected: ``credential``, or nothing.
    private var isAuthorized = false
    private var upstream: (any UpstreamStream)?
    private var content: RequestContent
    private var wait = CredentialWait()
    private var attempts = ConnectionAttempts()
    /// What the stream before this one could not send any of.
    private var unsent: ByteBuffer?
    /// What the response says of the token.
    private var rejectionOutcome = RejectionOutcome.none
    private var watch = TransferWatch()
    private var backlog = Backlog()
    /// nil for a client without limits, and before the request is admitted.
    private var usage: ClientUsage?
    private var upload = UploadHold()
    /// The upstream will call back when it has taken what waits.
    private var awaitsRelease = false
    private var deadlineUse = DeadlineUse.transfer
    /// A reload has ended it: its credential must reach no upstream any more.
    private var isExcluded = false
    /// The upstream speaks HTTP/2, and this request goes to it in HTTP/1.1.
    private var goesByHTTP1 = false
    /// When the exchange began, by the event loop's clock.
    private let begunAt: NIODeadline

    /// What the deadline of the client is for.
    private enum DeadlineUse {
        case transfer
        /// The beginning of a response is inspected. What the client still sends does not move this deadline.
        case inspection
    }

    /// Ends that came while an event was carried out: at most one of each side.
    private struct Backlog {
        /// How many events are being carried out, each within another.
        var depth = 0
        /// Whether the client's end is a cut; nil while it has not left.
        private(set) var clientCut: Bool?
        private(set) var upstreamEnd: UpstreamEnd?
        /// Either has come. Each event asks for it, and hardly ever it is so.
        private(set) var hasEnd = false

        mutating func clientLeft(isCut: Bool) { (clientCut, hasEnd) = (isCut, true) }
        mutating func upstreamCame(to end: UpstreamEnd) { (upstreamEnd, hasEnd) = (end, true) }

        /// The end of the client, which makes that of the upstream meaningless, or else that of the upstream.
        mutating func take() -> (clientCut: Bool?, upstreamEnd: UpstreamEnd?) {
            defer { (clientCut, upstreamEnd, hasEnd) = (nil, nil, false) }
            return (clientCut, clientCut == nil ? upstreamEnd : nil)
        }
    }

    private enum UpstreamEnd {
        case lost(ConnectionLoss)
        case complete
    }

    /// - Parameters:
    ///   - unrouted: How to reach a server that no route leads to; nil for the route that was matched.
    ///   - contentIsFramed: The request comes in HTTP/1.
    init(
        _ id: RequestID,
        _ head: borrowing RequestHead,
        _ bytes: borrowing Span<UInt8>,
        admitted: consuming RequestAuthorizer.Admitted,
        by unrouted: CredentialedRoute? = nil,
        client: any ClientStream,
        configuration: WorkerConfiguration,
        contentIsFramed: Bool = true,
        at now: MonotonicTime
    ) {
        // Patterns, not `==`: that is a call through a table into another module.
        let hasContent = if case .none = head.framing { false } else { true }
        let route = unrouted ?? configuration.route(admitted.match.route)
        let chosen = admitted.chosen
        self.route = route
        rules = Exchange(
            RequestFacts(
                isIdempotent: head.isIdempotent,
                hasContent: hasContent,
                expectsContinue: head.expectsContinue,
                isHTTP10: head.isHTTP10
            ),
            isRenewable: (chosen ?? route.state.route.source)?.isRenewable ?? false
        )
        record = ExchangeRecord(
            requestID: id,
            clientRequestID: ClientRequestID.read(from: head, bytes),
            worker: configuration.worker.number,
            route: Int(route.number),
            client: nil,
            method: head.methodName(bytes),
            startedAt: now
        )
        begunAt = configuration.clock.now
        self.admitted = admitted
        self.client = client
        request = client.request
        self.configuration = configuration
        content = RequestContent(head.framing, isFramed: contentIsFramed)
        // Taken apart: as a whole, an optional string is copied by the witness of its type. From where it lies: what is consumed is
        // copied so, too.
        if let name = self.admitted.client { record.client = name }
        if let unrouted {
            record.route = configuration.shared.configuration.unroutedNumber
            record.destination = unrouted.pool.server?.authority
        }
        guard let trace = configuration.beginTrace(head, bytes) else { return }
        record.trace = trace
        record.isTLS = client.isTLS
    }

    var shared: ProxyShared { configuration.shared }
    private var pool: UpstreamPool { goesByHTTP1 ? route.state.http1Pool : route.pool }
    private var compiled: CompiledRoute { route.state.route }
    private var source: (any CredentialSource)? { admitted.chosen ?? compiled.source }
    private var credential: Credential? { isAuthorized ? route.credential : nil }
    /// What the request goes with; nil for nothing.
    var credentialUse: CredentialUse? {
        guard let source, let credential else { return nil }
        return CredentialUse(credential: credential, source: source)
    }
    /// What the request is sent with.
    var right: SentRight {
        SentRight(
            use: credentialUse,
            shared: shared,
            client: record.client,
            route: admitted.route,
            reach: admitted.reach,
            isExcluded: isExcluded
        )
    }
    private var credentialRequest: CredentialRequest {
        CredentialRequest(
            route: compiled.plan.name,
            client: record.client,
            requestID: record.requestID.description,
            clientRequestID: record.clientRequestID
        )
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

    private func reached(_ step: RequestTimings.Step) {
        record.timings.reached(step, after: (configuration.clock.now - begunAt).nanoseconds)
    }

    /// The client that the request was admitted as.
    var clientName: String? { record.client }

    /// Where the request goes, if no route leads there.
    var server: TunnelDestination? { route.pool.server }

    /// Whether that route of another configuration sends the request of that client where this exchange does.
    func goes(by route: CompiledRoute, as client: String?) -> Bool {
        let (old, new) = (compiled.plan, route.plan)
        return record.client == client && old.name == new.name && old.upstream == new.upstream
            && old.upstreamPath == new.upstreamPath
    }

    var requestIsComplete: Bool { rules.requestIsComplete }
    var responseHasBegun: Bool { rules.responseHasBegun }

    /// Lower-case names of fields that no trailer of the request may have.
    var namesKeptFromUpstream: [[UInt8]] {
        let forwarded = compiled.forwarded == .pass ? [] : ForwardedPolicy.names.map { Array($0.utf8) }
        let overrides = compiled.plan.allow.isEmpty && compiled.plan.endpoints.isEmpty ? [] : MethodOverride.fieldNames
        return route.requestFields.ownedNames + forwarded + overrides
    }

    /// Lower-case names of fields that no trailer of the response may have.
    var namesKeptFromClient: [[UInt8]] {
        route.responseFields.namesKeptFromTrailers + (route.hasSecretTarget ? FieldKind.uriReferenceNames : [])
    }

    // MARK: One event after the other

    @inline(__always)
    private func enter() { backlog.depth += 1 }

    @inline(__always)
    private func leave() {
        assert(backlog.depth > 0, "An event ends that has not begun.")
        backlog.depth -= 1
        if backlog.hasEnd, backlog.depth == 0 { followEnd() }
    }

    /// An end came while an event was carried out.
    private func followEnd() {
        let (clientCut, upstreamEnd) = backlog.take()
        if let clientCut { return leaveClient(isCut: clientCut) }
        guard let upstreamEnd else { return }
        upstreamEnded(upstreamEnd)
        client.resumeRequest()
    }

    // MARK: Credential

    func begin(at now: MonotonicTime) {
        enter()
        if case .length(let length) = request.decoder.head.framing,
            let problem = configuration.limits.refusal(ofContent: length)
        {
            end(with: .requestInvalid, problem)
        } else if let problem = limitReached(at: now) {
            end(with: .requestInvalid, problem)
        } else {
            authorize(at: now)
        }
        leave()
    }

    private func limitReached(at now: MonotonicTime) -> GatewayProblem? {
        guard let usage = shared.usage(of: record.client) else { return nil }
        if let problem = usage.refusal(at: now) { return problem }
        self.usage = usage
        return nil
    }

    /// Takes the credential that is at hand, or waits for one.
    private func authorize(at now: MonotonicTime) {
        // The source has to be told first of one that is sent again.
        let isReplaying = if case .replaying = rules.phase { true } else { false }
        if !isReplaying, admitted.chosen == nil, route.isOffered(at: now) { return connect(by: route) }
        guard let source else { return connect(with: nil) }
        switch source.current(at: now) {
        case .ready(let credential): connect(with: credential)
        case .wait: waitForCredential(source)
        case .unavailable(let problem): credentialUnavailable(problem)
        }
    }

    private func waitForCredential(_ source: any CredentialSource) {
        if let problem = wait.begin(on: route.state, for: record.client, under: shared) {
            return credentialUnavailable(problem)
        }
        _ = rules.handle(.credentialAwaited)
        followDeadline()
        let ticket = wait.ask(source, for: credentialRequest, on: configuration.loop, self) { driver, result, number in
            driver.credentialCame(result, number)
        }
        wait.keep(ticket)
    }

    private func credentialCame(_ result: Result<Credential, GatewayProblem>, _ number: CredentialWait.Number) {
        guard wait.isWaiting(number) else { return }
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
        guard wait.isWaiting, wait.end(on: route.state, of: record.client) else { return }
        client.clearDeadline()
    }

    private func credentialTimedOut() {
        wait.cancel(at: source)
        stopWaiting()
        credentialUnavailable(CredentialWait.timedOut(under: configuration.limits))
    }

    private func credentialUnavailable(_ problem: GatewayProblem) {
        if case .passHeldResponse(let outcome) = rules.handle(.credentialUnavailable(problem.kind)), let upstream {
            rejectionOutcome = outcome
            followDeadline()
            return upstream.passHeldResponse()
        }
        source?.note(.withheld, generation: 0, by: credentialRequest)
        respond(with: problem)
    }

    // MARK: Connection

    private func connect(with credential: Credential?) {
        if case .replaying = rules.phase {
            let rejected = self.credential?.generation ?? 0
            source?.note(.replayed, generation: rejected, by: credentialRequest)
            dropHeldResponse()
        }
        connect(by: configuration.credentialed(route.state, credential, from: admitted.chosen))
    }

    private func dropHeldResponse() {
        guard let upstream = upstream.take() else { return }
        upstream.dropHeldResponse(requestWasSent: hasSentAll(to: upstream))
    }

    private func connect(by prepared: CredentialedRoute) {
        if route !== prepared { route = prepared }
        isAuthorized = true
        reached(.credential)
        if let problem = refusalOfHead() { return end(with: .requestInvalid, problem) }
        guard case .connect(let isFresh) = rules.handle(.authorized) else { return }
        connect(isFresh: isFresh)
    }

    /// What can be said of a head only once it is known what is injected.
    private func refusalOfHead() -> GatewayProblem? {
        let hasDoubts = request.decoder.head.present.contains(.secondAuthorization)
        guard hasDoubts || request.decoder.head.section.hasUnderscore else { return nil }
        let bytes = request.bytes
        return route.requestFields.refusal(
            of: request.decoder.head,
            bytes.readableBytesUInt8Span,
            stripsAuthorization: admitted.stripsAuthorization
        )
    }

    /// - Parameter isFresh: Never a pooled connection: the last one died under this request.
    private func connect(isFresh: Bool) {
        if route.pool.mayUseHTTP2, !goesByHTTP1 { chooseProtocol() }
        let pool = pool
        // The stream of a response that was inspected may have been lost.
        deadlineUse = .transfer
        client.clearDeadline()
        let mayRepeat = rules.mayRepeat
        let own = route.usesPrivateConnection ? client.privateConnection(to: pool, for: record.client) : nil
        guard mayRepeat || isFresh || !(own?.isBusyReading ?? pool.isBusyReading) else { return connectNextTurn() }
        if !isFresh, let stream = takeIdle(of: pool, or: own, mayRepeat: mayRepeat) { return send(on: stream) }
        let attempt = attempts.begin()
        let ticket = pool.connect(client: record.client, isFresh: isFresh, for: own) { [self] result in
            connected(result, attempt)
        }
        attempts.wait(ticket, for: attempt)
    }

    private func takeIdle(
        of pool: UpstreamPool,
        or own: PrivateConnection?,
        mayRepeat: Bool
    ) -> (any UpstreamStream)? {
        guard let own else { return pool.takeIdle(for: record.client, mayRepeat: mayRepeat) }
        return own.takeIdle()
    }

    /// By then it is known whether a connection that has just brought a response has ended with it.
    private func connectNextTurn() {
        let attempt = attempts.begin()
        configuration.loop.assumeIsolated()
            .execute { [self] in
                guard rules.phase == .connecting, attempts.isCurrent(attempt) else { return }
                enter()
                connect(isFresh: false)
                leave()
                client.resumeRequest()
            }
    }

    private func connected(_ result: Result<any UpstreamStream, GatewayProblem>, _ attempt: UInt64) {
        guard rules.phase == .connecting, attempts.isCurrent(attempt) else {
            if case .success(let stream) = result { stream.returnUnused() }
            return
        }
        enter()
        attempts.answered()
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
            let step = rules.handle(.withdrawn)
            return step == .reauthorize ? reauthorize(at: now) : end(by: step)
        }
        send(on: stream)
    }

    /// Gives up the place in the queue for a connection, and asks the source again.
    private func reauthorize(at now: MonotonicTime) {
        if let ticket = attempts.abandon() { pool.leave(ticket) }
        // It begins with the credential that is asked for anew.
        unsent = nil
        isAuthorized = false
        authorize(at: now)
    }

    // MARK: Version of HTTP

    private func chooseProtocol() {
        let bytes = request.bytes
        // What one request has wanted must not take calls of gRPC away from the others of the route: HTTP/1.1 cannot carry them.
        goesByHTTP1 =
            route.state.fallsBack(at: shared.clock.monotonic()) && !isGRPC
            || UpstreamVersionRule.needsHTTP1(
                request.decoder.head,
                bytes.readableBytesUInt8Span,
                route.pool.target.version,
                lacksWebSocket: route.pool.lacksWebSocket
            )
    }

    private var isGRPC: Bool {
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    private var mayFallBack: Bool { UpstreamVersionRule.mayFallBack(route.pool.target.version) }

    /// The upstream wants HTTP/1.1 for the request (HTTP_1_1_REQUIRED), and has not looked at it.
    ///
    /// - Returns: Whether the request can be sent again in that version.
    func goOnInHTTP1() -> Bool {
        guard mayFallBack, rules.isHolding, !goesByHTTP1, !isGRPC else { return false }
        goesByHTTP1 = true
        route.state.fallBack(at: shared.clock.monotonic())
        return true
    }

    /// The upstream's HTTP/2 takes no WebSocket.
    private func sendByHTTP1(not stream: any UpstreamStream) {
        stream.returnUnused()
        guard mayFallBack else {
            return end(
                with: .connectionFailed,
                upstreamProblem(.upgradeFailed, UpstreamVersionRule.takesNoWebSocket)
            )
        }
        goesByHTTP1 = true
        connect(isFresh: false)
    }

    // MARK: Request

    private func send(on stream: any UpstreamStream) {
        guard !request.decoder.head.wantsUpgrade || stream.takesUpgrade else { return sendByHTTP1(not: stream) }
        guard case .sendRequest = rules.handle(.connected(isReused: stream.isReused, mayRefuse: stream.canRefuse))
        else {
            return stream.abandon(isCut: false)
        }
        assert(upstream == nil, "A request has two connections.")
        stream.begin(for: self, answersHead: request.decoder.head.isHead)
        upstream = stream
        reached(.connection)
        if case .content = stream.requestForm {
            // What an HTTP/1 connection could not send is in its framing, and is the request if nothing else is kept.
            guard unsent.take() == nil || rules.isHolding || !rules.contentHasBegun else {
                let loss = ConnectionLoss(hasAnswered: true, isUnprocessed: false)
                return end(by: rules.handle(.upstreamLost(loss)))
            }
            content.sendUnframed()
        }
        if let unsent = unsent.take() {
            record.trace?.sendUnsent(at: shared.clock.monotonic())
            stream.sendAgain(unsent, isChunked: content.isChunked)
        } else {
            let trace = record.trace
            record.trace?.send(at: shared.clock.monotonic())
            guard isAuthorized else {
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The request is not authorized."))
            }
            do throws(HeadFault) {
                if let problem = try writeHead(on: stream) { return end(with: .requestInvalid, problem) }
            } catch {
                record.trace = trace
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The head could not be rewritten."))
            }
            sendCopy(on: stream)
        }
        record.wasSent = true
        followDeadline()
        if rules.awaitsContinue, client.hasUnreadContent { setDeadline(configuration.timeouts.bodyIdle) }
        // What has come of the content goes in the same write.
        if rules.requestIsComplete || !client.hasUnreadContent { stream.flush() }
        if !route.isUseNoted, let credential { noteFirstUse(of: credential, on: stream) }
    }

    /// The source is told of the first use of a generation when the head has left. It drops repeats from other loops.
    private func noteFirstUse(of credential: Credential, on stream: any UpstreamStream) {
        let (route, source, request) = (route, source, credentialRequest)
        stream.whenSent {
            guard route.noteUse() else { return }
            source?.note(.injected, generation: credential.generation, by: request)
        }
    }

    /// - Returns: Why it may not be sent.
    private func writeHead(on stream: any UpstreamStream) throws(HeadFault) -> GatewayProblem? {
        let bytes = request.bytes
        var writer = RequestWriter(
            route: route,
            match: admitted.match,
            stripsAuthorization: admitted.stripsAuthorization,
            // A second try has the content at hand.
            sendsExpect: !rules.contentHasBegun,
            forwarded: route.addsForwarded ? forwardedLines(bytes) : "",
            trace: route.requestFields.ownsTraceParent ? nil : record.trace
        )
        let end = shared.requestEnd(
            of: compiled,
            isHTTP10: request.decoder.head.isHTTP10,
            isHTTP2: request.isHTTP2
        )
        if request.decoder.head.present.contains(.destination) {
            let problem = writer.takeDestination(
                of: request.decoder.head,
                bytes,
                linkRewriter(),
                client: record.client,
                in: shared
            )
            if let problem { return problem }
        }
        try stream.sendHead(request.decoder.head, bytes, by: writer, end: end)
        return nil
    }

    private func forwardedLines(_ bytes: ByteBuffer) -> String {
        compiled.forwarded.lines(
            client: client.clientAddress,
            host: bytes.readableBytesUInt8Span.string(request.decoder.head.host),
            isTLS: client.isTLS
        )
    }

    private func sendCopy(on stream: any UpstreamStream) {
        guard let held = content.held else { return }
        // What comes from now on follows the copy.
        content.sendUnframed()
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
        if isLast {
            requestCompleted()
        } else if let upstream, !upstream.isWritable {
            upstreamIsFull()
        }
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
        // A request without content has left with its head, and holds no memory but for what the client sends behind it.
        if case .responding = rules.phase, !rules.contentHasBegun, upload.bytes == 0, client.unreadBytes == 0 { return }
        enter()
        upstream?.flush()
        countUpload()
        leave()
    }

    /// The rest of the request breaks a rule of its protocol.
    ///
    /// - Parameter length: The length of the content before that.
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
        /// Keep the response back until so much of its body has come as ``RejectionRule`` looks at, or all of it.
        /// ``receive(_:_:content:)`` comes next.
        case inspect
        /// Keep the response back: the token was rejected and the request can be sent again. ``sendAgain()`` comes next.
        case hold
        /// The exchange is over, and so is the lease of the stream.
        case over
    }

    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        reached(.response)
        if head.status == 403 { AsUserAdvice.log(head, bytes, of: compiled, to: shared) }
        if let rule = rejectionRule, rule.readsBody(of: head, bytes.readableBytesUInt8Span) {
            setDeadline(TimeAmount(RejectionRule.patience))
            deadlineUse = .inspection
            return .inspect
        }
        return follow(head, bytes, responseFacts(head, bytes))
    }

    /// - Parameter content: The beginning of the body, which was asked for with ``ResponseDecision/inspect``.
    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer, content: [UInt8]) -> ResponseDecision {
        enter()
        defer { leave() }
        deadlineUse = .transfer
        setDeadline(route.state.responsePause)
        return follow(head, bytes, responseFacts(head, bytes, content: content))
    }

    private func follow(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        _ facts: ResponseFacts
    ) -> ResponseDecision {
        let step = rules.handle(.responseHead(facts))
        switch step {
        case .passResponse(let outcome):
            rejectionOutcome = outcome
            if outcome.tellsSource { tellRejected() }
            return pass(head, bytes)
        case .holdResponse:
            record.trace?.reject(status: head.status, at: shared.clock.monotonic())
            if case .token = facts.rejection { tellRejected() }
            return .hold
        case .tunnel:
            guard case .pass = pass(head, bytes) else { return .over }
            return .tunnel
        default:
            end(by: step)
            return .over
        }
    }

    /// The rule of the route, `rejected_when`; nil if nothing is injected.
    private var rejectionRule: RejectionRule? {
        guard isAuthorized, route.hasRejectionRule else { return nil }
        return compiled.policy.rejectedWhen
    }

    private func responseFacts(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        content: [UInt8]? = nil
    ) -> ResponseFacts {
        let sign = rejectionRule?.sign(
            in: head,
            bytes.readableBytesUInt8Span,
            from: (compiled.plan.upstream, upstreamPath),
            content: content
        )
        if sign == nil, (200..<300).contains(head.status), head.grpcStatus != GRPCStatus.unauthenticated.rawValue {
            confirm()
            return ResponseFacts(status: head.status)
        }
        noteRefusal(head, bytes)
        let rejection = TokenRejection.judge(
            head,
            bytes.readableBytesUInt8Span,
            retryOn: compiled.policy.retryOn,
            sign: sign,
            method: record.method,
            credential: credential,
            of: source
        )
        guard head.status == 101 else {
            return ResponseFacts(status: head.status, rejection: counted(rejection))
        }
        let requestBytes = request.bytes
        let isOffered = UpgradeRule.isOffered(
            by: request.decoder.head,
            requestBytes.readableBytesUInt8Span,
            head,
            bytes.readableBytesUInt8Span
        )
        return ResponseFacts(status: head.status, rejection: rejection, switchesAsOffered: isOffered)
    }

    /// The path that was sent to the upstream.
    private var upstreamPath: [UInt8] {
        let bytes = request.bytes
        let rest = request.decoder.head.forwardedPath(admitted.match, without: route.prefix)
        return compiled.basePath
            + (bytes.getBytes(at: bytes.readerIndex + rest.lowerBound, length: rest.count) ?? [])
    }

    private func confirm() {
        guard isAuthorized, route.fixed != nil || route.rejections != nil else { return }
        let bytes = request.bytes
        let span = bytes.readableBytesUInt8Span
        route.accepted(request.decoder.head, span, by: record.client, at: configuration.clock.monotonic())
        guard rules.wasReplayed, route.fixed == nil, let rejections = route.rejections, let credential else { return }
        let key = rejections.key(Int(route.number), request.decoder.head, span)
        rejections.accepted(key, generation: credential.generation, at: shared.clock.monotonic())
    }

    /// Notes what the upstream says of a static credential. It is only reported, since nothing can be renewed.
    private func noteRefusal(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard let fixed = route.fixed, isAuthorized else { return }
        if head.status == 101 { return confirm() }
        guard let status = TokenRejection.refusal(head, bytes.readableBytesUInt8Span) else { return }
        let requestBytes = request.bytes
        let span = requestBytes.readableBytesUInt8Span
        let template = fixed.template(Int(route.number), request.decoder.head, span)
        fixed.rejected(by: record.client, template, status: status, at: shared.clock.monotonic())
    }

    private func counted(_ rejection: ResponseFacts.Rejection) -> ResponseFacts.Rejection {
        let isRenewable: Bool
        switch rejection {
        case .none, .challenge, .tokenWithoutRenewal, .tokenOverBudget: return rejection
        case .token(let canBeRenewed): isRenewable = canBeRenewed
        case .tokenNotSentAgain: isRenewable = true
        }
        guard let rejections = route.rejections, let credential else { return rejection }
        let bytes = request.bytes
        let key = rejections.key(Int(route.number), request.decoder.head, bytes.readableBytesUInt8Span)
        let (now, generation) = (shared.clock.monotonic(), credential.generation)
        if isRenewable, rules.wasReplayed {
            rejections.rejectedAgain(key, generation: generation, at: now)
            return rejection
        }
        let verdict = rejections.verdict(
            on: key,
            generation: generation,
            isRenewable: isRenewable,
            client: record.client,
            at: now
        )
        return switch verdict {
        case .counts: rejection
        case .withoutRenewal: .tokenWithoutRenewal
        case .overBudget(let until): .tokenOverBudget(fillsAfter: until - now)
        }
    }

    /// Tells the source that its token was rejected, even if only a person can replace it: the next request is then refused.
    private func tellRejected() {
        guard let credential else { return }
        source?.rejected(generation: credential.generation, by: credentialRequest)
    }

    private func pass(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        record.status = head.status
        if head.status >= 400 || rejectionOutcome != .none {
            record.failure = RequestFailure(
                status: head.status,
                rejectionOutcome: rejectionOutcome,
                wasReplayed: rules.wasReplayed,
                credential: credential?.name,
                place: requestPlace
            )
        }
        content.stopHolding()
        let tokenNote = rejectionOutcome.fieldValue(generation: credential?.generation ?? 0)
        do throws(HeadFault) {
            let form = try client.sendHead(
                head,
                bytes,
                by: route,
                responseOptions(head, bytes),
                id: record.requestID,
                tokenNote: tokenNote,
                requestIsComplete: rules.requestIsComplete
            )
            if case .responding = rules.phase { setDeadline(route.state.responsePause) }
            return .pass(form)
        } catch {
            end(with: .responseUnsendable, problem(error, status: head.status))
            return .over
        }
    }

    private func problem(_ fault: HeadFault, status: Int) -> GatewayProblem {
        switch fault {
        case .unwritable: upstreamProblem(.upstreamInvalidResponse, "Its head could not be rewritten.")
        case .opensNothing: upstreamProblem(.upgradeFailed, UpstreamVersionRule.opensNoWebSocket(status: status))
        }
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
        guard step == .passInformational else { return }
        client.sendInformational(head, bytes, by: route, responseOptions(head, bytes), id: record.requestID)
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

    /// - Parameter trailers: With the empty line that ends them; nil where there are none.
    func receive(responseTrailers trailers: ByteBuffer?) {
        enter()
        defer { leave() }
        passed(trailers?.readableBytes ?? 0)
        client.sendEnd(trailers: trailers)
    }

    private func passed(_ count: Int) {
        record.bytesSent += count
        switch rules.phase {
        case .responding, .tunnelling: setDeadline(route.state.responsePause)
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
        let isReusable = if case .finish(reusesConnection: true) = step { true } else { false }
        upstream.release(isReusable: isReusable)
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

    // MARK: Options of a response

    private func responseOptions(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseFieldRules.Options {
        var options = ResponseFieldRules.Options()
        if head.hasTransportSecurity { options.keepsTransportSecurity = client.isIntercepted }
        if let grant = admitted.crossOrigin {
            options.crossOrigin = grant.lines
            options.exposesFields = grant.exposesFields
        }
        guard head.hasLinks || head.hasCookies, let links = linkRewriter(),
            let room = links.room(for: head, bytes.readableBytesUInt8Span)
        else { return options }
        options.links = links
        options.room = room
        return options
    }

    /// nil where the client's links are the upstream's.
    private func linkRewriter() -> LinkRewriter? {
        guard compiled.plan.rewritesLinks(admitted.match) else { return nil }
        let bytes = request.bytes
        return LinkRewriter(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted.match,
            of: shared.links,
            publicURL: client.publicURL,
            isTLS: client.isTLS
        )
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
        setDeadline(route.state.responsePause)
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
        configuration.worker.finish(EndingTunnel(upstream: upstream, exchange: self))
        return true
    }

    // MARK: Pace

    func clientBecameWritable() { upstream?.resumeReading() }

    func upstreamBecameWritable() {
        upload.upstreamTakesMore()
        client.resumeRequest()
    }

    /// The upstream takes no more of the request for now.
    private func upstreamIsFull() {
        guard deadlineUse == .transfer, upload.upstreamIsFull(limit: Duration(configuration.timeouts.bodyIdle)) else {
            return
        }
        watch.reset()
        client.setDeadline(TimeAmount(UploadHold.patience))
    }

    /// More of the request is read than the exchange takes.
    var readsAhead: Bool {
        guard upload.isAhead, let upstream, !upstream.isWritable else { return false }
        return shared.state.uploads.allowsReadingAhead(for: record.client)
    }

    // MARK: Memory of the request

    private var uploadGrowth: Int {
        let hasUpstreamContent = rules.contentHasBegun || rules.phase == .tunnelling
        return upload.growth(
            unread: client.unreadBytes,
            behindEnd: rules.requestIsComplete,
            untaken: hasUpstreamContent ? upstream?.heldBytes ?? 0 : 0,
            copy: content.heldBytes
        )
    }

    /// Ends the request if its client may not hold that much (`limits.upload_memory`).
    private func countUpload() {
        guard rules.phase != .done else { return }
        let growth = uploadGrowth
        guard growth != 0 else { return }
        guard shared.state.uploads.change(of: record.client, by: growth) else {
            return end(with: .requestInvalid, shared.state.uploads.problem)
        }
        upload.change(by: growth)
        guard !awaitsRelease, let upstream, upstream.heldBytes > 0 else { return }
        awaitsRelease = true
        upstream.whenSent { [weak self] in
            self?.awaitsRelease = false
            self?.uploadMoved()
        }
    }

    /// The upstream may have taken something that waited.
    func uploadMoved() {
        guard upload.bytes > 0 else { return }
        releaseUpload(-uploadGrowth)
    }

    private func releaseUpload() { releaseUpload(upload.bytes) }

    private func releaseUpload(_ count: Int) {
        guard count > 0 else { return }
        _ = shared.state.uploads.change(of: record.client, by: -count)
        upload.change(by: -count)
    }

    // MARK: Deadline

    private func followDeadline() {
        switch rules.deadline {
        case .none: client.clearDeadline()
        case .credential: setDeadline(configuration.timeouts.credential)
        case .bodyIdle: setDeadline(configuration.timeouts.bodyIdle)
        case .response: setDeadline(route.state.responseTimeout)
        case .responsePause: setDeadline(route.state.responsePause)
        }
    }

    private func setDeadline(_ amount: TimeAmount) {
        guard deadlineUse == .transfer else { return }
        watch.reset()
        upload.deadlineWasSet()
        client.setDeadline(amount)
    }

    func deadlinePassed() {
        enter()
        switch rules.phase {
        case _ where deadlineUse == .inspection:
            deadlineUse = .transfer
            upstream?.endInspection()
        case .authorizing, .connecting, .replaying: if wait.isWaiting { credentialTimedOut() }
        case .forwarding where upload.deadlinePassed():
            setDeadline(configuration.timeouts.bodyIdle - TimeAmount(UploadHold.patience))
        case .forwarding, .responding: transferStalled()
        // Neither side has ended its data, so a silent tunnel is cut and not closed normally.
        case .tunnelling:
            let moves = moves(within: route.state.responsePause) { last, now in now.tunnelMoves(since: last) }
            if !moves { end(by: rules.handle(.stalled(.tunnelSilent))) }
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
        let limit =
            if rules.responseHasBegun {
                route.state.responsePause
            } else if rules.phase == .responding {
                route.state.responseTimeout
            } else {
                configuration.timeouts.bodyIdle
            }
        var stall: Stall?
        let moves = moves(within: limit) { last, now in
            stall = policy.stall(from: last, to: now)
            return stall == nil
        }
        guard !moves, let stall else { return }
        end(by: rules.handle(.stalled(stall)))
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

    // MARK: Withdrawal and reload

    /// An operator has withdrawn credentials.
    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        let now = shared.clock.monotonic()
        guard let event = event(of: withdrawn, at: now) else { return }
        enter()
        let step = rules.handle(event)
        if step == .reauthorize { reauthorize(at: now) } else { end(by: step) }
        leave()
        client.resumeRequest()
    }

    /// A reload has come.
    ///
    /// - Parameter verdict: On the same request, by the configuration that has come.
    /// - Returns: Whether the connection is to authorize the request again, under the configuration that has come. This exchange
    ///   is over then.
    func followReload(_ withdrawal: ReloadWithdrawal, _ verdict: ReloadWithdrawal.Verdict) -> Bool {
        let event = withdrawal.event(
            of: record.client,
            route: admitted.route,
            on: admitted.reach,
            verdict: verdict
        )
        let step = rules.handle(event)
        guard step == .beginAgain else {
            isExcluded = step != .nothing
            enter()
            end(by: step)
            leave()
            return false
        }
        leaveUpstream(isCut: false)
        stopWaiting()
        usage.take()?.undo()
        releaseUpload()
        return true
    }

    /// For the tunnel of an exchange that is over: whether an operator has withdrawn its credential.
    func isOver(by withdrawn: WithdrawnCredentials) -> Bool {
        event(of: withdrawn, at: shared.clock.monotonic()) != nil
    }

    /// For the tunnel of an exchange that is over: whether a reload has taken the client, the route or the credential away, or its
    /// rules refuse the request.
    func isOver(by withdrawal: ReloadWithdrawal, _ verdict: ReloadWithdrawal.Verdict) -> Bool {
        withdrawal.takesRight(of: record.client, route: admitted.route, on: admitted.reach, verdict: verdict)
    }

    private func event(of withdrawn: WithdrawnCredentials, at now: MonotonicTime) -> ExchangeEvent? {
        credentialUse.flatMap { withdrawn.event($0, at: now) }
    }

    // MARK: Loss

    /// The client reads no more, or its connection is lost.
    ///
    /// - Parameter isCut: A tunnel must not pass its end on as an end.
    func clientLeft(isCut: Bool) {
        guard backlog.depth == 0 else { return backlog.clientLeft(isCut: isCut) }
        leaveClient(isCut: isCut)
    }

    private func leaveClient(isCut: Bool) {
        _ = rules.handle(.clientLeft)
        leaveUpstream(isCut: isCut)
        report()
    }

    /// The connection ended before the response did.
    ///
    /// - Parameters:
    ///   - isRefused: The upstream has not looked at the request.
    ///   - alert: What it said of TLS.
    ///   - farewell: With which frame of HTTP/2 it ended the stream or the connection.
    func upstreamLost(
        hasAnswered: Bool,
        isRefused: Bool = false,
        alert: TLSAlert? = nil,
        farewell: HTTP2Farewell? = nil
    ) {
        let loss = ConnectionLoss(
            hasAnswered: hasAnswered,
            isUnprocessed: false,
            isRefused: isRefused,
            alert: alert,
            farewell: farewell
        )
        upstreamCame(to: .lost(loss))
    }

    /// The end of the connection is the end of the response, or of the tunnel.
    func responseEndedWithConnection() { upstreamCame(to: .complete) }

    private func upstreamCame(to end: UpstreamEnd) {
        guard backlog.depth == 0 else { return backlog.upstreamCame(to: end) }
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
        let step = rules.handle(.upstreamLost(loss))
        if case .connect(let isFresh) = step { connect(isFresh: isFresh) } else { end(by: step) }
    }

    /// The response breaks a rule of its protocol; its connection is closed already.
    func upstreamBroke(_ detail: String) {
        enter()
        upstream = nil
        end(with: .responseInvalid, upstreamProblem(.upstreamInvalidResponse, detail))
        leave()
    }

    private func upstreamProblem(_ kind: ProblemKind, _ detail: String) -> GatewayProblem {
        // "It sent …" is a sentence about the upstream.
        let begin = detail.hasPrefix("It ") ? detail.dropFirst(2) : ": \(detail)"
        return GatewayProblem(kind, "\(compiled.plan.upstream)\(begin)")
    }

    // MARK: End

    /// Ends the exchange with a problem that the event brings.
    private func end(with event: ExchangeEvent, _ problem: GatewayProblem) { end(by: rules.handle(event), problem) }

    /// Carries out the end that was decided on; without effect where the exchange goes on.
    ///
    /// - Parameter reported: What the event brings.
    private func end(by step: ExchangeStep, _ reported: GatewayProblem? = nil) {
        switch step {
        case .respond(let reason): respond(with: problem(reason, reported))
        case .cut(let reason):
            noteFailure(problem(reason, reported), isCut: true)
            cut(within: reason.cutLimit.map { TimeAmount($0) })
        default: break
        }
    }

    private func problem(_ reason: ExchangeProblem, _ reported: GatewayProblem?) -> GatewayProblem {
        let problem = reason.problem(
            upstream: compiled.plan.upstream.description,
            credential: source?.name,
            timeouts: compiled.plan.timeouts,
            limits: configuration.limits
        )
        return problem ?? reported ?? GatewayProblem(.internalError, "The exchange ended without a reason.")
    }

    private func respond(with problem: GatewayProblem) {
        noteFailure(problem)
        record.status = problem.kind.status
        leaveUpstream(isCut: false)
        report()
        let subject = ProblemSubject(
            requestID: record.requestID,
            route: compiled,
            credential: admitted.chosen?.name,
            disclosesNames: admitted.disclosesNames
        )
        client.respond(with: problem, as: subject, requestIsComplete: rules.requestIsComplete)
    }

    private func noteFailure(_ problem: GatewayProblem, isCut: Bool = false) {
        record.problem = problem.kind
        record.failure = RequestFailure(problem, isCut: isCut, credential: source?.name, place: requestPlace)
    }

    private var requestPlace: RequestPlace {
        let bytes = request.bytes
        return RequestPlace(request.decoder.head, bytes.readableBytesUInt8Span, peer: client.peer)
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
        wait.cancel(at: source)
        if let ticket = attempts.leaveQueue() { pool.leave(ticket) }
        upstream.take()?.abandon(isCut: isCut)
    }

    private func report() {
        stopWaiting()
        releaseUpload()
        usage.take()?.end()
        record.credential = credential
        record.wasReplayed = rules.wasReplayed
        if case nil = record.trace {
            // Mostly the clock was read a moment ago, for the head of the response. The request may be younger than that.
            let now = configuration.clock.monotonic()
            record.finishedAt = now < record.startedAt ? record.startedAt : now
        } else {
            // The parts of a trace have times of their own, none of which may be later.
            record.finishedAt = shared.clock.monotonic()
        }
        shared.observer.finished(record)
    }
}

/// The content of a request on its way to the upstream, and the copy that is kept for a second try.
///
/// The copy is content without framing. A second try frames it anew, and so has to be the rest that follows it.
private struct RequestContent {
    /// Bytes of content that have come, without framing.
    private(set) var received = 0
    private(set) var held: ByteBuffer?
    /// The trailers of the copy; nil until the content is complete.
    private(set) var heldTrailers: ByteBuffer?
    private(set) var form = ContentForm.wire
    /// Decodes the chunks; nil if the length is known.
    private var chunks: ChunkDecoder?
    /// Whether it comes with the framing of HTTP/1.
    private let isFramed: Bool

    init(_ framing: BodyFraming, isFramed: Bool) {
        self.isFramed = isFramed
        guard case .chunked = framing else { return }
        chunks = ChunkDecoder()
        if !isFramed { form = .content }
    }

    var isChunked: Bool { chunks != nil }
    var heldBytes: Int { held?.readableBytes ?? 0 }

    mutating func count(_ length: Int) { received += length }

    /// Takes what came, framing included.
    ///
    /// - Returns: The bytes to send, in the form that ``form`` says.
    mutating func take(_ wire: ByteBuffer, isHeld: Bool) -> ByteBuffer {
        guard isHeld || form == .content else {
            stopHolding()
            return wire
        }
        let content = unframed(wire)
        if isHeld {
            // A copy: a slice would keep the whole of the buffer that it came in.
            if held == nil { held = ByteBuffer() }
            held?.writeImmutableBuffer(content)
        } else {
            stopHolding()
        }
        return form == .content ? content : wire
    }

    mutating func takeTrailers(_ trailers: ByteBuffer, isHeld: Bool) {
        if isHeld { heldTrailers = trailers } else { stopHolding() }
    }

    mutating func stopHolding() {
        if held != nil { held = nil }
        if heldTrailers != nil { heldTrailers = nil }
    }

    /// What comes from now on is sent as content.
    mutating func sendUnframed() {
        if isChunked { form = .content }
    }

    /// The chunks were found valid where they were read.
    private mutating func unframed(_ wire: ByteBuffer) -> ByteBuffer {
        guard isChunked, isFramed else { return wire }
        var content = ByteBuffer()
        let bytes = wire.readableBytesUInt8Span
        _ = chunks?.feed(bytes, from: 0) { run in
            content.writeImmutableBuffer(
                wire.getSlice(at: wire.readerIndex + run.lowerBound, length: run.count) ?? ByteBuffer()
            )
        }
        return content
    }
}

/// The attempts of a request to get a connection, one at a time, and its place in the queue for one.
struct ConnectionAttempts {
    private var last: UInt64 = 0
    /// While the request is in the queue.
    private var ticket: WaiterTicket?

    /// One that is put off to the next turn of the event loop counts, too.
    mutating func begin() -> UInt64 {
        last &+= 1
        return last
    }

    /// Whether a result is that of the attempt at hand, and not of an earlier one.
    func isCurrent(_ attempt: UInt64) -> Bool { attempt == last }

    /// - Parameter ticket: What the pool returned. It may have answered at once, and the request may wait for another connection by
    ///   now.
    mutating func wait(_ ticket: WaiterTicket?, for attempt: UInt64) {
        if isCurrent(attempt) { self.ticket = ticket }
    }

    /// The attempt at hand has its result.
    mutating func answered() { ticket = nil }

    /// - Returns: What the pool has to be told, if the request was in the queue.
    mutating func leaveQueue() -> WaiterTicket? { ticket.take() }

    /// Leaves the queue. A connection that comes for the attempt is given back.
    mutating func abandon() -> WaiterTicket? {
        last &+= 1
        return leaveQueue()
    }
}

/// What a request was sent with: decides about bytes of it that wait longer than its exchange lives.
struct SentRight {
    /// nil for no credential.
    let use: CredentialUse?
    let shared: ProxyShared
    let client: String?
    /// Its index in ``shared``; nil for a server that no route leads to.
    let route: Int?
    let reach: ConnectionContext.Reach
    /// A reload has ended the exchange.
    let isExcluded: Bool

    func isOver(by withdrawn: WithdrawnCredentials, at now: MonotonicTime) -> Bool {
        use.flatMap { withdrawn.event($0, at: now) } != nil
    }

    /// Without its head nobody can say whether other rules would refuse the request, so other rules end it.
    ///
    /// - Parameters:
    ///   - withdrawal: What the reload takes from requests of ``shared``.
    ///   - keepsRules: The reload has the rules of ``shared``.
    func isOver(by withdrawal: ReloadWithdrawal, keepsRules: Bool) -> Bool {
        isExcluded || !keepsRules || withdrawal.covers(client: client, route: route, on: reach)
    }
}

/// The upstream's end of a tunnel whose client has left in good order: what it sent last is on its way.
struct EndingTunnel {
    let upstream: any UpstreamStream
    /// It is over. It still has the client, the route and the credential that the tunnel was opened with.
    let exchange: ExchangeDriver
}

/// Explains why an upstream refuses `as_user`, in the words of the strategy that knows the field.
///
/// The response is forwarded unchanged. The log line is for the author of the configuration.
private enum AsUserAdvice {
    static func log(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        of route: CompiledRoute,
        to shared: ProxyShared
    ) {
        guard let user = route.plan.asUser else { return }
        let challenges = AuthChallenge.all(in: head, bytes.readableBytesUInt8Span)
        guard challenges.contains(where: { $0.parameters["error"] == "insufficient_scope" }),
            route.mayExplain(at: shared.clock.monotonic())
        else { return }
        shared.logger.warning(
            "Upstream refused as_user (403, insufficient_scope)",
            metadata: [
                "gateway.route": "\(route.plan.name)", "gateway.credential": "\(route.credentialName ?? "")",
                "gateway.reason": "\(user.field.advice)",
            ]
        )
    }
}
