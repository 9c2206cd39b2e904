import Foundation
import GatewayAudit
import GatewayCore
import GatewayTokenStores

/// What `audit …` does: reads the log, whether the gateway runs or not.
package struct AuditCommands: Sendable {
    package struct Filter: Sendable {
        package var credential: String?
        package var route: String?
        package var client: String?
        package var event: String?
        /// The gateway's id of a request, or the client's.
        package var request: String?
        /// RFC 3339, or a duration back from now such as `2h`.
        package var since: String?
        package var until: String?
        package var failedOnly = false
        package var limit: Int?

        package init() {}
    }

    package struct Style: Sendable {
        package var asJSON: Bool
        package var usesLocalTime: Bool
        package var usesColor: Bool

        package init(asJSON: Bool, usesLocalTime: Bool = false, usesColor: Bool = false) {
            self.asJSON = asJSON
            self.usesLocalTime = usesLocalTime
            self.usesColor = usesColor
        }

        var formatter: AuditFormatter {
            AuditFormatter(coloured: usesColor, offset: usesLocalTime ? LocalTime.offset : nil)
        }
    }

    /// nil when a database is named instead of the configuration's.
    let settings: OperatorSettings?
    private let configuration: String
    let path: String
    let style: Style

    /// - Parameter path: The database; nil takes it from the configuration.
    package init(configuration: String, path: String?, style: Style) throws(CommandFailure) {
        self.configuration = configuration
        self.style = style
        if let path {
            self.path = path
            settings = nil
        } else {
            let settings = try OperatorSettings(running: configuration)
            self.path = settings.plan.audit.path
            self.settings = settings
        }
    }

    /// Hands over line after line; with `follow` until the task is cancelled or the reader is gone.
    package func tail(
        _ count: Int,
        filter: Filter,
        follow: Bool,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        let reader = AuditReader(path: path)
        var filter = try await resolve(filter, mayBeMissing: follow)
        filter.limit = count
        var last: Int64?
        do throws(AuditError) {
            // Following begins with what is there, or with nothing when the log does not exist yet.
            if !follow || FileManager.default.fileExists(atPath: path) {
                last = try await reader.tail(last: 1).last?.id
                let rows = try await reader.query(filter)
                // A row that was committed between the two questions is not shown again.
                last = [last, rows.last?.id].compactMap(\.self).max()
                for row in rows where !emit(line(row)) { return }
            }
            guard follow else { return }
            for try await row in reader.follow(after: last ?? 0) where matches(row, filter) && !emit(line(row)) {
                return
            }
        } catch {
            throw CommandFailure(.failed, error.reason)
        }
    }

    /// - Returns: Whether an event matches. If none does, a note on standard error says what is no event.
    @discardableResult
    package func query(
        _ filter: Filter,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) -> Bool {
        let resolved = try await resolve(filter)
        let count = try await Self.reading {
            try await AuditReader(path: path).forEach(resolved) { row in
                guard emit(line(row)) else { throw CommandFailure(.ok) }
            }
        }
        if count == 0, let note = filter.noteOnEvents(usage: settings?.plan.audit.usage) {
            Console.writeError("\(note)\n")
        }
        return count != 0
    }

    /// The requests of `audit.usage: request`.
    ///
    /// - Parameter explainsNone: Says on standard error why there is none, where requests are not recorded.
    package func requests(
        _ filter: Filter,
        explainsNone: Bool = true,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        guard filter.event == nil else {
            throw CommandFailure(.usage, "requests are no events: leave out --event, or --requests")
        }
        let resolved = try await resolve(filter)
        let count = try await Self.reading {
            try await AuditReader(path: path).forEachRequest(resolved) { row in
                guard emit(line(row)) else { throw CommandFailure(.ok) }
            }
        }
        guard explainsNone, count == 0 else { return }
        if let note = Filter.noteOnRequests(usage: settings?.plan.audit.usage) { Console.writeError("\(note)\n") }
    }

    /// - Throws: ``ExitStatus/configuration`` where a configuration is needed and is not there.
    func configured() throws(CommandFailure) -> OperatorSettings {
        if let settings { settings } else { try OperatorSettings(running: configuration) }
    }

    private func line(_ row: AuditRow) -> String { (style.asJSON ? row.json : style.formatter.line(row)) + "\n" }

    private func line(_ row: AuditRequestRow) -> String { (style.asJSON ? row.json : style.formatter.line(row)) + "\n" }

    private func resolve(_ filter: Filter, mayBeMissing: Bool = false) async throws(CommandFailure) -> AuditFilter {
        let path = path
        let names = KnownNames(configured: settings?.plan.names) { (kind) async throws(CommandFailure) in
            // A log that is not there yet is one without names.
            if mayBeMissing, !FileManager.default.fileExists(atPath: path) { return [] }
            do throws(AuditError) {
                return try await AuditReader(path: path).names(in: kind)
            } catch {
                throw CommandFailure(.failed, error.reason)
            }
        }
        return try await filter.resolved(names)
    }

    private func matches(_ row: AuditRow, _ filter: AuditFilter) -> Bool {
        if let credential = filter.credential {
            guard row.credential == credential || row.credential?.hasPrefix("\(credential)[") == true else {
                return false
            }
        }
        if let route = filter.route, row.route != route { return false }
        if let client = filter.client, row.client != client { return false }
        if let event = filter.event, row.event != event.rawValue { return false }
        if let request = filter.request, !row.concerns(request: request) { return false }
        if let at = UnixTime(rfc3339: row.at) {
            if let since = filter.since, at < since { return false }
            if let until = filter.until, at >= until { return false }
        }
        return !filter.failedOnly || row.failed
    }
}

extension AuditCommands {
    /// A body that throws ``ExitStatus/ok`` ends the reading: nobody reads what is printed.
    ///
    /// - Returns: nil where it was ended so.
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

extension AuditKeys {
    init(_ key: InstallationKey) {
        self.init(chain: key.derived(for: .auditChain), fingerprint: key.derived(for: .tokenFingerprint))
    }
}
