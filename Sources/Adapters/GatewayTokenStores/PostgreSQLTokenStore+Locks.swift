package import GatewayCore
import GatewayPostgreSQL

extension PostgreSQLTokenStore: SharedLocks {
    package var sharedLocks: (any SharedLocks)? { self }

    package func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let rows =
            added.isEmpty && removed.isEmpty
            ? try await run(Self.names) : try await write(Self.change(added.subtracting(removed), removed))
        return SharedLockNames(
            Set(rows.compactMap { $0.text(0) }),
            upTo: rows.first?.integer(1).map { FleetMark($0) }
        )
    }

    /// One row without a name where none is locked, for the mark.
    private static let names = PostgreSQLStatement(
        "SELECT name, \(FleetStatement.upTo) FROM (VALUES (1)) AS one LEFT JOIN authgateway.lock ON true",
        isRepeatable: true
    )

    /// What a statement changes is not yet visible in it.
    private static func change(_ added: Set<String>, _ removed: Set<String>) -> PostgreSQLStatement {
        PostgreSQLStatement(
            """
            WITH added AS (SELECT jsonb_array_elements_text($1::jsonb) AS name),
            removed AS (SELECT jsonb_array_elements_text($2::jsonb) AS name),
            unlocked AS (DELETE FROM authgateway.lock WHERE name IN (SELECT name FROM removed)),
            locked AS (INSERT INTO authgateway.lock (name) SELECT name FROM added ON CONFLICT (name) DO NOTHING)
            SELECT name, \(FleetStatement.upTo) FROM authgateway.lock WHERE name NOT IN (SELECT name FROM removed)
            UNION SELECT name, \(FleetStatement.upTo) FROM added
            """,
            [.text(list(added)), .text(list(removed))],
            isRepeatable: true
        )
    }

    private static func list(_ names: Set<String>) -> String {
        "[" + names.sorted().map(JSONString.quoted).joined(separator: ",") + "]"
    }
}
