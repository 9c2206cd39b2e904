/// The newest rows of the audit log in memory, so that readers do not wait for a disk.
package struct RecentEvents: Sendable {
    package static let capacity = 1000
    /// Entries of one answer.
    package static let pageLimit = 500

    /// What there is of the rows that a query asked for, the newest first.
    package struct Page: Hashable, Sendable, Encodable {
        package var events: [AuditEntry]
        /// Whether no other row of the audit log matches.
        package var isComplete: Bool

        package init(events: [AuditEntry], isComplete: Bool) {
            self.events = events
            self.isComplete = isComplete
        }
    }

    /// Ascending ids.
    private var entries: [AuditEntry] = []
    /// Whether rows before the first of ``entries`` may exist.
    private var hasOlder = true

    package init() {}

    /// Adds rows as they are committed; one that is there already is ignored.
    package mutating func add(_ new: [AuditEntry]) {
        // The log was begun anew.
        if let first = new.first, first.id == 1 { entries = [] }
        let last = entries.last?.row ?? .min
        entries += new.filter { $0.row > last }
        trim()
    }

    /// Adds what the log held before the first row was added.
    ///
    /// - Parameter isWhole: Whether the log held no others.
    package mutating func begin(with older: [AuditEntry], isWhole: Bool) {
        let first = entries.first?.row ?? .max
        entries = older.filter { $0.row < first } + entries
        hasOlder = !isWhole
        trim()
    }

    private mutating func trim() {
        defer { assert(entries.count <= Self.capacity + Self.capacity / 4, "More rows are kept than there may be.") }
        // With slack: to move the rest for each new entry would be quadratic.
        guard entries.count > Self.capacity + Self.capacity / 4 else { return }
        entries.removeFirst(entries.count - Self.capacity)
        hasOlder = true
    }

    /// - Parameter id: Only rows with a greater id.
    package func page(_ query: EventQuery, since id: Int64? = nil, limit: Int = pageLimit) -> Page {
        let since = id ?? .min
        var found: [AuditEntry] = []
        var isCut = false
        for entry in entries.reversed() {
            guard entry.row > since else { break }
            guard query.matches(entry) else { continue }
            guard found.count < limit else {
                isCut = true
                break
            }
            found.append(entry)
        }
        return Page(events: found, isComplete: !isCut && reaches(since))
    }

    /// What matches behind a row, the oldest first.
    ///
    /// - Returns: `isWhole` is false when some of them are not in memory any more.
    package func entries(after id: Int64, matching query: EventQuery) -> (entries: [AuditEntry], isWhole: Bool) {
        (entries.filter { $0.row > id && query.matches($0) }, reaches(id))
    }

    private func reaches(_ id: Int64) -> Bool {
        guard hasOlder else { return true }
        guard let first = entries.first?.row else { return false }
        return id >= first - 1
    }
}

extension AuditEntry {
    fileprivate var row: Int64 { id ?? 0 }
}
