package import GatewayHTTP

/// A clock that moves only when a test says so, and wakes the sleepers whose time has come.
package final class ManualClock: GatewayClock {
    private struct Sleeper: Sendable {
        let id: Int
        let due: MonotonicTime
    }

    private struct State: Sendable {
        var now: Moment
        var sleepers: [Sleeper] = []
        var nextID = 0
    }

    private let state: Watched<State>

    /// - Parameter wall: Defaults to 2026-03-01T09:30:00Z.
    package init(wall: UnixTime = UnixTime(seconds: 1_772_357_400), monotonic: MonotonicTime = .init(nanoseconds: 0)) {
        state = Watched(State(now: Moment(monotonic: monotonic, wall: wall)))
    }

    package func now() -> Moment { state.value.now }

    package func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        let (id, due) = state.update { state in
            let due = state.now.monotonic + max(duration, .zero)
            state.nextID += 1
            state.sleepers.append(Sleeper(id: state.nextID, due: due))
            return (state.nextID, due)
        }
        defer { state.update { $0.sleepers.removeAll { $0.id == id } } }
        try await state.until(within: .seconds(120)) { $0.now.monotonic >= due }
    }

    /// Moves both clocks.
    package func advance(by duration: Duration) {
        state.update { $0.now = $0.now + duration }
    }

    /// Moves the wall clock alone, as NTP or a person does.
    package func jumpWall(by duration: Duration) {
        state.update { $0.now.wall = $0.now.wall + duration }
    }

    /// How long the sleeper that wakes first will still sleep; nil when no task sleeps.
    package var nextWake: Duration? {
        let state = state.value
        return state.sleepers.map { $0.due - state.now.monotonic }.min()
    }

    /// Waits until somebody sleeps who will wake in more than `lower` and at most `upper`.
    package func untilAsleep(moreThan lower: Duration = .zero, atMost upper: Duration = .seconds(1 << 32)) async throws
    {
        try await state.until { state in
            state.sleepers.contains {
                let left = $0.due - state.now.monotonic
                return left > lower && left <= upper
            }
        }
    }
}
