import Synchronization

/// What a keeper has to do.
package enum KeeperWork: Hashable, Sendable {
    /// ``TokenKeeper/work()``.
    case turn(WorkUrgency)
    /// ``TokenKeeper/writeNotes()``.
    case notes
}

/// Tells the runner of a keeper what the keeper has to do. What came before there was a runner is told to the first one.
final class KeeperSignal: Sendable {
    private struct State {
        var answer: (@Sendable (KeeperWork) -> Void)?
        var waiting: Set<KeeperWork> = []
    }

    private let state = Mutex(State())

    func send(_ work: KeeperWork) {
        let answer = state.withLock { state in
            if state.answer == nil { state.waiting.insert(work) }
            return state.answer
        }
        answer?(work)
    }

    /// - Parameter answer: Called on any thread, and must return at once. nil: what comes waits again.
    func set(_ answer: (@Sendable (KeeperWork) -> Void)?) {
        let waiting = state.withLock { state in
            state.answer = answer
            defer { if answer != nil { state.waiting = [] } }
            return answer == nil ? [] : state.waiting
        }
        for work in waiting { answer?(work) }
    }
}
