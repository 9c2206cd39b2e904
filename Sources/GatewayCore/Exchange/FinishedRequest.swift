/// What is kept of a request that is over. Names the credential and does not hold it: it may have been taken away.
package struct FinishedRequest: Sendable {
    package let requestID: RequestID
    package let clientRequestID: String?
    package let route: Int?
    package let client: String?
    package let method: String
    package let status: Int
    package let problem: ProblemKind?
    package let failure: RequestFailure?
    package let credential: String?
    package let generation: Int?
    package let wasReplayed: Bool
    package let bytesReceived: Int
    package let bytesSent: Int
    package let startedAt: MonotonicTime
    package let finishedAt: MonotonicTime
    package let timings: RequestTimings
    package let engine: String?

    package init(_ record: borrowing ExchangeRecord) {
        requestID = record.requestID
        clientRequestID = record.clientRequestID
        route = record.route
        client = record.client
        method = record.method
        status = record.status
        problem = record.problem
        failure = record.failure
        credential = record.credential?.name
        generation = record.credential?.generation
        wasReplayed = record.wasReplayed
        bytesReceived = record.bytesReceived
        bytesSent = record.bytesSent
        startedAt = record.startedAt
        finishedAt = record.finishedAt
        timings = record.timings
        engine = record.engine?.name
    }
}

extension RequestUse {
    /// - Parameters:
    ///   - wallOffset: What to add to a monotonic reading to get civil time, in nanoseconds.
    ///   - route: Its name; empty when none was found.
    package init(_ request: FinishedRequest, wallOffset: Int64, route: String) {
        self.init(
            at: UnixTime(milliseconds: (request.finishedAt.nanoseconds &+ wallOffset) / 1_000_000),
            requestID: request.requestID.description,
            clientRequestID: request.clientRequestID,
            route: route,
            client: request.client,
            method: request.method,
            status: request.status,
            problem: request.problem,
            failure: request.failure,
            credential: request.credential,
            generation: request.generation,
            wasReplayed: request.wasReplayed,
            bytesReceived: request.bytesReceived,
            bytesSent: request.bytesSent,
            duration: request.finishedAt - request.startedAt,
            timings: request.timings,
            engine: request.engine
        )
    }
}
