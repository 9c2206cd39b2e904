package import GatewayHTTP
import GatewayTokens

/// Decides what happens to one request and its response. It performs nothing, and knows no protocol, buffer or clock.
///
///                ┌── collecting ──┐
///                │                ▼
///     authorizing ──▶ connecting ──▶ forwarding ──▶ responding ──▶ done
///          ▲           ▲  ▲ lost         │               │
///          │   holding ┘  │              │               │
///          │              └──────────────┼───────────────┤
///          └── replaying ◀───────────────┴── rejected ───┘
///                                        └── 101 ──▶ tunnelling ──▶ done
///
/// A request is collected if its signature covers the whole body, if a rule has to read the calls in it, if an operator has to approve
/// it, or if it is a login that the gateway captures. What has to be approved is then held, before there is a connection. A login never
/// gets one: connecting ──▶ answering ──▶ done.
///
/// The driver reports an event, and carries out the step that is returned before it reports the next one. Once an exchange is done,
/// it answers every event with ``ExchangeStep/nothing``.
package struct Exchange: ~Copyable, Sendable {
    package enum Phase: Hashable, Sendable {
        /// Waiting for a credential.
        case authorizing
        /// The body is kept until it is complete.
        case collecting
        /// The request is complete, and waits for an operator's approval.
        case holding
        /// A login is complete, and the gateway answers it in the place of the authorization server.
        case answering
        /// Waiting for a connection to the upstream.
        case connecting
        /// The upstream has the head; the body follows.
        case forwarding
        /// The request is complete; the response is not.
        case responding
        /// The response rejected the token and is held back; waiting for another token.
        case replaying
        case tunnelling
        case done
    }

    /// The timeout that applies in the current phase.
    package enum Deadline: Hashable, Sendable {
        case none
        case credential
        case approval
        case login
        case bodyIdle
        /// Until the response begins.
        case response
        /// Silence within a response or a tunnel.
        case responsePause
    }

    package let request: RequestFacts
    package private(set) var phase = Phase.authorizing
    private var attempt: RetryPolicy.Attempt
    private(set) var requestIsComplete: Bool
    /// A part of the request body has been received.
    private(set) var contentHasBegun = false
    /// The upstream has sent 100 (Continue).
    private var hasContinued = false
    private var awaitsCredential = false
    /// How often the request was sent. Attempts that the upstream has not processed are not counted.
    private var timesSent = 0

    /// - Parameter isRenewable: Whether the credential can be replaced without a person. Evaluated only if it matters.
    package init(_ request: RequestFacts, isRenewable: @autoclosure () -> Bool) {
        self.request = request
        requestIsComplete = !request.hasContent
        let isHeld = HoldPolicy.holds(isIdempotent: request.isIdempotent, isRenewable: isRenewable())
        attempt = RetryPolicy.Attempt(isIdempotent: request.isIdempotent, isHeld: isHeld)
    }

    // MARK: What the driver may ask

    var responseHasBegun: Bool { attempt.responseHasBegun }
    package var wasReplayed: Bool { attempt.wasReplayed }
    var wasSignedAnew: Bool { attempt.timesSignedAnew > 0 }
    /// A copy of the body is kept, so that the request can be sent again.
    var isHolding: Bool { attempt.canBeSentAgain }
    /// The whole request can be sent on another connection if this one turns out to be closed.
    var mayRepeat: Bool { request.isIdempotent && requestIsComplete }

    /// The client may be waiting for 100 (Continue) before it sends the body (RFC 9110 section 10.1.1).
    var awaitsContinue: Bool {
        phase == .forwarding && request.expectsContinue && !hasContinued && !contentHasBegun
    }

    package var deadline: Deadline {
        switch phase {
        case .authorizing, .replaying: awaitsCredential ? .credential : .none
        case .collecting: .bodyIdle
        case .holding: .approval
        case .answering: .login
        case .forwarding: awaitsContinue ? .response : .bodyIdle
        case .responding: responseHasBegun ? .responsePause : .response
        case .tunnelling: .responsePause
        // The pool sets the deadline for a connection.
        case .connecting, .done: .none
        }
    }

    // MARK: Events

    package mutating func handle(_ event: ExchangeEvent) -> ExchangeStep {
        defer { checkInvariants() }
        return switch event {
        case .authorized: authorized()
        case .bodyAwaited: bodyAwaited()
        case .approvalAwaited: approvalAwaited()
        case .approved: approved()
        case .loginAwaited: loginAwaited()
        case .loginAnswered: phase == .answering ? end(with: .reported) : .nothing
        case .credentialAwaited: credentialAwaited()
        case .credentialUnavailable(let kind): credentialUnavailable(kind)
        case .withdrawn: withdrawn()
        case .sourceWithdrawn: end(with: .withdrawn)
        case .reloaded(let takesRight, let isAdmitted): reloaded(takesRight: takesRight, isAdmitted: isAdmitted)
        case .connected(let isReused, let mayRefuse): connected(isReused: isReused, mayRefuse: mayRefuse)
        case .connectionFailed: phase == .connecting ? end(with: .reported) : .nothing
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

    /// A replay, and a request whose credential was withdrawn, may have the body already.
    private mutating func bodyAwaited() -> ExchangeStep {
        guard !requestIsComplete else { return authorized() }
        switch phase {
        case .authorizing: break
        case .replaying: attempt.wasReplayed = true
        default: return .nothing
        }
        assert(!contentHasBegun || isHolding, "A body is signed whose beginning is gone.")
        awaitsCredential = false
        attempt.isHeld = true
        phase = .collecting
        // HTTP/1.0 has no interim responses (RFC 9110 section 15.2).
        let invites = request.expectsContinue && !request.isHTTP10 && !hasContinued && !contentHasBegun
        if invites { hasContinued = true }
        return .collect(invites: invites)
    }

    private mutating func approvalAwaited() -> ExchangeStep {
        if phase == .connecting, requestIsComplete, timesSent == 0 { phase = .holding }
        return .nothing
    }

    private mutating func approved() -> ExchangeStep {
        guard phase == .holding else { return .nothing }
        phase = .connecting
        return .connect(isFresh: false)
    }

    private mutating func loginAwaited() -> ExchangeStep {
        if phase == .connecting, requestIsComplete, timesSent == 0 { phase = .answering }
        return .nothing
    }

    private mutating func credentialAwaited() -> ExchangeStep {
        if phase == .authorizing || phase == .replaying { awaitsCredential = true }
        return .nothing
    }

    /// Fails closed. If the first response was held back, the client gets it instead of an error.
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
        // The source decides which credential is used next, and a login goes with none.
        case .authorizing, .replaying, .answering, .done: return .nothing
        case .collecting, .connecting:
            // The unsent bytes of an earlier attempt begin with the old credential.
            guard !contentHasBegun || isHolding else { return end(with: .withdrawn) }
            phase = .authorizing
            return .reauthorize
        // What an operator is about to approve goes with this credential.
        case .holding, .forwarding, .responding, .tunnelling: return end(with: .withdrawn)
        }
    }

    /// A request that was sent goes on, but a head that would be refused now is not written any more.
    private mutating func reloaded(takesRight: Bool, isAdmitted: Bool) -> ExchangeStep {
        switch phase {
        case .authorizing, .collecting, .connecting:
            if timesSent == 0, !contentHasBegun {
                phase = .done
                return .beginAgain
            }
            return takesRight || !isAdmitted ? end(with: .excluded) : .nothing
        case .holding, .answering, .replaying:
            return takesRight || !isAdmitted ? end(with: .excluded) : .nothing
        case .forwarding, .responding, .tunnelling, .done:
            if !isAdmitted { attempt.isLast = true }
            return takesRight ? end(with: .excluded) : .nothing
        }
    }

    // MARK: Connection

    private mutating func connected(isReused: Bool, mayRefuse: Bool) -> ExchangeStep {
        guard phase == .connecting else { return .nothing }
        // A refused request can be sent again whatever its method, so its body is kept.
        if mayRefuse, !contentHasBegun { attempt.isHeld = true }
        attempt.isOnReusedConnection = isReused
        timesSent += 1
        phase = requestIsComplete ? .responding : .forwarding
        return .sendRequest
    }

    private mutating func upstreamLost(_ loss: ConnectionLoss) -> ExchangeStep {
        guard isWithUpstream else { return .nothing }
        if loss.isUnprocessed || loss.isRefused { timesSent -= 1 }
        guard phase != .tunnelling, RetryPolicy.sendsAgain(attempt, after: loss) else {
            return end(with: loss.problem)
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

    /// The phase changes before the body is sent, because sending can lead to the response.
    private mutating func content(isHeld: Bool, isLast: Bool) -> ExchangeStep {
        guard phase != .collecting else { return collected(isHeld: isHeld, isLast: isLast) }
        guard phase == .forwarding else { return .nothing }
        contentHasBegun = true
        if !isHeld { attempt.isHeld = false }
        if isLast {
            requestIsComplete = true
            phase = .responding
        }
        return .sendContent(isHeld: isHolding)
    }

    private mutating func collected(isHeld: Bool, isLast: Bool) -> ExchangeStep {
        contentHasBegun = true
        guard isHeld else { return end(with: .reported) }
        if isLast {
            requestIsComplete = true
            phase = .connecting
        }
        return .keepContent(isLast: isLast)
    }

    private mutating func clientLeft() -> ExchangeStep {
        guard phase != .done else { return .nothing }
        phase = .done
        return .abandon
    }

    // MARK: Response

    /// 100 (Continue) is forwarded once, however often the request is sent.
    private mutating func informational(_ status: Int) -> ExchangeStep {
        guard phase == .forwarding || phase == .responding, !attempt.responseHasBegun else { return .nothing }
        if status == 100 {
            guard !hasContinued else { return .nothing }
            hasContinued = true
        }
        // HTTP/1.0 has no interim responses (RFC 9110 section 15.2).
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
        case .pass(let outcome):
            attempt.responseHasBegun = true
            return .passResponse(outcome)
        case .sendAgain:
            if response.rejection == .otherSignature { attempt.timesSignedAnew += 1 }
            phase = .replaying
            // The replay may reconnect once, too.
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
        // After an early response, the upstream may mistake the rest of the body for the next request.
        return finish(reusesConnection: isReusable && requestIsComplete)
    }

    private mutating func finish(reusesConnection: Bool) -> ExchangeStep {
        assert(phase != .done, "An exchange ends twice.")
        phase = .done
        return .finish(reusesConnection: reusesConnection)
    }

    // MARK: Failures

    private mutating func stalled(_ stall: Stall) -> ExchangeStep {
        // A tunnel can stall, too, if neither side closes it.
        isWithUpstream || phase == .collecting ? end(with: .stalled(stall)) : .nothing
    }

    /// A client notices that a response was cut. A partial response that looks complete would deceive it.
    private mutating func end(with problem: ExchangeProblem) -> ExchangeStep {
        guard phase != .done else { return .nothing }
        phase = .done
        return attempt.responseHasBegun ? .cut(problem) : .respond(problem)
    }

    // MARK: Invariants

    private func checkInvariants() {
        assert(
            phase != .forwarding && phase != .collecting || !requestIsComplete,
            "The exchange waits for the rest of a complete request."
        )
        assert(phase != .collecting || isHolding, "A body is collected and not kept.")
        assert(phase != .holding || requestIsComplete, "An operator is asked about a part of a request.")
        assert(phase != .answering || requestIsComplete, "A login is answered that is not complete.")
        assert(phase != .responding || requestIsComplete, "An incomplete request is treated as complete.")
        assert(request.hasContent || requestIsComplete && !contentHasBegun, "A request without a body has one.")
        assert(
            !awaitsCredential || phase == .authorizing || phase == .replaying || phase == .done,
            "A request waits for a credential that it has."
        )
        assert(
            !attempt.responseHasBegun || isWithUpstream || phase == .done,
            "A request whose response has begun is sent again."
        )
        assert(phase != .tunnelling || attempt.responseHasBegun, "A tunnel is open, but the client was not told.")
        let isSignedAnew = attempt.timesSignedAnew > 0
        assert(phase != .replaying || !attempt.wasReplayed || isSignedAnew, "A request is replayed a second time.")
        assert(phase != .replaying || timesSent > 0, "A request that was not sent is replayed.")
        assert(!isWithUpstream || timesSent > 0, "The upstream has a request that was not sent.")
        // Once with each of two tokens, and once more with each if a pooled connection was lost (4 in all). Each of up to three further
        // signatures adds two.
        assert((0...(isSignedAnew ? 10 : 4)).contains(timesSent), "A request was sent more often than the rules allow.")
    }
}

// MARK: - Events

/// What the driver of an exchange reports to it.
package enum ExchangeEvent: Hashable, Sendable {
    // MARK: Credential

    /// The credential is available, or the route injects none.
    case authorized
    /// The credential is available, and the whole body is needed before the request can be sent.
    case bodyAwaited
    /// The request is complete, and an operator has to approve it.
    case approvalAwaited
    case approved
    /// The request is a complete login, and is being answered.
    case loginAwaited
    case loginAnswered
    /// No credential is available yet; the source has been asked for one.
    case credentialAwaited
    /// No credential can be obtained, or not in time.
    case credentialUnavailable(ProblemKind)
    /// The credential was withdrawn. The source may have another one.
    case withdrawn
    /// The credential was withdrawn, and a reload has replaced its source, which therefore has no other one.
    case sourceWithdrawn
    /// A reload has replaced the configuration.
    ///
    /// - Parameters:
    ///   - takesRight: It has removed the client, the route or the credential, or its rules refuse the request.
    ///   - isAdmitted: The same request would now be admitted, to the same place.
    case reloaded(takesRight: Bool, isAdmitted: Bool)

    // MARK: Connection

    /// - Parameters:
    ///   - isReused: The connection has carried a request before, so the upstream may have closed it in the meantime.
    ///   - mayRefuse: The protocol lets the upstream say that it has not processed a request.
    case connected(isReused: Bool, mayRefuse: Bool = false)
    case connectionFailed

    // MARK: Request

    /// A part of the request body was received. A body that is collected ends the exchange if it does not fit.
    ///
    /// - Parameters:
    ///   - isHeld: The body so far fits within the limit for a replay.
    ///   - isLast: The request ends with it.
    case requestContent(isHeld: Bool, isLast: Bool)
    /// The rest of the request violates a rule; the driver knows which.
    case requestInvalid
    /// The client has gone: nobody reads the response.
    case clientLeft

    // MARK: Response

    case informational(status: Int)
    case responseHead(ResponseFacts)
    /// - Parameter isReusable: The upstream connection can carry another request.
    case responseEnded(isReusable: Bool)
    indirect case upstreamLost(ConnectionLoss)
    /// The response violates a rule; the driver knows which.
    case responseInvalid
    /// The client's version of HTTP cannot carry the response head, so none of it was sent; the driver knows why.
    case responseUnsendable
    case tunnelEnded

    // MARK: Time

    /// The deadline has passed without progress.
    case stalled(Stall)
}

/// Which informational responses a client gets. They are only advice and have no flow control, so nothing else bounds what waits of
/// them: a few bytes from an HTTP/2 upstream can expand to megabytes in one turn.
enum InformationalRule {
    /// How many written bytes may wait to be flushed.
    static let maximumUnflushed = 196_608

    /// - Parameters:
    ///   - unflushed: Bytes that were written for the client in this turn, which its channel does not hold yet.
    ///   - isWritable: The client's channel holds less than the high-water mark.
    static func passes(_ status: Int, unflushed: Int, isWritable: Bool) -> Bool {
        // A 100 comes once, and some clients wait for it.
        status == 100 || isWritable && unflushed < maximumUnflushed
    }
}

/// What the rules need to know about a request head.
package struct RequestFacts: Hashable, Sendable {
    /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
    var isIdempotent: Bool
    var hasContent: Bool
    var expectsContinue = false
    var isHTTP10 = false
}

/// What the rules need to know about the head of a final response.
package struct ResponseFacts: Hashable, Sendable {
    package var status: Int
    var rejection: Rejection = .none
    /// Status 101 names only protocols that the request offered.
    var switchesAsOffered = false

    /// What the response says about the credential that the request was sent with.
    package enum Rejection: Hashable, Sendable {
        case none
        /// The token is not valid.
        case token(isRenewable: Bool)
        /// A redirect or a page says that the token is not valid. The token is renewed, but the request is not sent again, because
        /// the upstream may have acted on it.
        case tokenNotSentAgain
        /// The token is not valid, but the path may reject every token, so it is not renewed (``RejectionLedger``).
        case tokenWithoutRenewal
        /// The token is not valid, but the client's renewal budget is empty. The next renewal is available after this time.
        case tokenOverBudget(fillsAfter: Duration)
        /// The upstream asks for a credential, and the request was sent without one.
        case challenge(isAnswered: Bool)
        /// The upstream wants the request signed in another way, and it can be (``SigningSessions``).
        case otherSignature
        /// The upstream refused the date of the signature, and the clocks differ by more than the gateway corrects.
        ///
        /// - Parameter seconds: The upstream's clock minus ours.
        case wrongDate(seconds: Int)
    }
}

/// How an upstream connection was lost before the response was complete.
package struct ConnectionLoss: Hashable, Sendable {
    /// A byte of the response was received.
    var hasAnswered: Bool
    /// No byte of the request was sent.
    var isUnprocessed: Bool
    /// The upstream has said that it did not process the request (RFC 9113 section 8.7).
    var isRefused = false
    /// The TLS alert with which the upstream ended the connection, if any.
    package var alert: TLSAlert?
    /// The HTTP/2 frame with which it ended the connection or the stream, if any.
    var farewell: HTTP2Farewell?
    /// The gateway itself has reset the connection, because of another request on it whose right was withdrawn.
    var isByGateway = false

    var problem: ExchangeProblem {
        switch (isRefused, farewell) {
        case _ where isByGateway: .connectionReset
        case (true, let farewell?) where farewell.endsConnection: .upstreamLeft(farewell, isUnread: true)
        case (true, _): .upstreamRefused
        case (false, let farewell):
            alert.map { .upstreamAlerted($0) }
                ?? farewell.map { .upstreamLeft($0, isUnread: false) } ?? .upstreamClosedEarly
        }
    }
}

// MARK: - Steps

/// What the driver of an exchange does next.
package enum ExchangeStep: Hashable, Sendable {
    case nothing
    /// Get a connection to the upstream. A response that was held back is dropped first.
    ///
    /// - Parameter isFresh: Whether it must be a new connection.
    case connect(isFresh: Bool)
    /// Take the body from the client before there is a connection. A response that was held back is dropped first.
    ///
    /// - Parameter invites: The client waits for 100 (Continue), and gets it from the gateway.
    case collect(invites: Bool)
    /// Keep the part of the body that was received. After the last one, get a connection to the upstream.
    case keepContent(isLast: Bool)
    /// Return the connection unused, and ask the source for a credential again.
    case reauthorize
    /// Send the head, and the copy of the body if one is kept.
    case sendRequest
    /// Send the part of the body that was received, and keep a copy of it if `isHeld`.
    case sendContent(isHeld: Bool)
    case passInformational
    /// Send the head of the response to the client.
    case passResponse(RejectionOutcome)
    /// Hold the response back, tell the source that the token was rejected, and ask it for another one.
    case holdResponse
    /// Forward the response that was held back after all.
    case passHeldResponse(RejectionOutcome)
    case tunnel
    /// The response is complete.
    case finish(reusesConnection: Bool)
    /// Close the upstream connection and answer the client with a problem.
    case respond(ExchangeProblem)
    /// Close both connections, so that both sides notice that the message is incomplete.
    case cut(ExchangeProblem)
    /// Nothing was sent. Authorize the same request again, under the new configuration.
    case beginAgain
    /// Close the upstream connection; there is no client to answer.
    case abandon
}

/// Why the gateway answers the request itself, or cuts the response.
package enum ExchangeProblem: Hashable, Sendable {
    /// The driver knows the problem from the event that it reported.
    case reported
    /// An operator has withdrawn the credential.
    case withdrawn
    /// A reload has removed the client, the route or the credential, or its rules refuse the request.
    case excluded
    /// One of these has happened to another request, and the connection that both had to the upstream was reset for it.
    case connectionReset
    case upstreamClosedEarly
    /// The upstream ended the TLS connection with an alert instead of a response.
    case upstreamAlerted(TLSAlert)
    /// The upstream ended the HTTP/2 connection or stream before it answered.
    indirect case upstreamLeft(HTTP2Farewell, isUnread: Bool)
    /// The upstream refused to process the request each time that it was sent.
    case upstreamRefused
    case protocolNotOffered
    case stalled(Stall)
}

/// What happened to the token of a request, as the response tells the client in `Gateway-Token`.
package enum RejectionOutcome: Hashable, Sendable {
    case none
    /// The token was rejected, and only a person can replace it.
    case rejected
    /// The token was rejected, and the body is too long to be kept for a replay.
    case rejectedNotHeld
    /// The token was rejected by a redirect or a page, after which only GET and HEAD are replayed.
    case rejectedNotSafe
    /// The upstream asked for a credential, and the body is too long to be kept for a replay.
    case challengedNotHeld
    /// The token was rejected on a path that has never accepted it and may reject every token.
    case notRenewed
    /// The token was rejected, and the client's renewal budget is empty. It allows the next renewal after this time.
    case overBudget(fillsAfter: Duration)
    /// The replay's new token was rejected, too.
    case rejectedAgain
    /// The token was rejected, and no other one could be obtained.
    case notReplaced(ProblemKind)
    /// The date of the signature was refused: the upstream's clock minus ours.
    case wrongDate(seconds: Int)

    /// Whether the source has yet to be told that its token was rejected.
    var tellsSource: Bool {
        switch self {
        case .rejected, .rejectedNotHeld, .rejectedNotSafe: true
        case .none, .challengedNotHeld, .rejectedAgain, .notRenewed, .overBudget, .notReplaced, .wrongDate: false
        }
    }

    /// The wait in whole seconds, rounded up, so that the budget allows a renewal afterwards.
    static func seconds(_ wait: Duration) -> Int64 { max((wait + .milliseconds(999)).components.seconds, 1) }

    /// The value of `Gateway-Token`; nil if the field is not sent.
    func fieldValue(generation: Int) -> String? {
        switch self {
        case .none, .rejected, .wrongDate: nil
        case .rejectedNotHeld: "generation=\(generation); retried=0; reason=\"request body not held\""
        case .rejectedNotSafe: "generation=\(generation); retried=0; reason=\"only GET and HEAD are sent again\""
        case .challengedNotHeld: "retried=0; reason=\"request body not held\""
        case .notRenewed: "generation=\(generation); retried=0; reason=\"rejection does not count\""
        case .overBudget(let wait):
            "generation=\(generation); retried=0; reason=\"renewal budget is empty for \(Self.seconds(wait)) s\""
        case .rejectedAgain: "generation=\(generation); fresh; retried=1"
        case .notReplaced(let kind): "rejected; not retried: \(kind.rawValue)"
        }
    }
}

// MARK: - Withdrawals

/// A credential that a request was sent with, and its source.
struct CredentialUse {
    let credential: Credential
    let source: any CredentialSource
}

/// The credentials that an operator has locked, revoked or cleared.
///
/// A token is identified by its grant, because an exchange may have begun with a source that was replaced since, by a reload or to
/// make room for another subject.
struct WithdrawnCredentials: Sendable {
    private let sources: [CredentialKey: ObjectIdentifier]

    /// - Parameter sources: The sources of the current configuration. A source without a grant has nothing to withdraw.
    init(_ sources: [any CredentialSource]) {
        let pairs = sources.compactMap { source in source.grantKey.map { ($0, ObjectIdentifier(source)) } }
        self.sources = Dictionary(pairs) { first, _ in first }
    }

    var isEmpty: Bool { sources.isEmpty }

    /// - Returns: The event for an exchange that uses this credential; nil if it may go on.
    func event(_ use: CredentialUse, at now: MonotonicTime) -> ExchangeEvent? {
        event(use.credential, of: use.source, at: now)
    }

    func event(
        _ credential: Credential,
        of source: any CredentialSource,
        at now: MonotonicTime
    ) -> ExchangeEvent? {
        guard let present = source.grantKey.flatMap({ sources[$0] }) else { return nil }
        // A replaced source may still offer a token that was withdrawn from the current one.
        guard present == ObjectIdentifier(source) else { return .sourceWithdrawn }
        // A credential that was obtained after the withdrawal may be used.
        return credential.isOffered(at: now) ? nil : .withdrawn
    }
}

// MARK: - Retries

/// Decides when a request is sent to the upstream again.
///
/// A request is sent again once if its token was rejected, and once per token if a pooled connection was lost. If the upstream
/// refuses to process it, it is sent again up to three times; if it asks for another signature, up to three times.
enum RetryPolicy {
    /// What has happened to the request so far.
    struct Attempt: Hashable, Sendable {
        /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
        var isIdempotent: Bool
        /// A copy of the whole body so far is kept.
        var isHeld: Bool
        var responseHasBegun = false
        /// The token was rejected, and the request was sent with another one.
        var wasReplayed = false
        /// How often it was sent again because the upstream wanted another signature.
        var timesSignedAnew = 0
        /// The connection was lost, and the request was sent on another one.
        var wasReconnected = false
        var isOnReusedConnection = false
        /// How often the upstream has said that it did not process the request.
        var timesRefused = 0
        /// After a reload, the same request would be refused.
        var isLast = false

        var canBeSentAgain: Bool { isHeld && !responseHasBegun && !isLast }
    }

    /// Whether a request whose connection was lost is sent on a new one.
    ///
    /// If a new connection is lost as well, the upstream has a problem, so the request is not sent again. A request that the
    /// upstream may have acted on is sent again only if its method is idempotent.
    static func sendsAgain(_ attempt: Attempt, after loss: ConnectionLoss) -> Bool {
        guard !loss.hasAnswered, !attempt.responseHasBegun, !attempt.isLast else { return false }
        if loss.isRefused { return attempt.isHeld && attempt.timesRefused < maximumRefusals }
        guard attempt.isOnReusedConnection, !attempt.wasReconnected else { return false }
        return loss.isUnprocessed || attempt.isIdempotent && attempt.isHeld
    }

    private static let maximumRefusals = 3
    /// The first nonce may be too old, and another request may use up the second one. The third is then for this request alone.
    private static let maximumSignatures = 3

    /// What happens to a response that rejects the credential.
    enum RetryDecision: Hashable, Sendable {
        case sendAgain
        case pass(RejectionOutcome)
    }

    /// Whether a request whose token was rejected is sent again with another one.
    ///
    /// This happens once per request. Otherwise, an upstream that rejects every token would make the gateway request tokens
    /// endlessly.
    static func decision(for attempt: Attempt, after rejection: ResponseFacts.Rejection) -> RetryDecision {
        switch rejection {
        case .none, .challenge(isAnswered: false): .pass(.none)
        case .challenge(isAnswered: true):
            if attempt.wasReplayed || attempt.isLast {
                .pass(.none)
            } else {
                attempt.canBeSentAgain ? .sendAgain : .pass(.challengedNotHeld)
            }
        case .otherSignature:
            if attempt.timesSignedAnew >= maximumSignatures || attempt.isLast {
                .pass(.none)
            } else {
                attempt.canBeSentAgain ? .sendAgain : .pass(.challengedNotHeld)
            }
        case .wrongDate(let seconds): .pass(.wrongDate(seconds: seconds))
        case .token where attempt.wasReplayed, .tokenWithoutRenewal where attempt.wasReplayed,
            .tokenOverBudget where attempt.wasReplayed:
            .pass(.rejectedAgain)
        case .tokenNotSentAgain: .pass(attempt.wasReplayed ? .rejectedAgain : .rejectedNotSafe)
        case .tokenWithoutRenewal: .pass(.notRenewed)
        case .tokenOverBudget(let wait): .pass(.overBudget(fillsAfter: wait))
        case .token(isRenewable: false): .pass(.rejected)
        case .token where attempt.isLast: .pass(.rejected)
        case .token(isRenewable: true): attempt.canBeSentAgain ? .sendAgain : .pass(.rejectedNotHeld)
        }
    }
}

/// Decides whether a request body is kept, so that the request can be sent again.
package enum HoldPolicy {
    /// Whether the request may have to be sent again at all.
    ///
    /// - Parameter isRenewable: Whether the credential can be replaced without a person.
    static func holds(isIdempotent: Bool, isRenewable: @autoclosure () -> Bool) -> Bool {
        isIdempotent || isRenewable()
    }

    /// Whether the body so far is small enough to be kept. If not, the copy is dropped; the upload goes on.
    package static func fits(_ count: Int, behind held: Int, limit: Int) -> Bool { held + count <= limit }
}
