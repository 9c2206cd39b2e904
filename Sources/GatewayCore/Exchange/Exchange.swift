/// Decides what happens to one request and its response. Performs nothing, and knows no protocol, buffer or clock.
///
///     authorizing ──▶ connecting ──▶ forwarding ──▶ responding ──▶ done
///          ▲              ▲ lost         │               │
///          │              └──────────────┼───────────────┤
///          └── replaying ◀───────────────┴── rejected ───┘
///                                        └── 101 ──▶ tunnelling ──▶ done
///
/// The driver reports each event and carries out the step that is returned, before it reports the next one. Once an exchange is
/// done it answers every event with ``ExchangeStep/nothing``.
package struct Exchange: ~Copyable, Sendable {
    package enum Phase: Hashable, Sendable {
        /// Waiting for a credential.
        case authorizing
        /// Waiting for a connection to the upstream.
        case connecting
        /// The upstream has the head; content follows.
        case forwarding
        /// The request is complete; the response is not.
        case responding
        /// The response rejected the token and is held back; waiting for another token.
        case replaying
        case tunnelling
        case done
    }

    /// Which limit the wait is under.
    package enum Deadline: Hashable, Sendable {
        case none
        case credential
        case bodyIdle
        /// Before the response begins.
        case response
        /// Within a response or a tunnel.
        case responsePause
    }

    package let request: RequestFacts
    package private(set) var phase = Phase.authorizing
    private var attempt: RetryPolicy.Attempt
    package private(set) var requestIsComplete: Bool
    /// Content of the request has come.
    package private(set) var contentHasBegun = false
    /// The upstream has said that it wants the content.
    private var hasContinued = false
    private var awaitsCredential = false
    /// Times that the request was sent, without those of which nothing has left.
    private var timesSent = 0

    /// - Parameter isRenewable: The credential can be replaced without a person.
    package init(_ request: RequestFacts, isRenewable: Bool) {
        self.request = request
        requestIsComplete = !request.hasContent
        let isHeld = HoldPolicy.holds(isIdempotent: request.isIdempotent, isRenewable: isRenewable)
        attempt = RetryPolicy.Attempt(isIdempotent: request.isIdempotent, isHeld: isHeld)
    }

    // MARK: What the driver may ask

    package var responseHasBegun: Bool { attempt.responseHasBegun }
    package var wasReplayed: Bool { attempt.wasReplayed }
    /// A copy of the content is kept for a second try.
    package var isHolding: Bool { attempt.canBeSentAgain }
    /// The request can be sent whole on another connection, should this one turn out to have ended.
    package var mayRepeat: Bool { request.isIdempotent && requestIsComplete }

    /// The client rightly waits for a 100 before it sends its content (RFC 9110 section 10.1.1).
    package var awaitsContinue: Bool {
        phase == .forwarding && request.expectsContinue && !hasContinued && !contentHasBegun
    }

    package var deadline: Deadline {
        switch phase {
        case .authorizing, .replaying: awaitsCredential ? .credential : .none
        case .forwarding: awaitsContinue ? .response : .bodyIdle
        case .responding: responseHasBegun ? .responsePause : .response
        case .tunnelling: .responsePause
        // The pool has a deadline of its own.
        case .connecting, .done: .none
        }
    }

    // MARK: Events

    package mutating func handle(_ event: ExchangeEvent) -> ExchangeStep {
        defer { checkInvariants() }
        return switch event {
        case .authorized: authorized()
        case .credentialAwaited: credentialAwaited()
        case .credentialUnavailable(let kind): credentialUnavailable(kind)
        case .withdrawn: withdrawn()
        case .sourceWithdrawn: end(with: .withdrawn)
        case .reloaded(let takesRight, let isAdmitted): reloaded(takesRight: takesRight, isAdmitted: isAdmitted)
        case .connected(let isReused, let mayRefuse): connected(isReused: isReused, mayRefuse: mayRefuse)
        case .connectionFailed: phase == .connecting ? end(with: .reported) : .nothing
        case .headUnsendable: headUnsendable()
        case .requestContent(let isHeld, let isLast): content(isHeld: isHeld, isLast: isLast)
        case .requestInvalid: end(with: .reported)
        case .clientLeft: clientLeft()
        case .informational(let status): informational(status)
        case .responseHead(let response): responseHead(response)
        case .responseEnded(let isReusable): responseEnded(isReusable: isReusable)
        case .upstreamLost(let loss): upstreamLost(loss)
        case .responseInvalid: isWithUpstream ? end(with: .reported) : .nothing
        case .responseUnsendable: responseUnsendable()
        case .tunnelEnded: phase == .tunnelling ? finish(reusesConnection: false) : .nothing
        case .stalled(let stall): stalled(stall)
        }
    }

    private var isWithUpstream: Bool { phase == .forwarding || phase == .responding || phase == .tunnelling }

    // MARK: Credential

    private mutating func authorized() -> ExchangeStep {
        switch phase {
        case .authorizing: break
        case .replaying: attempt.wasReplayed = true
        default: return .nothing
        }
        awaitsCredential = false
        phase = .connecting
        return .connect(isFresh: false)
    }

    private mutating func credentialAwaited() -> ExchangeStep {
        if phase == .authorizing || phase == .replaying { awaitsCredential = true }
        return .nothing
    }

    /// Fails closed. A request whose first response was held back gets that response instead.
    private mutating func credentialUnavailable(_ kind: ProblemKind) -> ExchangeStep {
        awaitsCredential = false
        switch phase {
        case .authorizing: return end(with: .reported)
        case .replaying:
            phase = requestIsComplete ? .responding : .forwarding
            attempt.responseHasBegun = true
            return .passHeldResponse(.notReplaced(kind))
        default: return .nothing
        }
    }

    private mutating func withdrawn() -> ExchangeStep {
        switch phase {
        // The source says what there is now.
        case .authorizing, .replaying, .done: return .nothing
        case .connecting:
            // What was not sent of an earlier try has the old credential before the content.
            guard !contentHasBegun || isHolding else { return end(with: .withdrawn) }
            phase = .authorizing
            return .reauthorize
        case .forwarding, .responding, .tunnelling: return end(with: .withdrawn)
        }
    }

    /// What has left goes on, but no head is written that would be refused now.
    private mutating func reloaded(takesRight: Bool, isAdmitted: Bool) -> ExchangeStep {
        switch phase {
        case .authorizing, .connecting:
            if timesSent == 0, !contentHasBegun {
                phase = .done
                return .beginAgain
            }
            return takesRight || !isAdmitted ? end(with: .excluded) : .nothing
        case .replaying: return takesRight || !isAdmitted ? end(with: .excluded) : .nothing
        case .forwarding, .responding, .tunnelling, .done:
            if !isAdmitted { attempt.isLast = true }
            return takesRight ? end(with: .excluded) : .nothing
        }
    }

    // MARK: Connection

    private mutating func connected(isReused: Bool, mayRefuse: Bool) -> ExchangeStep {
        guard phase == .connecting else { return .nothing }
        // A request that was refused can be sent again whatever its method, so its content is worth keeping.
        if mayRefuse, !contentHasBegun { attempt.isHeld = true }
        attempt.isOnReusedConnection = isReused
        timesSent += 1
        phase = requestIsComplete ? .responding : .forwarding
        return .sendRequest
    }

    /// Each time that a head is written, what has come of the content is at hand, or none has.
    private mutating func headUnsendable() -> ExchangeStep {
        guard phase == .forwarding || phase == .responding, !attempt.responseHasBegun else { return .nothing }
        timesSent -= 1
        phase = .connecting
        return .connect(isFresh: false)
    }

    private mutating func upstreamLost(_ loss: ConnectionLoss) -> ExchangeStep {
        guard isWithUpstream else { return .nothing }
        if loss.isUnprocessed || loss.isRefused { timesSent -= 1 }
        guard phase != .tunnelling, RetryPolicy.sendsAgain(attempt, after: loss) else {
            let problem = loss.alert.map(ExchangeProblem.upstreamAlerted) ?? .upstreamClosedEarly
            return end(with: loss.isRefused ? .upstreamRefused : problem)
        }
        phase = .connecting
        guard !loss.isRefused else {
            attempt.timesRefused += 1
            return .connect(isFresh: false)
        }
        attempt.wasReconnected = true
        return .connect(isFresh: true)
    }

    // MARK: Request

    /// The phase changes before the content is sent: sending can lead to the response.
    private mutating func content(isHeld: Bool, isLast: Bool) -> ExchangeStep {
        guard phase == .forwarding else { return .nothing }
        contentHasBegun = true
        if !isHeld { attempt.isHeld = false }
        if isLast {
            requestIsComplete = true
            phase = .responding
        }
        return .sendContent(isHeld: isHolding)
    }

    private mutating func clientLeft() -> ExchangeStep {
        guard phase != .done else { return .nothing }
        phase = .done
        return .abandon
    }

    // MARK: Response

    /// A 100 passes once, however often the request is sent.
    private mutating func informational(_ status: Int) -> ExchangeStep {
        guard phase == .forwarding || phase == .responding, !attempt.responseHasBegun else { return .nothing }
        if status == 100 {
            guard !hasContinued else { return .nothing }
            hasContinued = true
        }
        // An HTTP/1.0 client knows none (RFC 9110 section 15.2).
        return request.isHTTP10 ? .nothing : .passInformational
    }

    private mutating func responseHead(_ response: ResponseFacts) -> ExchangeStep {
        guard phase == .forwarding || phase == .responding, !attempt.responseHasBegun else { return .nothing }
        guard response.status != 101 else {
            guard response.switchesAsOffered else { return end(with: .protocolNotOffered) }
            attempt.responseHasBegun = true
            phase = .tunnelling
            return .tunnel
        }
        switch RetryPolicy.decision(for: attempt, after: response.rejection) {
        case .pass(let note):
            attempt.responseHasBegun = true
            return .passResponse(note)
        case .sendAgain:
            phase = .replaying
            // The second try has a right to a fresh connection of its own.
            attempt.wasReconnected = false
            return .holdResponse
        }
    }

    private mutating func responseUnsendable() -> ExchangeStep {
        guard isWithUpstream else { return .nothing }
        attempt.responseHasBegun = false
        return end(with: .reported)
    }

    private mutating func responseEnded(isReusable: Bool) -> ExchangeStep {
        guard phase == .forwarding || phase == .responding, attempt.responseHasBegun else { return .nothing }
        // After an early response the upstream may take the rest of the content for the next request.
        return finish(reusesConnection: isReusable && requestIsComplete)
    }

    private mutating func finish(reusesConnection: Bool) -> ExchangeStep {
        assert(phase != .done, "An exchange ends twice.")
        phase = .done
        return .finish(reusesConnection: reusesConnection)
    }

    // MARK: Failures

    private mutating func stalled(_ stall: Stall) -> ExchangeStep {
        // Also of a tunnel: neither end has closed it.
        isWithUpstream ? end(with: .stalled(stall)) : .nothing
    }

    /// A client can see that a response was cut. A part of one that looks complete would deceive it.
    private mutating func end(with problem: ExchangeProblem) -> ExchangeStep {
        guard phase != .done else { return .nothing }
        phase = .done
        return attempt.responseHasBegun ? .cut(problem) : .respond(problem)
    }

    // MARK: Invariants

    private func checkInvariants() {
        assert(phase != .forwarding || !requestIsComplete, "More of a complete request is awaited.")
        assert(phase != .responding || requestIsComplete, "The request is taken for complete, and is not.")
        assert(request.hasContent || requestIsComplete && !contentHasBegun, "A request without content has some.")
        assert(
            !awaitsCredential || phase == .authorizing || phase == .replaying || phase == .done,
            "A credential is awaited by a request that has one."
        )
        assert(
            !attempt.responseHasBegun || isWithUpstream || phase == .done,
            "A request whose response has begun is sent again."
        )
        assert(phase != .tunnelling || attempt.responseHasBegun, "A tunnel is open, and the client was not told.")
        assert(phase != .replaying || !attempt.wasReplayed, "A request is replayed a second time.")
        assert(phase != .replaying || timesSent > 0, "A request that was not sent is replayed.")
        assert(!isWithUpstream || timesSent > 0, "The upstream has a request that was not sent.")
        // With each of two tokens, and once more with each where a pooled connection was lost.
        assert((0...4).contains(timesSent), "A request was sent more often than the rules allow.")
    }
}
