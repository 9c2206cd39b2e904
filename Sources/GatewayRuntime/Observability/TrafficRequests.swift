import GatewayCore
import Synchronization

/// The requests of one event loop since the last collection, one by one: `audit.usage: request`.
///
/// The lock is only ever contended by the collector, once a second and when metrics are shown.
final class TrafficRequests: Sendable {
    /// More between two collections are counted and not kept.
    static let limit = 16_384

    private struct State {
        var requests: [FinishedRequest] = []
        var lost = 0
    }

    private let state = Mutex(State())

    /// What neither carried a credential nor was sent on was refused: a guesser must not fill the disk.
    func add(_ record: borrowing ExchangeRecord) {
        guard record.route != nil, record.credential != nil || record.wasSent else { return }
        let request = FinishedRequest(record)
        state.withLock { state in
            if state.requests.count < Self.limit { state.requests.append(request) } else { state.lost += 1 }
        }
    }

    func take() -> (requests: [FinishedRequest], lost: Int) {
        state.withLock { state in
            defer { state = State() }
            return (state.requests, state.lost)
        }
    }
}
