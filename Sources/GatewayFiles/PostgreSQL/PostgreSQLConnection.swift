import GatewayHTTP
import Synchronization

/// One connection to a database and its thread, which alone waits for the network.
///
/// It connects by itself, and again with growing pauses after a failure. A caller waits for a limited time.
package final class PostgreSQLConnection: Sendable {
    struct Work {
        let statement: PostgreSQLStatement
        let deadline: ContinuousClock.Instant
        let end: Promise<Result<[PostgreSQLRow], PostgreSQLFailure>>
    }

    struct State {
        /// The first one goes next. All have much the same time, so the first one has the earliest deadline.
        var queue = FirstInFirstOut<Work>()
        /// Goes before the queue: its connection ended under it.
        var again: Work?
        var isClosed = false
        /// Another session is wanted, with the present settings of the server.
        var isStale = false
        /// Since when, and why, there is no connection.
        var trouble: (since: ContinuousClock.Instant, failure: PostgreSQLFailure)?
        var facts: PostgreSQLServer?
        var connections = 0
        /// What the thread works on.
        var begunAt: ContinuousClock.Instant?
    }

    /// What has lasted so long is in trouble: callers do not wait for it any more.
    package static let patience: Duration = .seconds(2)
    /// Keepers that work at a time have a limit, and each waits for one statement. So this is reached only if they have many
    /// authorities that do not answer.
    static let maximumQueue = 65_536

    let options: PostgreSQLOptions
    let state = Mutex(State())
    let wake = WakeUp()
    let onNotification: @Sendable (String) -> Void
    /// Told on the thread, after each connection.
    let onConnection: @Sendable (PostgreSQLServer) -> Void
    /// Told on the thread, after the end of each connection.
    let onDisconnection: @Sendable () -> Void
    let ended = Promise<Void>()

    /// Starts to connect; returns at once.
    package init(
        _ options: PostgreSQLOptions,
        onNotification: @escaping @Sendable (String) -> Void = { _ in },
        onConnection: @escaping @Sendable (PostgreSQLServer) -> Void = { _ in },
        onDisconnection: @escaping @Sendable () -> Void = {}
    ) {
        self.options = options
        self.onNotification = onNotification
        self.onConnection = onConnection
        self.onDisconnection = onDisconnection
        PostgreSQLThread.start(self)
    }

    /// What is known of the server; nil before the first connection.
    package var server: PostgreSQLServer? { state.withLock { $0.facts } }

    /// How often it has connected: what was found out in an earlier connection may be true no more.
    package var connections: Int { state.withLock { $0.connections } }

    /// Why statements fail at the moment, as far as is known without asking; nil when they do not.
    package var failure: PostgreSQLFailure? {
        state.withLock { state in
            if let trouble = state.trouble { return trouble.failure }
            guard let begunAt = state.begunAt, ContinuousClock.now - begunAt > Self.patience else { return nil }
            return PostgreSQLFailure(
                .unknown,
                "the server has not answered for \((ContinuousClock.now - begunAt).wholeMilliseconds / 1000) s"
            )
        }
    }

    /// Runs a statement. One that was not sent within the limit is never sent.
    ///
    /// - Throws: At once when there has been no connection for ``patience``.
    package func run(
        _ statement: PostgreSQLStatement,
        within limit: Duration
    ) async throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        let end = Promise<Result<[PostgreSQLRow], PostgreSQLFailure>>()
        let work = Work(statement: statement, deadline: .now.advanced(by: limit), end: end)
        try submit(work)
        wake.signal()
        let watchdog = Task {
            // The thread ends the statement itself, unless the look-up of a name or a full disk blocks it.
            guard (try? await Task.sleep(for: limit + .seconds(1))) != nil else { return }
            end.keep(.failure(PostgreSQLFailure(.unknown, "the server did not answer in time")))
        }
        defer { watchdog.cancel() }
        return try await end.value().get()
    }

    private func submit(_ work: Work) throws(PostgreSQLFailure) {
        let failure = state.withLock { state -> PostgreSQLFailure? in
            if state.isClosed { return PostgreSQLFailure(.notSent, "the connection was closed") }
            if let trouble = state.trouble, ContinuousClock.now - trouble.since > Self.patience {
                return PostgreSQLFailure(.notSent, trouble.failure.reason)
            }
            guard state.queue.count < Self.maximumQueue else {
                return PostgreSQLFailure(.notSent, "too many statements wait for the server")
            }
            state.queue.append(work)
            return nil
        }
        if let failure { throw failure }
    }

    /// Connects anew: the server may have other settings by now, or another one may be right. Nothing happens to a connection
    /// that is younger than 5 s.
    package func renew() {
        state.withLock { $0.isStale = true }
        wake.signal()
    }

    /// Ends after what was given before. What comes later fails.
    package func close(within limit: Duration) async {
        let isFirst = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard isFirst else { return }
        wake.signal()
        let ended = ended
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            ended.keep(())
        }
        defer { watchdog.cancel() }
        await ended.value()
    }
}

/// What a server said of itself when the connection began.
package struct PostgreSQLServer: Hashable, Sendable {
    /// 150003 for 15.3.
    package var version: Int
    /// Neither a pooler is in between nor anything else that hands out connections of its own.
    package var isDirect: Bool
    /// Notifications of ``PostgreSQLOptions/channel`` arrive here.
    package var listens = false

    /// The oldest major version that the gateway is tested with.
    package static let minimumVersion = 15
    package var majorVersion: Int { version / 10_000 }
}
