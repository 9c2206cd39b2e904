package import GatewayHTTP

/// Makes few rows of many events: of each key, the first event of a minute is a row, and the rest of that minute are counted in a second row.
///
///     event ─▶ row (1)    event  event  event ──minute over──▶ row (3)    event ─▶ row (1)
///
/// A row that the budget does not allow yet is written later. The number of keys is limited, in all and for each cause, so that one cause
/// leaves room for others. Beyond that an event is counted under a shared key, so every event is in the count of some row.
package struct MergedEvents<Key: Hashable & Sendable, Sample: Sendable>: Sendable {
    package struct Row: Sendable {
        package let key: Key
        /// The sample of one of the events.
        package let sample: Sample
        /// How many events the row stands for.
        package let count: Int
        /// Ids of some of them, the oldest first.
        package let ids: [String]
    }

    private struct Entry {
        let since: MonotonicTime
        let cause: String
        /// Its first event is in a row.
        var isWritten: Bool
        /// The sample of the first event that is in no row yet.
        var sample: Sample?
        var count = 0
        var ids: [String] = []
    }

    package static var interval: Duration { .seconds(60) }
    /// The maximum number of ids in a row.
    static var maximumIDs: Int { 15 }

    private let limit: Int
    private let limitPerCause: Int
    private let overflow: @Sendable (Key) -> Key
    private var entries: [Key: Entry] = [:]
    /// The keys that are in ``entries``, the oldest first.
    private var order: [Key] = []
    /// How many keys of each cause are in ``entries``.
    private var places: [String: Int] = [:]

    /// - Parameters:
    ///   - limit: The maximum number of keys at one time, without those that `overflow` makes.
    ///   - limitPerCause: The maximum number of keys of one cause; nil is `limit`.
    ///   - overflow: Makes the shared key of an event for whose own key there is no room. It makes few different ones.
    package init(limit: Int, limitPerCause: Int? = nil, overflow: @escaping @Sendable (Key) -> Key) {
        self.limit = limit
        self.limitPerCause = limitPerCause ?? limit
        self.overflow = overflow
    }

    /// - Parameter cause: Whose part of the budget a row takes.
    /// - Returns: The row to write now, if there is one.
    package mutating func add(
        _ key: Key,
        for cause: String,
        id: @autoclosure () -> String,
        at now: MonotonicTime,
        budget: inout RowBudget,
        sample: @autoclosure () -> Sample
    ) -> Row? {
        defer { checkInvariants() }
        let key = entries[key] == nil && !hasPlace(for: cause) ? overflow(key) : key
        guard entries[key] == nil else {
            count(key, id: id, sample: sample)
            return nil
        }
        let isAllowed = budget.spend(for: cause, at: now)
        entries[key] = Entry(since: now, cause: cause, isWritten: isAllowed)
        order.append(key)
        places[cause, default: 0] += 1
        guard isAllowed else {
            count(key, id: id, sample: sample)
            return nil
        }
        return Row(key: key, sample: sample(), count: 1, ids: [id()])
    }

    private func hasPlace(for cause: String) -> Bool {
        entries.count < limit && places[cause, default: 0] < limitPerCause
    }

    private mutating func leave(_ key: Key) {
        guard let cause = entries.removeValue(forKey: key)?.cause else { return }
        let rest = places[cause, default: 1] - 1
        places[cause] = rest > 0 ? rest : nil
    }

    private mutating func count(_ key: Key, id: () -> String, sample: () -> Sample) {
        let isFirst = entries[key]?.count == 0
        let newID = entries[key]?.ids.count ?? 0 < Self.maximumIDs ? id() : nil
        let newSample = isFirst ? sample() : nil
        entries[key]?.count += 1
        if let newID { entries[key]?.ids.append(newID) }
        if let newSample { entries[key]?.sample = newSample }
    }

    /// The rows that are due and that the budget allows. To be asked every second.
    package mutating func due(at now: MonotonicTime, budget: inout RowBudget) -> [Row] {
        var (rows, over): ([Row], [Key]) = ([], [])
        order.removeAll { key in
            guard let entry = entries[key] else { return true }
            let isOver = now - entry.since >= Self.interval
            guard isOver || !entry.isWritten else { return false }
            if entry.count > 0 {
                guard budget.spend(for: entry.cause, at: now) else { return false }
                if let row = Self.row(key, entry) { rows.append(row) }
            }
            guard isOver else {
                entries[key] = Entry(since: entry.since, cause: entry.cause, isWritten: true)
                return false
            }
            over.append(key)
            return true
        }
        for key in over { leave(key) }
        checkInvariants()
        return rows
    }

    private func checkInvariants() {
        assert(entries.count == order.count, "A key was lost, or is in the order twice.")
        assert(places.count <= entries.count, "A cause has a place without a key.")
        assert(
            entries.count > 16 || places.values.reduce(0, +) == entries.count,
            "The keys of each cause do not add up to all keys."
        )
    }

    /// All that is in no row yet, whatever the budget says: nothing comes after it.
    package mutating func rest() -> [Row] {
        defer { (entries, order, places) = ([:], [], [:]) }
        return order.compactMap { key in entries[key].flatMap { Self.row(key, $0) } }
    }

    private static func row(_ key: Key, _ entry: Entry) -> Row? {
        entry.sample.map { Row(key: key, sample: $0, count: entry.count, ids: entry.ids) }
    }
}

/// Limits how many rows are written in one second, in all and for each cause, so that one cause leaves room for others.
package struct RowBudget: Sendable {
    package static let perSecond = 10
    static let perCause = 5

    private var second: Int64 = 0
    private var spent: [String: Int] = [:]

    package init() {}

    /// - Parameter cause: The client, or the address that requests come from.
    /// - Returns: Whether a row may be written now.
    package mutating func spend(for cause: String, at now: MonotonicTime) -> Bool {
        let current = now.nanoseconds / 1_000_000_000
        if current != second {
            second = current
            spent = [:]
        }
        let own = spent[cause] ?? 0
        guard own < Self.perCause, spent.values.reduce(0, +) < Self.perSecond else { return false }
        spent[cause] = own + 1
        assert(spent.values.allSatisfy { $0 <= Self.perCause }, "A cause has more rows than a second allows it.")
        return true
    }
}

/// Limits how many events of one kind are recorded individually in a second. Otherwise a client could fill the disk.
package struct EventBudget: Sendable {
    package static let perSecond = 10

    private var second: Int64 = 0
    private var left = perSecond
    private var unrecorded = 0

    package init() {}

    /// - Returns: How many were not recorded since the last one that was; nil when this one is not to be recorded.
    package mutating func spend(at now: MonotonicTime) -> Int? {
        let current = now.nanoseconds / 1_000_000_000
        if current != second {
            second = current
            left = Self.perSecond
        }
        guard left > 0 else {
            unrecorded += 1
            return nil
        }
        left -= 1
        defer { unrecorded = 0 }
        return unrecorded
    }
}
