import NIOCore
import Synchronization

/// The workers of all event loops: finds one, and tells all of them.
final class WorkerRegistry: Sendable {
    private struct Entry {
        let number: Int
        let box: NIOLoopBoundBox<Worker>
    }

    private let entries: [ObjectIdentifier: Entry]

    init(loops: [any EventLoop], turns: LoopTurns? = nil, shared: ProxyShared) {
        var entries: [ObjectIdentifier: Entry] = [:]
        for (number, loop) in loops.enumerated() {
            let worker = Worker(number: number, loop: loop, turns: turns, shared: shared)
            entries[ObjectIdentifier(loop)] = Entry(number: number, box: .makeBoxSendingValue(worker, eventLoop: loop))
        }
        self.entries = entries
        for entry in entries.values {
            let box = entry.box
            box.eventLoop.execute { [weak self] in
                box.value.join(
                    ask: { [weak self] number in self?.tell(number) { $0.endOldHeads() } },
                    freeIdle: { [weak self] in self?.tell { $0.closeIdle() } }
                )
            }
        }
    }

    private func tell(_ number: Int, _ body: @escaping @Sendable (Worker) -> Void) {
        guard let box = entries.values.first(where: { $0.number == number })?.box else { return }
        box.eventLoop.execute { body(box.value) }
    }

    /// Has each loop carry out `body`, and does not wait.
    func tell(_ body: @escaping @Sendable (Worker) -> Void) {
        for box in entries.values.map(\.box) { box.eventLoop.execute { body(box.value) } }
    }

    var count: Int { entries.count }

    /// Call it on `loop`, which must be one of the group's.
    func configuration(of loop: any EventLoop) -> WorkerConfiguration? {
        entries[ObjectIdentifier(loop)]?.box.value.current
    }

    /// Has each loop carry out `body`.
    ///
    /// - Returns: The numbers of those that have not done so within `limit`; they do it later.
    func tell(within limit: TimeAmount, _ body: @escaping @Sendable (Worker) -> Void) async -> [Int] {
        await tell(Array(entries.values), within: limit, body)
    }

    private func tell(
        _ entries: [Entry],
        within limit: TimeAmount,
        _ body: @escaping @Sendable (Worker) -> Void
    ) async -> [Int] {
        let answers = Acknowledgements(Set(entries.map(\.number)))
        return await withCheckedContinuation { continuation in
            answers.whenComplete { continuation.resume(returning: $0) }
            for entry in entries {
                let (number, box) = (entry.number, entry.box)
                box.eventLoop.execute {
                    body(box.value)
                    answers.add(number)
                }
            }
            // On a thread of its own: any of the loops may be the one that is stuck.
            Task {
                try? await Task.sleep(for: .nanoseconds(limit.nanoseconds))
                answers.giveUp()
            }
        }
    }

    /// Has the first loop that takes its turn answer a question about what it serves.
    ///
    /// - Returns: nil when none has within a second, or the question has no answer.
    func ask<Answer: Sendable>(
        _ question: @escaping @Sendable (WorkerConfiguration) -> Answer?
    ) async -> Answer? {
        let answer = FirstAnswer<Answer>()
        for entry in entries.values {
            let silent = await tell([entry], within: .seconds(1)) { worker in
                if let current = worker.current { answer.set(question(current)) }
            }
            if silent.isEmpty { break }
        }
        return answer.value
    }

    func forEach(_ body: @escaping @Sendable (Worker) -> Void) async {
        for box in entries.values.map(\.box) {
            try? await box.eventLoop.submit { body(box.value) }.get()
        }
    }
}

/// Waits until all of some workers have answered, or until somebody gives up.
private final class Acknowledgements: Sendable {
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

/// An answer that may come too late.
private final class FirstAnswer<Answer: Sendable>: Sendable {
    private let answer = Mutex<Answer?>(nil)

    var value: Answer? { answer.withLock { $0 } }
    func set(_ new: Answer?) { answer.withLock { $0 = $0 ?? new } }
}
