package import GatewayCore
import GatewayFiles

extension PostgreSQLTokenStore: SharedLocks {
    package var sharedLocks: (any SharedLocks)? { self }

    /// With this number of rows that others hold, the rest waits for the next call.
    private static let maximumHeld = 3

    package func update(
        locking added: Set<String>,
        unlocking removed: Set<String>
    ) async throws(TokenStoreError) -> SharedLockNames {
        let added = added.subtracting(removed)
        guard !added.isEmpty || !removed.isEmpty else { return try await lockedNames() }
        switch try await writeUnlessHeld(Self.change(added, removed)) {
        case .done(let rows): return Self.answer(rows)
        case .held(let error):
            let held = try await updateEach(of: added, removed)
            var answer = try await lockedNames()
            (answer.held, answer.reason) = (held, error.reason)
            return answer
        }
    }

    /// A row that another session holds keeps no other name from being told.
    ///
    /// - Returns: The names whose rows are held.
    private func updateEach(
        of added: Set<String>,
        _ removed: Set<String>
    ) async throws(TokenStoreError) -> Set<String> {
        let all = added.union(removed)
        guard all.count > 1 else { return all }
        var held: Set<String> = []
        // Each time in another order, so that every name has its turn.
        for name in all.shuffled() {
            if held.count < Self.maximumHeld,
                case .done = try await writeUnlessHeld(
                    Self.change(added.intersection([name]), removed.intersection([name]))
                )
            {
                continue
            }
            held.insert(name)
        }
        return held
    }

    private func lockedNames() async throws(TokenStoreError) -> SharedLockNames {
        Self.answer(try await run(Self.names))
    }

    private static func answer(_ rows: [PostgreSQLRow]) -> SharedLockNames {
        SharedLockNames(
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
            unlocked AS (DELETE FROM authgateway.lock WHERE name IN (SELECT name FROM removed) AND \(RowWait.isLimited)),
            locked AS (INSERT INTO authgateway.lock (name) SELECT name FROM added WHERE \(RowWait.isLimited)
            ON CONFLICT (name) DO NOTHING)
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
