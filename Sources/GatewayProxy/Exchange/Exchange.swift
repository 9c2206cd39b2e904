package import GatewayHTTP
import GatewayTokens

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
        /// The wait for the response to begin.
        case response
        /// A silence within a response or a tunnel.
        case responsePause
    }

    package let request: RequestFacts
    package private(set) var phase = Phase.authorizing
    private var attempt: RetryPolicy.Attempt
    private(set) var requestIsComplete: Bool
    /// Content of the request has come.
    private(set) var contentHasBegun = false
    /// The upstream has said that it wants the content.
    private var hasContinued = false
    private var awaitsCredential = false
    /// Times that the request was sent, without those of which nothing has left.
    private var timesSent = 0

    /// - Parameter isRenewable: The credential can be replaced without a person. Not asked where it does not matter.
    package init(_ request: RequestFacts, isRenewable: @autoclosure () -> Bool) {
        self.request = request
        requestIsComplete = !request.hasContent
        let isHeld = HoldPolicy.holds(isIdempotent: request.isIdempotent, isRenewable: isRenewable())
        attempt = RetryPolicy.Attempt(isIdempotent: request.isIdempotent, isHeld: isHeld)
    }

    // MARK: What the driver may ask

    var responseHasBegun: Bool { attempt.responseHasBegun }
    package var wasReplayed: Bool { attempt.wasReplayed }
    /// A copy of the content is kept for a second try.
    var isHolding: Bool { attempt.canBeSentAgain }
    /// The request can be sent whole on another connection, should this one turn out to have ended.
    var mayRepeat: Bool { request.isIdempotent && requestIsComplete }

    /// The client rightly waits for a 100 before it sends its content (RFC 9110 section 10.1.1).
    var awaitsContinue: Bool {
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
        case .pass(let outcome):
            attempt.responseHasBegun = true
            return .passResponse(outcome)
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
        // A tunnel can stall, too: neither end has closed it.
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
        // Once with each of two tokens, and once more with each if a pooled connection was lost.
        assert((0...4).contains(timesSent), "A request was sent more often than the rules allow.")
    }
}

// MARK: - Events

/// What the driver of an exchange reports to it.
package enum ExchangeEvent: Hashable, Sendable {
    // MARK: Credential

    /// A credential is at hand, or the route injects none.
    case authorized
    /// No credential is at hand; the source has been asked for one.
    case credentialAwaited
    /// No credential will come, or not in time.
    case credentialUnavailable(ProblemKind)
    /// The right to use the credential was taken away. Another one may come.
    case withdrawn
    /// The right to use the credential was taken away, and a reload has replaced its source: no other credential comes from it.
    case sourceWithdrawn
    /// A reload has come.
    ///
    /// - Parameters:
    ///   - takesRight: It takes away the client, the route or the credential, or its rules refuse the request.
    ///   - isAdmitted: The same request would go the same way now.
    case reloaded(takesRight: Bool, isAdmitted: Bool)

    // MARK: Connection

    /// - Parameters:
    ///   - isReused: The connection has carried a request before, so the upstream may have closed it meanwhile.
    ///   - mayRefuse: The upstream can say of a request that it has not looked at it.
    case connected(isReused: Bool, mayRefuse: Bool = false)
    case connectionFailed

    // MARK: Request

    /// Content came from the client.
    ///
    /// - Parameters:
    ///   - isHeld: A copy of all content so far is within the limit for a replay.
    ///   - isLast: The request ends with it.
    case requestContent(isHeld: Bool, isLast: Bool)
    /// The rest of the request breaks a rule; the driver knows which.
    case requestInvalid
    /// The client reads no answer.
    case clientLeft

    // MARK: Response

    case informational(status: Int)
    case responseHead(ResponseFacts)
    /// - Parameter isReusable: The upstream connection can carry another request.
    case responseEnded(isReusable: Bool)
    indirect case upstreamLost(ConnectionLoss)
    /// The response breaks a rule; the driver knows which.
    case responseInvalid
    /// The client's version of HTTP cannot carry the head of the response, and nothing of that was sent; the driver knows why.
    case responseUnsendable
    case tunnelEnded

    // MARK: Time

    /// The deadline has passed without progress.
    case stalled(Stall)
}

/// What the rules need to know of the head of a request.
package struct RequestFacts: Hashable, Sendable {
    /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
    var isIdempotent: Bool
    var hasContent: Bool
    var expectsContinue = false
    var isHTTP10 = false
}

/// What the rules need to know of the head of a final response.
package struct ResponseFacts: Hashable, Sendable {
    package var status: Int
    var rejection: Rejection = .none
    /// A 101 names only protocols that the request offered.
    var switchesAsOffered = false

    /// What the response says of the credential that the request went with.
    package enum Rejection: Hashable, Sendable {
        case none
        /// The token is not valid.
        case token(isRenewable: Bool)
        /// A redirect or a page says that the token is not valid, and the upstream may have acted upon the request. So the token is
        /// renewed, and the request is not sent again.
        case tokenNotSentAgain
        /// The token is not valid, but the path may reject every token, so it is not renewed (``RejectionLedger``).
        case tokenWithoutRenewal
        /// The token is not valid, but the client's renewal budget is empty. The next renewal is available after this time.
        case tokenOverBudget(fillsAfter: Duration)
        /// The upstream asks for a credential that the request went without.
        case challenge(isAnswered: Bool)
    }
}

/// How an upstream connection was lost before the response was complete.
package struct ConnectionLoss: Hashable, Sendable {
    /// A byte of the response has come.
    var hasAnswered: Bool
    /// Nothing of the request has left.
    var isUnprocessed: Bool
    /// The upstream said that it has not looked at the request (RFC 9113 section 8.7).
    var isRefused = false
    /// Why the upstream ended the connection, if TLS said so.
    package var alert: TLSAlert?
    /// Why it ended the connection or the stream, if HTTP/2 said so.
    var farewell: HTTP2Farewell?

    var problem: ExchangeProblem {
        switch (isRefused, farewell) {
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
    /// - Parameter isFresh: One that has carried no request yet.
    case connect(isFresh: Bool)
    /// Give the connection back unused, and ask the source for a credential again.
    case reauthorize
    /// Send the head with the content that is held.
    case sendRequest
    /// Send the content that has come, and keep a copy of it if `isHeld`.
    case sendContent(isHeld: Bool)
    case passInformational
    /// Send the head of the response to the client.
    case passResponse(RejectionOutcome)
    /// Keep the response back, tell the source that the token was rejected, and ask it for another one.
    case holdResponse
    /// Send the response that was held back to the client after all.
    case passHeldResponse(RejectionOutcome)
    case tunnel
    /// The response is complete.
    case finish(reusesConnection: Bool)
    /// Close the upstream connection and answer the client with a problem.
    case respond(ExchangeProblem)
    /// Close both connections so that both ends can see that the message is incomplete.
    case cut(ExchangeProblem)
    /// Nothing has left. Authorize the same request again, under the configuration that has come.
    case beginAgain
    /// Close the upstream connection; there is no client to answer.
    case abandon
}

/// Why the exchange answers with a problem of its own, or is cut.
package enum ExchangeProblem: Hashable, Sendable {
    /// The driver knows the problem from the event that it reported.
    case reported
    /// An operator has taken the credential away.
    case withdrawn
    /// A reload has taken away the client, the route or the credential, or its rules refuse the request.
    case excluded
    case upstreamClosedEarly
    /// It ended the TLS connection with an alert in place of the response.
    case upstreamAlerted(TLSAlert)
    /// It ended the connection or the stream of HTTP/2 before it answered.
    indirect case upstreamLeft(HTTP2Farewell, isUnread: Bool)
    /// It has not looked at the request, however often that was sent.
    case upstreamRefused
    case protocolNotOffered
    case stalled(Stall)
}

/// What a response says of the token that the request went with, in `Gateway-Token`.
package enum RejectionOutcome: Hashable, Sendable {
    case none
    /// The token was rejected; it cannot be replaced without a person.
    case rejected
    /// The token was rejected; the content was too long to be held for a second try.
    case rejectedNotHeld
    /// A redirect or a page rejected the token; only GET and HEAD are sent again then.
    case rejectedNotSafe
    /// The upstream asked for a credential; the content was too long to be held for a second try.
    case challengedNotHeld
    /// The token was rejected on a path that has not accepted it, and that may reject every token.
    case notRenewed
    /// The token was rejected, and the client has caused as many renewals as it may. It may cause the next one after this time.
    case overBudget(fillsAfter: Duration)
    /// A token that had just been obtained was rejected, too.
    case rejectedAgain
    /// The token was rejected; no other one could be obtained.
    case notReplaced(ProblemKind)

    /// The source has to be told that its token was rejected.
    var tellsSource: Bool {
        switch self {
        case .rejected, .rejectedNotHeld, .rejectedNotSafe: true
        case .none, .challengedNotHeld, .rejectedAgain, .notRenewed, .overBudget, .notReplaced: false
        }
    }

    /// The wait in seconds, rounded up: a client that waits so long may cause the next renewal.
    static func seconds(_ wait: Duration) -> Int64 { max((wait + .milliseconds(999)).components.seconds, 1) }

    /// The value of the field; nil where it is not sent.
    func fieldValue(generation: Int) -> String? {
        switch self {
        case .none, .rejected: nil
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

/// What a request was sent with.
struct CredentialUse {
    let credential: Credential
    let source: any CredentialSource
}

/// The credentials that an operator has locked, revoked or cleared.
///
/// A token is known by its grant: an exchange may have begun with a source that a reload has replaced, or that has made room for
/// another one.
struct WithdrawnCredentials: Sendable {
    private let sources: [CredentialKey: ObjectIdentifier]

    /// - Parameter sources: Those of the present configuration. One without a grant has nothing that can be withdrawn.
    init(_ sources: [any CredentialSource]) {
        let pairs = sources.compactMap { source in source.grantKey.map { ($0, ObjectIdentifier(source)) } }
        self.sources = Dictionary(pairs) { first, _ in first }
    }

    var isEmpty: Bool { sources.isEmpty }

    /// - Returns: What an exchange with this credential is told; nil where it may go on.
    func event(_ use: CredentialUse, at now: MonotonicTime) -> ExchangeEvent? {
        event(use.credential, of: use.source, at: now)
    }

    func event(
        _ credential: Credential,
        of source: any CredentialSource,
        at now: MonotonicTime
    ) -> ExchangeEvent? {
        guard let present = source.grantKey.flatMap({ sources[$0] }) else { return nil }
        // A source that was replaced may still offer what the present one has lost.
        guard present == ObjectIdentifier(source) else { return .sourceWithdrawn }
        // What came afterwards may be used.
        return credential.isOffered(at: now) ? nil : .withdrawn
    }
}

// MARK: - Retries

/// Decides when a request is sent to the upstream again.
///
/// A request is sent again once because its token was rejected, and once per token because a pooled connection was lost. It is sent
/// again up to three times because the upstream refused to look at it.
enum RetryPolicy {
    /// What has become of the request so far.
    struct Attempt: Hashable, Sendable {
        /// May be repeated although an earlier attempt may have been acted upon (RFC 9110 section 9.2.2).
        var isIdempotent: Bool
        /// All content that has come can be sent again.
        var isHeld: Bool
        var responseHasBegun = false
        /// The token was rejected, and the request was sent with another one.
        var wasReplayed = false
        /// The connection was lost, and the request was sent on another one.
        var wasReconnected = false
        var isOnReusedConnection = false
        /// The upstream said that it has not looked at the request.
        var timesRefused = 0
        /// A reload has come under which the same request would be refused.
        var isLast = false

        var canBeSentAgain: Bool { isHeld && !responseHasBegun && !isLast }
    }

    /// Whether a request whose connection was lost is sent on a fresh one.
    ///
    /// A fresh connection that is lost is not replaced: the upstream is not well. A request that may have been acted upon is
    /// repeated only where its method allows that.
    static func sendsAgain(_ attempt: Attempt, after loss: ConnectionLoss) -> Bool {
        guard !loss.hasAnswered, !attempt.responseHasBegun, !attempt.isLast else { return false }
        if loss.isRefused { return attempt.isHeld && attempt.timesRefused < maximumRefusals }
        guard attempt.isOnReusedConnection, !attempt.wasReconnected else { return false }
        return loss.isUnprocessed || attempt.isIdempotent && attempt.isHeld
    }

    private static let maximumRefusals = 3

    /// What happens to a response that rejects the credential.
    enum RetryDecision: Hashable, Sendable {
        case sendAgain
        case pass(RejectionOutcome)
    }

    /// Whether a request whose token was rejected is sent with another one.
    ///
    /// Not a second time: an upstream that refuses every token would have the gateway obtain tokens without end.
    static func decision(for attempt: Attempt, after rejection: ResponseFacts.Rejection) -> RetryDecision {
        switch rejection {
        case .none, .challenge(isAnswered: false): .pass(.none)
        case .challenge(isAnswered: true):
            if attempt.wasReplayed || attempt.isLast {
                .pass(.none)
            } else {
                attempt.canBeSentAgain ? .sendAgain : .pass(.challengedNotHeld)
            }
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

/// Decides whether the content of a request is kept for a second try.
package enum HoldPolicy {
    /// Whether a second try may come at all.
    ///
    /// - Parameter isRenewable: The credential can be replaced without a person.
    static func holds(isIdempotent: Bool, isRenewable: @autoclosure () -> Bool) -> Bool {
        isIdempotent || isRenewable()
    }

    /// Whether what has come fits into what is kept of one request. Too much ends the holding, not the upload.
    package static func fits(_ count: Int, behind held: Int, limit: Int) -> Bool { held + count <= limit }
}
