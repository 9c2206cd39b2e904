import GatewayCore
import Synchronization

/// Callers that wait until a row is in the shared database.
final class ShippingConfirmations: Sendable {
    private struct State {
        var confirmed: Int64 = 0
        var waiters: [(row: Int64, end: Promise<Bool>)] = []
    }

    /// As many as events may wait for the local log.
    static let limit = EventQueue.limit

    private let state = Mutex(State())

    /// The database has the rows up to this one.
    func confirm(to row: Int64) {
        let done = state.withLock { state in
            state.confirmed = row
            let done = state.waiters.filter { $0.row <= row }
            state.waiters.removeAll { $0.row <= row || $0.end.isKept }
            return done
        }
        for waiter in done { waiter.end.keep(true) }
    }

    /// The number of callers that wait, including those that gave up and have not been removed yet.
    var waiting: Int { state.withLock { $0.waiters.count } }

    func isConfirmed(_ row: Int64) -> Bool { state.withLock { $0.confirmed >= row } }

    /// - Returns: Whether the database has the row within the limit.
    func wait(for row: Int64, within limit: Duration) async -> Bool {
        let end = Promise<Bool>()
        let waits = state.withLock { state in
            guard state.confirmed < row else {
                end.keep(true)
                return true
            }
            state.waiters.removeAll { $0.end.isKept }
            guard state.waiters.count < Self.limit else { return false }
            state.waiters.append((row, end))
            return true
        }
        guard waits else { return false }
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(false)
        }
        defer { watchdog.cancel() }
        return await end.value()
    }
}
