import NIOCore
import Synchronization

/// The workers of all event loops: finds one, and tells all of them.
final class WorkerRegistry: Sendable {
    private struct Entry {
        let number: Int
        let box: NIOLoopBoundBox<Worker>
    }

    private let entries: [ObjectIdentifier: Entry]

    init(loops: [any EventLoop], shared: ProxyShared) {
        var entries: [ObjectIdentifier: Entry] = [:]
        for (number, loop) in loops.enumerated() {
            let worker = Worker(number: number, loop: loop, shared: shared)
            entries[ObjectIdentifier(loop)] = Entry(number: number, box: .makeBoxSendingValue(worker, eventLoop: loop))
        }
        self.entries = entries
        for entry in entries.values {
            let box = entry.box
            box.eventLoop.execute { [weak self] in
                box.value.ask = { [weak self] number in self?.tell(number) { $0.endOldHeads() } }
                box.value.freeIdle = { [weak self] in self?.tell { $0.closeIdle() } }
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
        let answers = Acknowledgements(Set(0..<entries.count))
        return await withCheckedContinuation { continuation in
            answers.whenComplete { continuation.resume(returning: $0) }
            for entry in entries.values {
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
        for box in entries.values.map(\.box) {
            let asked = await tell(box, within: .seconds(1)) { worker in
                if let current = worker.current { answer.set(question(current)) }
            }
            if asked { break }
        }
        return answer.value
    }

    /// - Returns: Whether the loop has carried out `body` in time.
    private func tell(
        _ box: NIOLoopBoundBox<Worker>,
        within limit: Duration,
        _ body: @escaping @Sendable (Worker) -> Void
    ) async -> Bool {
        let answers = Acknowledgements([0])
        let silent = await withCheckedContinuation { continuation in
            answers.whenComplete { continuation.resume(returning: $0) }
            box.eventLoop.execute {
                body(box.value)
                answers.add(0)
            }
            Task {
                try? await Task.sleep(for: limit)
                answers.giveUp()
            }
        }
        return silent.isEmpty
    }

    func forEach(_ body: @escaping @Sendable (Worker) -> Void) async {
        for box in entries.values.map(\.box) {
            try? await box.eventLoop.submit { body(box.value) }.get()
        }
    }
}

/// An answer that may come too late.
private final class FirstAnswer<Answer: Sendable>: Sendable {
    private let answer = Mutex<Answer?>(nil)

    var value: Answer? { answer.withLock { $0 } }
    func set(_ new: Answer?) { answer.withLock { $0 = $0 ?? new } }
}
