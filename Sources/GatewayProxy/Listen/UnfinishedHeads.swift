package import GatewayHTTP
import Synchronization

/// The connections of one worker whose request head is not whole yet, the oldest first.
///
/// Belongs to the thread of its worker. Every call takes constant time, except that ``demand()`` looks at each worker once
/// when the memory is exceeded.
package struct UnfinishedHeads<Connection>: ~Copyable {
    /// What to do so that the memory keeps to its limit.
    package enum Demand {
        case nothing
        /// Refuse the head of this connection with ``HeadMemory/problem``, and close the connection. Its bytes are released already.
        case end(Connection)
        /// Another worker has the oldest head: have it call ``UnfinishedHeads/demand()``.
        case ask(worker: Int)
    }

    /// The place of one head. Once that head has ended, calls with it do nothing.
    package struct Place: Hashable, Sendable {
        fileprivate let index: Int
        fileprivate let serial: UInt64
    }

    private struct Entry {
        /// nil while the entry is free.
        var connection: Connection?
        var serial: UInt64
        var began: MonotonicTime
        var bytes: Int
        var previous: Int?
        var next: Int?
    }

    private let memory: HeadMemory
    private let worker: Int
    private var entries: [Entry] = []
    private var free: [Int] = []
    private var first: Int?
    private var last: Int?
    private var serial: UInt64 = 0

    /// - Parameter worker: Its index among the workers of `memory`.
    package init(worker: Int, memory: HeadMemory) {
        self.worker = worker
        self.memory = memory
    }

    // MARK: Heads

    /// A head has arrived in part. Call ``demand()`` afterwards.
    ///
    /// - Parameter now: Not earlier than in any call before.
    package mutating func begin(_ connection: Connection, bytes: Int, at now: MonotonicTime) -> Place {
        serial += 1
        let entry = Entry(connection: connection, serial: serial, began: now, bytes: bytes, previous: last, next: nil)
        let index: Int
        if let reused = free.popLast() {
            index = reused
            entries[index] = entry
        } else {
            index = entries.count
            entries.append(entry)
        }
        if let last { entries[last].next = index } else { first = index }
        last = index
        memory.add(bytes)
        publishOldest()
        checkInvariants()
        return Place(index: index, serial: serial)
    }

    /// More of the head has arrived, and it is still not whole. Call ``demand()`` afterwards.
    mutating func grow(_ place: Place, by bytes: Int) {
        guard isCurrent(place) else { return }
        entries[place.index].bytes += bytes
        memory.add(bytes)
    }

    /// The head is whole or refused, or its connection has ended.
    package mutating func end(_ place: Place) {
        guard isCurrent(place) else { return }
        remove(place.index)
    }

    // MARK: The limit

    /// What the limit demands now. To be repeated until it demands nothing, or asks another worker.
    package mutating func demand() -> Demand {
        let own = memory.workers[worker]
        own.isAsked.store(false, ordering: .relaxed)
        guard memory.isExceeded, let holder = memory.workerWithOldest(preferring: worker) else { return .nothing }
        guard holder == worker else {
            let wasAsked = memory.workers[holder].isAsked.exchange(true, ordering: .relaxed)
            return wasAsked ? .nothing : .ask(worker: holder)
        }
        guard let first, let connection = entries[first].connection else { return .nothing }
        remove(first)
        return .end(connection)
    }

    // MARK: List

    private func isCurrent(_ place: Place) -> Bool {
        entries[place.index].serial == place.serial && entries[place.index].connection != nil
    }

    private mutating func remove(_ index: Int) {
        let entry = entries[index]
        entries[index].connection = nil
        if let previous = entry.previous { entries[previous].next = entry.next } else { first = entry.next }
        if let next = entry.next { entries[next].previous = entry.previous } else { last = entry.previous }
        free.append(index)
        memory.release(entry.bytes)
        publishOldest()
        checkInvariants()
    }

    private func checkInvariants() {
        assert((first == nil) == (last == nil), "The list has a start without an end.")
        assert((first == nil) == (free.count == entries.count), "A head was lost, or its entry became free twice.")
        assert(first.map { isListed($0) && entries[$0].previous == nil } ?? true, "The oldest head is not the first.")
        assert(last.map { isListed($0) && entries[$0].next == nil } ?? true, "The newest head is not the last.")
        assert(free.last.map { !isListed($0) } ?? true, "The entry of a head is free.")
        assert(isLastLinked, "The newest head is not linked to the one before it.")
    }

    private func isListed(_ index: Int) -> Bool { entries[index].connection != nil }

    private var isLastLinked: Bool {
        guard let last, let previous = entries[last].previous else { return first == last }
        return entries[previous].next == last
    }

    private func publishOldest() {
        let oldest = first.map { entries[$0].began.nanoseconds } ?? .max
        memory.workers[worker].oldest.store(oldest, ordering: .relaxed)
    }
}

/// The memory of all request heads that are not whole yet (`limits.head_memory`), shared by all workers.
///
/// Each worker keeps the list of its own connections (``UnfinishedHeads``). Shared are only the sum of all bytes and the
/// age of each worker's oldest head. Most heads arrive whole in one read and are never counted.
package final class HeadMemory: Sendable {
    /// What the other workers know of one worker.
    fileprivate final class WorkerState: Sendable {
        /// When its oldest unfinished head began, in monotonic nanoseconds; the maximum without any.
        let oldest = Atomic<Int64>(.max)
        /// Another worker has asked it to end that head, and it has not answered yet.
        let isAsked = Atomic<Bool>(false)
    }

    fileprivate let workers: [WorkerState]
    private let sum = Atomic<Int>(0)
    private let maximum: Atomic<Int>

    package init(limit: Int, workers: Int) {
        self.workers = (0..<workers).map { _ in WorkerState() }
        maximum = Atomic(limit)
    }

    package var bytes: Int { sum.load(ordering: .relaxed) }

    package var limit: Int { maximum.load(ordering: .relaxed) }

    /// After a reload. A head too many is ended when the next one grows.
    func setLimit(_ limit: Int) { maximum.store(limit, ordering: .relaxed) }

    /// Why the oldest head is refused when its memory is needed.
    package var problem: GatewayProblem {
        GatewayProblem(
            .requestTimeout,
            "The head of the request is not whole, and newer requests need its memory"
                + " (limits.head_memory: \(ConfigUnits.text(bytes: limit)))."
        )
    }

    // MARK: For the lists of the workers

    fileprivate var isExceeded: Bool { bytes > limit }

    fileprivate func add(_ bytes: Int) { sum.add(bytes, ordering: .relaxed) }

    fileprivate func release(_ bytes: Int) {
        // These bytes are in the sum, whatever other workers do meanwhile.
        assert(bytes <= self.bytes, "More memory is given back than was taken.")
        sum.subtract(bytes, ordering: .relaxed)
    }

    /// The worker with the oldest head of all; nil where no head is unfinished.
    ///
    /// - Parameter worker: Preferred where several are as old.
    fileprivate func workerWithOldest(preferring worker: Int) -> Int? {
        var found = worker
        var oldest = workers[worker].oldest.load(ordering: .relaxed)
        for (index, state) in workers.enumerated() {
            let age = state.oldest.load(ordering: .relaxed)
            if age < oldest { (found, oldest) = (index, age) }
        }
        return oldest == .max ? nil : found
    }
}
