import GatewayHTTP

enum WorkUrgency: Int, Comparable, Sendable {
    /// Nothing waits for it.
    case background
    /// A request waits.
    case request
    /// A person waits. It begins whatever the limit.
    case command

    static func < (first: Self, second: Self) -> Bool { first.rawValue < second.rawValue }
}

/// Decides which of many workers goes next: one that was woken or whose time has come.
///
/// At most a limited number of one group works at a time: a server that answers slowly delays its own workers and no others. So does
/// a bounded number of all, apart from the few that each group may have in any case. Groups that wait for others take turns.
/// Those of a group go by urgency, then in the order in which they were woken.
struct WorkSchedule<ID: Hashable & Sendable, Group: Hashable & Sendable>: Sendable {
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
        /// It waits for other groups.
        var isPostponed = false
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

        /// The next one, if it may begin.
        mutating func removeFirst(hasRoom: Bool) -> ID? {
            if let id = commands.removeFirst() { return id }
            guard hasRoom else { return nil }
            return requests.removeFirst() ?? background.removeFirst()
        }
    }

    private let limits: WorkLimits
    /// How many are at work, over all groups.
    private var working = 0
    private var workers: [ID: Worker] = [:]
    private var groups: [Group: Members] = [:]
    /// Groups with a queue that may have room.
    private var ready: Set<Group> = []
    /// Groups with a queue that wait until fewer of all groups work.
    private var postponed = FirstInFirstOut<Group>()
    private var deadlines = DueTimes<ID>()

    init(_ limits: WorkLimits) { self.limits = limits }

    /// - Parameter limit: How many of a group work at a time.
    init(limit: Int) { self.init(WorkLimits(group: limit)) }

    var isEmpty: Bool { workers.isEmpty }
    var count: Int { workers.count }

    /// The earliest time at which a worker is due; nil when none is.
    var nextDue: MonotonicTime? { deadlines.first }

    mutating func add(_ id: ID, of group: Group) {
        workers[id] = Worker(group: group)
        enqueue(id, .background)
        checkInvariants(of: group)
    }

    mutating func wake(_ id: ID, _ urgency: WorkUrgency) {
        guard let worker = workers[id] else { return }
        switch worker.phase {
        case .working: workers[id]?.wake = max(urgency, worker.wake ?? urgency)
        case .queued(let earlier) where earlier >= urgency: break
        case .idle, .queued: enqueue(id, urgency)
        }
    }

    /// - Returns: Those that begin to work now.
    mutating func begin(at now: MonotonicTime) -> [ID] {
        for id in deadlines.removeAll(until: now) {
            guard case .idle? = workers[id]?.phase else { continue }
            enqueue(id, .background)
        }
        var begun: [ID] = []
        while working < limits.all, let group = postponed.removeFirst() {
            groups[group]?.isPostponed = false
            begin(of: group, &begun)
        }
        for group in ready { begin(of: group, &begun) }
        ready.removeAll(keepingCapacity: true)
        checkInvariants()
        return begun
    }

    /// - Parameter due: When it has something to do again; nil when it has to be woken.
    mutating func finished(_ id: ID, until due: MonotonicTime?) {
        guard let worker = workers[id], case .working = worker.phase else { return }
        leave(worker.group)
        workers[id]?.phase = .idle
        workers[id]?.wake = nil
        set(due, of: id)
        if let urgency = worker.wake { enqueue(id, urgency) }
        checkInvariants(of: worker.group)
    }

    /// Removes a worker, whatever it was doing.
    mutating func remove(_ id: ID) {
        guard let worker = workers.removeValue(forKey: id) else { return }
        deadlines.remove(id)
        if case .working = worker.phase { leave(worker.group) }
        if groups[worker.group].map({ $0.working == 0 && !$0.isWaiting }) == true { groups[worker.group] = nil }
        checkInvariants(of: worker.group)
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
        assert(groups[group].map { $0.working > 0 } ?? false, "A worker ends its work in a group in which none works.")
        groups[group]?.working -= 1
        working -= 1
        if groups[group]?.isWaiting == true { ready.insert(group) }
    }

    private mutating func begin(of group: Group, _ begun: inout [ID]) {
        guard var members = groups.removeValue(forKey: group) else { return }
        while let id = members.removeFirst(hasRoom: limits.hasRoom(beside: members.working, of: working)) {
            // One that became more urgent stands in two queues.
            guard case .queued? = workers[id]?.phase else { continue }
            workers[id]?.phase = .working
            members.working += 1
            working += 1
            begun.append(id)
        }
        if members.isWaiting, members.working < limits.group, !members.isPostponed {
            members.isPostponed = true
            postponed.append(group)
        }
        if members.working > 0 || members.isWaiting { groups[group] = members }
        checkInvariants(of: group)
    }

    // MARK: Invariants

    /// - Parameter group: One that has changed. There may be very many.
    private func checkInvariants(of group: Group? = nil) {
        assert((0...workers.count).contains(working), "More work than there are.")
        assert(
            group.flatMap { groups[$0] }.map { (0...working).contains($0.working) } ?? true,
            "More of a group work than of all groups."
        )
        assert(
            groups.count > 16 || groups.values.reduce(0) { $0 + $1.working } == working,
            "Those that work in each group do not add up to all that work."
        )
    }
}

/// How many work at a time: see ``WorkSchedule``.
struct WorkLimits: Hashable, Sendable {
    /// How many of one group may be at work.
    let group: Int
    /// How many of all groups together may be at work.
    let all: Int
    /// How many of one group may be at work while ``all`` are: slow groups must not stop the others.
    let reserved: Int

    init(group: Int, all: Int = .max, reserved: Int = 1) {
        self.group = max(1, group)
        self.all = max(1, all)
        self.reserved = min(max(1, reserved), self.group)
    }

    /// Whether one more of a group may begin.
    ///
    /// - Parameters:
    ///   - working: How many of the group work.
    ///   - total: How many of all groups work.
    func hasRoom(beside working: Int, of total: Int) -> Bool { working < (total < all ? group : reserved) }
}
