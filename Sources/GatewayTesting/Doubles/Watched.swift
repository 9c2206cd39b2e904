import Foundation
import Synchronization

/// State that tests wait on: ``until(_:)`` returns as soon as a change has made its condition hold.
package final class Watched<State: Sendable>: Sendable {
    private struct Watcher {
        let holds: @Sendable (State) -> Bool
        let resume: CheckedContinuation<State, any Error>
    }

    private struct Inside {
        var state: State
        var watchers: [Int: Watcher] = [:]
        var nextID = 0
    }

    private let inside: Mutex<Inside>

    package init(_ state: State) { inside = Mutex(Inside(state: state)) }

    package var value: State { inside.withLock { $0.state } }

    @discardableResult
    package func update<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        let (result, state, due) = inside.withLock { inside in
            let result = change(&inside.state)
            let due = inside.watchers.filter { $0.value.holds(inside.state) }
            for id in due.keys { inside.watchers[id] = nil }
            return (result, inside.state, Array(due.values))
        }
        for watcher in due { watcher.resume.resume(returning: state) }
        return result
    }

    /// - Throws: ``WaitedInVain`` after `limit` of real time, so that a broken promise fails a test instead of hanging it.
    @discardableResult
    package func until(
        within limit: Duration = WaitedInVain.limit,
        _ holds: @escaping @Sendable (State) -> Bool
    ) async throws -> State {
        try await withThrowingTaskGroup(of: State.self) { group in
            group.addTask { try await self.change(to: holds) }
            group.addTask {
                try await Task.sleep(for: limit)
                throw WaitedInVain(state: String(describing: self.value))
            }
            defer { group.cancelAll() }
            guard let state = try await group.next() else { throw CancellationError() }
            return state
        }
    }

    private func change(to holds: @escaping @Sendable (State) -> Bool) async throws -> State {
        let id = inside.withLock { inside in
            inside.nextID += 1
            return inside.nextID
        }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let now: State? = inside.withLock { inside in
                    guard !holds(inside.state) else { return inside.state }
                    inside.watchers[id] = Watcher(holds: holds, resume: continuation)
                    return nil
                }
                if let now {
                    continuation.resume(returning: now)
                } else if Task.isCancelled {
                    withdraw(id)
                }
            }
        } onCancel: {
            withdraw(id)
        }
    }

    private func withdraw(_ id: Int) {
        let watcher = inside.withLock { $0.watchers.removeValue(forKey: id) }
        watcher?.resume.resume(throwing: CancellationError())
    }
}

/// Waits for what gives no notice when it happens: asks every millisecond.
///
/// - Throws: ``WaitedInVain`` after `limit` of real time.
package func waitUntil(
    _ what: String,
    within limit: Duration = WaitedInVain.limit,
    _ holds: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !holds() {
        guard ContinuousClock.now < deadline else { throw WaitedInVain(state: "not: \(what)") }
        try await Task.sleep(for: .milliseconds(1))
    }
}

/// ``waitUntil(_:within:_:)`` for a test with a thread of its own, which it blocks.
package func blockUntil(
    _ what: String,
    within limit: Duration = WaitedInVain.limit,
    _ holds: () throws -> Bool
) throws {
    let deadline = ContinuousClock.now + limit
    while try !holds() {
        guard ContinuousClock.now < deadline else { throw WaitedInVain(state: "not: \(what)") }
        Thread.sleep(forTimeInterval: 0.001)
    }
}

/// A test has waited for something that did not happen.
package struct WaitedInVain: Error, CustomStringConvertible {
    package static let limit: Duration = .seconds(20)

    let state: String
    package var description: String { "the condition never held; the state was \(state)" }
}
