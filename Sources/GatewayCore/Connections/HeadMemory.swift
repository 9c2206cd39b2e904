import Synchronization

/// The memory of all request heads that are not whole yet (`limits.head_memory`), shared by all workers.
///
/// Each worker keeps the list of its own connections (``UnfinishedHeads``). Shared are only the sum of all bytes and the
/// age of each worker's oldest head. Most heads arrive whole in one read and are never counted.
package final class HeadMemory: Sendable {
    /// What the other workers know of one worker.
    final class WorkerState: Sendable {
        /// When its oldest unfinished head began, in monotonic nanoseconds; the maximum without any.
        let oldest = Atomic<Int64>(.max)
        /// Another worker has asked it to end that head, and it has not answered yet.
        let isAsked = Atomic<Bool>(false)
    }

    let workers: [WorkerState]
    private let sum = Atomic<Int>(0)
    private let maximum: Atomic<Int>

    package init(limit: Int, workers: Int) {
        self.workers = (0..<workers).map { _ in WorkerState() }
        maximum = Atomic(limit)
    }

    package var bytes: Int { sum.load(ordering: .relaxed) }

    package var limit: Int { maximum.load(ordering: .relaxed) }

    /// After a reload. A head too many is ended when the next one grows.
    package func setLimit(_ limit: Int) { maximum.store(limit, ordering: .relaxed) }

    /// How the oldest head is answered when its memory is needed.
    package var problem: GatewayProblem {
        GatewayProblem(
            .requestTimeout,
            "The head of the request is not whole, and newer requests need its memory"
                + " (limits.head_memory: \(ConfigUnits.text(bytes: limit)))."
        )
    }

    // MARK: For the lists of the workers

    var isExceeded: Bool { bytes > limit }

    func add(_ bytes: Int) { sum.add(bytes, ordering: .relaxed) }

    func release(_ bytes: Int) {
        // They are in the sum, whatever other workers do meanwhile.
        assert(bytes <= self.bytes, "More memory is given back than was taken.")
        sum.subtract(bytes, ordering: .relaxed)
    }

    /// The worker with the oldest head of all; nil where no head is unfinished.
    ///
    /// - Parameter worker: Preferred where several are as old.
    func workerWithOldest(preferring worker: Int) -> Int? {
        var found = worker
        var oldest = workers[worker].oldest.load(ordering: .relaxed)
        for (index, state) in workers.enumerated() {
            let age = state.oldest.load(ordering: .relaxed)
            if age < oldest { (found, oldest) = (index, age) }
        }
        return oldest == .max ? nil : found
    }
}
