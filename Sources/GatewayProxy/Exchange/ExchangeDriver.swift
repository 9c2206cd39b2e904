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
/// It reports what happens on either side to its ``Exchange``, and carries out the step that this returns. The picture of the phases
/// is there. What a response says about the token is for ``TokenRejection`` to decide.
///
/// It is the only object that a request allocates, and it belongs to the event loop of its connection. If a connection ends while
/// an event is being carried out, the end is handled after that event: writing may discover that a connection is lost.
final class ExchangeDriver {
    let configuration: WorkerConfiguration
    let client: any ClientStream
    /// The client's request, cached: reading it through the protocol would retain it each time.
    private let request: RequestMessage
    private var rules: Exchange
    private var record: ExchangeRecord
    private let admitted: RequestAuthorizer.Admitted
    /// Its credential is valid only once ``isAuthorized`` is set.
    private var route: CredentialedRoute
    private var sessionUse = SessionUse.unused
    /// Whether it is known what is injected: ``credential``, or nothing at all.
    private var isAuthorized = false
    private var upstream: (any UpstreamStream)?
    private var content: RequestContent
    private var wait = CredentialWait()
    private var attempts = ConnectionAttempts()
    /// The bytes of the request that an earlier stream could not send.
    private var unsent: ByteBuffer?
    /// What the response tells the client about the token.
    private var rejectionOutcome = RejectionOutcome.none
    /// Leaves out of the response what a rule does not show; nil for almost every request.
    private var filter: ToolListFilter?
    private var watch = TransferWatch()
    /// How the request is signed; nil if its credential does not sign each request by itself.
    private var signingPlan: (any SigningPlan)?
    private var backlog = Backlog()
    /// nil for a client without limits, and before the request is admitted.
    private var usage: ClientUsage?
    private var upload = UploadHold()
    /// The upstream stream will call back once it has sent what it buffers.
    private var awaitsRelease = false
    private var deadlineUse = DeadlineUse.transfer
    /// A reload has ended the exchange, so its credential must not reach an upstream any more.
    private var isExcluded = false
    /// nil for almost every request.
    private(set) var bodyRules: BodyRules?
    private var approval = Approval.none
    /// The upstream speaks HTTP/2, and this request goes to it in HTTP/1.1.
    private var goesByHTTP1 = false
    /// When the exchange began, by the event loop's clock.
    private let begunAt: NIODeadline

    /// Where the request stands with the sessions of its credential (``SigningSessions``).
    private enum SessionUse {
        /// It has not been sent yet, or its credential has no sessions.
        case unused
        case sent(SigningSessions.Turn)
        /// The upstream has challenged it. It is sent again in this way.
        case challenged(next: SigningSessions.Turn)

        var isUnused: Bool { if case .unused = self { true } else { false } }

        /// How the request is sent; nil if the sessions have not been asked.
        var turn: SigningSessions.Turn? {
            switch self {
            case .unused: nil
            case .sent(let turn), .challenged(next: let turn): turn
            }
        }
    }

    /// What the deadline set at the client is for.
    private enum DeadlineUse {
        case transfer
        /// The beginning of a response body is being inspected. Bytes that the client still sends do not extend this deadline.
        case inspection
    }

    /// Connections that ended while an event was being carried out, at most one on each side.
    private struct Backlog {
        /// How many events are being carried out, one inside another.
        var depth = 0
        /// Whether the client's connection was cut; nil while it is still there.
        private(set) var clientCut: Bool?
        private(set) var upstreamEnd: UpstreamEnd?
        /// Whether either end is set. A flag, because every event checks it and it is almost never true.
        private(set) var hasEnd = false

        mutating func clientLeft(isCut: Bool) { (clientCut, hasEnd) = (isCut, true) }
        mutating func upstreamCame(to end: UpstreamEnd) { (upstreamEnd, hasEnd) = (end, true) }

        /// - Returns: One of the two. If the client has left, the end of the upstream no longer matters.
        mutating func take() -> (clientCut: Bool?, upstreamEnd: UpstreamEnd?) {
            defer { (clientCut, upstreamEnd, hasEnd) = (nil, nil, false) }
            return (clientCut, clientCut == nil ? upstreamEnd : nil)
        }
    }

    private enum UpstreamEnd {
        case lost(ConnectionLoss)
        case complete
    }

    /// Where the request stands with the operator who has to approve it.
    private enum Approval {
        case none
        case awaited(PendingApproval)
        /// It counts for this exchange alone.
        case given
    }

    /// A class: few requests have one, and a reference is small.
    private final class PendingApproval {
        let request: HeldRequest
        /// nil for a request that is approved whatever is in it.
        let calls: HeldCalls?

        init(_ request: HeldRequest, _ calls: HeldCalls?) {
            self.request = request
            self.calls = calls
        }
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
        // A pattern, because `==` would be a call through a witness table into another module.
        let hasContent = if case .none = head.framing { false } else { true }
        // Stored first: reading a member of the parameter would copy all of it.
        self.admitted = admitted
        let route = unrouted ?? configuration.route(self.admitted.match.route)
        let chosen = self.admitted.chosen
        self.route = route
        rules = Exchange(
            RequestFacts(
                isIdempotent: head.isIdempotent,
                hasContent: hasContent,
                expectsContinue: head.expectsContinue,
                isHTTP10: head.isHTTP10
            ),
            isRenewable: (chosen ?? route.state.route.source)?.isRenewable ?? false
                || route.state.route.mayBeSignedAgain
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
        self.client = client
        request = client.request
        self.configuration = configuration
        content = RequestContent(head.framing, isFramed: contentIsFramed)
        // Unwrap before assigning: copying the optional as a whole goes through its value witness.
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
    /// The credential that the request is sent with, and its source; nil for none.
    var credentialUse: CredentialUse? {
        guard let source, let credential else { return nil }
        return CredentialUse(credential: credential, source: source)
    }
    /// What permits the request to be sent: its credential, client and route.
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
        case .collecting: .content
        case .answering, .holding, .responding: .complete
        case .authorizing, .connecting, .replaying, .done: .nothing
        }
    }

    var clientIsWritable: Bool { client.isWritable }
    var clientIsHTTP2: Bool { request.isHTTP2 }

    private func reached(_ step: RequestTimings.Step) {
        record.timings.reached(step, after: (configuration.clock.now - begunAt).nanoseconds)
    }

    /// The client that the request was admitted as.
    var clientName: String? { record.client }

    /// The server that the request goes to if it has no route.
    var server: TunnelDestination? { route.pool.server }

    /// Whether a route of another configuration sends a request of `client` to the same place as this exchange.
    ///
    /// An operator who is asked about a request has seen the route as it is: nothing of it may change.
    func goes(by route: CompiledRoute, as client: String?) -> Bool {
        let (old, new) = (compiled.plan, route.plan)
        guard record.client == client, old.name == new.name, old.upstream == new.upstream,
            old.upstreamPath == new.upstreamPath
        else { return false }
        return pending == nil || old.isSame(as: new)
    }

    var requestIsComplete: Bool { rules.requestIsComplete }
    var responseHasBegun: Bool { rules.responseHasBegun }

    /// Lower-case names of fields that are not allowed in the request's trailers.
    var namesKeptFromUpstream: [[UInt8]] {
        let forwarded = compiled.forwarded == .pass ? [] : ForwardedPolicy.names.map { Array($0.utf8) }
        let overrides = compiled.plan.allow.isEmpty && compiled.plan.endpoints.isEmpty ? [] : MethodOverride.fieldNames
        let calls = compiled.plan.namesTools ? [ToolRule.methodField, ToolRule.nameField] : []
        return route.requestFields.ownedNames + forwarded + overrides + calls
    }

    /// Lower-case names of fields that are not allowed in the response's trailers.
    var namesKeptFromClient: [[UInt8]] {
        route.responseFields.namesKeptFromTrailers + (route.hasSecretTarget ? FieldKind.uriReferenceNames : [])
    }

    // MARK: Events within events

    // A method that writes to a side or waits for a connection, and still needs the exchange afterwards, is enclosed in `enter()`
    // and `leave()`: writing may discover that a connection is lost, and its end is then put off until `leave()`. The others need
    // neither. They use no socket (`stage`), do nothing after their one call (`clientBecameWritable`, `upstreamBecameWritable`,
    // `clientClosedOutput`), hand the stream over (`finishTunnel`), or are the ends themselves (`clientLeft`, `upstreamCame`).

    @inline(__always)
    private func enter() { backlog.depth += 1 }

    @inline(__always)
    private func leave() {
        assert(backlog.depth > 0, "An event ends that has not begun.")
        backlog.depth -= 1
        if backlog.hasEnd, backlog.depth == 0 { followEnd() }
    }

    /// Handles an end that came while an event was being carried out.
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
        if route.hasBodyRules { findBodyRules() }
        if case .length(let length) = request.decoder.head.framing,
            let problem = configuration.limits.refusal(ofContent: length)
        {
            end(with: .requestInvalid, problem)
        } else if let problem = limitReached(at: now) {
            end(with: .requestInvalid, problem)
        } else if let point = bodyRules?.capturePoint {
            beginCaptured(at: point)
        } else {
            authorize(at: now)
        }
        leave()
    }

    private func findBodyRules() {
        let bytes = request.bytes
        bodyRules = shared.authorizer.bodyRules(
            of: request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted.match
        )
    }

    private func limitReached(at now: MonotonicTime) -> GatewayProblem? {
        guard let usage = shared.usage(of: record.client) else { return nil }
        if let problem = usage.refusal(at: now) { return problem }
        self.usage = usage
        return nil
    }

    /// Uses the current credential, or waits for one.
    private func authorize(at now: MonotonicTime) {
        // A replay is reported to the source before it is sent, which `connect(with:)` does.
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

    // MARK: Captured login

    /// Collects the body. No credential is asked for: the login is what brings one.
    private func beginCaptured(at point: CapturePoint) {
        let bytes = request.bytes
        if let refusal = CapturePoint.refusal(ofHead: request.decoder.head, bytes.readableBytesUInt8Span) {
            return respond(captured: refusal.answer)
        }
        switch rules.handle(.bodyAwaited) {
        case .connect: answerCaptured(at: point)
        case .collect(let invites):
            followDeadline()
            if invites, !client.hasUnreadContent { client.sendContinue() }
        default: break
        }
    }

    private func answerCaptured(at point: CapturePoint) {
        guard let captures = shared.configuration.captures else {
            return end(with: .connectionFailed, GatewayProblem(.internalError, "Nothing answers captured logins."))
        }
        if let problem = wait.begin(on: route.state, for: record.client, under: shared) {
            return end(with: .connectionFailed, problem)
        }
        _ = rules.handle(.loginAwaited)
        followDeadline()
        let (head, body) = (request.bytes, content.held ?? ByteBuffer())
        let authorization = request.decoder.head.first(.authorization)
        let message = CapturedMessage(
            to: point.credential,
            at: point.kind,
            body: SecretBytes(body.readableBytesUInt8Span.array(0..<body.readableBytes)),
            authorization: authorization.map { Secret(head.readableBytesUInt8Span.string($0.value)) },
            demand: credentialRequest
        )
        let done = wait.answer(on: configuration.loop, self) { (driver, answer: OAuthAnswer, number) in
            driver.capturedAnswerCame(answer, number)
        }
        captures.answer(message, done)
    }

    private func capturedAnswerCame(_ answer: OAuthAnswer, _ number: CredentialWait.Number) {
        guard wait.isWaiting(number) else { return }
        enter()
        stopWaiting()
        respond(captured: answer)
        leave()
        client.resumeRequest()
    }

    private func respond(captured answer: OAuthAnswer) {
        let problem = GatewayProblem(answer)
        guard answer.failure == nil else { return end(with: .requestInvalid, problem) }
        guard case .respond = rules.handle(.loginAnswered) else { return }
        respond(with: problem, isFailure: false)
    }

    private func loginTimedOut() {
        stopWaiting()
        end(with: .requestInvalid, CapturePoint.timedOut)
    }

    // MARK: Connection

    private func connect(with credential: Credential?) {
        if case .replaying = rules.phase {
            let rejected = self.credential?.generation ?? 0
            // Signing again is not recorded as a replay: some servers send a challenge for each request.
            if sessionUse.isUnused, !rules.wasSignedAnew {
                source?.note(.replayed, generation: rejected, by: credentialRequest)
            }
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
        guard !route.mayCollect else { return connectCollecting() }
        guard case .connect(let isFresh) = rules.handle(.authorized) else { return }
        connect(isFresh: isFresh)
    }

    /// Asks the signer and ``bodyRules`` what they need before the request can be sent.
    private func connectCollecting() {
        if let problem = planSignature() { return end(with: .requestInvalid, problem) }
        guard signingPlan?.needsBody ?? false || bodyRules?.readsCalls != nil || needsApproval else {
            if case .connect(let isFresh) = rules.handle(.authorized) { connect(isFresh: isFresh) }
            return
        }
        if case .length(let length) = request.decoder.head.framing, length > configuration.limits.replayBodyBytes {
            return end(with: .requestInvalid, uncollectableBody)
        }
        switch rules.handle(.bodyAwaited) {
        case .connect(let isFresh): connectCollected(isFresh: isFresh)
        case .collect(let invites):
            followDeadline()
            if invites, !client.hasUnreadContent { client.sendContinue() }
        default: break
        }
    }

    /// Goes on with a request whose body is complete in memory: answers a login, refuses a call that no rule allows, waits for an
    /// operator, or connects.
    private func connectCollected(isFresh: Bool) {
        if let point = bodyRules?.capturePoint { return answerCaptured(at: point) }
        if !isApproved, let problem = refusalOfCalls() { return end(with: .requestInvalid, problem) }
        if needsApproval { return awaitApproval() }
        connect(isFresh: isFresh)
    }

    private func refusalOfCalls() -> GatewayProblem? {
        guard let rule = bodyRules?.readsCalls else { return nil }
        let (bytes, body) = (request.bytes, content.held ?? ByteBuffer())
        return rule.refusal(
            ofBody: body.readableBytesUInt8Span,
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            route: compiled.plan.name
        )
    }

    private var uncollectableBody: GatewayProblem {
        if bodyRules?.capturePoint != nil { return GatewayProblem(configuration.limits.uncollectableForm) }
        return configuration.limits.uncollectableBody(
            readsCalls: bodyRules?.readsCalls != nil,
            isForApproval: needsApproval
        )
    }

    // MARK: Approval

    /// An operator has approved the request.
    var isApproved: Bool { if case .given = approval { true } else { false } }

    private var pending: PendingApproval? { if case .awaited(let pending) = approval { pending } else { nil } }

    private var shownFields: [String] {
        let bytes = request.bytes
        return HeldRequest.fields(of: request.decoder.head, bytes.readableBytesUInt8Span)
    }

    private var needsApproval: Bool {
        guard let bodyRules, !isApproved else { return false }
        return bodyRules.approval != .nothing
    }

    /// The request is complete in memory. Holds it until an operator has decided, unless nothing in it has to be approved.
    private func awaitApproval() {
        let body = content.held ?? ByteBuffer()
        var calls: HeldCalls?
        if let bodyRules, bodyRules.approval == .calls {
            do throws(RPCFault) {
                calls = try HeldCalls(body.readableBytesUInt8Span, of: bodyRules.approvedTools)
            } catch {
                return end(with: .requestInvalid, ApprovalFailure.unreadable(error).problem)
            }
            guard calls != nil else { return connect(isFresh: false) }
        }
        if let failure = content.heldTrailers.flatMap({ ApprovalFailure(ofTrailers: $0.readableBytes) }) {
            return end(with: .requestInvalid, failure.problem)
        }
        let held = HeldRequest(
            id: record.requestID.description,
            subject: approvalSubject(body),
            place: requestPlace.path,
            calls: calls?.names ?? [],
            fields: shownFields,
            body: body.readableBytesUInt8Span,
            heldAt: shared.clock.monotonic()
        )
        let (driver, loop) = (NIOLoopBound(self, eventLoop: configuration.loop), configuration.loop)
        do throws(GatewayProblem) {
            try shared.state.approvals.hold(held) { verdict in
                loop.execute { driver.value.decided(verdict) }
            }
        } catch {
            return end(with: .requestInvalid, error)
        }
        approval = .awaited(PendingApproval(held, calls))
        _ = rules.handle(.approvalAwaited)
        followDeadline()
    }

    private func approvalSubject(_ body: ByteBuffer) -> HeldRequest.Subject {
        let bytes = request.bytes
        let query = TargetRewrite.query(
            of: request.decoder.head,
            bytes.readableBytesUInt8Span,
            without: admitted.tokenPlaces
        )
        let target = String(decoding: upstreamPath + query, as: UTF8.self)
        return HeldRequest.Subject(
            client: record.client,
            route: compiled.plan.name,
            method: record.method,
            url: "\(compiled.plan.upstream)\(target)",
            digest: shared.configuration.sha256(Array(body.readableBytesView))
        )
    }

    private func decided(_ verdict: HeldRequests.Verdict) {
        guard rules.phase == .holding, let pending else { return }
        enter()
        switch verdict {
        case .approved: sendApproved(pending)
        case .denied: endHeld(.denied)
        case .stopped: end(with: .requestInvalid, HeldRequests.Refusal.stopping.problem())
        }
        leave()
        client.resumeRequest()
    }

    /// Rights are judged once more: minutes may have passed.
    private func sendApproved(_ pending: PendingApproval) {
        guard let present = configuration.worker.current?.shared, ReloadInProgress(to: present).admits(self) else {
            return endHeld(.excluded)
        }
        let subject = approvalSubject(content.held ?? ByteBuffer())
        guard shared.state.approvals.release(pending.request, as: subject) else { return endHeld(.expired) }
        approval = .given
        guard case .connect = rules.handle(.approved) else { return }
        client.clearDeadline()
        requestCompleted()
    }

    private func endHeld(_ failure: ApprovalFailure) {
        var problem = failure.problem
        problem.rpc = pending?.calls?.refusal(problem.detail)
        end(with: .requestInvalid, problem)
    }

    /// The request is over. It was not sent if it still waits.
    private func stopHolding() {
        guard let pending else { return }
        approval = .none
        shared.state.approvals.leave(pending.request.id, because: record.problem)
    }

    /// - Returns: Why the request must not be signed.
    private func planSignature() -> GatewayProblem? {
        signingPlan = nil
        guard case .everyRequest(let signer)? = route.credential?.signer else { return nil }
        let bytes = request.bytes
        let writer = requestWriter(bytes)
        let plan = shared.authorizer.signingPlan(
            for: signable(by: writer, bytes),
            by: signer,
            on: admitted.match.route,
            client: record.client
        )
        switch plan {
        case .success(let plan): signingPlan = plan
        case .failure(let problem): return problem
        }
        return nil
    }

    private func signable(by writer: borrowing RequestWriter, _ bytes: ByteBuffer) -> SignableRequest {
        writer.signable(request.decoder.head, bytes, at: signatureDate)
    }

    private var signatureDate: UnixTime { compiled.signatureDate(at: shared.clock.now().wall) }

    /// Why the request cannot be signed; nil if `writer` has the signature.
    private func sign(_ writer: inout RequestWriter, _ bytes: ByteBuffer) -> GatewayProblem? {
        switch route.credential?.signer {
        case nil: break
        case .everyRequest?:
            let isCollected = rules.requestIsComplete && rules.isHolding
            guard let signingPlan, isCollected || !signingPlan.needsBody else {
                let detail = "The request cannot be signed, because its body was not collected."
                return GatewayProblem(.internalError, detail)
            }
            // Its length is known now, and services such as S3 refuse chunks (411).
            let isMeasured = content.isChunked && isCollected
            if isMeasured { writer.content = .collected }
            let body = signingPlan.needsBody ? content.held ?? ByteBuffer() : ByteBuffer()
            switch signingPlan.sign(at: signatureDate, body.readableBytesUInt8Span) {
            case .success(let signature):
                writer.signature = isMeasured ? signature.declaring(length: content.heldBytes) : signature
                content.startSigning(with: signature.body)
            case .failure(let problem): return problem
            }
        case .afterChallenge?:
            guard let turn = sessionUse.turn ?? compiled.sessions?.take(for: upstreamPath) else { break }
            sessionUse = .sent(turn)
            if case .signed(let slot) = turn { writer.signature = slot.sign(signable(by: writer, bytes)) }
        }
        return nil
    }

    /// Checks of the head that depend on what is injected.
    private func refusalOfHead() -> GatewayProblem? {
        let hasDoubts = request.decoder.head.present.contains(.secondAuthorization)
        guard hasDoubts || request.decoder.head.section.hasUnderscore else { return nil }
        let bytes = request.bytes
        return route.requestFields.refusal(
            of: request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted.tokenPlaces
        )
    }

    /// - Parameter isFresh: Whether to open a new connection, because the last pooled one was lost while it carried this request.
    private func connect(isFresh: Bool) {
        if route.pool.mayUseHTTP2, !goesByHTTP1 { chooseProtocol() }
        let pool = pool
        // The earlier stream may have been lost while its response was being inspected.
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

    /// Waits one turn of the event loop. By then it is known whether the connection that is being read has ended with its response.
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

    /// The credential may have been withdrawn, or may have expired, while the request waited for the connection.
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
        // Those bytes hold the old credential; the request is written again with the new one.
        unsent = nil
        isAuthorized = false
        authorize(at: now)
    }

    // MARK: Version of HTTP

    private func chooseProtocol() {
        let bytes = request.bytes
        // One request's fallback must not affect gRPC calls on the same route: HTTP/1.1 cannot carry them.
        goesByHTTP1 =
            route.state.fallsBack(at: shared.clock.monotonic()) && !isGRPC
            || UpstreamVersionRule.needsHTTP1(
                request.decoder.head,
                bytes.readableBytesUInt8Span,
                route.pool.target.version,
                lacksWebSocket: route.pool.lacksWebSocket || route.isSigned
            )
    }

    private var isGRPC: Bool {
        let bytes = request.bytes
        return GRPCStatus.isCall(request.decoder.head, bytes.readableBytesUInt8Span)
    }

    private var mayFallBack: Bool { UpstreamVersionRule.mayFallBack(route.pool.target.version) }

    /// The upstream requires HTTP/1.1 for the request (HTTP_1_1_REQUIRED) and has not processed it.
    ///
    /// - Returns: Whether the request can be sent again in that version.
    func goOnInHTTP1() -> Bool {
        guard mayFallBack, rules.isHolding, !goesByHTTP1, !isGRPC else { return false }
        goesByHTTP1 = true
        route.state.fallBack(at: shared.clock.monotonic())
        return true
    }

    /// Over HTTP/2, a WebSocket is opened with CONNECT (RFC 8441 section 5), but the signature covers the client's GET.
    private func takesUpgrade(_ stream: any UpstreamStream) -> Bool {
        guard route.isSigned, case .content = stream.requestForm else { return stream.takesUpgrade }
        return false
    }

    /// The upstream does not support WebSocket over HTTP/2, or the request is signed.
    private func sendByHTTP1(not stream: any UpstreamStream) {
        stream.returnUnused()
        guard mayFallBack else {
            return end(
                with: .connectionFailed,
                upstreamProblem(
                    .upgradeFailed,
                    route.isSigned ? UpstreamVersionRule.signsNoWebSocket : UpstreamVersionRule.takesNoWebSocket
                )
            )
        }
        goesByHTTP1 = true
        connect(isFresh: false)
    }

    // MARK: Request

    private func send(on stream: any UpstreamStream) {
        guard !request.decoder.head.wantsUpgrade || takesUpgrade(stream) else { return sendByHTTP1(not: stream) }
        guard case .sendRequest = rules.handle(.connected(isReused: stream.isReused, mayRefuse: stream.canRefuse))
        else {
            return stream.abandon(isCut: false)
        }
        assert(upstream == nil, "A request has two connections.")
        stream.begin(for: self, answersHead: request.decoder.head.isHead)
        upstream = stream
        reached(.connection)
        // Their signature is as old as that attempt, and the request can be written anew.
        if route.isSigned, rules.isHolding || !rules.contentHasBegun { unsent = nil }
        if case .content = stream.requestForm {
            // `unsent` has the framing of HTTP/1, and this stream is not HTTP/1. Without a copy of the body, the request cannot be
            // rebuilt.
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
            guard sendCopy(on: stream) else { return }
        }
        record.wasSent = true
        followDeadline()
        if rules.awaitsContinue, client.hasUnreadContent { setDeadline(configuration.timeouts.bodyIdle) }
        // The part of the body that has arrived goes out in the same write.
        if rules.requestIsComplete || !client.hasUnreadContent { stream.flush() }
        // What was collected waits for this upstream now, or was taken.
        if upload.bytes > 0 {
            awaitRelease()
            uploadMoved()
        }
        if !route.isUseNoted, let credential, usesCredential { noteFirstUse(of: credential, on: stream) }
    }

    /// Reports the first use of a generation once the head has been sent. The source ignores repeats from other event loops.
    private func noteFirstUse(of credential: Credential, on stream: any UpstreamStream) {
        let (route, source, request) = (route, source, credentialRequest)
        stream.whenSent {
            guard route.noteUse() else { return }
            source?.note(.injected, generation: credential.generation, by: request)
        }
    }

    /// false for a request that was sent unsigned because its upstream has sent no challenge yet.
    private var usesCredential: Bool {
        switch sessionUse {
        case .sent(.unsigned), .challenged(next: .unsigned): false
        case .unused, .sent(.signed), .challenged(next: .signed): true
        }
    }

    /// - Returns: Why the request must not be sent; nil if the head was written.
    private func writeHead(on stream: any UpstreamStream) throws(HeadFault) -> GatewayProblem? {
        let bytes = request.bytes
        var writer = requestWriter(bytes)
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
        if route.isSigned, let problem = sign(&writer, bytes) { return problem }
        try stream.sendHead(request.decoder.head, bytes, by: writer, end: end)
        return nil
    }

    private func requestWriter(_ bytes: ByteBuffer) -> RequestWriter {
        RequestWriter(
            route: route,
            match: admitted.match,
            tokenPlaces: admitted.tokenPlaces,
            // A replay has the body in memory, so it need not wait for 100 (Continue).
            content: rules.contentHasBegun ? .begun : .awaited,
            forwarded: route.addsForwarded ? forwardedLines(bytes) : "",
            trace: route.requestFields.ownsTraceParent ? nil : record.trace
        )
    }

    private func forwardedLines(_ bytes: ByteBuffer) -> String {
        compiled.forwarded.lines(
            client: client.clientAddress,
            host: bytes.readableBytesUInt8Span.string(request.decoder.head.host),
            isTLS: client.isTLS
        )
    }

    /// - Returns: false if the exchange has ended, because the copy cannot be signed.
    private func sendCopy(on stream: any UpstreamStream) -> Bool {
        guard content.held != nil || content.heldTrailers != nil else { return true }
        // The rest of the body follows the copy, which is without framing.
        content.sendUnframed()
        if content.hasSigner {
            let held = content.held ?? ByteBuffer()
            guard sendSigned(held, isLast: rules.requestIsComplete, on: stream) else { return false }
        } else if let held = content.held {
            stream.sendContent(held, as: content.form)
        }
        if let trailers = content.heldTrailers { stream.sendEnd(trailers: trailers) }
        return true
    }

    /// Sends what can be signed of the body so far.
    ///
    /// - Parameters:
    ///   - part: The next part of the body, without framing.
    ///   - stream: nil if the connection was lost while this part came.
    /// - Returns: false if the exchange has ended, because the body breaks a rule of its signer.
    private func sendSigned(_ part: ByteBuffer, isLast: Bool, on stream: (any UpstreamStream)?) -> Bool {
        do throws(GatewayProblem) {
            let signed = try content.signed(part, isLast: isLast)
            if signed.readableBytes > 0 { stream?.sendContent(signed, as: content.form) }
            return true
        } catch {
            end(with: .requestInvalid, error)
            return false
        }
    }

    /// Takes a part of the request body, with its framing.
    ///
    /// - Parameter length: Bytes of the body, without framing.
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
        let part = content.take(wire, isHeld: isHeld)
        if content.hasSigner {
            guard sendSigned(part, isLast: isLast, on: upstream) else { return }
        } else {
            upstream?.sendContent(part, as: form)
        }
        if isLast {
            requestCompleted()
        } else if let upstream, !upstream.isWritable {
            upstreamIsFull()
        }
    }

    /// - Parameter trailers: The trailers, including the empty line at their end.
    func receive(trailers: ByteBuffer) {
        enter()
        defer { leave() }
        // Those that have no field are only the end.
        let count = trailers.readableBytes > 2 ? trailers.readableBytes : 0
        guard let isHeld = contentCame(count, isLast: true) else { return }
        content.takeTrailers(trailers, isHeld: isHeld)
        if content.hasSigner, !sendSigned(ByteBuffer(), isLast: true, on: upstream) { return }
        switch content.form {
        case .wire: upstream?.sendContent(trailers, as: .wire)
        case .content: upstream?.sendEnd(trailers: trailers)
        }
        requestCompleted()
    }

    /// - Returns: Whether a copy of it is kept; nil if it is not sent.
    private func contentCame(_ count: Int, isLast: Bool) -> Bool? {
        let fits = HoldPolicy.fits(count, behind: content.heldBytes, limit: configuration.limits.replayBodyBytes)
        switch rules.handle(.requestContent(isHeld: fits, isLast: isLast)) {
        case .sendContent(let isHeld): return isHeld
        case .keepContent: return true
        case .respond(let reason):
            // The body does not fit, and all of it is needed.
            end(by: .respond(reason), uncollectableBody)
            return nil
        default: return nil
        }
    }

    private func requestCompleted() {
        // The body was collected. The credential may have been withdrawn meanwhile.
        if case .connecting = rules.phase {
            let now = shared.clock.monotonic()
            guard let credential, !credential.isOffered(at: now) else { return connectCollected(isFresh: false) }
            let step = rules.handle(.withdrawn)
            return step == .reauthorize ? reauthorize(at: now) : end(by: step)
        }
        followDeadline()
        upstream?.flush()
    }

    /// Everything that the client has sent so far was handed to the exchange.
    func flushRequest() {
        // A request without a body was sent with its head. It holds memory only if the client has sent more after it.
        if case .responding = rules.phase, !rules.contentHasBegun, upload.bytes == 0, client.unreadBytes == 0 { return }
        enter()
        upstream?.flush()
        countUpload()
        leave()
    }

    /// The rest of the request breaks a rule of its protocol.
    ///
    /// - Parameter length: Bytes of the body before the error.
    func requestBroke(_ problem: GatewayProblem, behind length: Int = 0) {
        enter()
        content.count(length)
        end(with: .requestInvalid, configuration.limits.refusal(ofContent: content.received) ?? problem)
        leave()
    }

    /// Whether all of the request has been sent, so that the next request on the connection cannot be mistaken for a part of it.
    private func hasSentAll(to stream: any UpstreamStream) -> Bool {
        rules.requestIsComplete && (!rules.contentHasBegun || stream.untakenBytes == 0)
    }

    // MARK: Response

    /// What the upstream stream does with a final response.
    enum ResponseDecision {
        case pass(ContentForm)
        /// What follows is not HTTP: ``tunnelBegan()`` comes next.
        case tunnel
        /// Hold the response back until ``RejectionRule`` has as much of the body as it looks at, or all of it.
        /// ``receive(_:_:content:)`` comes next.
        case inspect
        /// Hold the response back: the token was rejected, and the request can be replayed. ``sendAgain()`` comes next.
        case hold
        /// The exchange is over and no longer uses the stream.
        case over
    }

    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        reached(.response)
        if head.status == 403 { AsUserAdvice.log(head, bytes, of: compiled, to: shared) }
        if isAuthorized, route.judgesResponses, needsBody(of: head, bytes.readableBytesUInt8Span) {
            setDeadline(TimeAmount(RejectionRule.patience))
            deadlineUse = .inspection
            return .inspect
        }
        return follow(head, bytes, responseFacts(head, bytes))
    }

    /// - Parameter content: The beginning of the body, which ``ResponseDecision/inspect`` asked for.
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
            if outcome == .challengedNotHeld, case .challenged(let next) = sessionUse {
                compiled.sessions?.leaveToNext(next)
            }
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
        guard isAuthorized, route.judgesResponses else { return nil }
        return compiled.policy.rejectedWhen
    }

    /// Whether the response cannot be judged without the beginning of its body, and that can be inspected.
    private func needsBody(of head: borrowing ResponseHead, _ bytes: borrowing Span<UInt8>) -> Bool {
        if let rule = compiled.policy.rejectedWhen, rule.readsBody(of: head, bytes) { return true }
        guard let judge = credential?.signer?.judge, judge.judgedStatuses.contains(head.status) else { return false }
        return BodyInspection.canInspect(head, bytes)
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
        if route.isSigned, let rejection = rejectionOfSignature(head, bytes, content ?? []) {
            return ResponseFacts(status: head.status, rejection: rejection)
        }
        if sign == nil, (200..<300).contains(head.status), head.grpcStatus != GRPCStatus.unauthenticated.rawValue {
            confirm()
            return ResponseFacts(status: head.status)
        }
        noteRefusal(head, bytes)
        noteMissingScopes(head, bytes)
        // What was challenged without a signature, or again after a replay, is passed on: nothing else can be tried.
        let isUnanswered = !sessionUse.isUnused && (rules.wasReplayed || !usesCredential)
        let rejection =
            isUnanswered
            ? .challenge(isAnswered: false)
            : TokenRejection.judge(
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

    /// nil for a response that says nothing about the signature.
    private func rejectionOfSignature(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        _ content: [UInt8]
    ) -> ResponseFacts.Rejection? {
        guard let judge = credential?.signer?.judge else {
            return answerChallenge(in: head, bytes) ? .otherSignature : nil
        }
        guard judge.judgedStatuses.contains(head.status), let source else { return nil }
        let span = bytes.readableBytesUInt8Span
        let fields = head.fields.map { TokenReply.Field(name: span.string($0.name), value: span.string($0.value)) }
        let response = TokenReply(status: head.status, fields: fields, body: content)
        switch judge.verdict(on: response, isToHead: request.decoder.head.isHead) {
        case nil: return nil
        case .keysRejected:
            noteRefusal(status: head.status)
            return counted(.token(isRenewable: source.isRenewable))
        case .wrongTime(let least): return correctDate(after: response, least: least)
        }
    }

    /// Dates signatures by the upstream's clock, if that differs from ours.
    ///
    /// - Returns: nil if the response is not about the date.
    private func correctDate(after response: TokenReply, least: Int) -> ResponseFacts.Rejection? {
        let now = shared.clock.now()
        guard let measured = ClockSkew.seconds(in: response, sentAt: now, receivedAt: now) else { return nil }
        let correction = compiled.correctSignatureDate(by: measured, least: least)
        switch correction {
        case .isMade: return rules.wasReplayed ? nil : .otherSignature
        case .useless: return nil
        case .change, .outOfReach: break
        }
        if compiled.mayExplain(at: now.monotonic) {
            shared.logger.warning(
                "The upstream refused a signature because of its date",
                metadata: [
                    "gateway.route": "\(compiled.plan.name)", "gateway.credential": "\(source?.name ?? "")",
                    "gateway.clock_skew_seconds": "\(measured)", "gateway.reason": "\(SignatureDate.advice(measured))",
                ]
            )
        }
        return correction == .outOfReach ? .wrongDate(seconds: measured) : .otherSignature
    }

    /// Tells the sessions of the credential what the upstream has answered.
    ///
    /// - Returns: Whether the request can be sent again with another signature.
    private func answerChallenge(in head: borrowing ResponseHead, _ bytes: ByteBuffer) -> Bool {
        guard let sessions = compiled.sessions, case .sent(let turn) = sessionUse else { return false }
        let span = bytes.readableBytesUInt8Span
        guard head.status == 401 else {
            let info = head.fields.first { span.equalsLowercased($0.name, "authentication-info") }
            sessions.answered(turn, isAccepted: head.status < 400, info: info.map { span.array($0.value) })
            return false
        }
        let challenges = AuthChallenge.all(in: head, span)
        guard let next = sessions.answer(challenges, to: turn, for: upstreamPath) else { return false }
        sessionUse = .challenged(next: next)
        return true
    }

    /// The path that was sent to the upstream.
    private var upstreamPath: [UInt8] {
        let bytes = request.bytes
        let rest = request.decoder.head.forwardedPath(admitted.match, without: route.prefix)
        let path =
            compiled.basePath + (bytes.getBytes(at: bytes.readerIndex + rest.lowerBound, length: rest.count) ?? [])
        return path.isEmpty ? [0x2F] : path
    }

    private func confirm() {
        guard isAuthorized, usesCredential, route.fixed != nil || route.rejections != nil else { return }
        let bytes = request.bytes
        let span = bytes.readableBytesUInt8Span
        route.accepted(request.decoder.head, span, by: record.client, at: configuration.clock.monotonic())
        guard rules.wasReplayed, route.fixed == nil, let rejections = route.rejections, let credential else { return }
        let key = rejections.key(Int(route.number), request.decoder.head, span)
        rejections.accepted(key, generation: credential.generation, at: shared.clock.monotonic())
    }

    /// Notes that the upstream rejected a static credential. This is only reported, since a static credential cannot be renewed.
    private func noteRefusal(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard route.fixed != nil, isAuthorized, usesCredential else { return }
        if head.status == 101 { return confirm() }
        guard let status = TokenRejection.refusal(head, bytes.readableBytesUInt8Span) else { return }
        noteRefusal(status: status)
    }

    private func noteRefusal(status: Int) {
        guard let fixed = route.fixed else { return }
        let requestBytes = request.bytes
        let span = requestBytes.readableBytesUInt8Span
        let template = fixed.template(Int(route.number), request.decoder.head, span)
        fixed.rejected(by: record.client, template, status: status, at: shared.clock.monotonic())
    }

    /// Tells the source which scopes its token lacks. The response is forwarded.
    private func noteMissingScopes(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard usesCredential, let credential, let source, source.fixed == nil,
            let scopes = TokenRejection.missingScopes(head, bytes.readableBytesUInt8Span)
        else { return }
        source.lacks(scopes, generation: credential.generation, by: credentialRequest)
    }

    /// Records a rejection at the source's rejections, which may say that it does not count.
    private func counted(_ rejection: ResponseFacts.Rejection) -> ResponseFacts.Rejection {
        guard let entry = rejection.entry(wasReplayed: rules.wasReplayed), let rejections = route.rejections,
            let credential
        else { return rejection }
        let bytes = request.bytes
        let key = rejections.key(Int(route.number), request.decoder.head, bytes.readableBytesUInt8Span)
        let (now, generation) = (shared.clock.monotonic(), credential.generation)
        switch entry {
        case .ofReplay:
            rejections.rejectedAgain(key, generation: generation, at: now)
            return rejection
        case .first(let isRenewable):
            let verdict = rejections.verdict(
                on: key,
                generation: generation,
                isRenewable: isRenewable,
                client: record.client,
                at: now
            )
            return rejection.counted(by: verdict, at: now)
        }
    }

    /// Tells the source that its token was rejected. A source whose token only a person can replace then refuses the next request.
    private func tellRejected() {
        guard let credential else { return }
        source?.rejected(generation: credential.generation, by: credentialRequest)
    }

    private func pass(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        if let rule = bodyRules?.tools, let problem = beginFilter(rule, head, bytes) {
            end(with: .responseUnsendable, problem)
            return .over
        }
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
            return .pass(filter == nil ? form : .content)
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

    /// Forwards a head that was held back.
    func passHeld(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        return pass(head, bytes)
    }

    func receiveInformational(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        enter()
        defer { leave() }
        // An interim response shows that the upstream is still working (RFC 9110 section 15.2).
        let isWaitedFor = rules.phase == .responding || rules.awaitsContinue && !client.hasUnreadContent
        let step = rules.handle(.informational(status: head.status))
        if isWaitedFor { followDeadline() }
        guard step == .passInformational else { return }
        client.sendInformational(head, bytes, by: route, responseOptions(head, bytes), id: record.requestID)
    }

    /// Takes the first `count` bytes of `buffer`, unless there are so many that ``receive(content:)`` is cheaper.
    ///
    /// - Returns: Whether they were taken.
    @inline(__always)
    func stage(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard filter == nil, client.stageContent(count, of: &buffer) else { return false }
        passed(count)
        return true
    }

    /// Forwards a part of the response body to the client.
    func receive(content: ByteBuffer) {
        enter()
        if let filter {
            send(content, through: filter)
        } else {
            passed(content.readableBytes)
            client.sendContent(content)
        }
        leave()
    }

    /// - Parameter trailers: The trailers, including the empty line at their end; nil if there are none.
    func receive(responseTrailers trailers: ByteBuffer?) {
        enter()
        defer { leave() }
        sendRestOfFilter()
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

    /// The response is complete. Its connection may carry another request.
    func responseCompleted() {
        guard let upstream = upstream.take() else { return }
        enter()
        // Behind content of known length, the client has not been told of the end.
        if sendRestOfFilter() { client.sendEnd(trailers: nil) }
        let step = rules.handle(.responseEnded(isReusable: hasSentAll(to: upstream)))
        let isReusable = if case .finish(reusesConnection: true) = step { true } else { false }
        upstream.release(isReusable: isReusable)
        finish()
        leave()
    }

    /// Replays the request with a newer token. The response that was held back is kept until there is one.
    func sendAgain() {
        enter()
        client.clearDeadline()
        authorize(at: shared.clock.monotonic())
        leave()
        client.resumeRequest()
    }

    // MARK: Lists of tools

    /// A rule decides what of the response is shown.
    var isFiltered: Bool { filter != nil }

    /// Finds out whether the response lists tools that a rule does not name.
    ///
    /// - Returns: Why it is not shown at all; nil if it is.
    private func beginFilter(
        _ rule: ToolRule,
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer
    ) -> GatewayProblem? {
        let (requestBytes, body) = (request.bytes, content.held ?? ByteBuffer())
        let span = requestBytes.readableBytesUInt8Span
        guard let requests = rule.listRequests(in: request.decoder.head, span, body: body.readableBytesUInt8Span)
        else { return nil }
        switch ToolListFilter.reading(of: head, bytes.readableBytesUInt8Span, to: requests) {
        case .nothing: break
        case .json: filter = ToolListFilter(rule, requests, isStream: false)
        case .events: filter = ToolListFilter(rule, requests, isStream: true)
        case .refused(let reason):
            var problem = listProblem(reason)
            let status = problem.kind.status
            problem.rpc = ToolListFilter.refusal(ToolListFilter.unreadable(reason), to: requests, status: status)
            return problem
        }
        return nil
    }

    private func listProblem(_ reason: String) -> GatewayProblem {
        upstreamProblem(.upstreamInvalidResponse, ToolListFilter.unreadable(reason))
    }

    private func send(_ content: ByteBuffer, through filter: ToolListFilter) {
        if case .responding = rules.phase { setDeadline(route.state.responsePause) }
        var out: [UInt8] = []
        var reason: String?
        do throws(RPCFault) {
            try filter.take(content.readableBytesUInt8Span, into: &out)
            if filter.isTooLong { reason = ToolListFilter.tooLong }
        } catch {
            reason = error.rawValue
        }
        if reason == nil, !countFilter() { reason = "needs more memory than limits.upload_memory allows" }
        sendFiltered(out)
        guard let reason else { return }
        // The rest would not be shown either, and may never end.
        refuseList(reason, by: filter)
        client.sendEnd(trailers: nil)
        let upstream = upstream.take()
        _ = rules.handle(.responseEnded(isReusable: false))
        upstream?.abandon(isCut: false)
        finish()
    }

    /// All of the response has come.
    ///
    /// - Returns: false if there was nothing to send.
    @discardableResult
    private func sendRestOfFilter() -> Bool {
        guard let filter, !filter.isOver else { return false }
        var out: [UInt8] = []
        do throws(RPCFault) {
            try filter.end(into: &out)
            sendFiltered(out)
        } catch {
            refuseList(error.rawValue, by: filter)
        }
        return true
    }

    /// Sends an error in place of what cannot be read. The head of the response was sent before.
    private func refuseList(_ reason: String, by filter: ToolListFilter) {
        noteFailure(listProblem(reason))
        sendFiltered(filter.refuse(ToolListFilter.unreadable(reason)))
    }

    private func sendFiltered(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        var buffer = ByteBuffer(bytes: bytes)
        passed(bytes.count)
        if !client.stageContent(bytes.count, of: &buffer) { client.sendContent(buffer) }
    }

    /// What is held back counts as memory of the client.
    private func countFilter() -> Bool {
        filter?.charge { shared.state.uploads.change(of: record.client, by: $0) } ?? true
    }

    private func releaseFilter() {
        filter?.release { _ = shared.state.uploads.change(of: record.client, by: $0) }
    }

    // MARK: Options of a response

    private func responseOptions(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseFieldRules.Options {
        var options = ResponseFieldRules.Options()
        options.changesLength = filter != nil
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

    /// nil if links are not rewritten for this request.
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

    /// Sends bytes from the tunnel's client to the upstream.
    func receive(tunnelled bytes: ByteBuffer) {
        enter()
        setDeadline(route.state.responsePause)
        record.bytesReceived += bytes.readableBytes
        upstream?.sendContent(bytes, as: .wire)
        upstream?.flush()
        leave()
    }

    /// The tunnel's client has closed its output; it may still read.
    func clientClosedOutput() { upstream?.closeOutput() }

    /// The tunnel's upstream has closed its output; it may still read.
    func upstreamClosedOutput() {
        enter()
        client.flush()
        client.closeOutput()
        leave()
    }

    /// If both sides of a tunnel have closed their output, has the worker send what is still on its way to the upstream.
    ///
    /// - Parameter rest: The last bytes from the client.
    /// - Returns: false if the tunnel has not ended in this way.
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

    /// The upstream cannot take more of the request at present.
    private func upstreamIsFull() {
        guard deadlineUse == .transfer, upload.upstreamIsFull(limit: Duration(configuration.timeouts.bodyIdle)) else {
            return
        }
        watch.reset()
        client.setDeadline(TimeAmount(UploadHold.patience))
    }

    /// Whether the client's connection reads more of the request than the upstream can take now.
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
            untaken: (hasUpstreamContent ? upstream?.heldBytes ?? 0 : 0) + content.unsignedBytes,
            copy: content.heldBytes,
            isCollected: route.mayCollect && upstream == nil
        )
    }

    /// Ends the request if its client uses too much memory for uploads (`limits.upload_memory`).
    private func countUpload() {
        guard rules.phase != .done else { return }
        let growth = uploadGrowth
        guard growth != 0 else { return }
        guard shared.state.uploads.change(of: record.client, by: growth) else {
            return end(with: .requestInvalid, shared.state.uploads.problem)
        }
        upload.change(by: growth)
        awaitRelease()
    }

    private func awaitRelease() {
        guard !awaitsRelease, let upstream, upstream.heldBytes > 0 else { return }
        awaitsRelease = true
        upstream.whenSent { [weak self] in
            self?.awaitsRelease = false
            self?.uploadMoved()
        }
    }

    /// Some of the buffered request may have been sent, so its memory is counted again.
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
        case .approval: setDeadline(TimeAmount(HeldRequest.patience))
        case .login: setDeadline(TimeAmount(CapturePoint.patience))
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
        case .holding: endHeld(.expired)
        case .answering: loginTimedOut()
        case .forwarding where upload.deadlinePassed():
            setDeadline(configuration.timeouts.bodyIdle - TimeAmount(UploadHold.patience))
        case .collecting, .forwarding, .responding: transferStalled()
        // Neither side has closed its output, so a silent tunnel is cut, not closed normally.
        case .tunnelling:
            let moves = moves(within: route.state.responsePause) { last, now in now.tunnelMoves(since: last) }
            if !moves { end(by: rules.handle(.stalled(.tunnelSilent))) }
        case .done: break
        }
        leave()
        client.resumeRequest()
    }

    /// The deadline of a transfer has passed: finds out which side has stalled, if any.
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

    /// Whether there was progress since the deadline was set. If so, sets it again, to `amount` from now.
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

    /// A reload has replaced the configuration.
    ///
    /// - Parameter verdict: The new configuration's decision on the same request.
    /// - Returns: Whether the connection has to authorize the request again under the new configuration. In this case the exchange
    ///   is over.
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

    /// Whether an operator has withdrawn the credential of a tunnel whose exchange is over.
    func isOver(by withdrawn: WithdrawnCredentials) -> Bool {
        event(of: withdrawn, at: shared.clock.monotonic()) != nil
    }

    /// Whether a reload ends a tunnel whose exchange is over: it has removed the client, the route or the credential, or its rules
    /// refuse the request.
    func isOver(by withdrawal: ReloadWithdrawal, _ verdict: ReloadWithdrawal.Verdict) -> Bool {
        withdrawal.takesRight(of: record.client, route: admitted.route, on: admitted.reach, verdict: verdict)
    }

    private func event(of withdrawn: WithdrawnCredentials, at now: MonotonicTime) -> ExchangeEvent? {
        credentialUse.flatMap { withdrawn.event($0, at: now) }
    }

    // MARK: Loss

    /// The client has stopped reading, or its connection is lost.
    ///
    /// - Parameter isCut: Whether the connection was cut. The upstream of a tunnel must then not see a normal end.
    func clientLeft(isCut: Bool) {
        guard backlog.depth == 0 else { return backlog.clientLeft(isCut: isCut) }
        leaveClient(isCut: isCut)
    }

    private func leaveClient(isCut: Bool) {
        _ = rules.handle(.clientLeft)
        leaveUpstream(isCut: isCut)
        report()
    }

    /// The upstream's connection ended before the response was complete.
    ///
    /// - Parameters:
    ///   - isRefused: The upstream has said that it did not process the request.
    ///   - alert: The TLS alert that it sent, if any.
    ///   - farewell: The HTTP/2 frame with which it ended the stream or the connection, if any.
    ///   - isByGateway: The gateway itself has reset the connection, because of another request on it.
    func upstreamLost(
        hasAnswered: Bool,
        isRefused: Bool = false,
        alert: TLSAlert? = nil,
        farewell: HTTP2Farewell? = nil,
        isByGateway: Bool = false
    ) {
        let loss = ConnectionLoss(
            hasAnswered: hasAnswered,
            isUnprocessed: false,
            isRefused: isRefused,
            alert: alert,
            farewell: farewell,
            isByGateway: isByGateway
        )
        upstreamCame(to: .lost(loss))
    }

    /// The upstream's connection has ended, and with it the response or the tunnel is complete.
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
                sendRestOfFilter()
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

    /// The response violates its protocol. Its connection is already closed.
    func upstreamBroke(_ detail: String) {
        enter()
        upstream = nil
        end(with: .responseInvalid, upstreamProblem(.upstreamInvalidResponse, detail))
        leave()
    }

    /// The proxy before the upstream did not take the request. Its connection is already closed.
    func proxyRefused(_ problem: GatewayProblem) {
        enter()
        upstream = nil
        end(with: .responseInvalid, problem)
        leave()
    }

    private func upstreamProblem(_ kind: ProblemKind, _ detail: String) -> GatewayProblem {
        // A detail such as "It sent …" is about the upstream: its name replaces the pronoun.
        let begin = detail.hasPrefix("It ") ? detail.dropFirst(2) : ": \(detail)"
        return pool.target.behindProxy(GatewayProblem(kind, "\(compiled.plan.upstream)\(begin)"))
    }

    // MARK: End

    /// Ends the exchange with this event and the problem that it reports.
    private func end(with event: ExchangeEvent, _ problem: GatewayProblem) { end(by: rules.handle(event), problem) }

    /// Carries out a step that ends the exchange. Other steps have no effect.
    ///
    /// - Parameter reported: The problem that the event reported.
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
        guard let problem else {
            return reported ?? GatewayProblem(.internalError, "The exchange ended without a reason.")
        }
        // The proxy may be what has closed the connection, or does not answer.
        let isOfUpstream = problem.kind == .upstreamUnreachable || problem.kind == .upstreamTimeout
        return isOfUpstream ? pool.target.behindProxy(problem) : problem
    }

    private func respond(with problem: GatewayProblem, isFailure: Bool = true) {
        let problem =
            bodyRules?.tools == nil ? problem : ToolRule.inRPC(problem, contentHasBegun: rules.contentHasBegun)
        if isFailure { noteFailure(problem) }
        record.status = problem.status
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
        stopHolding()
        releaseUpload()
        releaseFilter()
        usage.take()?.end()
        record.credential = credential
        record.wasReplayed = rules.wasReplayed
        if case nil = record.trace {
            // The loop's clock was usually read a moment ago, for the response head. The request may have begun after that.
            let now = configuration.clock.monotonic()
            record.finishedAt = now < record.startedAt ? record.startedAt : now
        } else {
            // The spans of a trace have their own times, and none may be later than the end of the request.
            record.finishedAt = shared.clock.monotonic()
        }
        shared.observer.finished(record)
    }
}

/// The body of a request on its way to the upstream, and the copy that is kept for a replay.
///
/// The copy has no framing. A replay frames it again, and then also the rest of the body that follows.
private struct RequestContent {
    /// Bytes of the body that have been received, without framing.
    private(set) var received = 0
    private(set) var held: ByteBuffer?
    /// The trailers of the copy; nil until the body is complete.
    private(set) var heldTrailers: ByteBuffer?
    private(set) var form = ContentForm.wire
    /// Decodes the chunks; nil if the length is known.
    private var chunks: ChunkDecoder?
    /// Whether the client sends it with the framing of HTTP/1.
    private let isFramed: Bool
    /// Signs what is sent, not what is held; nil for almost every request.
    private var signer: (any BodySigner)?

    init(_ framing: BodyFraming, isFramed: Bool) {
        self.isFramed = isFramed
        guard case .chunked = framing else { return }
        chunks = ChunkDecoder()
        if !isFramed { form = .content }
    }

    var isChunked: Bool { chunks != nil }
    var heldBytes: Int { held?.readableBytes ?? 0 }

    mutating func count(_ length: Int) { received += length }

    /// Takes a part of the body, with its framing.
    ///
    /// - Returns: The bytes to send, in the form that ``form`` says.
    mutating func take(_ wire: ByteBuffer, isHeld: Bool) -> ByteBuffer {
        guard isHeld || form == .content else {
            stopHolding()
            return wire
        }
        let content = unframed(wire)
        if isHeld {
            // Copied, because a slice would keep the whole buffer in memory.
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

    // MARK: Signature

    var hasSigner: Bool { signer != nil }
    /// The bytes that wait in the signer until more of the body has come.
    var unsignedBytes: Int { signer?.heldBytes ?? 0 }

    /// The request is about to be sent, so its body is signed from the beginning.
    ///
    /// - Parameter signer: nil if the body is sent as it is.
    mutating func startSigning(with signer: (any BodySigner)?) {
        self.signer = signer
        if signer != nil { sendUnframed() }
    }

    /// - Parameter part: The next part of the body, without framing.
    /// - Returns: The bytes to send now, in the form that ``form`` says.
    mutating func signed(_ part: ByteBuffer, isLast: Bool) throws(GatewayProblem) -> ByteBuffer {
        ByteBuffer(bytes: try signer?.sign(part.readableBytesUInt8Span, isLast: isLast) ?? [])
    }

    // MARK: Copy

    mutating func stopHolding() {
        if held != nil { held = nil }
        if heldTrailers != nil { heldTrailers = nil }
    }

    /// From now on, the body is sent without its original framing.
    mutating func sendUnframed() {
        if isChunked { form = .content }
    }

    /// The chunks were validated when they were read.
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

/// A request's attempts to get a connection, one at a time, and its place in the pool's queue.
struct ConnectionAttempts {
    private var last: UInt64 = 0
    /// Set while the request is in the queue.
    private var ticket: WaiterTicket?

    /// - Returns: The number of the attempt. One that is deferred to the next turn of the event loop has a number, too.
    mutating func begin() -> UInt64 {
        last &+= 1
        return last
    }

    /// Whether a result belongs to the current attempt, and not to an earlier one.
    func isCurrent(_ attempt: UInt64) -> Bool { attempt == last }

    /// - Parameter ticket: What the pool returned. It may already have answered, and the request may have begun another attempt.
    mutating func wait(_ ticket: WaiterTicket?, for attempt: UInt64) {
        if isCurrent(attempt) { self.ticket = ticket }
    }

    /// The current attempt has its result.
    mutating func answered() { ticket = nil }

    /// - Returns: The ticket to give back to the pool, if the request was in the queue.
    mutating func leaveQueue() -> WaiterTicket? { ticket.take() }

    /// Leaves the queue and gives up the attempt: a connection that still arrives for it is returned unused.
    mutating func abandon() -> WaiterTicket? {
        last &+= 1
        return leaveQueue()
    }
}

/// What permits a request to be sent. It decides about bytes of the request that are still buffered after its exchange is over.
struct SentRight {
    /// nil for no credential.
    let use: CredentialUse?
    let shared: ProxyShared
    let client: String?
    /// The route's index in ``shared``; nil for a server without a route.
    let route: Int?
    let reach: ConnectionContext.Reach
    /// A reload has ended the exchange.
    let isExcluded: Bool

    func isOver(by withdrawn: WithdrawnCredentials, at now: MonotonicTime) -> Bool {
        use.flatMap { withdrawn.event($0, at: now) } != nil
    }

    /// The head of the request is gone, so it cannot be judged by other rules: if the rules have changed, the request ends.
    ///
    /// - Parameters:
    ///   - withdrawal: What the reload takes away from requests under ``shared``.
    ///   - keepsRules: Whether the reload has the same rules as ``shared``.
    func isOver(by withdrawal: ReloadWithdrawal, keepsRules: Bool) -> Bool {
        isExcluded || !keepsRules || withdrawal.covers(client: client, route: route, on: reach)
    }
}

/// The upstream's side of a tunnel whose client has closed it normally. The client's last bytes may still be on their way.
struct EndingTunnel {
    let upstream: any UpstreamStream
    /// Over, but it still knows the client, the route and the credential that the tunnel was opened with.
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
        guard challenges.contains(where: \.isForScope),
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
