import GatewayCore
import Synchronization

/// The requests of one event loop since the last collection, one by one: `audit.usage: request`.
///
/// The lock is only ever contended by the collector, once a second and when metrics are shown.
final class TrafficRequests: Sendable {
    /// More between two collections are counted and not kept.
    static let limit = 16_384

    struct Request {
        let requestID: RequestID
        let clientRequestID: String?
        let route: Int
        let client: String?
        let method: String
        let status: Int
        let problem: ProblemKind?
        let failure: RequestFailure?
        let credential: Credential?
        let wasReplayed: Bool
        let bytesReceived: Int
        let bytesSent: Int
        /// Nanoseconds of civil time.
        let finishedAt: Int64
        let duration: Duration
        let timings: RequestTimings
    }

    private struct State {
        var requests: [Request] = []
        var lost = 0
    }

    private let state = Mutex(State())

    /// What neither carried a credential nor was sent on was refused: a guesser must not fill the disk.
    func add(_ record: borrowing ExchangeRecord, finishedAt: Int64) {
        guard let route = record.route, record.credential != nil || record.wasSent else { return }
        let request = Request(
            requestID: record.requestID,
            clientRequestID: record.clientRequestID,
            route: route,
            client: record.client,
            method: record.method,
            status: record.status,
            problem: record.problem,
            failure: record.failure,
            credential: record.credential,
            wasReplayed: record.wasReplayed,
            bytesReceived: record.bytesReceived,
            bytesSent: record.bytesSent,
            finishedAt: finishedAt,
            duration: record.finishedAt - record.startedAt,
            timings: record.timings
        )
        state.withLock { state in
            if state.requests.count < Self.limit { state.requests.append(request) } else { state.lost += 1 }
        }
    }

    func take() -> (requests: [Request], lost: Int) {
        state.withLock { state in
            defer { state = State() }
            return (state.requests, state.lost)
        }
    }
}

extension RequestUse {
    init(_ request: TrafficRequests.Request, route: String) {
        self.init(
            at: UnixTime(milliseconds: request.finishedAt / 1_000_000),
            requestID: request.requestID.description,
            clientRequestID: request.clientRequestID,
            route: route,
            client: request.client,
            method: request.method,
            status: request.status,
            problem: request.problem,
            failure: request.failure,
            credential: request.credential?.name,
            generation: request.credential?.generation,
            wasReplayed: request.wasReplayed,
            bytesReceived: request.bytesReceived,
            bytesSent: request.bytesSent,
            duration: request.duration,
            timings: request.timings
        )
    }
}
