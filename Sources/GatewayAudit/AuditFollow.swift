import Foundation
import GRDB
package import GatewayEvents
import GatewayFiles
import Synchronization

/// The rows of a log as they come. Ends when the task is cancelled.
package struct AuditFollow: AsyncSequence, Sendable {
    package typealias Element = AuditRow
    package typealias Failure = AuditError

    let path: String
    let after: Int64?
    let interval: Duration

    package func makeAsyncIterator() -> Iterator {
        Iterator(feed: AuditFeed(path: path, after: after), interval: interval)
    }

    package struct Iterator: AsyncIteratorProtocol {
        private let feed: AuditFeed
        private let interval: Duration
        private var ready: ArraySlice<AuditRow> = []

        init(feed: AuditFeed, interval: Duration) {
            self.feed = feed
            self.interval = interval
        }

        package mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(AuditError) -> AuditRow? {
            while ready.isEmpty {
                if Task.isCancelled { return nil }
                ready = try await feed.newRows()[...]
                guard ready.isEmpty else { break }
                guard (try? await Task.sleep(for: interval)) != nil else { return nil }
            }
            return ready.popFirst()
        }
    }
}

/// Asks one file for rows that are new since the last time, and opens it again when it was replaced.
final class AuditFeed: Sendable {
    private struct State {
        var connection: DatabaseQueue?
        var identity: FileIdentity?
        var version: Int64?
        /// nil until the first look at the log has shown where it ends.
        var last: Int64?
        /// The hash of the row `last`: it tells a log that was put back from another one with as many rows.
        var hash: String?
    }

    private static let batch = 500

    private let path: String
    private let queue = DispatchQueue(label: "audit-follow")
    private let state: Mutex<State>

    init(path: String, after: Int64?) {
        self.path = path
        state = Mutex(State(last: after))
    }

    func newRows() async throws(AuditError) -> [AuditRow] {
        let result: Result<[AuditRow], any Error> = await withCheckedContinuation { done in
            queue.async {
                done.resume(returning: Result { try self.state.withLock { try Self.read(self.path, &$0) } })
            }
        }
        switch result {
        case .success(let rows): return rows
        case .failure(let error): throw AuditError(error, file: path)
        }
    }

    private static func read(_ path: String, _ state: inout State) throws -> [AuditRow] {
        guard let identity = FileIdentity(path) else {
            // Not there yet, or taken away: whatever comes is new.
            state.connection = nil
            state.last = state.last ?? 0
            return []
        }
        if state.connection == nil || state.identity != identity {
            state.connection = try AuditReader.open(path)
            state.identity = identity
            state.version = nil
        }
        do {
            return try state.connection?.read { try rows($0, &state) } ?? []
        } catch let error as DatabaseError where isPassing(error) {
            state.connection = nil
            return []
        }
    }

    private static func rows(_ database: Database, _ state: inout State) throws -> [AuditRow] {
        // Changes whenever another connection commits; one cheap question instead of a search.
        let version = try Int64.fetchOne(database, sql: "PRAGMA data_version")
        guard version != state.version else { return [] }
        guard try hasTable(database) else { return [] }
        let end = try Int64.fetchOne(database, sql: "SELECT max(id) FROM token_events") ?? 0
        guard let last = state.last else {
            state.last = end
            state.version = version
            return []
        }
        let start = try isSameLog(database, last: last, end: end, hash: state.hash) ? last : 0
        var selection = AuditSelection(columns: AuditSchema.quotedColumns, table: AuditSchema.rows)
        selection.condition.add("id >", .integer(start))
        selection.limit = batch
        let found = try selection.rows(in: database)
        let rows = found.compactMap { AuditRow(Array($0.databaseValues)) }
        state.last = rows.last?.id ?? start
        state.hash = rows.last?.hash ?? (start == last ? state.hash : nil)
        if found.count < batch { state.version = version }
        return rows
    }

    /// False when the log was moved away and begins anew.
    private static func isSameLog(_ database: Database, last: Int64, end: Int64, hash: String?) throws -> Bool {
        guard end >= last else { return false }
        guard let hash else { return true }
        let found = try String.fetchOne(database, sql: "SELECT hash FROM token_events WHERE id = ?", arguments: [last])
        // A row that is gone was pruned.
        return found == nil || found == hash
    }

    /// Asked of the file each time: the answer that GRDB remembers would stay "no" for a table that comes a moment later.
    private static func hasTable(_ database: Database) throws -> Bool {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'token_events'"
        return try Int.fetchOne(database, sql: sql) == 1
    }

    /// What a restart of the gateway, or the creation of the file, may cause for a moment.
    private static func isPassing(_ error: DatabaseError) -> Bool {
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_CANTOPEN, .SQLITE_SCHEMA, .SQLITE_ERROR: true
        default: false
        }
    }
}
