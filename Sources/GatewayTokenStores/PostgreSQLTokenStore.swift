package import Crypto
package import GatewayCore
package import GatewayFiles
import Synchronization

/// Keeps tokens in a PostgreSQL database that many gateways share, each row encrypted.
///
/// Each call is one short statement, and a transaction of its own: no transaction lasts over a call to an authority, and a pooler
/// in between may hand out a connection per transaction. Leases are compared with the database's clock alone.
package final class PostgreSQLTokenStore: TokenStore {
    struct State {
        /// The connection in which the tables and the key were looked at.
        var lookedAt = 0
        /// Which of ``sealers`` the database is encrypted with.
        var sealer = 0
        /// Why the last statement failed; nil when it did not.
        var lastFailure: TokenStoreError?
        /// The database takes no writes, although it may be read.
        var isReadOnly = false
    }

    package var isShared: Bool { true }

    /// For messages: without a password.
    let name: String
    let connection: PostgreSQLConnection
    let listener: PostgreSQLConnection
    let feed = TokenChangeFeed()
    let loads = TokenLoads()
    let sealers: [TokenSealer]
    /// Recognises the key that the rows are named with; nil where that is not looked at.
    let nameCheck: String?
    let limit: Duration
    /// Whether an empty database gets its tables.
    let makesTables: Bool
    let state = Mutex(State())

    /// Connects in the background; returns at once. ``prepare()`` finds out whether the database can be used.
    ///
    /// - Parameters:
    ///   - listening: How to reach the server for LISTEN, where a pooler is between it and `options`.
    ///   - keys: See ``SQLiteTokenStore``. All gateways need the key of the database.
    ///   - names: What the rows are named with: a gateway with another key would find none of them.
    ///   - limit: How long a caller waits.
    package init(
        _ options: PostgreSQLOptions,
        listening: PostgreSQLOptions? = nil,
        keys: [SymmetricKey],
        names: SymmetricKey? = nil,
        makesTables: Bool = true,
        limit: Duration = .seconds(5)
    ) {
        name = "the token database \(options.url)"
        self.limit = limit
        self.makesTables = makesTables
        sealers = keys.map { TokenSealer(key: $0) }
        nameCheck = names.map { TokenSealer(key: $0).keyCheck }
        connection = PostgreSQLConnection(options)
        var listening = listening ?? options
        listening.channel = TokenNotification.channel
        listener = PostgreSQLConnection(
            listening,
            onNotification: { [feed] in feed.take($0) },
            onConnection: { [feed] in feed.note(listens: $0.listens) },
            onDisconnection: { [feed] in feed.note(listens: false) }
        )
    }

    // MARK: Health

    package var failure: TokenStoreError? {
        if let failure = connection.failure { return .unavailable("\(name) cannot be used: \(failure.reason)") }
        return state.withLock { $0.lastFailure ?? ($0.isReadOnly ? readOnly : nil) }
    }

    package func look() async {
        _ = try? await inspect()
    }

    package func close() async {
        feed.close()
        await connection.close(within: .seconds(3))
        await listener.close(within: .seconds(1))
    }

    // MARK: Statements

    enum WriteEnd {
        case done([PostgreSQLRow])
        /// Another session has locked a row, and nothing was changed.
        case held(TokenStoreError)
    }

    /// Runs a statement that changes something: see ``run(_:)``.
    func write(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        switch try await writeUnlessHeld(statement) {
        case .done(let rows): return rows
        case .held(let error): throw error
        }
    }

    /// A row that is held says nothing of the others, so that ``failure`` stays as it is.
    func writeUnlessHeld(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> WriteEnd {
        do throws(TokenStoreError) {
            try await ensureReady()
            let end = try await writeAlone(statement)
            if case .done = end { state.withLock { ($0.lastFailure, $0.isReadOnly) = (nil, false) } }
            return end
        } catch {
            state.withLock { $0.lastFailure = error }
            throw error
        }
    }

    private func writeAlone(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> WriteEnd {
        do throws(PostgreSQLFailure) {
            return .done(try await connection.run(statement, within: limit))
        } catch {
            guard error.isOfHeldRow else { throw noted(error) }
            return .held(noted(error))
        }
    }

    /// Runs a statement once the tables and the key are known to be right.
    func run(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        do throws(TokenStoreError) {
            try await ensureReady()
            let rows = try await ask(statement)
            state.withLock { $0.lastFailure = nil }
            return rows
        } catch {
            state.withLock { $0.lastFailure = error }
            throw error
        }
    }

    func ask(_ statement: PostgreSQLStatement) async throws(TokenStoreError) -> [PostgreSQLRow] {
        do throws(PostgreSQLFailure) {
            return try await connection.run(statement, within: limit)
        } catch {
            throw noted(error)
        }
    }

    private func noted(_ failure: PostgreSQLFailure) -> TokenStoreError {
        if failure.isReadOnly { state.withLock { $0.isReadOnly = true } }
        return .unavailable(failure.words(for: name))
    }

    private var readOnly: TokenStoreError {
        .unavailable(PostgreSQLFailure(.refused("25006"), "the database is read-only").words(for: name))
    }
}
