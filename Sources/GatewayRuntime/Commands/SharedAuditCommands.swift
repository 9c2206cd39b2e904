import GatewayAudit
import GatewayCore
import GatewayFiles

/// What `audit … --all` does: reads the logs of all gateways in the database that they share.
package struct SharedAuditCommands: Sendable {
    private let settings: OperatorSettings
    private let database: PostgreSQLPlan
    private let style: AuditCommands.Style

    /// - Parameter configuration: The path of `gateway.yaml`, for `tokens`.
    package init(configuration: String, style: AuditCommands.Style) throws(CommandFailure) {
        settings = try OperatorSettings(configuration: configuration, readsDatabase: true)
        guard let database = settings.plan.tokens.database else {
            throw CommandFailure(
                .failed,
                "--all reads the database of tokens.store: postgres, and tokens.store is "
                    + "\(settings.plan.tokens.store.rawValue) here; leave out --all to read the log of this gateway"
            )
        }
        self.database = database
        self.style = style
    }

    /// Hands over line after line.
    package func query(
        _ filter: AuditCommands.Filter,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        let style = style
        try await with { reader in
            let filter = try await filter.resolved(names(of: reader))
            try await reader.forEach(filter) { row in
                let line = style.asJSON ? row.json : style.formatter.line(row)
                guard emit(line + "\n") else { throw CommandFailure(.ok) }
            }
        }
    }

    /// See ``AuditCommands/stats(by:last:)``.
    package func stats(by grouping: String? = nil, last: String? = nil) async throws(CommandFailure) -> String {
        let question = try AuditSums(by: grouping, last: last)
        var text = ""
        try await with { reader in
            guard let grouping = question.grouping else {
                text = try question.text(of: try await reader.stats(since: question.since), style)
                return
            }
            let upstreams = grouping == .upstream ? settings.plan.names.upstreams : [:]
            let usage = try await reader.usage(by: grouping, since: question.since, upstreams: upstreams)
            text = try question.text(of: usage, style)
        }
        return text
    }

    /// Hands over a line for each chain; for programs, all in the end.
    ///
    /// - Parameter key: The file of the installation key, in the place of the configuration's.
    /// - Throws: ``ExitStatus/verification`` when a chain was tampered with, ``ExitStatus/failed`` when one cannot be verified.
    package func verify(
        key: String?,
        emit: @escaping @Sendable (String) -> Bool
    ) async throws(CommandFailure) {
        let installation = if let key { try AuditCommands.key(at: key) } else { try settings.installationKey() }
        let keys = AuditKeys(installation)
        var report = SharedVerification()
        try await with { reader in
            for chain in try await reader.chains() {
                let result = try await reader.verify(chain, keys: keys)
                let line = report.add(chain, result)
                // Nobody may read the lines any more; the exit code still counts.
                if !style.asJSON { _ = emit(line) }
            }
            guard !report.chains.isEmpty else {
                throw CommandFailure(.failed, "\(LogText.clean(reader.name)) holds no audit log yet")
            }
        }
        if style.asJSON { _ = emit(try JSONText.pretty(report)) }
        guard let failure = report.failure else { return }
        throw style.asJSON ? CommandFailure(failure.status) : failure
    }

    private func names(of reader: SharedAuditReader) -> KnownNames {
        KnownNames(configured: settings.plan.names) { (kind) async throws(CommandFailure) in
            do throws(AuditError) {
                return try await reader.names(in: kind)
            } catch {
                throw CommandFailure(.failed, error.reason)
            }
        }
    }

    private func with(_ body: (SharedAuditReader) async throws -> Void) async throws(CommandFailure) {
        let reader = SharedAuditReader(Storage.options(database.url, database))
        let result: Result<Void, CommandFailure>
        do throws(CommandFailure) {
            try await AuditCommands.reading {
                try await reader.prepare()
                try await body(reader)
            }
            result = .success(())
        } catch {
            result = .failure(error)
        }
        await reader.close()
        try result.get()
    }
}
