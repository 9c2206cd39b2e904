import GRDB
package import GatewayEvents
import GatewayFiles
package import GatewayHTTP
package import Logging
import Synchronization

/// How the log is doing, as far as is known without asking the disk.
package struct AuditHealth: Hashable, Sendable {
    /// Why events cannot be recorded at the moment; nil when they can.
    package var failure: AuditError?
    /// What else cannot be written or removed, and why, when pages of the file are damaged; nil when they are not.
    package var damage: String?
    package var room: AuditRoom
    /// The database was gone, and a new one was begun.
    package var loss: AuditLoss?
    /// What operators took away, and what the log does not hold yet.
    package var unrecorded: Int
    /// The next start will have no key for the log.
    package var isKeyMissing: Bool
}

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
        var recordLimit: Duration = .seconds(10)
        /// How long an author waits whose event records what has been done already, such as a withdrawal.
        var withdrawalLimit: Duration = .seconds(3)
        /// How often ``SQLiteAuditLog/run()`` writes usage.
        var usageInterval: Duration = .seconds(10)

        package init(path: String, instance: String, retention: Duration? = nil, recordsUsage: Bool = true) {
            self.path = path
            self.instance = instance
            self.retention = retention
            self.recordsUsage = recordsUsage
        }
    }

    private struct State {
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
        /// Work besides events that a damaged page prevents, by what is logged of it.
        var damage: [String: AuditError] = [:]
        var room: AuditRoom
        /// What came before the first row is lost.
        var loss: AuditLoss?
        var isKeyMissing = false
        var chainName = ""
        var shipping = ShippingProgress()
    }

    let options: Options
    let writer: SQLiteWriter
    let chain: AuditChain
    private let clock: any GatewayClock
    private let logger: Logger
    private let state: Mutex<State>
    private let usage = Mutex(UsageCounts())
    private let requests = Mutex(PendingRequests())
    private let headChanged = Broadcast<Void>(keeping: 1)
    private let rows: AuditEventRow
    /// Told of rows once they are committed.
    private let observer: (@Sendable ([AuditRow]) -> Void)?

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
            state.headIsExported = opened.isHeadExported
            state.loss = opened.loss
            state.chainName = opened.chainName
            state.shipping = ShippingProgress(known: opened.shippedTo)
            self.state = Mutex(state)
        } catch {
            throw AuditError(error, file: path)
        }
        PrivateFile.removeLeftovers(of: AuditHead.path(for: path))
        exportHead()
        measure()
        if let loss = state.withLock({ $0.loss }) { report(loss) }
    }

    /// The name of this log's chain in a database that other gateways write, too. A log that is begun anew has another one.
    package var chainName: String { state.withLock { $0.chainName } }

    /// The id of the last committed row.
    package var lastRow: Int64 { state.withLock { $0.head.id } }

    /// Events that the database does not have yet, as far as is known.
    package var unshippedEvents: Int {
        state.withLock { max(0, Int($0.head.id).subtracting(Int($0.shipping.shippedTo))) }
    }

    /// How far the copy is, in one step.
    func withShipping<Value>(_ body: (inout ShippingProgress) -> Value) -> Value {
        state.withLock { body(&$0.shipping) }
    }

    /// The chain has another name, under which nothing is shipped yet.
    ///
    /// - Parameter removedTo: The last row that retention has removed.
    func becameChain(_ name: String, removedTo: Int64) {
        state.withLock { state in
            state.chainName = name
            state.shipping = ShippingProgress(known: removedTo)
        }
    }

    /// An element after each commit of events, for each reader; several may be one. Ends when the log is closed.
    package var headChanges: AsyncStream<Void> { headChanged.stream() }

    /// nil once the log is closed.
    var database: DatabaseQueue? { writer.database }

    package func record(_ event: TokenEvent) async throws(AuditError) { try await record([event]) }

    /// In one commit, where there is room for it.
    package func record(_ events: [TokenEvent]) async throws(AuditError) {
        let entries = events.map { EventQueue.Entry(event: $0, isWithdrawal: false, end: EventQueue.End()) }
        if let refusal = accept(entries) { throw refusal }
        for entry in entries { try await result(of: entry.end, within: options.recordLimit).get() }
    }

    package func recordSoon(_ event: TokenEvent) async -> AuditError? {
        let end = EventQueue.End()
        if let refusal = accept([EventQueue.Entry(event: event, isWithdrawal: true, end: end)]) {
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
            end.keep(.failure(overdue ?? AuditError("the audit log \(options.path) did not accept the event in time")))
        }
        defer { watchdog.cancel() }
        return await end.value()
    }

    /// - Returns: Why the events are not taken.
    private func accept(_ entries: [EventQueue.Entry]) -> AuditError? {
        if writer.trouble(after: options.recordLimit) != nil, let overdue { return overdue }
        let (refusal, starts): (AuditError?, Bool) = state.withLock { state in
            if state.isClosed { return (AuditError("the audit log is closed"), false) }
            for entry in entries {
                guard let shortage = state.room.shortage(for: entry.event.name.priority) else { continue }
                return (
                    AuditError(
                        "the audit log does not accept such events now: \(state.room.explanation(of: shortage))"
                    ), false
                )
            }
            guard !state.events.isFull else {
                return (AuditError("too many events wait for the audit log; is the disk slow?"), false)
            }
            for entry in entries { state.events.add(entry) }
            return (nil, state.events.startDraining())
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
        return result.mapError { AuditError($0, file: options.path) }
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
    private func writeWithdrawals() {
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
    private func write(_ events: [TokenEvent]) throws {
        let (head, added) = try commit { try append(events, to: $0) }
        state.withLock { state in
            state.head = head
            state.headIsExported = false
        }
        observer?(added)
        headChanged.send(())
    }

    /// Runs `body` on the thread that writes.
    func onThread<Value: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(AuditError) -> Value {
        do {
            return try await writer.perform(within: options.recordLimit) { try self.writer.write(body) }
        } catch {
            throw AuditError(error, file: options.path)
        }
    }

    /// On the thread only.
    ///
    /// - Parameter limit: How long a lock of another program is waited for; nil stands for the usual time.
    private func commit<Value>(waitingForLock limit: Duration? = nil, _ body: (Database) throws -> Value) throws
        -> Value
    {
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
            let isFirst = state.withLock { state in
                defer { state.complained = true }
                return !state.complained
            }
            guard isFirst else { return }
            logger.warning("the head of the audit log was not written", metadata: ["reason": "\(error.reason)"])
        }
    }
}

/// The file itself: whether it is still there, what follows when it is gone, and its end.
extension SQLiteAuditLog {
    /// What is written into a file that is gone is lost. On the thread only.
    private func requireFileInPlace() throws {
        let file = state.withLock { $0.file }
        switch (writer.track { file.place }, options.onMissing) {
        case (.inPlace, _): return
        case (.missing, .recreate): try beginAnew()
        case (.missing, .refuse):
            throw AuditError(
                "the audit log \(options.path) is gone: it or its folder was moved or removed while the gateway runs; "
                    + writer.track { AuditFile.remedy(of: options.path, keyPath: options.keyPath) }
            )
        case (.replaced, let onMissing):
            let beginning =
                onMissing == .recreate
                ? "move it away: the gateway starts a new log at once"
                : "move it away, set audit.on_missing: recreate and restart the gateway"
            throw AuditError(
                "the audit log \(options.path) is not the file that this gateway opened; move that one back. If it is lost "
                    + "and what is there now holds every row, restart the gateway; otherwise \(beginning)"
            )
        }
    }

    private func beginAnew() throws {
        let (known, old) = state.withLock { ($0.head, $0.file) }
        var file = old
        try writer.reopen { try file.makeCandidate() }
        state.withLock { $0.file = file }
        let opening = AuditOpening(options: options, chain: chain, rows: rows, now: clock.now().wall)
        let opened = try writer.write { try opening.beginAnew(after: known, in: $0) }
        file.acceptCandidate()
        state.withLock { state in
            state.file = file
            state.head = opened.head
            state.headIsExported = false
            state.loss = opened.loss
            state.chainName = opened.chainName
            state.shipping = ShippingProgress(known: opened.shippedTo)
        }
        observer?(opened.added)
        writer.track { exportHead() }
        if let loss = opened.loss { report(loss) }
    }

    private func report(_ loss: AuditLoss) {
        logger.error(
            "the audit log was gone; the gateway started a new one",
            metadata: ["file": "\(options.path)", "lost_to": "\(loss.lostTo)"]
        )
    }

    // MARK: The end

    private static let closingLimit: Duration = .seconds(3)

    /// Writes what is pending and the usage counted so far, and closes the file. Later events are refused.
    package func close() async {
        let wasOpen = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard wasOpen else { return }
        _ = try? await writer.perform(within: Self.closingLimit) {
            self.writeUsage()
            self.writeAllRequests()
            self.writeWithdrawals()
            self.exportHead()
        }
        headChanged.finish()
        for event in state.withLock({ $0.events.unrecorded }) { sayLost(event) }
        await writer.close(within: Self.closingLimit)
    }

    private func sayLost(_ withdrawal: TokenEvent) {
        logger.error(
            "A lock or revocation is missing from the audit log",
            metadata: ["event": "\(withdrawal.name.rawValue)", "credential": "\(withdrawal.credential ?? "")"]
        )
    }
}

extension SQLiteAuditLog {
    /// How long background work waits for a lock of another program.
    private var backgroundLockLimit: Duration { min(options.busyTimeout, .seconds(1)) }
    private static let probeLockLimit: Duration = .milliseconds(200)

    /// Never waits.
    package var health: AuditHealth {
        let waiting = overdue
        return state.withLock { state in
            AuditHealth(
                failure: waiting ?? state.failure,
                damage: state.damage.min { $0.key < $1.key }.map { "\($0.key): \($0.value.reason)" },
                room: state.room,
                loss: state.loss,
                unrecorded: state.events.unrecorded.count,
                isKeyMissing: state.isKeyMissing
            )
        }
    }

    /// What the thread waits for, when it does for long.
    private var overdue: AuditError? {
        writer.trouble.map { trouble in
            let name = "the audit log \(options.path)"
            return AuditError(SQLiteFile.words(for: trouble, file: name, path: options.path))
        }
    }

    private func hasRoom(for priority: AuditPriority) -> Bool {
        state.withLock { $0.room.shortage(for: priority) == nil }
    }

    /// A write failed that is no event.
    private func suspect() { state.withLock { $0.isSuspect = true } }

    /// Work besides events has failed.
    ///
    /// - Parameter isLogged: false for what was logged before.
    private func warn(_ message: String, _ error: any Error, isLogged: Bool = true) {
        let failure = AuditError(error, file: options.path)
        // A lock passes, and after a full disk the next event fails, too.
        if let code = (error as? DatabaseError)?.resultCode, code == .SQLITE_CORRUPT || code == .SQLITE_NOTADB {
            state.withLock { $0.damage[message] = failure }
        }
        if isLogged { logger.warning("\(message)", metadata: ["reason": "\(failure.reason)"]) }
    }

    /// Work that ``warn(_:_:isLogged:)`` may have told of has succeeded.
    private func clear(_ message: String) { state.withLock { _ = $0.damage.removeValue(forKey: message) } }

    private func remember(_ result: Result<Void, any Error>) {
        let error: (any Error)? = if case .failure(let error) = result { error } else { nil }
        let isDiskFull = (error as? DatabaseError)?.resultCode == .SQLITE_FULL
        state.withLock { state in
            state.failure = error.map { AuditError($0, file: options.path) }
            state.isSuspect = false
            state.room.isDiskFull = isDiskFull
        }
    }

    /// Finds out whether the file is in its place, and after a failure whether it can be written again.
    package func look() async {
        // While the thread waits, there is nothing to be found out.
        guard writer.trouble == nil else { return }
        _ = try? await writer.perform(within: SQLiteWriter.patience) { self.probe() }
    }

    private func probe() {
        let (isOpen, isInDoubt) = state.withLock { state in
            (!state.isClosed, state.failure != nil || state.isSuspect || !state.events.withdrawals.isEmpty)
        }
        guard isOpen else { return }
        let isKeyMissing = writer.track { options.keyPath.map { FileIdentity($0) == nil } ?? false }
        state.withLock { $0.isKeyMissing = isKeyMissing }
        do {
            try requireFileInPlace()
            if isInDoubt {
                try writer.write(waitingForLock: Self.probeLockLimit) { try Self.rewriteHeader($0) }
                remember(.success(()))
                writer.track { exportHead() }
                writeWithdrawals()
            }
        } catch {
            remember(.failure(error))
        }
        measure()
    }

    /// A durable write that changes nothing.
    private static func rewriteHeader(_ database: Database) throws {
        try database.inTransaction(.immediate) {
            let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
            try database.execute(sql: "PRAGMA user_version = \(version)")
            return .commit
        }
    }

    // MARK: Room

    /// On the thread only.
    private func measure() {
        let pages = writer.track {
            try? database?.writeWithoutTransaction { database in
                let size = try Int.fetchOne(database, sql: "PRAGMA page_size") ?? 0
                let count = try Int.fetchOne(database, sql: "PRAGMA page_count") ?? 0
                let free = try Int.fetchOne(database, sql: "PRAGMA freelist_count") ?? 0
                return size * (count - free)
            }
        }
        guard let pages else { return }
        let (journal, disk) = writer.track {
            (FileStatus.size(of: options.path + "-wal") ?? 0, DiskSpace(at: options.path))
        }
        let (before, after) = state.withLock { state in
            let before = state.room
            state.room.usedBytes = pages + journal
            state.room.disk = disk.map { AuditRoom.Disk(freeBytes: $0.freeBytes, totalBytes: $0.totalBytes) }
            return (before, state.room)
        }
        for priority in AuditPriority.allCases { report(priority, before, after) }
    }

    private func report(_ priority: AuditPriority, _ before: AuditRoom, _ after: AuditRoom) {
        guard (before.shortage(for: priority) == nil) != (after.shortage(for: priority) == nil) else { return }
        guard let shortage = after.shortage(for: priority) else {
            return logger.notice("the audit log has room again", metadata: ["for": "\(priority)"])
        }
        let reason = after.explanation(of: shortage)
        logger.warning(
            "the audit log records fewer kinds of events",
            metadata: ["refused": "\(priority)", "reason": "\(reason)"]
        )
    }
}

extension SQLiteAuditLog {
    /// The last committed row, to be sent to the anchor; nil for an empty log.
    package func headToAnchor() -> AnchoredHead? {
        let head = state.withLock { $0.head }
        return head.id > 0 ? AnchoredHead(head, at: clock.now().wall) : nil
    }

    /// Looks for the rows that an anchor names.
    ///
    /// - Returns: What does not fit, for a person; nil when all of them are there, or were removed by retention.
    package func contradiction(of anchored: [AnchoredHead]) async throws(AuditError) -> String? {
        try await onThread { try self.contradiction(of: anchored, in: $0) }
    }

    private func contradiction(of anchored: [AnchoredHead], in database: Database) throws -> String? {
        var evidence = AuditEvidence()
        evidence.anchor = anchored
        let end = try AuditOpening.head(of: database, chain: chain).id
        let pruned = try AuditCheckpoint.prunedTo(in: database)
        let row = try database.makeStatement(sql: "SELECT hash FROM token_events WHERE id = ?")
        do {
            for mark in try evidence.marks(for: chain) where mark.id > pruned {
                guard mark.id <= end else { throw mark.absence(behind: end) }
                guard try String.fetchOne(row, arguments: [mark.id]) == mark.hash else { throw mark.contradiction }
            }
            return nil
        } catch let found as AuditVerifier.Found {
            return found.breach.explanation
        }
    }
}

extension SQLiteAuditLog {
    package func keep(_ new: [RequestUse]) -> Int {
        guard hasRoom(for: .traffic) else { return new.count }
        let (lost, starts) = requests.withLock { requests in
            (requests.add(new), requests.startWriting())
        }
        if starts { writer.start { self.writeRequests() } }
        return lost
    }

    /// Writes what waits. On the thread only. Tests call it to fill one batch after the other.
    func writeAllRequests() {
        while writeBatch() {}
    }

    /// One batch after the other; events that were accepted meanwhile come in between.
    private func writeRequests() {
        if writeBatch() { writer.start { self.writeRequests() } }
    }

    /// - Returns: Whether there is more to write.
    private func writeBatch() -> Bool {
        // Taken out only when it is written: only this thread removes any.
        let batch = requests.withLock { $0.batch }
        let result = Result {
            try commit(waitingForLock: backgroundLockLimit) { try add(batch, to: $0) }
        }
        measure()
        switch result {
        case .success:
            if !batch.isEmpty { clear(Self.unwrittenRequests) }
            return requests.withLock { $0.written(batch.count) }
        case .failure(let error):
            let isFirst = requests.withLock { $0.failed() }
            suspect()
            warn(Self.unwrittenRequests, error, isLogged: isFirst)
            return false
        }
    }

    private func add(_ batch: [RequestUse], to database: Database) throws {
        guard !batch.isEmpty else { return }
        try database.inTransaction(.immediate) {
            let insertion = try database.cachedStatement(sql: Self.requestInsertion)
            for request in batch {
                try insertion.execute(arguments: [
                    request.at.rfc3339, SafeText.singleLine(request.requestID), SafeText.singleLine(request.route),
                    request.client.map { SafeText.singleLine($0) }, SafeText.singleLine(request.method, limit: 64),
                    request.status, request.problem?.rawValue, request.credential.map { SafeText.singleLine($0) },
                    request.generation, request.wasReplayed ? 1 : 0, request.bytesReceived, request.bytesSent,
                    request.duration.wholeMilliseconds, options.instance,
                    request.clientRequestID.map { SafeText.singleLine($0) }, request.failure?.reason.description,
                    request.timings.credential?.wholeMilliseconds, request.timings.connection?.wholeMilliseconds,
                    request.timings.response?.wholeMilliseconds,
                ])
            }
            return .commit
        }
    }

    private static let unwrittenRequests = "requests were not written to the audit log"

    private static let requestInsertion = """
        INSERT INTO token_requests (\(AuditSchema.requestColumns.dropFirst().joined(separator: ", ")))
        VALUES (\(AuditSchema.requestColumns.dropFirst().map { _ in "?" }.joined(separator: ", ")))
        """
}

extension SQLiteAuditLog {
    package func count(_ use: TokenUse) {
        guard options.recordsUsage else { return }
        let hasRoom = hasRoom(for: .traffic)
        usage.withLock { usage in
            if hasRoom { usage.add(use) } else { usage.drop(use) }
        }
    }

    /// Requests that were not counted: too many different uses waited to be written, or the log has no room for them.
    var droppedUses: Int { usage.withLock { $0.dropped } }

    /// Writes usage every few seconds and removes rows that are past their retention, until the task is cancelled.
    package func run() async {
        var sincePruning = Duration.zero
        await makeIndices()
        await prune()
        while (try? await clock.sleep(for: options.usageInterval)) != nil {
            await flushUsage()
            sincePruning += options.usageInterval
            if sincePruning >= (isPruningUrgent ? .seconds(60) : .seconds(3600)) {
                await prune()
                sincePruning = .zero
            }
        }
        await flushUsage()
    }

    /// More rows would keep the thread for more than some seconds, and events waiting.
    static let indexLimit = 2_000_000

    /// Makes the indices that a log of an earlier version lacks, one after the other, with other work in between.
    ///
    /// - Parameter limit: Tables with more rows are left as they are: questions to them take longer.
    func makeIndices(upTo limit: Int = SQLiteAuditLog.indexLimit) async {
        let missing = try? await writer.perform(within: options.recordLimit) { [self] in
            try writer.write { database in
                try AuditIndex.all.filter { try !AuditSchema.hasIndex($0, in: database) }
            }
        }
        var left: [String] = []
        for index in missing ?? [] where !Task.isCancelled && hasRoom(for: .traffic) {
            do {
                let isMade = try await writer.perform(within: Self.pruneTimeLimit) { [self] in
                    defer { measure() }
                    return try commit(waitingForLock: backgroundLockLimit) { try Self.make(index, upTo: limit, in: $0) }
                }
                if !isMade { left.append(index.name) }
            } catch {
                suspect()
                return warn("an index of the audit log was not made", error)
            }
        }
        guard !left.isEmpty else { return }
        logger.notice(
            "the audit log is large and lacks indices, so some queries take long",
            metadata: [
                "indices": "\(left.joined(separator: ", "))",
                "remedy": "stop the gateway when it suits you, and run `authgateway audit index`",
            ]
        )
    }

    /// - Returns: false for a table that is too large.
    private static func make(_ index: AuditIndex, upTo limit: Int, in database: Database) throws -> Bool {
        guard try AuditSchema.rows(of: index.table, upTo: limit, in: database) <= limit else { return false }
        try database.inTransaction(.immediate) {
            try AuditSchema.create(index, in: database)
            return .commit
        }
        return true
    }

    private var isPruningUrgent: Bool { !hasRoom(for: .traffic) || state.withLock { $0.shipping.holdsRetention } }

    /// Adds what was counted to `token_use`. What cannot be written now is kept for the next time, within the limit.
    package func flushUsage() async {
        // When the thread does not answer, it writes what there is as soon as it does.
        _ = try? await writer.perform(within: options.recordLimit) { self.writeUsage() }
    }

    /// Writes uses and requests that are still in memory, for somebody who is about to read the file.
    ///
    /// - Returns: false if some of them could not be written within the limit. They are written later.
    package func writePending(within limit: Duration) async -> Bool {
        let end = ContinuousClock.now + limit
        do {
            guard try await writer.perform(within: limit, { self.writeUsage() }) else { return false }
            // One batch after the other; events come in between.
            while requests.withLock({ !$0.batch.isEmpty }) {
                guard ContinuousClock.now < end else { return false }
                let mayGoOn = try await writer.perform(within: limit) { [self] in
                    writeBatch() || requests.withLock { $0.batch.isEmpty }
                }
                guard mayGoOn else { return false }
            }
            return true
        } catch {
            return false
        }
    }

    /// On the thread only.
    ///
    /// - Returns: Whether all of it is written.
    @discardableResult
    private func writeUsage() -> Bool {
        let uses = usage.withLock { $0.takeAll() }
        guard !uses.isEmpty else { return true }
        do {
            let first = uses.map(\.key.minute).min()?.rfc3339 ?? ""
            try commit(waitingForLock: backgroundLockLimit) { try Self.add(uses, since: first, to: $0) }
            state.withLock { $0.shipping.noteUse(changedAt: first) }
            clear(Self.unwrittenUsage)
            measure()
            return true
        } catch {
            usage.withLock { usage in
                for use in uses { usage.add(use) }
            }
            suspect()
            warn(Self.unwrittenUsage, error)
            return false
        }
    }

    private static let unwrittenUsage = "usage was not written to the audit log"

    private static func add(_ uses: [TokenUse], since first: String, to database: Database) throws {
        try database.inTransaction(.immediate) {
            try AuditNotes.note(useChangedAt: first, in: database)
            let addition = try database.cachedStatement(
                sql: """
                    INSERT INTO token_use (\(AuditSchema.useColumns.joined(separator: ", ")))
                    VALUES (\(AuditSchema.useColumns.map { _ in "?" }.joined(separator: ", ")))
                    ON CONFLICT DO UPDATE SET
                        \(AuditSchema.useCounts.map { "\($0) = \($0) + excluded.\($0)" }.joined(separator: ", "))
                    """
            )
            for use in uses {
                try addition.execute(arguments: [
                    use.key.minute.rfc3339, SafeText.singleLine(use.key.route),
                    SafeText.singleLine(use.key.client ?? ""), SafeText.singleLine(use.key.credential),
                    use.key.generation, use.key.statusClass, use.requests, use.bytesReceived, use.bytesSent,
                    use.refusals.unauthorized, use.refusals.forbidden, use.refusals.tooMany,
                ])
            }
            return .commit
        }
    }
}

extension SQLiteAuditLog {
    /// Removes the oldest rows that are past their retention, a bounded number at a time.
    ///
    /// The guards of the table let only rows go that a checkpoint covers: the id and the hash of the last one removed,
    /// chained with the key like the rows themselves. So what is left can still be verified, and a deletion
    /// cannot pass as retention without the key. The newest row always stays, and so do rows that no longer fit: they are
    /// evidence. Rows that a shared database is to have stay until it has them.
    func prune() async {
        guard let retention = options.retention else { return }
        let now = clock.now().wall
        let cutoff = now + (.zero - retention)
        await repeatedly("old requests were not removed from the audit log") { database in
            try Self.pruneRequests(before: cutoff, in: database) == Self.requestPruneLimit
        }
        await repeatedly("old rows of the audit log were not removed") { [self] database in
            try prune(before: cutoff, at: now, in: database)
        }
        // What was removed stands in the journal, with all pages of the indices, and that counts as used until it is cut.
        await repeatedly("the journal of the audit log was not cut") { database in
            if try Int.fetchOne(database, sql: "PRAGMA freelist_count") ?? 0 > 0 {
                _ = try Row.fetchAll(database, sql: "PRAGMA wal_checkpoint(TRUNCATE)")
            }
            return false
        }
    }

    /// Other work gets its turn in between.
    ///
    /// - Parameter step: Tells whether there may be more to do.
    private func repeatedly(_ warning: String, _ step: @escaping @Sendable (Database) throws -> Bool) async {
        var more = true
        while more, !Task.isCancelled {
            do {
                more = try await writer.perform(within: Self.pruneTimeLimit) { [self] in
                    defer { measure() }
                    return try commit(waitingForLock: backgroundLockLimit, step)
                }
                clear(warning)
            } catch {
                more = false
                suspect()
                warn(warning, error)
            }
        }
    }

    private static let pruneTimeLimit: Duration = .seconds(30)
    private static let pruneLimit: Int64 = 2000
    private static let requestPruneLimit = 10_000

    /// The oldest up to the first one that is to stay. Requests are outside the chain, so nothing takes their place.
    ///
    /// - Returns: How many were removed.
    private static func pruneRequests(before cutoff: UnixTime, in database: Database) throws -> Int {
        try database.execute(
            sql: """
                DELETE FROM token_requests WHERE id IN (SELECT id FROM token_requests WHERE id < coalesce(
                    (SELECT id FROM token_requests NOT INDEXED WHERE at >= ? ORDER BY id LIMIT 1),
                    (SELECT max(id) + 1 FROM token_requests)) ORDER BY id LIMIT ?)
                """,
            arguments: [cutoff.rfc3339, requestPruneLimit]
        )
        return database.changesCount
    }

    /// - Returns: Whether there may be more to remove.
    private func prune(before cutoff: UnixTime, at now: UnixTime, in database: Database) throws -> Bool {
        var mayGoOn = false
        try database.inTransaction(.immediate) {
            try pruneUse(before: cutoff, in: database)
            let removable = state.withLock { options.isShipped ? $0.shipping.removableTo : .max }
            // Before all rows are looked at, again each minute while a database is away.
            let oldest = try Int64.fetchOne(database, sql: "SELECT min(id) FROM token_events") ?? 0
            state.withLock { $0.shipping.holdRetention(oldest > removable) }
            guard oldest <= removable else { return .commit }
            // The oldest rows up to the first one that is to stay: clocks jump, so times need not ascend.
            let range = try Row.fetchOne(
                database,
                sql: """
                    SELECT min(id), coalesce(
                        (SELECT min(id) FROM \(AuditSchema.rows) WHERE at >= ?),
                        (SELECT max(id) FROM \(AuditSchema.rows))) FROM \(AuditSchema.rows)
                    """,
                arguments: [cutoff.rfc3339]
            )
            let bounds = range.map { $0.databaseValues.map { Int64.fromDatabaseValue($0) } } ?? []
            guard bounds.count == 2, let first = bounds[0], let kept = bounds[1], first < kept else { return .commit }
            state.withLock { $0.shipping.holdRetention(removable < kept - 1) }
            let last = min(kept - 1, Int64(Int(first).adding(Int(Self.pruneLimit - 1))), removable)
            guard first <= last else { return .commit }
            try requireIntactRows(upTo: last, in: database)
            try checkpoint(upTo: last, at: now, in: database)
            try database.execute(sql: "DELETE FROM token_events WHERE id <= ?", arguments: [last])
            mayGoOn = last < min(kept - 1, removable)
            return .commit
        }
        return mayGoOn
    }

    private func pruneUse(before cutoff: UnixTime, in database: Database) throws {
        let shipped = options.isShipped ? try AuditNotes.useShippedBefore(in: database) ?? "" : cutoff.rfc3339
        try database.execute(
            sql: "DELETE FROM token_use WHERE minute < ?",
            arguments: [min(cutoff.rfc3339, shipped)]
        )
    }

    private func requireIntactRows(upTo last: Int64, in database: Database) throws {
        let start = try AuditCheckpoint.last(in: database)
        let position = ChainWalk.Position(id: start?.id ?? 0, hash: start?.hash ?? AuditChain.genesis)
        var walk = ChainWalk(after: position, chain: chain)
        let sql = "SELECT \(AuditSchema.columnList) FROM \(AuditSchema.rows) WHERE id <= ? ORDER BY id"
        try StatementRow.forEach(of: sql, arguments: [last], in: database) { row in
            do throws(AuditVerifier.Found) {
                try walk.step(to: row)
            } catch {
                throw AuditError("\(error.breach.explanation); it is kept as evidence, run `authgateway audit verify`")
            }
        }
    }

    private func checkpoint(upTo last: Int64, at now: UnixTime, in database: Database) throws {
        guard
            let hash = try String.fetchOne(
                database,
                sql: "SELECT hash FROM token_events WHERE id = ?",
                arguments: [last]
            )
        else { throw AuditError("a row of the audit log is missing; run `authgateway audit verify`") }
        try AuditCheckpoint(prunedTo: last, hash: hash, at: now).append(to: database, chain: chain)
    }
}
