import Foundation
import GatewayApp
import GatewayAudit
import GatewayEvents
import GatewayHTTP

/// What a command shows of a log, and how.
struct AuditLines: Sendable {
    let filter: AuditFilterOptions
    /// nil for JSON.
    let formatter: AuditFormatter?
    let write: @Sendable (String) -> Bool

    /// - Returns: false when the reader of the output is gone.
    func emit(_ row: AuditRow) -> Bool { write((formatter?.line(row) ?? row.json) + "\n") }

    func emit(_ row: SharedAuditRow) -> Bool { write((formatter?.line(row) ?? row.json) + "\n") }

    func emit(_ row: AuditRequestRow) -> Bool { write((formatter?.line(row) ?? row.json) + "\n") }
}

/// The log of one gateway, which is read whether that runs or not.
struct LocalAuditLog: Sendable {
    let path: String
    /// nil when a database is named instead of the configuration's.
    let settings: OperatorSettings?
    let configuration: String

    /// - Throws: ``ExitStatus/configuration`` where a configuration is needed and is not there.
    func configured() throws(CommandFailure) -> OperatorSettings {
        if let settings { settings } else { try OperatorSettings(running: configuration) }
    }

    /// - Returns: Whether an event matches. If none does, a note on standard error says what is no event.
    @discardableResult
    func query(_ lines: AuditLines) async throws(CommandFailure) -> Bool {
        let filter = try await resolve(lines.filter)
        let count = try await Self.reading {
            try await AuditReader(path: path).forEach(filter) { row in
                guard lines.emit(row) else { throw CommandFailure(.ok) }
            }
        }
        if count == 0 {
            // A request may have caused no event, and be in the log all the same.
            let none = lines.filter.request == nil ? "no matching events" : nil
            let note = lines.filter.noteOnEvents(usage: settings?.plan.audit.usage) ?? none
            if let note { Console.writeError("\(note)\n") }
            try await noteBeginning(filter)
        }
        return count != 0
    }

    /// Says on standard error that a filter means a time before the log begins.
    func noteBeginning(_ filter: AuditFilter) async throws(CommandFailure) {
        guard let until = filter.until else { return }
        let beginning = try await Self.reading { try await AuditReader(path: path).beginning() } ?? nil
        guard let beginning, until.rfc3339 <= beginning else { return }
        Console.writeError("the log begins at \(LogText.clean(beginning)): it cannot tell what happened before\n")
    }

    /// The requests of `audit.usage: request`.
    ///
    /// - Parameter explainsNone: Whether finding none is an error where requests are not recorded.
    /// - Throws: ``ExitStatus/failed`` if the log cannot say which requests there were.
    func requests(_ lines: AuditLines, explainsNone: Bool = true) async throws(CommandFailure) {
        guard lines.filter.event == nil else {
            throw CommandFailure(.usage, "requests are not events: leave out --event, or --requests")
        }
        if settings?.plan.audit.usage == .request { await takeIn() }
        let filter = try await resolve(lines.filter)
        let count = try await Self.reading {
            try await AuditReader(path: path).forEachRequest(filter) { row in
                guard lines.emit(row) else { throw CommandFailure(.ok) }
            }
        }
        guard explainsNone, count == 0 else { return }
        if let gap = AuditFilterOptions.gapOfRequests(usage: settings?.plan.audit.usage) {
            throw CommandFailure(.failed, gap)
        }
        Console.writeError("no request matches\n")
    }

    /// How long uses may be in memory only: the gateway collects them every 5 seconds, and writes them every 10.
    fileprivate static let writingPause = 15

    /// Has the running gateway write the uses and requests that it has counted. Says so on standard error if the newest ones may be missing.
    func takeIn() async {
        guard let settings, settings.plan.audit.usage != .none, StateDirectory.isHeld(settings.plan.stateDirectory)
        else { return }
        // Without the token, the gateway would record that it has refused the request.
        if AdminToken.read(in: settings.plan.stateDirectory) != nil {
            let client = settings.client
            // A halted process must not keep a question that the file can answer.
            let isComplete = await Deadline.value(within: .seconds(4)) {
                (try? await client.ask(AdminAPI.operations.flushAudit))?.isComplete ?? false
            }
            if isComplete == true { return }
        }
        Console.writeError(
            "the running gateway did not write its newest counts: uses of the last \(Self.writingPause) s may be missing\n"
        )
    }

    func resolve(
        _ filter: AuditFilterOptions,
        mayBeMissing: Bool = false
    ) async throws(CommandFailure) -> AuditFilter {
        try await filter.resolved(names(mayBeMissing: mayBeMissing))
    }

    func names(mayBeMissing: Bool = false) -> KnownNames {
        let path = path
        return KnownNames(configured: settings?.plan.names) { (kind) async throws(CommandFailure) in
            // A log that is not there yet is one without names.
            if mayBeMissing, !FileManager.default.fileExists(atPath: path) { return [] }
            do throws(AuditError) {
                return try await AuditReader(path: path).names(in: kind)
            } catch {
                throw CommandFailure(.failed, error.reason)
            }
        }
    }

    /// A body that throws ``ExitStatus/ok`` ends the reading: the reader of the output is gone.
    ///
    /// - Returns: nil if it was ended that way.
    @discardableResult
    static func reading<Value>(_ body: () async throws -> Value) async throws(CommandFailure) -> Value? {
        do {
            return try await body()
        } catch let failure as CommandFailure {
            guard failure.status == .ok else { throw failure }
            return nil
        } catch {
            throw CommandFailure(.failed, (error as? AuditError)?.reason ?? "the audit log cannot be read")
        }
    }
}

/// What `--all` reads: the logs of all gateways, in the database that they share.
struct SharedAuditLogs: Sendable {
    let settings: OperatorSettings
    private let database: PostgreSQLPlan

    /// - Parameter configuration: The path of `gateway.yaml`, for `tokens`.
    init(configuration: String) throws(CommandFailure) {
        settings = try OperatorSettings(configuration: configuration, readsDatabase: true)
        guard let database = settings.plan.tokens.database else {
            throw CommandFailure(
                .failed,
                "--all reads the database of tokens.store: postgres, and tokens.store is "
                    + "\(settings.plan.tokens.store.rawValue) here; leave out --all to read the log of this gateway"
            )
        }
        self.database = database
    }

    func query(_ lines: AuditLines) async throws(CommandFailure) {
        try await read { reader in
            let filter = try await lines.filter.resolved(names(of: reader))
            var isEmpty = true
            try await reader.forEach(filter) { row in
                isEmpty = false
                guard lines.emit(row) else { throw CommandFailure(.ok) }
            }
            if isEmpty { Console.writeError("no matching events\n") }
        }
    }

    /// Says on standard error that the newest uses may be missing, where a period reaches up to now.
    func noteNewestUses(until: UnixTime?) {
        let pause = LocalAuditLog.writingPause
        let copied = SystemClock().now().wall + .seconds(-pause)
        guard settings.plan.audit.usage != .none, until.map({ $0 > copied }) ?? true else { return }
        Console.writeError(
            "gateways copy their counts to the database every few seconds: uses of the last \(pause) s may be missing\n"
        )
    }

    func names(of reader: SharedAuditReader) -> KnownNames {
        KnownNames(configured: settings.plan.names) { (kind) async throws(CommandFailure) in
            do throws(AuditError) {
                return try await reader.names(in: kind)
            } catch {
                throw CommandFailure(.failed, error.reason)
            }
        }
    }

    @discardableResult
    func read<Value: Sendable>(
        _ body: (SharedAuditReader) async throws -> Value
    ) async throws(CommandFailure) -> Value? {
        let reader = SharedAuditReader(Storage.options(database.url, database))
        let result: Result<Value?, CommandFailure>
        do throws(CommandFailure) {
            result = .success(
                try await LocalAuditLog.reading {
                    try await reader.prepare()
                    return try await body(reader)
                }
            )
        } catch {
            result = .failure(error)
        }
        await reader.close()
        return try result.get()
    }
}
