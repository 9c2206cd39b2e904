import GRDB
package import GatewayCore
import GatewayFiles
package import Logging
import Synchronization

/// Writes token events and usage to one SQLite file: append-only, chained with a key, durable before ``record(_:)``
/// returns.
///
/// One thread writes. No other one waits for the disk or for a lock. Events that arrive while a commit is under way share
/// the next one, so that a burst of a thousand costs a few commits. After a full disk or an I/O error the next event simply
/// tries again.
package final class SQLiteAuditLog: AuditLog {
    package struct Options: Sendable {
        package var path: String
        /// Which gateway writes; stands in every row.
        package var instance: String
        /// The file that holds the key of the chain; nil when it is no file.
        package var keyPath: String?
        /// Older rows are removed, with a checkpoint in their place; nil keeps everything.
        package var retention: Duration?
        package var recordsUsage: Bool
        package var onMissing = AuditPlan.OnMissing.refuse
        /// The log is a copy, and the one that it was copied from may still be written.
        package var takesNewChainName = false
        /// The log is copied to a database. What is not there yet is not removed here.
        package var isShipped = false
        package var maximumBytes = AuditRoom.defaultLimit
        /// How long a lock of another program is waited for.
        package var busyTimeout: Duration = .seconds(5)
        /// How long the author of an event waits for the commit.
        package var recordLimit: Duration = .seconds(10)
        /// The same, where the event does not decide anything any more.
        package var withdrawalLimit: Duration = .seconds(3)
        /// How often ``SQLiteAuditLog/run()`` writes usage.
        package var usageInterval: Duration = .seconds(10)

        package init(path: String, instance: String, retention: Duration? = nil, recordsUsage: Bool = true) {
            self.path = path
            self.instance = instance
            self.retention = retention
            self.recordsUsage = recordsUsage
        }
    }

    struct State {
        var events = EventQueue()
        var isClosed = false
        var file: AuditFile
        /// The last row that this log knows to be committed; the file must still hold it.
        var head: AuditHead
        var headIsExported = false
        var complained = false
        /// Why the last commit failed; nil when it did not.
        var failure: AuditError?
        /// Another write failed, so that it has to be found out whether events can be written.
        var isSuspect = false
        var room: AuditRoom
        /// What came before the first row is lost.
        var loss: AuditLoss?
        var isKeyMissing = false
        var chainName = ""
        var shipping = ShippingProgress()
    }

    let options: Options
    let clock: any GatewayClock
    let logger: Logger
    let writer: SQLiteWriter
    let chain: AuditChain
    let state: Mutex<State>
    let usage = Mutex(UsageCounts())
    let requests = Mutex(PendingRequests())
    let headChanged = Broadcast<Void>(keeping: 1)
    let rows: AuditEventRow
    /// Told of rows once they are committed.
    let observer: (@Sendable ([AuditRow]) -> Void)?

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
            writer = try SQLiteWriter(path, label: "audit", lockLimit: options.busyTimeout)
            let opening = AuditOpening(options: options, chain: chain, rows: rows, now: clock.now().wall)
            let opened = try writer.write { try opening.open($0) }
            let room = AuditRoom(usedBytes: 0, limit: options.maximumBytes)
            var state = State(file: AuditFile(path: path), head: opened.head, room: room)
            state.loss = opened.loss
            state.chainName = opened.chainName
            state.shipping.known = opened.shippedTo
            self.state = Mutex(state)
        } catch {
            throw auditError(error, file: path)
        }
        PrivateFile.removeLeftovers(of: AuditHead.path(for: path))
        exportHead()
        measure()
        if let loss = state.withLock({ $0.loss }) { report(loss) }
    }

    /// The name of this log's chain in a database that other gateways write, too. A log that is begun anew has another one.
    package var chainName: String { state.withLock { $0.chainName } }

    /// An element after each commit of events, for each reader; several may be one. Ends when the log is closed.
    package var headChanges: AsyncStream<Void> { headChanged.stream() }

    /// nil once the log is closed.
    var database: DatabaseQueue? { writer.database }

    package func record(_ event: TokenEvent) async throws(AuditError) {
        let end = EventQueue.End()
        if let refusal = accept(EventQueue.Entry(event: event, isWithdrawal: false, end: end)) { throw refusal }
        try await result(of: end, within: options.recordLimit).get()
    }

    package func recordSoon(_ event: TokenEvent) async -> AuditError? {
        let end = EventQueue.End()
        if let refusal = accept(EventQueue.Entry(event: event, isWithdrawal: true, end: end)) {
            keep(event)
            return refusal
        }
        if case .failure(let error) = await result(of: end, within: options.withdrawalLimit) { return error }
        return nil
    }

    private func result(of end: EventQueue.End, within limit: Duration) async -> Result<Void, AuditError> {
        let watchdog = Task {
            // Cancelled when the event is committed before.
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(.failure(overdue ?? AuditError("the audit log \(options.path) did not take the event in time")))
        }
        defer { watchdog.cancel() }
        return await end.value()
    }

    /// - Returns: Why the event is not taken.
    private func accept(_ entry: EventQueue.Entry) -> AuditError? {
        if writer.trouble(after: options.recordLimit) != nil, let overdue { return overdue }
        let (refusal, starts): (AuditError?, Bool) = state.withLock { state in
            if state.isClosed { return (AuditError("the audit log is closed"), false) }
            if let shortage = state.room.shortage(for: entry.event.name.priority) {
                return (AuditError("the audit log takes no such event: \(state.room.explanation(of: shortage))"), false)
            }
            guard !state.events.isFull else {
                return (AuditError("too many events wait for the audit log; is the disk slow?"), false)
            }
            state.events.add(entry)
            defer { state.events.isDraining = true }
            return (nil, !state.events.isDraining)
        }
        if starts { writer.start { self.drain() } }
        return refusal
    }

    private func drain() {
        while let batch = state.withLock({ $0.events.nextBatch() }) {
            for entry in batch.written { entry.end.keep(.success(())) }
            guard !batch.new.isEmpty else { continue }
            if writes(batch.new) {
                writer.track { exportHead() }
                writeWithdrawals()
            }
            measure()
        }
    }

    /// - Returns: Whether anything was written.
    private func writes(_ batch: [EventQueue.Entry]) -> Bool {
        let result = attempt(batch)
        guard case .failure = result, !hasRoom(for: .traffic) else { return settle(batch, result) }
        // What requests cause gives way, and the rest may still have a place.
        settle(batch.filter { $0.event.name.priority == .traffic }, result)
        let rest = batch.filter { $0.event.name.priority > .traffic }
        return settle(rest, rest.isEmpty || rest.count == batch.count ? result : attempt(rest))
    }

    private func attempt(_ batch: [EventQueue.Entry]) -> Result<Void, AuditError> {
        let result = Result { try write(batch.map(\.event)) }
        remember(result)
        return result.mapError { auditError($0, file: options.path) }
    }

    /// - Returns: Whether it is written.
    @discardableResult
    private func settle(_ batch: [EventQueue.Entry], _ result: Result<Void, AuditError>) -> Bool {
        let isCommitted = if case .success = result { true } else { false }
        for withdrawal in state.withLock({ $0.events.settle(batch, isCommitted: isCommitted) }) { sayLost(withdrawal) }
        for entry in batch { entry.end.keep(result) }
        return isCommitted
    }

    private func keep(_ withdrawal: TokenEvent) {
        let isKept = state.withLock { !$0.isClosed && $0.events.keep(withdrawal) }
        if !isKept { sayLost(withdrawal) }
    }

    /// Writes what could not be written before, now that the log works. On the thread only.
    func writeWithdrawals() {
        guard hasRoom(for: .operator) else { return }
        var events = state.withLock { $0.events.withdrawals }
        guard !events.isEmpty else { return }
        for index in events.indices { events[index].detail["recorded_late"] = "true" }
        do {
            try write(events)
            // Only this thread removes any.
            state.withLock { $0.events.removeWithdrawals(events.count) }
            writer.track { exportHead() }
        } catch {
            // They wait for the next time, and the next look finds out why.
            suspect()
        }
    }

    /// In one commit. On the thread only.
    func write(_ events: [TokenEvent]) throws {
        let (head, added) = try commit { try append(events, to: $0) }
        state.withLock { state in
            state.head = head
            state.headIsExported = false
        }
        observer?(added)
        headChanged.send(())
    }

    /// On the thread only.
    ///
    /// - Parameter limit: How long a lock of another program is waited for; nil stands for the usual time.
    func commit<Value>(waitingForLock limit: Duration? = nil, _ body: (Database) throws -> Value) throws -> Value {
        try requireFileInPlace()
        return try writer.write(waitingForLock: limit, body)
    }

    private func append(_ events: [TokenEvent], to database: Database) throws -> (AuditHead, [AuditRow]) {
        let known = state.withLock { $0.head }
        var appender = AuditAppender(rows: rows, chain: chain, head: known)
        try database.inTransaction(.immediate) {
            appender.head = try AuditOpening.head(of: database, chain: chain)
            try AuditOpening.requireRow(of: known, in: database, head: appender.head, path: options.path)
            for event in events { try appender.append(event, to: database) }
            return .commit
        }
        return (appender.head, appender.added)
    }

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
}
