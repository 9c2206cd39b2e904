import Dispatch
package import GRDB
import GatewayHTTP
import Synchronization

/// The one connection that writes an SQLite file, and its thread.
///
/// Only this thread waits for the disk and for other processes. A caller that gives it work waits for a limited time, and
/// ``trouble`` says from memory what it waits for.
package final class SQLiteWriter: Sendable {
    /// What the thread waits for.
    package enum Trouble: Hashable, Sendable {
        /// Another process holds a write transaction.
        case locked(Duration)
        /// The disk does not answer.
        case slow(Duration)
    }

    /// The work was not done within its limit.
    struct Overdue: Error {
        let trouble: Trouble
    }

    /// The database was closed before the work began.
    private struct Closed: Error {}

    private struct Work {
        let begunAt = SuspendingClock().now
        var isWaitingForLock = false

        var trouble: Trouble {
            let time = SuspendingClock().now - begunAt
            return isWaitingForLock ? .locked(time) : .slow(time)
        }

        var time: Duration { SuspendingClock().now - begunAt }
    }

    /// Work that has lasted so long is in trouble.
    package static let patience: Duration = .seconds(1)

    package let path: String
    private let label: String
    private let lockLimit: Duration
    private let thread: DispatchQueue
    private let connection: Mutex<DatabaseQueue?>
    private let work = Mutex<Work?>(nil)

    /// Opens or creates the file. Blocks; call it while starting.
    ///
    /// - Parameter lockLimit: How long to wait for another process that holds the file locked.
    package init(_ path: String, label: String, lockLimit: Duration) throws {
        self.path = path
        self.label = label
        self.lockLimit = lockLimit
        thread = DispatchQueue(label: label)
        connection = Mutex(try SQLiteFile.open(path, label: label, lockLimit: lockLimit))
    }

    /// nil after ``close(within:)``.
    package var database: DatabaseQueue? { connection.withLock { $0 } }

    /// What the thread has been waiting for, for longer than ``patience``; nil when it is not in trouble. Never waits.
    package var trouble: Trouble? { trouble(after: Self.patience) }

    /// What the thread has been waiting for, for at least this time.
    package func trouble(after time: Duration) -> Trouble? {
        work.withLock { work in work.flatMap { $0.time >= time ? $0.trouble : nil } }
    }

    // MARK: From any thread

    /// Has the thread do something after what it was given before. Returns at once.
    package func start(_ body: @escaping @Sendable () -> Void) { thread.async(execute: body) }

    /// Has the thread do something, and waits for the end of it.
    ///
    /// Work that has not begun within the limit is never done. Work that has begun goes on to its end.
    ///
    /// - Throws: ``Overdue`` after the limit, and at once while other work has lasted for as long.
    package func perform<Value: Sendable>(
        within limit: Duration,
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        if let trouble = trouble(after: limit) { throw Overdue(trouble: trouble) }
        let end = Promise<Result<Value, any Error>>()
        let watchdog = Task {
            // Cancelled when the work is done before.
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(.failure(Overdue(trouble: self.trouble(after: .zero) ?? .slow(limit))))
        }
        defer { watchdog.cancel() }
        start {
            guard !end.isKept else { return }
            end.keep(Result { try body() })
        }
        return try await end.value().get()
    }

    /// Closes the file once what was given before is done. What comes later fails.
    package func close(within limit: Duration) async {
        let end = Promise<Void>()
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(())
        }
        defer { watchdog.cancel() }
        start { end.keep(self.disconnect()) }
        await end.value()
    }

    // MARK: On the thread, or before anybody else has the writer

    /// Uses the connection. Another process that holds the file locked is waited for, for as long as `lockLimit` says; `body`
    /// begins anew then, so it must be one transaction.
    package func write<Value>(
        waitingForLock limit: Duration? = nil,
        _ body: (Database) throws -> Value
    ) throws -> Value {
        try track {
            guard let database else { throw Closed() }
            do {
                return try database.writeWithoutTransaction(body)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_BUSY {
                // Tried without waiting first, so that everybody can be told what is waited for.
                work.withLock { $0?.isWaitingForLock = true }
                return try database.writeWithoutTransaction { database in
                    let milliseconds = (limit ?? lockLimit).wholeMilliseconds
                    try database.execute(sql: "PRAGMA busy_timeout = \(milliseconds)")
                    defer { try? database.execute(sql: "PRAGMA busy_timeout = 0") }
                    return try body(database)
                }
            }
        }
    }

    /// Does something that may wait for the disk.
    package func track<Value>(_ body: () throws -> Value) rethrows -> Value {
        work.withLock { $0 = Work() }
        defer { work.withLock { $0 = nil } }
        return try body()
    }

    /// Lets the file go, and opens what is at the path by now.
    ///
    /// - Parameter prepare: Is called between the two.
    package func reopen(_ prepare: () throws -> Void) throws {
        try track {
            // A file that was moved away is whole then.
            _ = try? database?.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            disconnect()
            try prepare()
            let new = try SQLiteFile.open(path, label: label, lockLimit: lockLimit)
            connection.withLock { $0 = new }
        }
    }

    private func disconnect() {
        let old = connection.withLock { $0.take() }
        try? old?.close()
    }
}
