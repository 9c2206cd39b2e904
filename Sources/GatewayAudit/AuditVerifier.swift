import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP

/// Walks the chain from its beginning, or from the last checkpoint, to its end, and compares it with what is kept elsewhere.
struct AuditVerifier {
    let chain: AuditChain
    /// What stands in the head file beside the database.
    let head: AuditHead.Stored
    let evidence: AuditEvidence
    /// Told now and then how many rows are verified, and of how many.
    var onRows: (@Sendable (_ done: Int, _ total: Int) -> Void)?

    /// Ends a walk over the chain at its first fault.
    struct Found: Error {
        let breach: AuditVerification.Breach

        init(_ fault: AuditVerification.Fault, row: Int64? = nil, _ explanation: String) {
            breach = AuditVerification.Breach(fault: fault, row: row, explanation: explanation)
        }
    }

    func verify(_ database: Database) throws -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        result.isCopy = evidence.isCopy
        do {
            try verifyTables(database)
            try verifyKey(database)
            let start = try verifyCheckpoints(database)
            result.prunedTo = start.id
            let own = Result { try ownMark() }
            let others = Result { try evidence.marks(for: chain) }
            var marks = AuditMarks(((try? own.get()) ?? []) + ((try? others.get()) ?? []))
            defer { result.compared = marks.compared }
            var indices = try AuditIndex.verified.filter { try AuditSchema.hasIndex($0, in: database) }.map {
                IndexCheck($0)
            }
            let end = try verifyRows(database, after: start, &marks, &indices, &result)
            // After the rows, so that these are told of first.
            _ = try own.get() + others.get()
            try verifyEnd(at: end, &marks)
            try verifyGuards(database)
            try verifyViews(database)
            for index in indices { try index.verify(database) }
        } catch let found as Found {
            result.breach = found.breach
        }
        return result
    }

    func verifyKey(_ database: Database) throws {
        let check = try AuditNotes.keyCheck(in: database)
        guard check == chain.keyCheck else {
            // The head file proves that the key is the right one, so the note of it was edited.
            if case .head(let head) = head, head.isAuthentic(for: chain) {
                throw Found(.changed, "the note of the key that the log was written with was changed")
            }
            throw Found(
                .foreignKey,
                "it was written with another installation key, or replaced as a whole; verify it with the key file that "
                    + "belongs to it"
            )
        }
    }

    private func verifyCheckpoints(_ database: Database) throws -> ChainWalk.Position {
        var last = ChainWalk.Position(id: 0, hash: AuditChain.genesis)
        var link = ChainLink(.checkpoint, columns: 4, after: AuditChain.genesis, chain: chain)
        var next: Int64 = 1
        let sql = Self.selection(AuditSchema.checkpointColumns, of: "audit_checkpoints")
        try StatementRow.forEach(of: sql, in: database) { row in
            guard link.follow(row) == .fits, row.kind(at: 0) == .integer, row.integer(at: 0) == next,
                row.kind(at: 2) == .integer, row.integer(at: 2) > last.id, let hash = row.text(at: 3)
            else {
                throw Found(.checkpointChanged, "checkpoint \(next), which records what retention removed, was changed")
            }
            last = ChainWalk.Position(id: row.integer(at: 2), hash: hash)
            next += 1
        }
        return last
    }

    private func verifyRows(
        _ database: Database,
        after start: ChainWalk.Position,
        _ marks: inout AuditMarks,
        _ indices: inout [IndexCheck],
        _ result: inout AuditVerification
    ) throws -> Int64 {
        var walk = ChainWalk(after: start, chain: chain)
        try marks.pass(start)
        let sql = Self.selection(AuditSchema.allColumns, of: "token_events", more: IndexCheck.clientRequestID)
        let last = onRows == nil ? nil : try Int64.fetchOne(database, sql: "SELECT max(id) FROM token_events")
        // Numbers that somebody has changed must not trap.
        let total = Int((last ?? 0) &- start.id)
        try StatementRow.forEach(of: sql, in: database) { row in
            try walk.step(to: row)
            if result.rows & 1023 == 0 { onRows?(result.rows, total) }
            for index in indices.indices { indices[index].add(row) }
            if walk.id >= marks.next { try marks.pass(walk.position) }
            if walk.id == start.id &+ 1 { noteLoss(row, &result) }
            result.rows += 1
            result.firstRow = result.firstRow ?? walk.id
            result.lastRow = walk.id
        }
        return walk.id
    }

    /// The first row tells when no rows were removed before it, but lost.
    private func noteLoss(_ row: borrowing StatementRow, _ result: inout AuditVerification) {
        guard row.text(at: 2) == TokenEvent.Name.auditRecreated.rawValue else { return }
        (result.lostTo, result.lostAt) = (row.integer(at: 0) &- 1, row.text(at: 1))
        result.prunedTo = 0
    }

    /// - Parameter more: An expression for one more column.
    private static func selection(_ columns: [String], of table: String, more: String? = nil) -> String {
        let values = columns.map { "\"\($0)\"" } + [more].compactMap(\.self)
        return "SELECT \(values.joined(separator: ", ")) FROM \(table) NOT INDEXED ORDER BY id"
    }

    func ownMark() throws -> [AuditMark] {
        switch head {
        // See verifyEnd: an empty log, and a copy, may be without.
        case .missing: return []
        case .unreadable:
            throw Found(.headChanged, "the head file is damaged, so rows may have been cut off the end")
        case .head(let head):
            guard head.isAuthentic(for: chain) else { throw Found(.headChanged, "the head file was changed") }
            return [AuditMark(.head, id: head.id, hash: head.hash)]
        }
    }

    func verifyEnd(at end: Int64, _ marks: inout AuditMarks) throws {
        if head == .missing, !evidence.isCopy, end > 0 {
            throw Found(.headMissing, "the head file is missing, so rows may have been cut off the end")
        }
        try marks.end(at: end)
    }

    /// Before anything is read: a view may have no end.
    private func verifyTables(_ database: Database) throws {
        guard let name = try AuditSchema.replacedTable(in: database) else { return }
        throw Found(.replaced, "\(name) is no longer a table: something else was put in its place")
    }

    private func verifyViews(_ database: Database) throws {
        guard let name = try AuditSchema.replacedView(in: database) else { return }
        throw Found(
            .replaced,
            "all rows fit, but the view \(name) was replaced, so who read it may have read something else; the gateway makes "
                + "it anew when it starts"
        )
    }

    /// The texts, not only the names: a trigger of the same name may do something else.
    private func verifyGuards(_ database: Database) throws {
        var missing = AuditSchema.guards
        let present = try Row.fetchAll(database, sql: "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        for values in present.map({ Array($0.databaseValues) }) {
            let name = String.fromDatabaseValue(values[0]) ?? ""
            let shown = SafeText.singleLine(name)
            guard let expected = missing.removeValue(forKey: name) else {
                throw Found(.unguarded, "all rows fit, but the gateway did not make the trigger \(shown)")
            }
            guard String.fromDatabaseValue(values[1]) == expected else {
                throw Found(
                    .unguarded,
                    "all rows fit, but the trigger \(shown) was replaced: the table was open to edits"
                )
            }
        }
        if let name = missing.keys.min() {
            throw Found(.unguarded, "all rows fit, but the trigger \(name) was dropped: the table was open to edits")
        }
    }
}

extension AuditVerifier {
    /// Walks the chain over the newest rows, to the exported head. The row before them is taken as it is.
    func verifyTail(_ database: Database, rows count: Int) throws -> AuditVerification {
        var result = AuditVerification(rows: 0, prunedTo: 0)
        do {
            try verifyTables(database)
            try verifyKey(database)
            try verifyTail(database, rows: count, &result)
        } catch let found as Found {
            result.breach = found.breach
        }
        return result
    }

    private func verifyTail(_ database: Database, rows count: Int, _ result: inout AuditVerification) throws {
        let start = try start(ofNewest: count, in: database)
        var walk = ChainWalk(after: start, chain: chain)
        // What lies before these rows was not looked at.
        var marks = AuditMarks(try ownMark().filter { $0.id > start.id })
        try StatementRow.forEach(
            of: "SELECT \(AuditSchema.columnList) FROM \(AuditSchema.rows) WHERE id > ? ORDER BY id",
            arguments: [start.id],
            in: database
        ) { row in
            try walk.step(to: row)
            if walk.id >= marks.next { try marks.pass(walk.position) }
            result.rows += 1
            result.firstRow = result.firstRow ?? walk.id
            result.lastRow = walk.id
        }
        try verifyEnd(at: walk.id, &marks)
    }

    /// Where the first of these rows says that it is linked to.
    private func start(ofNewest count: Int, in database: Database) throws -> ChainWalk.Position {
        let row = try Row.fetchOne(
            database,
            sql: """
                SELECT id, previous_hash FROM \(AuditSchema.rows)
                WHERE id > (SELECT coalesce(max(id), 0) FROM \(AuditSchema.rows)) - ? ORDER BY id LIMIT 1
                """,
            arguments: [count]
        )
        guard let values = row.map({ Array($0.databaseValues) }), let id = Int64.fromDatabaseValue(values[0]) else {
            return ChainWalk.Position(id: 0, hash: AuditChain.genesis)
        }
        return ChainWalk.Position(id: id &- 1, hash: String.fromDatabaseValue(values[1]) ?? "")
    }
}

/// Compares an index of events with the rows. Commands find rows by it, so it has to hold each row that has a value there, once and in
/// order.
private struct IndexCheck {
    /// What stands behind the columns of a row: its `client_request_id`, as the table works it out. The definition of that column is not
    /// relied on, because it could have been replaced.
    static let clientRequestID = """
        CASE WHEN instr(detail, 'client_request_id') > 0 AND json_valid(detail)
        THEN json_extract(detail, '$.client_request_id') END
        """

    private let index: AuditIndex
    /// The key's columns, without the row number.
    private let columns: [String]
    /// Where the columns stand in a row.
    private let places: [Int]
    private var rows = IndexEntries()

    init(_ index: AuditIndex) {
        self.index = index
        let key = index.columns.prefix { $0 != ")" }.dropFirst().split(separator: ", ").map(String.init)
        columns = key.filter { $0 != "id" }
        places = columns.map { AuditSchema.allColumns.firstIndex(of: $0) ?? AuditSchema.allColumns.count }
    }

    mutating func add(_ row: borrowing StatementRow) { rows.add(row, places) }

    /// - Throws: ``AuditVerifier/Found`` if the index does not hold the rows that were added.
    func verify(_ database: Database) throws {
        let key = columns.joined(separator: ", ")
        let places = Array(1...columns.count)
        var entries = IndexEntries()
        try StatementRow.forEach(
            of: """
                SELECT id, \(key) FROM \(index.table) INDEXED BY \(index.name)
                WHERE \(columns[0]) IS NOT NULL ORDER BY \(key), id
                """,
            in: database
        ) { entries.add($0, places, isOrdered: true) }
        guard entries == rows else {
            throw AuditVerifier.Found(
                .indexChanged,
                "all rows fit, but the index \(index.name) does not hold each of them, so `audit query` may leave some out; "
                    + "drop it with sqlite3, and the gateway makes it anew"
            )
        }
    }
}

/// What an index has to hold, or what it holds: the same where every row with a value has one entry, in the right place.
///
/// The sum is keyed by the process, so nobody can choose entries that have the same one.
private struct IndexEntries: Equatable {
    private var count = 0
    private var sum = 0
    private var isInOrder = true
    private var key: [UInt8] = []
    private var last: (key: [UInt8], id: Int64) = ([], .min)

    static func == (lhs: Self, rhs: Self) -> Bool {
        lhs.count == rhs.count && lhs.sum == rhs.sum && lhs.isInOrder && rhs.isInOrder
    }

    /// - Parameters:
    ///   - row: Its first column is the number of the row.
    ///   - columns: Those of the key. Nothing looks for a row without a value in one of them.
    ///   - isOrdered: Whether rows come in the order of the key.
    mutating func add(_ row: borrowing StatementRow, _ columns: [Int], isOrdered: Bool = false) {
        key.removeAll(keepingCapacity: true)
        for column in columns {
            guard row.kind(at: column) == .text else { return }
            row.withBytes(at: column, of: .text) { bytes in
                unsafe bytes.withUnsafeBytes { unsafe key.append(contentsOf: $0) }
            }
            // The log has no texts with a NUL: their control characters are escaped.
            key.append(0)
        }
        let number = row.integer(at: 0)
        var hasher = Hasher()
        hasher.combine(number)
        unsafe key.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        count += 1
        sum &+= hasher.finalize()
        guard isOrdered else { return }
        let follows = key == last.key ? number > last.id : last.key.lexicographicallyPrecedes(key)
        isInOrder = isInOrder && follows
        last.id = number
        swap(&last.key, &key)
    }
}

/// A row that the log has to hold, because something outside of the database names it.
package struct AuditMark: Hashable, Sendable {
    package enum Source: String, Hashable, Sendable, Codable {
        /// The head file beside the database.
        case head
        /// The head file of the log itself, when a copy is verified.
        case logHead = "log_head"
        /// Where `audit.anchor` sends heads.
        case anchor
        /// The entry of a chain in the shared database.
        case shipped
        /// `--head`.
        case argument
    }

    let source: Source
    let id: Int64
    let hash: String
    /// When it was sent to the anchor.
    let at: UnixTime?
    /// A copy may end before it.
    let mayLieBeyondTheEnd: Bool

    init(_ source: Source, id: Int64, hash: String, at: UnixTime? = nil, mayLieBeyondTheEnd: Bool = false) {
        self.source = source
        self.id = id
        self.hash = hash
        self.at = at
        self.mayLieBeyondTheEnd = mayLieBeyondTheEnd
    }

    /// The row is there, and is another one.
    var contradiction: AuditVerifier.Found {
        switch source {
        case .head: .init(.changed, row: id, "row \(id) is not the one that the head file names")
        case .logHead: .init(.changed, row: id, "row \(id) is not the one that the head file of the log names")
        case .shipped: .init(.changed, row: id, "row \(id) is not the one that audit_chain names")
        case .anchor, .argument:
            .init(.rolledBack, row: id, "row \(id) is not the one that \(words); the log \(Self.putBack), and went on")
        }
    }

    /// The log ends before it.
    func absence(behind end: Int64) -> AuditVerifier.Found {
        switch source {
        case .head, .logHead, .shipped:
            let range = id == end &+ 1 ? "row \(id) was" : "rows \(end &+ 1) to \(id) were"
            return .init(.cutTail, row: end &+ 1, "\(range) cut off the end")
        case .anchor, .argument:
            return .init(
                .rolledBack,
                row: end &+ 1,
                "the log ends before row \(id), which \(words); it \(Self.putBack)"
            )
        }
    }

    private var words: String {
        guard source == .anchor else { return "--head names" }
        return at.map { "was sent to the anchor at \($0.rfc3339)" } ?? "was sent to the anchor"
    }

    private static let putBack = "was put back to an earlier state"
}

/// Compares marks with the rows, as these are passed in order.
struct AuditMarks {
    /// By row.
    private var ahead: ArraySlice<AuditMark>
    private var newest: [AuditMark.Source: AuditVerification.NamedRow] = [:]

    init(_ marks: [AuditMark]) { ahead = marks.sorted { $0.id < $1.id }[...] }

    /// The row of the next mark; a row before it need not be looked at.
    var next: Int64 { ahead.first?.id ?? .max }

    /// - Parameter position: A row that fits, or the last one that retention removed.
    mutating func pass(_ position: ChainWalk.Position) throws(AuditVerifier.Found) {
        while let mark = ahead.first, mark.id <= position.id {
            ahead.removeFirst()
            let isHere = mark.id == position.id
            guard !isHere || mark.hash == position.hash else { throw mark.contradiction }
            note(mark, isCompared: isHere)
        }
    }

    mutating func end(at end: Int64) throws(AuditVerifier.Found) {
        for mark in ahead {
            guard mark.mayLieBeyondTheEnd else { throw mark.absence(behind: end) }
            note(mark, isCompared: false)
        }
        ahead = []
    }

    var compared: [AuditVerification.NamedRow] { newest.values.sorted { $0.source.rawValue < $1.source.rawValue } }

    private mutating func note(_ mark: AuditMark, isCompared: Bool) {
        newest[mark.source] = AuditVerification.NamedRow(source: mark.source, row: mark.id, isCompared: isCompared)
    }
}
