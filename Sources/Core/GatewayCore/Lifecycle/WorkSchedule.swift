package enum WorkUrgency: Int, Comparable, Sendable {
    /// Nothing waits for it.
    case background
    /// A request waits.
    case request
    /// A person waits. It begins whatever the limit.
    case command

    package static func < (first: Self, second: Self) -> Bool { first.rawValue < second.rawValue }
}

/// Decides which of many workers goes next: one that was woken or whose time has come.
///
/// Of one group, a bounded number works at a time: an authority that answers slowly delays its own workers and no others.
/// Those of a group go by urgency, then in the order in which they were woken.
package struct WorkSchedule<ID: Hashable & Sendable, Group: Hashable & Sendable>: Sendable {
    private enum Phase {
        case idle
        case queued(WorkUrgency)
        case working
    }

    private struct Worker {
        let group: Group
        var phase = Phase.idle
        /// Woken while it worked: it goes once more.
        var wake: WorkUrgency?
    }

    private struct Members {
        var working = 0
        var commands = FirstInFirstOut<ID>()
        var requests = FirstInFirstOut<ID>()
        var background = FirstInFirstOut<ID>()

        var isWaiting: Bool { !commands.isEmpty || !requests.isEmpty || !background.isEmpty }

        mutating func append(_ id: ID, _ urgency: WorkUrgency) {
            switch urgency {
            case .background: background.append(id)
            case .request: requests.append(id)
            case .command: commands.append(id)
            }
        }

        /// The next one, if the limit lets it begin.
        mutating func removeFirst(limit: Int) -> ID? {
            if let id = commands.removeFirst() { return id }
            guard working < limit else { return nil }
            return requests.removeFirst() ?? background.removeFirst()
        }
    }

    private let limit: Int
    private var workers: [ID: Worker] = [:]
    private var groups: [Group: Members] = [:]
    /// Groups with a queue and with room.
    private var ready: Set<Group> = []
    private var deadlines = DueTimes<ID>()

    /// - Parameter limit: How many of a group work at a time.
    package init(limit: Int) { self.limit = max(1, limit) }

    package var isEmpty: Bool { workers.isEmpty }
    package var count: Int { workers.count }

    /// The earliest time at which a worker is due; nil when none is.
    package var nextDue: MonotonicTime? { deadlines.first }

    package mutating func add(_ id: ID, of group: Group) {
        workers[id] = Worker(group: group)
        enqueue(id, .background)
    }

    package mutating func wake(_ id: ID, _ urgency: WorkUrgency) {
        guard let worker = workers[id] else { return }
        switch worker.phase {
        case .working: workers[id]?.wake = max(urgency, worker.wake ?? urgency)
        case .queued(let earlier) where earlier >= urgency: break
        case .idle, .queued: enqueue(id, urgency)
        }
    }

    /// - Returns: Those that begin to work now.
    package mutating func begin(at now: MonotonicTime) -> [ID] {
        for id in deadlines.removeAll(until: now) {
            guard case .idle? = workers[id]?.phase else { continue }
            enqueue(id, .background)
        }
        var begun: [ID] = []
        for group in ready { begin(of: group, &begun) }
        ready.removeAll(keepingCapacity: true)
        return begun
    }

    /// - Parameter due: When it has something to do again; nil when it has to be woken.
    package mutating func finished(_ id: ID, until due: MonotonicTime?) {
        guard let worker = workers[id], case .working = worker.phase else { return }
        leave(worker.group)
        workers[id]?.phase = .idle
        workers[id]?.wake = nil
        set(due, of: id)
        if let urgency = worker.wake { enqueue(id, urgency) }
    }

    /// It works no more, whatever it did.
    package mutating func remove(_ id: ID) {
        guard let worker = workers.removeValue(forKey: id) else { return }
        deadlines.remove(id)
        if case .working = worker.phase { leave(worker.group) }
        if groups[worker.group].map({ $0.working == 0 && !$0.isWaiting }) == true { groups[worker.group] = nil }
    }

    private mutating func set(_ due: MonotonicTime?, of id: ID) {
        if let due { deadlines.set(due, of: id) } else { deadlines.remove(id) }
    }

    private mutating func enqueue(_ id: ID, _ urgency: WorkUrgency) {
        guard let group = workers[id]?.group else { return }
        workers[id]?.phase = .queued(urgency)
        set(nil, of: id)
        groups[group, default: Members()].append(id, urgency)
        ready.insert(group)
    }

    private mutating func leave(_ group: Group) {
        groups[group]?.working -= 1
        if groups[group]?.isWaiting == true { ready.insert(group) }
    }

    private mutating func begin(of group: Group, _ begun: inout [ID]) {
        guard var members = groups.removeValue(forKey: group) else { return }
        while let id = members.removeFirst(limit: limit) {
            // One that became more urgent stands in two queues.
            guard case .queued? = workers[id]?.phase else { continue }
            workers[id]?.phase = .working
            members.working += 1
            begun.append(id)
        }
        if members.working > 0 || members.isWaiting { groups[group] = members }
    }
}

/// A queue whose first element leaves without moving the others.
private struct FirstInFirstOut<Element: Sendable>: Sendable {
    private var elements: [Element] = []
    private var head = 0

    var isEmpty: Bool { head == elements.count }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func removeFirst() -> Element? {
        guard head < elements.count else { return nil }
        defer {
            head += 1
            if head == elements.count {
                (elements, head) = ([], 0)
            } else if head >= 64, head * 2 > elements.count {
                elements.removeFirst(head)
                head = 0
            }
        }
        return elements[head]
    }
}
