package import GatewayHTTP

/// One request that is over.
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
