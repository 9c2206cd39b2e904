import GRDB
package import GatewayCore
import GatewayFiles
import GatewaySQLite
package import Logging
import Synchronization

/// Writes token events and usage to one SQLite file: append-only, chained with a key, durable before ``record(_:)``
/// returns.
///
/// One connection writes. Events that arrive while a commit is under way share the next one, so that a burst of a
/// thousand costs a few commits. After a full disk or an I/O error the next event simply tries again.
package final class SQLiteAuditLog: AuditLog {
    package struct Options: Sendable {
        package var path: String
        /// Which gateway writes; stands in every row.
        package var instance: String
        /// Older rows are removed, with a checkpoint in their place; nil keeps everything.
        package var retention: Duration?
        package var recordsUsage: Bool
        /// How long a lock of another program is waited for.
        package var busyTimeout: Duration = .seconds(5)
        /// How often ``SQLiteAuditLog/run()`` writes usage.
        package var usageInterval: Duration = .seconds(10)

        package init(path: String, instance: String, retention: Duration? = nil, recordsUsage: Bool = true) {
            self.path = path
            self.instance = instance
            self.retention = retention
            self.recordsUsage = recordsUsage
        }
    }

    struct Entry {
        let event: TokenEvent
        let done: CheckedContinuation<Result<Void, AuditError>, Never>
    }

    struct State {
        var pending: [Entry] = []
        var isDraining = false
        var isClosed = false
        /// The last row that this log knows to be committed; the file must still hold it.
        var head: AuditHead
        var headIsExported = false
        var complained = false
        /// Why the last commit failed; nil when it did not.
        var failure: AuditError?
    }

    /// Events that may wait for a commit; more are refused rather than held in memory.
    static let pendingLimit = 4096
    static let batchLimit = 512

    let options: Options
    let clock: any GatewayClock
    let logger: Logger
    let database: DatabaseQueue
    let chain: AuditChain
    let state: Mutex<State>
    let usage = Mutex(UsageCounts())
    let requests = Mutex(PendingRequests())
    private let rows: AuditEventRow
    /// Told of rows once they are committed.
    private let observer: (@Sendable ([AuditRow]) -> Void)?
    private let identity: FileIdentity?

    /// Opens or creates the log. Blocks; call it while starting.
    ///
    /// - Parameter observer: Told of rows once they are committed, on the thread that writes; must return at once.
    /// - Throws: ``AuditError`` when the file cannot be opened, was written with another key, or lacks rows that its
    ///   head file names: going on would hide the loss.
    package init(
        options: Options,
        keys: AuditKeys,
        clock: any GatewayClock,
        logger: Logger,
        observer: (@Sendable ([AuditRow]) -> Void)? = nil
    ) throws(AuditError) {
        let path = options.path
        self.options = options
        self.clock = clock
        self.logger = logger
        self.observer = observer
        chain = AuditChain(key: keys.chain)
        rows = AuditEventRow(keys: keys, instance: options.instance)
        do {
            try PrivateFile.ensure(path, keepsMode: true)
        } catch {
            throw AuditError("the audit log \(path) cannot be opened: \(error.reason)")
        }
        do {
            database = try SQLiteFile.open(path, label: "audit", busyTimeout: options.busyTimeout)
            state = Mutex(State(head: try Self.prepare(database, path: path, chain: chain)))
        } catch {
            throw auditError(error, file: path)
        }
        identity = FileIdentity(path)
        PrivateFile.removeLeftovers(of: AuditHead.path(for: path))
        exportHead()
    }

    package func record(_ event: TokenEvent) async throws(AuditError) {
        let result: Result<Void, AuditError> = await withCheckedContinuation { done in
            accept(Entry(event: event, done: done))
        }
        try result.get()
    }

    private func accept(_ entry: Entry) {
        enum Next { case refuse(AuditError), start, wait }
        let next: Next = state.withLock { state in
            if state.isClosed { return .refuse(AuditError("the audit log is closed")) }
            guard state.pending.count < Self.pendingLimit else {
                return .refuse(AuditError("too many events wait for the audit log; is the disk slow?"))
            }
            state.pending.append(entry)
            if state.isDraining { return .wait }
            state.isDraining = true
            return .start
        }
        switch next {
        case .refuse(let error): entry.done.resume(returning: .failure(error))
        case .start: database.asyncWriteWithoutTransaction { self.drain($0) }
        case .wait: break
        }
    }

    private func drain(_ database: Database) {
        while let batch = nextBatch() {
            let result = Result { try append(batch.map(\.event), to: database) }
                .mapError { auditError($0, file: options.path) }
            remember(result)
            for entry in batch { entry.done.resume(returning: result) }
            if case .success = result { exportHead() }
        }
    }

    private func nextBatch() -> [Entry]? {
        state.withLock { state in
            guard !state.pending.isEmpty else {
                state.isDraining = false
                return nil
            }
            let batch = Array(state.pending.prefix(Self.batchLimit))
            state.pending.removeFirst(batch.count)
            return batch
        }
    }

    private func remember(_ result: Result<Void, AuditError>) {
        state.withLock { state in
            if case .failure(let error) = result { state.failure = error } else { state.failure = nil }
        }
    }

    /// Why events cannot be recorded at the moment; nil when they can.
    ///
    /// After a failure it is found out by writing, so that the end of the trouble shows without an event.
    package func currentFailure() async -> AuditError? {
        let isInPlace = FileIdentity(options.path) == identity
        guard state.withLock({ $0.failure != nil && !$0.isClosed }) || !isInPlace else { return nil }
        let result: Result<Void, AuditError> = await withCheckedContinuation { done in
            database.asyncWriteWithoutTransaction { database in
                let result = Result { try self.rewriteHeader(database) }
                    .mapError { auditError($0, file: self.options.path) }
                done.resume(returning: result)
            }
        }
        remember(result)
        if case .failure(let error) = result { return error }
        return nil
    }

    /// A durable write that changes nothing.
    private func rewriteHeader(_ database: Database) throws {
        try requireFileInPlace()
        try database.inTransaction(.immediate) {
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            try database.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    private func requireFileInPlace() throws(AuditError) {
        guard FileIdentity(options.path) == identity else {
            throw AuditError(
                "the audit log \(options.path) was moved or removed while the gateway runs; put it back, or restart "
                    + "the gateway"
            )
        }
    }

    private func append(_ events: [TokenEvent], to database: Database) throws {
        try requireFileInPlace()
        let known = state.withLock { $0.head }
        var head = known
        var committed: [AuditRow] = []
        try database.inTransaction(.immediate) {
            head = try Self.head(of: database, chain: chain)
            try Self.requireRow(of: known, in: database, head: head, path: options.path)
            let insert = try database.cachedStatement(sql: Self.insertion)
            for event in events {
                let columns = rows.columns(of: event, id: head.id + 1)
                let hash = chain.hash(ofEvent: columns, after: head.hash)
                let values = columns + [head.hash.databaseValue, hash.databaseValue]
                try insert.execute(arguments: StatementArguments(values))
                if observer != nil, let row = AuditRow(values) { committed.append(row) }
                head = AuditHead(id: head.id + 1, hash: hash, chain: chain)
            }
            return .commit
        }
        let end = head
        state.withLock { state in
            state.head = end
            state.headIsExported = false
        }
        observer?(committed)
    }

    private static let insertion = """
        INSERT INTO token_events (\(AuditSchema.columnList))
        VALUES (\(AuditSchema.allColumns.map { _ in "?" }.joined(separator: ", ")))
        """

    /// A head file that lags behind is no fault, so a failure is a warning and the next commit tries again.
    func exportHead() {
        guard let head = state.withLock({ $0.headIsExported ? nil : $0.head }) else { return }
        do {
            try head.write(for: options.path)
            state.withLock { state in
                state.headIsExported = state.head == head
                state.complained = false
            }
        } catch {
            let isNews = state.withLock { state in
                defer { state.complained = true }
                return !state.complained
            }
            guard isNews else { return }
            logger.warning("the head of the audit log was not written", metadata: ["reason": "\(error.reason)"])
        }
    }

    /// Writes what is pending and the usage counted so far, and closes the file. Later events are refused.
    package func close() async {
        let wasOpen = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard wasOpen else { return }
        await flushUsage()
        await flushRequests()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            database.asyncWriteWithoutTransaction { _ in
                self.exportHead()
                done.resume()
            }
        }
        try? database.close()
    }
}
