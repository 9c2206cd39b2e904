/// What happened to one request, for the log, metrics and usage counts.
///
/// Lent, never copied: there is one for every request.
package struct ExchangeRecord: ~Copyable, Sendable {
    package let requestID: RequestID
    /// The client's own, where it sent one (``ClientRequestID``).
    package let clientRequestID: String?
    /// The event loop it ran on, in the data plane's numbering.
    package var worker = 0
    /// What the observer numbers the route by; nil when no route was found.
    package var route: Int?
    package var client: String?
    package var method: String
    /// Host and port that the client has named, where no route leads there; nil otherwise.
    package var destination: String?
    /// Set where an engine asked about the request; nil for a request that the gateway itself forwards.
    package var engine: AuthzOutcome?
    /// What the client was answered; 0 when nothing was sent.
    package var status: Int
    /// Set when the gateway answered by itself.
    package var problem: ProblemKind?
    /// Set for a request that failed.
    package var failure: RequestFailure?
    /// nil when nothing was injected.
    package var credential: Credential?
    /// To the upstream, at least in part.
    package var wasSent: Bool
    package var wasReplayed: Bool
    /// nil where telemetry is off.
    package var trace: RequestTrace?
    /// The client's connection is encrypted; said only beside ``trace``.
    package var isTLS = false
    package var bytesReceived: Int
    package var bytesSent: Int
    package var startedAt: MonotonicTime
    package var finishedAt: MonotonicTime
    package var timings = RequestTimings()

    /// - Parameter finishedAt: nil at `startedAt`, or when it is not known yet.
    package init(
        requestID: RequestID,
        clientRequestID: String? = nil,
        worker: Int = 0,
        route: Int?,
        client: String?,
        method: String,
        status: Int = 0,
        problem: ProblemKind? = nil,
        failure: RequestFailure? = nil,
        credential: Credential? = nil,
        wasSent: Bool = false,
        wasReplayed: Bool = false,
        bytesReceived: Int = 0,
        bytesSent: Int = 0,
        startedAt: MonotonicTime,
        finishedAt: MonotonicTime? = nil
    ) {
        self.requestID = requestID
        self.clientRequestID = clientRequestID
        self.worker = worker
        self.route = route
        self.client = client
        self.method = method
        self.status = status
        self.problem = problem
        self.failure = failure
        self.credential = credential
        self.wasSent = wasSent
        self.wasReplayed = wasReplayed
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
        self.startedAt = startedAt
        self.finishedAt = finishedAt ?? startedAt
    }
}
