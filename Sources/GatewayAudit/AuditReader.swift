import Foundation
import GRDB
package import GatewayEvents
import GatewayFiles
package import GatewayHTTP

/// Reads the audit log through a connection that cannot write; works while the gateway runs and while it does not.
package final class AuditReader: Sendable {
    let path: String
    private let queue = DispatchQueue(label: "audit-reader")

    package init(path: String) { self.path = path }

    /// The newest `count` rows, oldest first.
    package func tail(last count: Int) async throws(AuditError) -> [AuditRow] {
        try await query(AuditFilter(limit: count))
    }

    /// The rows that match, oldest first, all in memory: give a limit, or use ``forEach(_:_:)``.
    package func query(_ filter: AuditFilter) async throws(AuditError) -> [AuditRow] {
        try await read { database in
            var rows: [AuditRow] = []
            try Self.visit(filter, in: database) { rows.append($0) }
            return rows
        }
    }

    /// The newest rows, newest first, that `isMeant` picks.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows that are looked at.
    ///   - isEnough: Ends the search at this row, which is left out.
    /// - Returns: `isWhole` says whether every row was looked at; otherwise `endedBefore` is the first row that was not.
    package func newest(
        lookingAt limit: Int,
        until isEnough: @escaping @Sendable (AuditRow) -> Bool = { _ in false },
        picking isMeant: @escaping @Sendable (AuditRow) -> Bool = { _ in true }
    ) async throws(AuditError) -> (rows: [AuditRow], isWhole: Bool, endedBefore: Int64?) {
        try await read { database in
            var selection = Self.events
            selection.isNewestFirst = true
            selection.limit = limit + 1
            let cursor = try selection.cursor(in: database)
            var rows: [AuditRow] = []
            var seen = 0
            while let values = try cursor.next() {
                seen += 1
                // A row that was changed is not shown; `audit verify` tells of it.
                guard let row = AuditRow(Array(values.databaseValues)) else { continue }
                if seen > limit || isEnough(row) { return (rows, false, row.id) }
                if isMeant(row) { rows.append(row) }
            }
            return (rows, true, nil)
        }
    }

    /// The time of the oldest event; nil for a log without events. What happened before it cannot be told.
    package func beginning() async throws(AuditError) -> String? {
        try await read { try String.fetchOne($0, sql: "SELECT at FROM \(AuditSchema.rows) ORDER BY id LIMIT 1") }
    }

    /// Hands over the rows that match, oldest first, one at a time and all from one state of the log.
    ///
    /// - Parameter body: Runs on the reader's own thread; what it throws ends the reading and is thrown.
    /// - Returns: How many rows match.
    @discardableResult
    package func forEach(
        _ filter: AuditFilter,
        _ body: @escaping @Sendable (AuditRow) throws -> Void
    ) async throws -> Int {
        try await hand(over: body) { try Self.visit(filter, in: $0, $1) }
    }

    /// The same for the requests of `audit.usage: request`; `limit` and `event` of the filter mean nothing here.
    @discardableResult
    package func forEachRequest(
        _ filter: AuditFilter,
        _ body: @escaping @Sendable (AuditRequestRow) throws -> Void
    ) async throws -> Int {
        try await hand(over: body) { database, body in
            // Made when a gateway of this version opens the log.
            guard try database.tableExists("token_requests") else { return }
            let rows = try Self.requests(in: database, filter).cursor(in: database)
            while let row = try rows.next() {
                guard let row = AuditRequestRow(Array(row.databaseValues)) else {
                    throw AuditError("a row of token_requests was changed")
                }
                try body(row)
            }
        }
    }

    /// What `body` throws ends the reading and is thrown as it is.
    private func hand<Line>(
        over body: @escaping @Sendable (Line) throws -> Void,
        _ visit: @escaping @Sendable (Database, (Line) throws -> Void) throws -> Void
    ) async throws -> Int {
        let (count, stopped): (Int, (any Error)?) = try await read { database in
            var count = 0
            var stopped: (any Error)?
            do {
                try visit(database) { row in
                    do {
                        try body(row)
                        count += 1
                    } catch {
                        stopped = error
                        throw error
                    }
                }
            } catch  where stopped != nil {}
            return (count, stopped)
        }
        if let stopped { throw stopped }
        return count
    }

    /// The sum of each credential's events and calls, by name.
    ///
    /// - Parameter filter: A credential, a client and a time.
    package func stats(_ filter: AuditFilter = AuditFilter()) async throws(AuditError) -> AuditStats {
        try await read { try AuditStats(filter, from: $0) }
    }

    /// Requests and calls for tokens by what they are grouped by.
    ///
    /// - Parameters:
    ///   - filter: A credential, a client and a time.
    ///   - upstreams: Those of the routes, by name, for ``AuditUsage/Grouping/upstream``.
    package func usage(
        by grouping: AuditUsage.Grouping,
        _ filter: AuditFilter = AuditFilter(),
        upstreams: [String: String] = [:]
    ) async throws(AuditError) -> AuditUsage {
        try await read { try AuditUsage(by: grouping, filter, upstreams: upstreams, from: $0) }
    }

    /// Who used a credential.
    ///
    /// - Parameter limit: How long it may take; nil for as long as it takes.
    /// - Throws: ``AuditError/tookTooLong`` then.
    package func who(
        _ question: AuditWho.Question,
        within limit: Duration? = nil
    ) async throws(AuditError) -> AuditWho {
        let end = limit.map { ContinuousClock.now + $0 }
        return try await read { database in
            let found = try SQLiteDeadline.run(until: end, in: database) {
                let oldest = try String.fetchOne(database, sql: "SELECT min(minute) FROM token_use")
                return try Self.who(question, recordedSince: oldest, in: database)
            }
            guard var answer = found else { throw AuditError.tookTooLong }
            _ = try SQLiteDeadline.run(until: end, in: database) {
                try Self.addRequests(to: &answer, question, until: end, in: database)
            }
            return answer
        }
    }

    /// All names of one kind that the log has.
    ///
    /// - Parameter column: `credential`, `route` or `client`.
    package func names(in column: AuditUsage.Grouping) async throws(AuditError) -> [String] {
        guard column != .upstream else { return [] }
        return try await read { database in
            let tables = try ["token_events", "token_use", "token_requests"].filter { try database.tableExists($0) }
            return try String.fetchAll(database, sql: AuditSelection.names(in: column, of: tables))
        }
    }

    /// Recomputes the whole chain, and compares it with the head file and with `evidence`.
    ///
    /// - Parameter onRows: Told now and then how many rows are verified, and of how many.
    /// - Throws: ``AuditError`` when the log cannot be read; a log that was tampered with is a result.
    package func verify(
        keys: AuditKeys,
        evidence: AuditEvidence = AuditEvidence(),
        onRows: (@Sendable (_ done: Int, _ total: Int) -> Void)? = nil
    ) async throws(AuditError) -> AuditVerification {
        // Before the rows: the head file may be behind the table, never ahead of what is read later.
        let head = AuditHead.read(for: path)
        let chain = AuditChain(key: keys.chain)
        let verifier = AuditVerifier(chain: chain, head: head, evidence: evidence, onRows: onRows)
        return try await read(evenIfReplaced: true) { try verifier.verify($0) }
    }

    /// Looks at the newest rows alone, at the key and at the head file: quick, and no proof for the rows before them.
    package func verifyTail(keys: AuditKeys, rows: Int) async throws(AuditError) -> AuditVerification {
        let head = AuditHead.read(for: path)
        return try await read(evenIfReplaced: true) {
            try AuditVerifier(chain: AuditChain(key: keys.chain), head: head, evidence: AuditEvidence()).verifyTail(
                $0,
                rows: rows
            )
        }
    }

    /// New rows as they are committed. Waits for a log that is not there yet, and goes on after a restart of the gateway.
    ///
    /// - Parameters:
    ///   - id: The last row already seen; nil begins with what is written from now on.
    ///   - interval: How often the file is asked whether it changed.
    package func follow(after id: Int64?, every interval: Duration = .milliseconds(250)) -> AuditFollow {
        AuditFollow(path: path, after: id, interval: interval)
    }

    /// Why a gateway would refuse to start with this log: its head file names rows, and the database that held them is gone or
    /// empty. nil where there is no head file.
    package static func loss(at path: String) -> String? {
        guard case .head(let known) = AuditHead.read(for: path), known.id > 0 else { return nil }
        return AuditFile.loss(of: path, to: known.id, keyPath: nil)
    }

    /// - Parameter evenIfReplaced: Whether something else may stand in the place of a table.
    func read<Value: Sendable>(
        evenIfReplaced: Bool = false,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(AuditError) -> Value {
        let path = path
        let result: Result<Value, any Error> = await withCheckedContinuation { done in
            queue.async {
                done.resume(
                    returning: Result {
                        try Self.open(path).read { database in
                            let replaced = try AuditSchema.replacedTable(in: database)
                            if let replaced, !evenIfReplaced { throw AuditSchema.isReplaced(replaced) }
                            guard try replaced != nil || database.tableExists("token_events") else {
                                throw AuditError(Self.loss(at: path) ?? "\(path) is not an audit log of a gateway")
                            }
                            try SQLiteSchema.require(atMost: AuditSchema.version, in: database)
                            return try body(database)
                        }
                    }
                )
            }
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw AuditError(error, file: path)
        }
    }

    static func open(_ path: String) throws -> DatabaseQueue {
        guard FileManager.default.fileExists(atPath: path) else {
            throw AuditError(
                loss(at: path) ?? "there is no audit log at \(path); has the gateway run with this configuration?"
            )
        }
        try AuditFile.requireRegular(path)
        var configuration = Configuration()
        configuration.readonly = true
        configuration.label = "audit-reader"
        configuration.busyMode = .timeout(5)
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    private static let events = AuditSelection(columns: AuditSchema.quotedColumns, table: AuditSchema.rows)

    private static func requests(
        in database: Database,
        _ filter: AuditFilter,
        table: String = "token_requests"
    ) throws -> AuditSelection {
        var condition = filter.condition(for: .requests)
        try condition.addFirstRow(since: filter.since, by: .requestsByTime, in: database)
        return AuditSelection(
            columns: try AuditSchema.readableRequestColumns(in: database),
            table: table,
            condition: condition
        )
    }

    private static func visit(_ filter: AuditFilter, in database: Database, _ body: (AuditRow) throws -> Void) throws {
        var selection = events
        selection.condition = filter.condition(for: .events)
        try selection.condition.addIndexedEvents(filter, in: database)
        if let limit = filter.limit {
            guard limit > 0 else { return }
            var newest = selection
            newest.columns = ["id"]
            newest.isNewestFirst = true
            newest.limit = limit
            selection.condition.add("id >= coalesce((SELECT min(id) FROM (\(newest.sql))), 0)")
        }
        let rows = try selection.cursor(in: database)
        while let row = try rows.next() {
            guard let row = AuditRow(Array(row.databaseValues)) else {
                throw AuditError("a row of the audit log was changed; run `authgateway audit verify`")
            }
            try body(row)
        }
    }
}

extension AuditReader {
    /// When upstreams began to let these credentials in, and when they began to reject them, the oldest first.
    ///
    /// - Parameter limit: How long it may take. What was found by then is the answer.
    package func answers(
        to credentials: Set<String>,
        since: UnixTime,
        within limit: Duration
    ) async throws(AuditError) -> [CredentialTimeline.Event] {
        try await read { database in
            let counts = try AuditSchema.readable(AuditSchema.refusalColumns, of: "token_use", in: database)
            var selection = AuditSelection(
                columns: ["minute", "credential", "status_class", "requests"] + counts,
                table: "token_use",
                key: ["minute"]
            )
            selection.condition.add("minute >=", .text(since.rfc3339))
            let end = ContinuousClock.now + limit
            var changes = AnswerChanges(of: credentials)
            var rows = 0
            do {
                try StatementRow.forEach(
                    of: selection.sql,
                    arguments: selection.condition.arguments,
                    in: database
                ) { row in
                    rows += 1
                    if rows.isMultiple(of: 4096), ContinuousClock.now > end { throw CancellationError() }
                    guard let minute = row.text(at: 0), let name = row.text(at: 1) else { return }
                    let refusals = row.count(at: 4).map { $0.adding(row.count(at: 5) ?? 0) }
                    changes.add(
                        name,
                        minute: minute,
                        statusClass: row.integer(at: 2),
                        requests: Int(row.integer(at: 3)),
                        refusals: refusals
                    )
                }
            } catch is CancellationError {}
            return changes.finish()
        }
    }

    /// Reads `token_use` alone, of a log or of rows that were copied from a shared database.
    static func who(
        _ question: AuditWho.Question,
        recordedSince: String?,
        in database: Database
    ) throws -> AuditWho {
        let name = question.by == .status ? "'' AS name" : question.by.rawValue
        let counts = try AuditSchema.readable(AuditSchema.refusalColumns, of: "token_use", in: database)
        // Otherwise SQLite would take the primary key, which begins with the minute, and look at the uses of all credentials.
        let index = AuditIndex.usesByCredential
        let source =
            try AuditSchema.hasIndex(index, in: database) ? "\(index.table) INDEXED BY \(index.name)" : index.table
        let selection = AuditSelection(
            columns: ["minute", name, "status_class", "requests"] + counts,
            table: source,
            key: ["minute"],
            condition: question.filter.condition(for: .uses)
        )
        var tally = AuditWhoTally(question)
        try StatementRow.forEach(
            of: selection.unorderedSQL,
            arguments: selection.condition.arguments,
            in: database
        ) { row in
            tally.add(
                AuditWhoTally.Use(
                    minute: row.text(at: 0) ?? "",
                    name: row.text(at: 1) ?? "",
                    statusClass: row.integer(at: 2),
                    requests: Int(row.integer(at: 3)),
                    unauthorized: row.count(at: 4),
                    forbidden: row.count(at: 5),
                    tooMany: row.count(at: 6)
                )
            )
        }
        return tally.answer(recordedSince: recordedSince)
    }

    /// So many groups get the exact time and the ID of their first and last request. Each takes two questions.
    private static let groupLimit = 500

    /// Names the first and the last request where single requests are recorded. They are looked for in one minute each, so this is quick
    /// however many there are. What is not named by `end` keeps its minute.
    private static func addRequests(
        to answer: inout AuditWho,
        _ question: AuditWho.Question,
        until end: ContinuousClock.Instant?,
        in database: Database
    ) throws {
        guard try AuditSchema.hasIndex(.requestsByTime, in: database) else { return }
        for index in answer.groups.indices.prefix(groupLimit) {
            if let end, ContinuousClock.now > end { return }
            try addRequests(to: &answer.groups[index], question, of: answer.by, in: database)
        }
        guard var total = answer.total else { return }
        try addRequests(to: &total, question, of: nil, in: database)
        answer.total = total
    }

    private static func addRequests(
        to group: inout AuditWho.Group,
        _ question: AuditWho.Question,
        of grouping: AuditWho.Grouping?,
        in database: Database
    ) throws {
        func request(in minute: String, isLast: Bool) throws -> (at: String, id: String)? {
            guard let start = UnixTime(rfc3339: minute) else { return nil }
            let index = AuditIndex.requestsByTime
            let source = "\(index.table) INDEXED BY \(index.name)"
            var selection = AuditSelection(columns: ["at", "request_id"], table: source, key: ["at", "id"])
            let filter = AuditFilter(credential: question.credential, since: start, until: start + .seconds(60))
            selection.condition = filter.condition(for: .requests)
            switch (grouping, group.name) {
            case (nil, _): break
            case (.status, let name):
                selection.condition.add(name.flatMap { AuditResult(rawValue: $0) }?.condition ?? "false")
            case (let column?, let name?): selection.condition.add("\(column.rawValue) =", .text(name))
            case (let column?, nil): selection.condition.add("\(column.rawValue) IS NULL")
            }
            selection.isNewestFirst = isLast
            selection.limit = 1
            guard let row = try selection.rows(in: database).first.map({ Array($0.databaseValues) }) else { return nil }
            guard let at = String.fromDatabaseValue(row[0]), let id = String.fromDatabaseValue(row[1]) else {
                return nil
            }
            return (at, id)
        }
        if let first = try request(in: group.firstAt, isLast: false) {
            (group.firstAt, group.firstRequestId) = (first.at, first.id)
        }
        if let last = try request(in: group.lastAt, isLast: true) {
            (group.lastAt, group.lastRequestId) = (last.at, last.id)
        }
    }
}

/// Makes of the uses of some credentials the minutes in which upstreams began to let them in or to reject them.
struct AnswerChanges {
    /// The maximum number of changes.
    static let limit = 100_000

    private let credentials: Set<String>
    /// What the minute has so far, by credential: whether any request was let in.
    private var current: [String: Bool] = [:]
    private var minute = ""
    private var last: [String: Bool] = [:]
    private var found: [CredentialTimeline.Event] = []

    init(of credentials: Set<String>) { self.credentials = credentials }

    /// Takes a row of `token_use`; they come in the order of their minutes.
    ///
    /// - Parameter refusals: How many requests got 401 or 403; nil where an earlier version did not count them.
    mutating func add(_ name: String, minute: String, statusClass: Int64, requests: Int, refusals: Int?) {
        guard credentials.contains(name) else { return }
        if minute != self.minute { endMinute() }
        self.minute = minute
        // No response says nothing about the credential, and neither does a 4xx that may be a 401.
        if statusClass == 0 || statusClass == 4 && refusals == nil { return }
        let isAccepted = statusClass != 4 || requests > refusals ?? 0
        current[name] = current[name] == true || isAccepted
    }

    private mutating func endMinute() {
        defer { current = [:] }
        guard let time = UnixTime(rfc3339: minute) else { return }
        for (name, isAccepted) in current.sorted(by: { $0.key < $1.key })
        where last[name] != isAccepted && found.count < Self.limit {
            last[name] = isAccepted
            found.append(CredentialTimeline.Event(isAccepted ? .accepted : .turnedAway, of: name, at: time))
        }
    }

    mutating func finish() -> [CredentialTimeline.Event] {
        endMinute()
        return found
    }
}

extension AuditWho.Question {
    /// The rows that count.
    var filter: AuditFilter { AuditFilter(credential: credential, since: since, until: until) }
}

extension StatementRow {
    /// nil when the column is no integer.
    fileprivate func count(at column: Int) -> Int? { kind(at: column) == .integer ? Int(integer(at: column)) : nil }
}

/// Makes the indices that a large log of an earlier version lacks: `authgateway audit index`.
package enum AuditIndexing {
    /// Blocks: one index of 20 million rows takes up to a minute. The log must not be used by a gateway, whose events would wait.
    ///
    /// - Parameter told: Gets the name of each index before it is made.
    /// - Returns: How many were made.
    package static func complete(_ path: String, told: (String) -> Void) throws(AuditError) -> Int {
        guard FileManager.default.fileExists(atPath: path) else { throw AuditError("there is no audit log at \(path)") }
        try AuditFile.requireRegular(path)
        let lock: FileLock
        do throws(FileLock.Failure) {
            lock = try FileLock(path)
        } catch {
            guard error == .held else { throw AuditError("\(path) cannot be opened for writing by this user") }
            throw AuditError("a gateway uses \(path), and its events would wait meanwhile; stop it first")
        }
        do {
            return try withExtendedLifetime(lock) {
                let database = try SQLiteFile.open(path, label: "audit-index", lockLimit: .seconds(5))
                defer { try? database.close() }
                return try database.writeWithoutTransaction { try complete($0, told: told) }
            }
        } catch {
            throw AuditError(error, file: path)
        }
    }

    private static func complete(_ database: Database, told: (String) -> Void) throws -> Int {
        guard try database.tableExists("token_events") else {
            throw AuditError("this is not an audit log of a gateway")
        }
        try database.inTransaction(.immediate) {
            // The columns that some of them need.
            try AuditSchema.create(in: database)
            return .commit
        }
        var count = 0
        for index in AuditIndex.all where try !AuditSchema.hasIndex(index, in: database) {
            told(index.name)
            try database.inTransaction(.immediate) {
                try AuditSchema.create(index, in: database)
                return .commit
            }
            count += 1
        }
        return count
    }
}

/// What the log has of one request.
package struct AuditedRequest: Sendable {
    /// Which rows were looked at.
    package enum Coverage: Sendable {
        case whole
        /// All, but of those that count several requests only the newest.
        case newestOfSeveral
        /// The newest of a table.
        case newest
    }

    package var events: [AuditRow] = []
    /// With `audit.usage: request`.
    package var requests: [AuditRequestRow] = []
    package var coverage = Coverage.whole
    /// Whether there were more rows than were asked for; the newest are missing.
    package var isCut = false

    package init() {}
}

extension AuditReader {
    /// The rows about a request, by the gateway's id or the client's, oldest first.
    ///
    /// - Parameters:
    ///   - newest: The number of rows of a table that are read, newest first, where no index finds them. None finds a request in a row that
    ///     counts several.
    ///   - limit: The maximum number of them that is returned.
    ///   - time: How long it may take; nil for as long as it takes.
    /// - Throws: ``AuditError/tookTooLong`` then.
    package func request(
        _ id: String,
        newest: Int,
        limit: Int,
        within time: Duration? = nil
    ) async throws(AuditError) -> AuditedRequest {
        let end = time.map { ContinuousClock.now + $0 }
        return try await read { database in
            let found = try SQLiteDeadline.run(until: end, in: database) {
                try Self.request(id, newest: newest, limit: limit, in: database)
            }
            guard let found else { throw AuditError.tookTooLong }
            return found
        }
    }

    private static func request(_ id: String, newest: Int, limit: Int, in database: Database) throws -> AuditedRequest {
        var found = AuditedRequest()
        let (events, coverage) = try events(ofRequest: id, newest: newest, in: database)
        var rows = try Self.rows(events, limit: limit, in: database)
        found.events = rows.rows.compactMap { AuditRow(Array($0.databaseValues)) }
        (found.coverage, found.isCut) = (coverage, rows.isCut)
        guard try database.tableExists("token_requests") else { return found }
        let canSearch = try database.columns(in: "token_requests").contains { $0.name == "client_request_id" }
        guard canSearch else { return found }
        let isIndexed = try [AuditIndex.requestsByID, .requestsByClientID].allSatisfy {
            try AuditSchema.hasIndex($0, in: database)
        }
        let table = isIndexed ? "token_requests" : "token_requests NOT INDEXED"
        var requests = try requests(in: database, AuditFilter(request: id), table: table)
        if !isIndexed {
            let start = try start(of: newest, in: "token_requests", database)
            requests.condition.add("id >", .integer(start.row))
            if start.leavesRowsOut { found.coverage = .newest }
        }
        rows = try Self.rows(requests, limit: limit, in: database)
        found.requests = rows.rows.compactMap { AuditRequestRow(Array($0.databaseValues)) }
        found.isCut = found.isCut || rows.isCut
        return found
    }

    /// The events of a request, by indices where these are there.
    static func events(
        ofRequest id: String,
        newest: Int,
        in database: Database
    ) throws -> (AuditSelection, AuditedRequest.Coverage) {
        let filter = AuditFilter(request: id)
        let start = try start(of: newest, in: AuditSchema.rows, database)
        var selection = events
        selection.condition = filter.condition(for: .events)
        if try selection.condition.addIndexedEvents(filter, countedAfter: start.row, in: database) {
            return (selection, start.leavesRowsOut ? .newestOfSeveral : .whole)
        }
        selection.condition.add("id >", .integer(start.row))
        return (selection, start.leavesRowsOut ? .newest : .whole)
    }

    /// After which row the newest ones begin, and whether there are others.
    private static func start(
        of newest: Int,
        in table: String,
        _ database: Database
    ) throws -> (row: Int64, leavesRowsOut: Bool) {
        let last = try Int64.fetchOne(database, sql: "SELECT max(id) FROM \(table)") ?? 0
        let first = try Int64.fetchOne(database, sql: "SELECT min(id) FROM \(table)") ?? 0
        // Someone may have changed the numbers in the file: a difference that is too large counts from the first.
        let (difference, isTooLarge) = last.subtractingReportingOverflow(Int64(newest))
        let start = isTooLarge ? .min : difference
        return (start, start >= first && last > 0)
    }

    /// The oldest rows that are selected.
    private static func rows(
        _ selection: AuditSelection,
        limit: Int,
        in database: Database
    ) throws -> (rows: ArraySlice<Row>, isCut: Bool) {
        var selection = selection
        selection.limit = limit + 1
        let rows = try selection.rows(in: database)
        return (rows.prefix(limit), rows.count > limit)
    }
}

/// A copy of the log with a head file of its own, for a backup.
package struct AuditSnapshot: Sendable {
    /// The newest row; 0 without one.
    package let lastRow: Int64
    /// The version of the tables.
    package let schema: Int

    /// Copies the log to `target`, which must not exist, while a gateway may be writing. Blocks.
    ///
    /// The head file names the end of the copy, which may be later than the log's own head file says.
    package static func make(_ source: String, to target: String, keys: AuditKeys) throws(AuditError) -> AuditSnapshot {
        let chain = AuditChain(key: keys.chain)
        do {
            try AuditFile.requireRegular(source)
            try PrivateFile.createNew(target, content: [])
            try SQLiteFile.copy(source, to: target, lockLimit: .seconds(5))
            let (head, schema) = try AuditReader.open(target).read { database in
                try SQLiteSchema.require(atMost: AuditSchema.version, in: database)
                guard try database.tableExists("token_events") else {
                    throw AuditError("\(source) is not an audit log of a gateway")
                }
                return (
                    try AuditOpening.head(of: database, chain: chain), try SQLiteSchema.version(of: database)
                )
            }
            try head.write(for: target)
            return AuditSnapshot(lastRow: head.id, schema: schema)
        } catch let failure as PrivateFile.Failure {
            throw AuditError("\(target) cannot be made: \(failure.reason)")
        } catch {
            throw AuditError(error, file: source)
        }
    }
}
