import GatewayCore
import NIOCore

/// Carries out one exchange: tells its ``Exchange`` what happens, and does what that answers. Holds no rule.
///
/// The one object that a request takes. Belongs to its connection's event loop. An end that comes while an event is carried out
/// waits until that is done: sending can find out that a connection is lost.
final class ExchangeDriver {
    var rules: Exchange
    var record: ExchangeRecord
    let configuration: WorkerConfiguration
    let client: any ClientStream
    let admitted: RequestAuthorizer.Admitted
    /// What it injects counts once the request is authorized.
    var route: CredentialedRoute
    /// It is known what is injected: ``credential``, or nothing.
    var isAuthorized = false
    var upstream: (any UpstreamStream)?
    var content: RequestContent
    var wait = CredentialWait()
    /// In the queue for a connection to the upstream.
    var place: WaiterTicket?
    /// Tells the answer of a wait or a connection attempt from that of an earlier one.
    var attemptID: UInt64 = 0
    /// What the stream before this one could not send any of.
    var unsent: ByteBuffer?
    /// What the response says of the token.
    var note = RejectionOutcome.none
    var watch = TransferWatch()
    var backlog = Backlog()
    /// nil for a client without limits, and before the request is admitted.
    var usage: ClientUsage?
    private var upload = UploadHold()
    /// The upstream will call back when it has taken what waits.
    private var awaitsRelease = false
    /// The deadline is that of a body that is looked at.
    var isInspecting = false
    /// The upstream speaks HTTP/2, and this request goes to it in HTTP/1.1.
    var goesByHTTP1 = false
    /// In the event loop's clock.
    private let begunAt: NIODeadline

    struct CredentialWait {
        var isWaiting = false
        var ticket: CredentialTicket?
    }

    /// Ends that came while an event was carried out: one of each side at most.
    struct Backlog {
        var depth = 0
        var clientLeft: (isCut: Bool, Void)?
        var upstreamEnd: UpstreamEnd?
    }

    enum UpstreamEnd {
        case lost(ConnectionLoss)
        case complete
    }

    /// - Parameters:
    ///   - unrouted: The way to a server that no route leads to; nil for the route that was matched.
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
        route = unrouted ?? configuration.route(admitted.match.route)
        rules = Exchange(
            RequestFacts(
                isIdempotent: head.isIdempotent,
                hasContent: hasContent,
                expectsContinue: head.expectsContinue,
                isHTTP10: head.isHTTP10
            ),
            isRenewable: (admitted.chosen ?? route.state.route.source)?.isRenewable ?? false
        )
        record = ExchangeRecord(
            requestID: id,
            clientRequestID: ClientRequestID.read(from: head, bytes),
            worker: configuration.worker.number,
            route: Int(route.number),
            client: admitted.client,
            method: head.methodName(bytes),
            startedAt: now
        )
        begunAt = configuration.clock.now
        self.admitted = admitted
        self.client = client
        self.configuration = configuration
        content = RequestContent(head.framing, isFramed: contentIsFramed)
        if let unrouted {
            record.route = configuration.shared.configuration.unroutedNumber
            record.destination = unrouted.pool.dialer.server?.authority
        }
        guard let trace = configuration.beginTrace(head, bytes) else { return }
        record.trace = trace
        record.isTLS = client.isTLS
    }

    var shared: ProxyShared { configuration.shared }
    var pool: UpstreamPool { goesByHTTP1 ? route.state.http1Pool : route.pool }
    var compiled: CompiledRoute { route.state.route }
    var source: (any CredentialSource)? { admitted.chosen ?? compiled.source }
    var credential: Credential? { isAuthorized ? route.credential : nil }
    var credentialRequest: CredentialRequest {
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

    func reached(_ step: RequestTimings.Step) {
        record.timings.reached(step, after: (configuration.clock.now - begunAt).nanoseconds)
    }

    /// Where the request goes, if no route leads there.
    var server: TunnelDestination? { route.pool.dialer.server }

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

    func enter() { backlog.depth += 1 }

    func leave() {
        assert(backlog.depth > 0, "An event ends that has not begun.")
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

    // MARK: Pace

    func clientBecameWritable() { upstream?.resumeReading() }

    func upstreamBecameWritable() {
        upload.upstreamTakesMore()
        client.resumeRequest()
    }

    /// The upstream takes no more of the request for now.
    func upstreamIsFull() {
        guard upload.upstreamIsFull(limit: Duration(configuration.timeouts.bodyIdle)) else { return }
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
    func countUpload() {
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

    func releaseUpload() { releaseUpload(upload.bytes) }

    private func releaseUpload(_ count: Int) {
        guard count > 0 else { return }
        _ = shared.state.uploads.change(of: record.client, by: -count)
        upload.change(by: -count)
    }

    // MARK: Deadline

    func followDeadline() {
        switch rules.deadline {
        case .none: client.clearDeadline()
        case .credential: setDeadline(configuration.timeouts.credential)
        case .bodyIdle: setDeadline(configuration.timeouts.bodyIdle)
        case .response: setDeadline(route.state.responseTimeout)
        case .responsePause: setDeadline(route.state.responsePause)
        }
    }

    func setDeadline(_ amount: TimeAmount) {
        isInspecting = false
        watch.reset()
        upload.deadlineWasSet()
        client.setDeadline(amount)
    }

    func deadlinePassed() {
        enter()
        switch rules.phase {
        case _ where isInspecting: upstream?.endInspection()
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
    func transferStalled() {
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
    func moves(within amount: TimeAmount, _ rule: (TransferProgress, TransferProgress) -> Bool) -> Bool {
        let progress = TransferProgress(
            untakenByClient: client.untakenBytes,
            untakenByUpstream: upstream?.untakenBytes ?? 0,
            responseSent: rules.responseHasBegun ? record.bytesSent : nil
        )
        guard watch.hasMoved(progress, by: rule) else { return false }
        client.setDeadline(amount)
        return true
    }
}
