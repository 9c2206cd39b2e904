package import GatewayHTTP

/// One request that is over, for readers: with the names of its route, engine and credential, in civil time.
///
/// The worker keeps a `FinishedRequest`, which makes no string. The audit log stores a `RequestUse` as a row of `token_requests`; the page
/// shows it as an ``AuditEntry``, and `explain ID` merges it with rows of the log.
package struct RequestUse: Hashable, Sendable {
    /// When it ended.
    package var at: UnixTime
    package var requestID: String
    /// The client's own id, where it sent one.
    package var clientRequestID: String?
    /// Empty when no route was found.
    package var route: String
    package var client: String?
    package var method: String
    /// What the client was answered; 0 when nothing was sent.
    package var status: Int
    /// Set when the gateway answered by itself.
    package var problem: ProblemKind?
    /// Set for a request that failed.
    package var failure: RequestFailure?
    /// nil when nothing was injected.
    package var credential: String?
    package var generation: Int?
    package var wasReplayed: Bool
    package var bytesReceived: Int
    package var bytesSent: Int
    package var duration: Duration
    package var timings: RequestTimings
    /// The engine that asked about it; nil where the gateway itself forwarded it.
    package var engine: String?

    package init(
        at: UnixTime,
        requestID: String,
        clientRequestID: String? = nil,
        route: String,
        client: String?,
        method: String,
        status: Int,
        problem: ProblemKind? = nil,
        failure: RequestFailure? = nil,
        credential: String? = nil,
        generation: Int? = nil,
        wasReplayed: Bool = false,
        bytesReceived: Int,
        bytesSent: Int,
        duration: Duration,
        timings: RequestTimings = RequestTimings(),
        engine: String? = nil
    ) {
        self.engine = engine
        self.at = at
        self.requestID = requestID
        self.clientRequestID = clientRequestID
        self.route = route
        self.client = client
        self.method = method
        self.status = status
        self.problem = problem
        self.failure = failure
        self.credential = credential
        self.generation = generation
        self.wasReplayed = wasReplayed
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
        self.duration = duration
        self.timings = timings
    }
}

/// What is kept of a request that failed, besides its record. A class: a request that succeeds has room for a reference only.
package final class RequestFailure: Hashable, Sendable {
    package let reason: FailureReason
    /// What happened and what to do; nil where the reason and the status say it.
    package let explanation: String?
    /// A command for the person who runs the gateway.
    package let command: String?
    /// What the authorization server or the upstream answered.
    package let cause: GatewayProblem.Cause?
    /// The response had begun, so it was cut.
    package let isCut: Bool
    /// The one that the request was to have, also where there was none to inject.
    package let credential: String?
    package let place: RequestPlace

    package init(
        reason: FailureReason,
        explanation: String? = nil,
        command: String? = nil,
        cause: GatewayProblem.Cause? = nil,
        isCut: Bool = false,
        credential: String? = nil,
        place: RequestPlace
    ) {
        self.reason = reason
        self.explanation = explanation
        self.command = command
        self.cause = cause
        self.isCut = isCut
        self.credential = credential
        self.place = place
    }

    package static func == (lhs: RequestFailure, rhs: RequestFailure) -> Bool {
        lhs.reason == rhs.reason && lhs.explanation == rhs.explanation && lhs.command == rhs.command
            && lhs.cause == rhs.cause
            && lhs.isCut == rhs.isCut && lhs.credential == rhs.credential && lhs.place == rhs.place
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(reason)
        hasher.combine(place)
    }

    package convenience init(
        _ problem: GatewayProblem,
        isCut: Bool = false,
        credential: String? = nil,
        place: RequestPlace
    ) {
        self.init(
            reason: FailureReason(problem),
            explanation: problem.detail,
            command: problem.command,
            cause: problem.cause,
            isCut: isCut,
            credential: credential,
            place: place
        )
    }
}

/// Where a request came from, and what it asked for. Worked out for those that fail only.
package struct RequestPlace: Hashable, Sendable {
    /// The client's address, or `unix`.
    package let peer: String
    /// As the client spelled it, whatever it is. Escape it before it is shown.
    package let host: String
    /// With its identifiers left out (``PathTemplate``); empty before the head was read.
    package let path: String

    package init(peer: String, host: String = "", path: String = "") {
        self.peer = peer
        self.host = host
        self.path = path
    }
}
