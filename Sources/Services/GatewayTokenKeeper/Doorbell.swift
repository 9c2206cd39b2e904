import GatewayCore
import Synchronization

/// Wakes the one task that waits at the door. A ring while nobody waits is kept; several are one.
final class Doorbell: Sendable {
    private struct State {
        var isRung = false
        var isClosed = false
        var sleeper: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Closed once, at shutdown; from then on nobody waits.
    var isClosed: Bool { state.withLock { $0.isClosed } }

    func ring() { wake { $0.isRung = true } }
    func close() { wake { $0.isClosed = true } }

    private func wake(_ change: (inout State) -> Void) {
        let sleeper = state.withLock { state in
            change(&state)
            defer { state.sleeper = nil }
            if state.sleeper != nil { state.isRung = false }
            return state.sleeper
        }
        sleeper?.resume()
    }

    /// Returns when the bell rings, when `limit` has passed (nil: never), or when the task is cancelled.
    func wait(atMost limit: Duration?, on clock: any GatewayClock) async {
        await withTaskGroup(of: Void.self) { group in
            if let limit {
                group.addTask {
                    do {
                        try await clock.sleep(for: limit)
                        self.ring()
                    } catch {
                        // Cancelled: somebody else rang.
                    }
                }
            }
            await rung()
            group.cancelAll()
        }
    }

    private func rung() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isDue = state.withLock { state in
                    guard !state.isRung, !state.isClosed else {
                        state.isRung = false
                        return true
                    }
                    state.sleeper = continuation
                    return false
                }
                if isDue { continuation.resume() }
            }
        } onCancel: {
            close()
        }
    }
}
