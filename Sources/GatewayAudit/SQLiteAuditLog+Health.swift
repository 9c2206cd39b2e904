import GRDB
package import GatewayCore
import GatewayFiles
import Logging
import Synchronization

/// How the log is doing, as far as is known without asking the disk.
package struct AuditHealth: Hashable, Sendable {
    /// Why events cannot be recorded at the moment; nil when they can.
    package var failure: AuditError?
    package var room: AuditRoom
    /// The database was gone, and a new one was begun.
    package var loss: AuditLoss?
    /// What operators took away, and what the log does not hold yet.
    package var unrecorded: Int
    /// The next start will have no key for the log.
    package var isKeyMissing: Bool
}

extension SQLiteAuditLog {
    /// How long background work waits for a lock of another program.
    var backgroundLockLimit: Duration { min(options.busyTimeout, .seconds(1)) }
    private static let probeLockLimit: Duration = .milliseconds(200)

    /// Never waits.
    package var health: AuditHealth {
        let waiting = overdue
        return state.withLock { state in
            AuditHealth(
                failure: waiting ?? state.failure,
                room: state.room,
                loss: state.loss,
                unrecorded: state.events.unrecorded.count,
                isKeyMissing: state.isKeyMissing
            )
        }
    }

    /// What the thread waits for, when it does for long.
    var overdue: AuditError? {
        writer.trouble.map { trouble in
            let name = "the audit log \(options.path)"
            return AuditError(SQLiteFile.words(for: trouble, file: name, path: options.path))
        }
    }

    func hasRoom(for priority: AuditPriority) -> Bool {
        state.withLock { $0.room.shortage(for: priority) == nil }
    }

    /// A write failed that is no event.
    func suspect() { state.withLock { $0.isSuspect = true } }

    func remember(_ result: Result<Void, any Error>) {
        let error: (any Error)? = if case .failure(let error) = result { error } else { nil }
        let isDiskFull = (error as? DatabaseError)?.resultCode == .SQLITE_FULL
        state.withLock { state in
            state.failure = error.map { auditError($0, file: options.path) }
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
    func measure() {
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
        logger.warning("the audit log takes less", metadata: ["refused": "\(priority)", "reason": "\(reason)"])
    }
}
