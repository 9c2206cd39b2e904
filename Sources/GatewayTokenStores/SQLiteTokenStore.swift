package import Crypto
import Foundation
import GRDB
package import GatewayCore
import GatewayFiles
import Synchronization

/// Keeps tokens in an SQLite file, each row encrypted; survives a crash at any instant.
///
/// A write that was begun is finished even when the task that asked for it is cancelled: a rotated refresh token must
/// not be lost to an impatient caller.
package final class SQLiteTokenStore: TokenStore {
    let path: String
    /// Changed by ``rotate(to:)`` alone, on the database's thread.
    let sealer: Mutex<TokenSealer>
    let writer: SQLiteWriter
    /// Which of the keys that it was opened with is the store's.
    package let keyIndex: Int
    private let identity: FileIdentity?
    /// How long a caller waits for the disk.
    private let limit: Duration
    /// The file's clock, for leases.
    let now: @Sendable () -> UnixTime
    /// Why the last write failed; nil when it did not.
    private let lastFailure = Mutex<TokenStoreError?>(nil)

    package convenience init(
        path: String,
        key: SymmetricKey,
        ownsFile: Bool = false,
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10),
        now: @escaping @Sendable () -> UnixTime = SQLiteTokenStore.wallClock
    ) throws(TokenStoreError) {
        try self.init(
            path: path,
            keys: [key],
            ownsFile: ownsFile,
            busyTimeout: busyTimeout,
            limit: limit,
            now: now
        )
    }

    /// Opens or creates the store. Blocks; call it while starting.
    ///
    /// - Parameters:
    ///   - keys: ``InstallationKey/derived(for:)`` of `tokenStore`, of each key that the store may be encrypted with; a new
    ///     store takes the first.
    ///   - ownsFile: No other process uses the file, so leases of an earlier process have ended.
    ///   - now: The file's clock.
    /// - Throws: ``TokenStoreError/damaged(_:)`` when the store was written with none of them.
    package init(
        path: String,
        keys: [SymmetricKey],
        ownsFile: Bool = false,
        busyTimeout: Duration = .seconds(5),
        limit: Duration = .seconds(10),
        now: @escaping @Sendable () -> UnixTime = SQLiteTokenStore.wallClock
    ) throws(TokenStoreError) {
        self.path = path
        self.limit = limit
        self.now = now
        let sealers = keys.map { TokenSealer(key: $0) }
        do {
            try PrivateFile.ensure(path)
        } catch {
            throw .unavailable("\(path) cannot be opened: \(error.reason)")
        }
        do {
            writer = try SQLiteWriter(path, label: "token-store", lockLimit: busyTimeout)
            try writer.write { try $0.execute(sql: "PRAGMA secure_delete = ON") }
            identity = FileIdentity(path)
            keyIndex = try writer.write { try Self.prepare($0, path: path, keyChecks: sealers.map(\.keyCheck)) }
            if ownsFile { try writer.write(Self.forgetEarlierProcess) }
            sealer = Mutex(sealers[keyIndex])
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    /// nil once the store is closed.
    var database: DatabaseQueue? { writer.database }

    /// Why tokens cannot be saved at the moment, as far as is known without asking the disk; nil when they can.
    package var failure: TokenStoreError? {
        if let trouble = writer.trouble { return .unavailable(SQLiteFile.words(for: trouble, file: path, path: path)) }
        return lastFailure.withLock { $0 }
    }

    /// Finds out whether the file is in its place, and after a failure whether it can be written again.
    package func look() async {
        // While the thread waits, there is nothing to be found out.
        guard writer.trouble == nil else { return }
        let isInDoubt = lastFailure.withLock { $0 != nil }
        try? await write(within: SQLiteWriter.patience, waitingForLock: .milliseconds(200)) { database in
            guard isInDoubt else { return }
            try database.inTransaction(.immediate) {
                let version = try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
                try database.execute(sql: "PRAGMA user_version = \(version)")
                return .commit
            }
        }
    }

    private func requireFileInPlace() throws(TokenStoreError) {
        guard writer.track({ FileIdentity(path) }) != identity else { return }
        throw .unavailable(
            "\(path) is gone: it or its folder was moved or removed while the gateway runs. If it was moved, move it back. If "
                + "it is lost, restart the gateway: it begins with an empty store, and credentials with a login need a new one"
        )
    }

    /// - Parameters:
    ///   - limit: How long the caller waits; nil stands for the usual time. What has begun goes on.
    ///   - lock: How long another program that holds the file locked is waited for.
    func write<Value: Sendable>(
        within limit: Duration? = nil,
        waitingForLock lock: Duration? = nil,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws(TokenStoreError) -> Value {
        do throws(TokenStoreError) {
            let value = try await perform(within: limit) { [self] in
                try requireFileInPlace()
                return try writer.write(waitingForLock: lock, body)
            }
            lastFailure.withLock { $0 = nil }
            return value
        } catch {
            lastFailure.withLock { $0 = error }
            throw error
        }
    }

    /// Finishes the writes under way and closes the file; later calls fail with ``TokenStoreError/unavailable(_:)``.
    package func close() async { await writer.close(within: .seconds(3)) }

    /// Runs on the writer's thread: neither an event loop nor the caller's task waits for the disk.
    func perform<Value: Sendable>(
        within limit: Duration? = nil,
        _ body: @escaping @Sendable () throws -> Value
    ) async throws(TokenStoreError) -> Value {
        do {
            return try await writer.perform(within: limit ?? self.limit, body)
        } catch {
            throw Self.storeError(error, path: path)
        }
    }

    private static func storeError(_ error: any Error, path: String) -> TokenStoreError {
        if let error = error as? TokenStoreError { return error }
        let isDamage = (error as? DatabaseError).map {
            $0.resultCode == .SQLITE_CORRUPT || $0.resultCode == .SQLITE_NOTADB
        }
        let words = SQLiteFile.words(for: error, file: path, path: path)
        return isDamage == true ? .damaged(words) : .unavailable(words)
    }

    /// That of the machine, which all processes that can open the file share.
    @Sendable package static func wallClock() -> UnixTime {
        UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
    }
}
