package import GatewayCore
import GatewayPostgreSQL

extension PostgreSQLTokenStore: SharedLocks {
    package var sharedLocks: (any SharedLocks)? { self }

    package func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> Set<String> {
        let isQuestion = added.isEmpty && removed.isEmpty
        let rows =
            isQuestion
            ? try await run(PostgreSQLStatement("SELECT name FROM authgateway.lock", isRepeatable: true))
            : try await write(Self.change(added.subtracting(removed), removed))
        return Set(rows.compactMap { $0.text(0) })
    }

    /// What a statement changes is not yet visible in it.
    private static func change(_ added: Set<String>, _ removed: Set<String>) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH added AS (SELECT jsonb_array_elements_text($1::jsonb) AS name),
            removed AS (SELECT jsonb_array_elements_text($2::jsonb) AS name),
            unlocked AS (DELETE FROM authgateway.lock WHERE name IN (SELECT name FROM removed)),
            locked AS (INSERT INTO authgateway.lock (name) SELECT name FROM added ON CONFLICT (name) DO NOTHING)
            SELECT name FROM authgateway.lock WHERE name NOT IN (SELECT name FROM removed)
            UNION SELECT name FROM added
            """,
            [.text(list(added)), .text(list(removed))],
            isRepeatable: true
        )
    }

    private static func list(_ names: Set<String>) -> String {
        "[" + names.sorted().map(JSONString.quoted).joined(separator: ",") + "]"
    }
}
