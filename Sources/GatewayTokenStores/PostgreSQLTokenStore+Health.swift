import Foundation
package import GatewayCore
import GatewayFiles
import Synchronization

extension PostgreSQLTokenStore {
    /// Looks at the database, for `doctor`.
    package func inspect() async throws(TokenStoreError) -> DatabaseRule.Observation {
        let begun = Date()
        guard let row = try await run(Self.inspection).first, let time = row.integer(5) else {
            throw .unavailable("\(name) does not tell its settings")
        }
        // In the middle of question and answer.
        let now = Int64((begun.timeIntervalSince1970 + Date().timeIntervalSince1970) / 2 * 1000)
        var found = DatabaseRule.Observation(serverVersion: row.text(0) ?? "")
        found.isReadOnly = row.boolean(1) ?? false
        found.synchronousCommit = row.text(2) ?? ""
        found.synchronousStandbys = Int(row.integer(3) ?? 0)
        found.standbys = Int(row.integer(4) ?? 0)
        found.clockOffset = .milliseconds(time - now)
        found.listens = feed.listens
        state.withLock { $0.isReadOnly = found.isReadOnly }
        // The setting of a session outlasts its change in the database.
        if found.isReadOnly { connection.renew() }
        return found
    }

    /// A role without rights sees standbys, but not their state.
    private static let inspection = PostgreSQLStatement(
        """
        SELECT current_setting('server_version'), current_setting('transaction_read_only') = 'on',
        current_setting('synchronous_commit'),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NOT NULL),
        (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        """,
        isRepeatable: true
    )

    /// Returns once changes of others arrive by themselves, at the latest after `limit`.
    package func waitForNotifications(within limit: Duration) async {
        let end = ContinuousClock.now.advanced(by: limit)
        while !feed.listens, listener.server == nil, ContinuousClock.now < end {
            guard (try? await Task.sleep(for: .milliseconds(20))) != nil else { return }
        }
    }
}
