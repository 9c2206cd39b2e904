import Crypto
import Foundation
import GRDB
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import Logging
import Testing

@testable import GatewayAudit

/// A log in a directory of its own, with what tests do to it.
final class AuditFixture: Sendable {
    let directory: TemporaryDirectory
    let clock = ManualClock()
    let keys: AuditKeys

    init() throws {
        directory = try TemporaryDirectory()
        keys = Self.keys(1)
    }

    static func keys(_ seed: UInt8) -> AuditKeys {
        AuditKeys(
            chain: SymmetricKey(data: [UInt8](repeating: seed, count: 32)),
            fingerprint: SymmetricKey(data: [UInt8](repeating: seed &+ 100, count: 32))
        )
    }

    var path: String { directory.file("audit.sqlite") }
    var head: String { path + ".head" }
    var reader: AuditReader { AuditReader(path: path) }

    func open(
        keys: AuditKeys? = nil,
        retention: Duration? = nil,
        busyTimeout: Duration = .seconds(5)
    ) throws(AuditError) -> SQLiteAuditLog {
        var options = SQLiteAuditLog.Options(path: path, instance: "gw-1", retention: retention)
        options.busyTimeout = busyTimeout
        return try open(options, keys: keys)
    }

    /// A log that is copied to a database.
    func openShipped(at path: String? = nil, retention: Duration? = nil) throws(AuditError) -> SQLiteAuditLog {
        var options = SQLiteAuditLog.Options(path: path ?? self.path, instance: "gw-1", retention: retention)
        options.isShipped = true
        return try open(options)
    }

    func open(_ options: SQLiteAuditLog.Options, keys: AuditKeys? = nil) throws(AuditError) -> SQLiteAuditLog {
        try SQLiteAuditLog(
            options: options,
            keys: keys ?? self.keys,
            clock: clock,
            logger: Logger(label: "audit") { _ in SwiftLogNoOpLogHandler() }
        )
    }

    func event(
        _ name: TokenEvent.Name = .acquired,
        credential: String? = "box",
        generation: Int? = 1,
        outcome: TokenEvent.Outcome = .ok
    ) -> TokenEvent {
        TokenEvent(
            at: clock.now().wall,
            name: name,
            credential: credential,
            strategy: "box_ccg",
            subject: "enterprise:12345",
            generation: generation,
            trigger: .demand,
            demand: CredentialRequest(route: "files", client: "cron", requestID: "r-1"),
            outcome: outcome,
            httpStatus: 200,
            errorCode: outcome == .failed ? "invalid_grant" : nil,
            expiresAt: clock.now().wall + .seconds(3600),
            duration: .milliseconds(120),
            waiters: 3,
            token: Secret("canary-token-\(generation ?? 0)"),
            detail: ["host": "api.example"]
        )
    }

    /// Writes `count` rows, one commit each, and closes the log.
    func write(_ count: Int) async throws {
        let log = try open()
        for number in 1...count { try await log.record(event(generation: number)) }
        await log.close()
    }

    /// As a log of 0.1.0 is, which has none of these.
    static let withoutViewsAndIndices =
        ["uses", "failures", "renewals", "requests"].map { "DROP VIEW IF EXISTS \($0);" }.joined()
        + AuditIndex.all.map { "DROP INDEX IF EXISTS \($0.name);" }.joined()

    /// Changes the file behind the log's back, the guards dropped first.
    func tamper(_ sql: String) throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let database = try DatabaseQueue(path: path, configuration: configuration)
        try database.writeWithoutTransaction { database in
            let triggers = try Row.fetchAll(database, sql: "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            for trigger in triggers { try database.execute(sql: "DROP TRIGGER \(trigger["name"] as String)") }
            try database.execute(sql: sql)
            for trigger in triggers { try database.execute(sql: trigger["sql"]) }
        }
        try database.close()
    }

    func verify(keys: AuditKeys? = nil) async throws(AuditError) -> AuditVerification {
        try await reader.verify(keys: keys ?? self.keys)
    }
}
