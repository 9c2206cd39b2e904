/// One request that was sent on, for `audit.usage: request`.
package struct RequestUse: Hashable, Sendable {
    /// When it ended.
    package var at: UnixTime
    package var requestID: String
    package var route: String
    package var client: String?
    package var method: String
    /// What the client was answered; 0 when nothing was sent.
    package var status: Int
    /// Set when the gateway answered by itself.
    package var problem: ProblemKind?
    /// nil when nothing was injected.
    package var credential: String?
    package var generation: Int?
    package var wasReplayed: Bool
    package var bytesReceived: Int
    package var bytesSent: Int
    package var duration: Duration

    package init(
        at: UnixTime,
        requestID: String,
        route: String,
        client: String?,
        method: String,
        status: Int,
        problem: ProblemKind? = nil,
        credential: String? = nil,
        generation: Int? = nil,
        wasReplayed: Bool = false,
        bytesReceived: Int,
        bytesSent: Int,
        duration: Duration
    ) {
        self.at = at
        self.requestID = requestID
        self.route = route
        self.client = client
        self.method = method
        self.status = status
        self.problem = problem
        self.credential = credential
        self.generation = generation
        self.wasReplayed = wasReplayed
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
        self.duration = duration
    }
}
