import Synchronization

/// Waits until all of some workers have answered, or until somebody gives up.
final class Acknowledgements: Sendable {
    private struct State {
        var missing: Set<Int>
        var done: (@Sendable ([Int]) -> Void)?
        var isOver = false
    }

    private let state: Mutex<State>

    init(_ numbers: Set<Int>) { state = Mutex(State(missing: numbers)) }

    /// - Parameter done: Called once, with the numbers of those that have not answered. Set it before anybody can answer.
    func whenComplete(_ done: @escaping @Sendable ([Int]) -> Void) {
        state.withLock { $0.done = done }
        finish { $0.missing.isEmpty }
    }

    func add(_ number: Int) {
        finish { state in
            state.missing.remove(number)
            return state.missing.isEmpty
        }
    }

    func giveUp() { finish { _ in true } }

    private func finish(_ isComplete: (inout State) -> Bool) {
        let (done, missing) = state.withLock { state -> ((@Sendable ([Int]) -> Void)?, [Int]) in
            guard isComplete(&state), !state.isOver else { return (nil, []) }
            state.isOver = true
            return (state.done.take(), state.missing.sorted())
        }
        done?(missing)
    }
}
