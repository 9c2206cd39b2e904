import Foundation
import GatewayHTTP
import Synchronization

extension PostgreSQLThread {
    // MARK: Connecting

    mutating func connect() {
        var failure = PostgreSQLFailure(.notSent, "the URL names no host")
        for settings in owner.options.attempts {
            do throws(PostgreSQLFailure) {
                try open(settings)
                return
            } catch {
                failure = error
            }
            if owner.state.withLock({ $0.isClosed }) { return }
        }
        failed(failure)
    }

    private mutating func open(_ settings: [(name: String, value: String)]) throws(PostgreSQLFailure) {
        let owner = owner
        let session = try LibPQ(
            settings,
            until: .now.advanced(by: owner.options.connectLimit),
            isWanted: { owner.state.withLock { !$0.isClosed } }
        )
        let server = try Self.prepare(session, owner.options.channel)
        self.session = session
        failures = 0
        openedAt = .now
        nextProbe = .now.advanced(by: Self.probeInterval)
        owner.state.withLock { state in
            state.trouble = nil
            state.facts = server
            state.connections += 1
        }
        owner.onConnection(server)
    }

    private static func prepare(_ session: LibPQ, _ channel: String?) throws(PostgreSQLFailure) -> PostgreSQLServer {
        var server = PostgreSQLServer(version: session.serverVersion, isDirect: false)
        guard server.majorVersion >= PostgreSQLServer.minimumVersion else {
            throw PostgreSQLFailure(
                .notSent,
                "the server is PostgreSQL \(server.majorVersion), and the gateway needs \(PostgreSQLServer.minimumVersion) or newer"
            )
        }
        let deadline = ContinuousClock.now.advanced(by: setupLimit)
        let backend = try session.run(PostgreSQLStatement("SELECT pg_backend_pid()"), until: deadline).rows.first
        server.isDirect = backend?.integer(0) == Int64(session.backend)
        guard server.isDirect else { return server }
        do {
            _ = try session.run(PostgreSQLOptions.serverSide, until: deadline)
        } catch {
            // A server that refuses this serves all the same.
            if error.endsConnection { throw error }
        }
        guard let channel else { return server }
        _ = try session.run(PostgreSQLStatement("LISTEN \"\(channel)\""), until: deadline)
        let channels = try session.run(PostgreSQLStatement("SELECT pg_listening_channels()"), until: deadline).rows
        server.listens = channels.contains { $0.text(0) == channel }
        return server
    }

    /// Callers that have waited are told once it has lasted; the next attempt comes by itself.
    private mutating func failed(_ failure: PostgreSQLFailure) {
        failures += 1
        let pause = 0.1 * Double(1 << min(failures - 1, 6))
        // Gateways that lost the same server must not all come back at the same moment.
        nextAttempt = .now.advanced(by: .seconds(min(pause, 5) * Double.random(in: 0.5...1)))
        note(failure)
    }

    private func note(_ failure: PostgreSQLFailure) {
        owner.state.withLock { state in
            let since = state.trouble?.since ?? .now
            state.trouble = (since, failure)
            guard ContinuousClock.now - since > PostgreSQLConnection.patience else { return }
            state.refuseAll(failure.reason)
        }
    }

    // MARK: Statements

    mutating func run(_ work: PostgreSQLConnection.Work) {
        owner.state.withLock { $0.begunAt = .now }
        defer { owner.state.withLock { $0.begunAt = nil } }
        do throws(PostgreSQLFailure) {
            let rows = try perform(work.statement, until: work.deadline)
            work.end.keep(.success(rows))
        } catch {
            let endsSession = error.endsConnection && (!error.isReadOnly || mayRenew)
            let isAgain = endsSession && isWorthAnotherConnection(error, for: work)
            if endsSession { lose(error) }
            guard isAgain else {
                work.end.keep(.failure(error))
                return
            }
            owner.state.withLock { $0.again = work }
        }
    }

    /// A statement that may have been carried out is sent again if it says that this does no harm.
    private func isWorthAnotherConnection(_ error: PostgreSQLFailure, for work: PostgreSQLConnection.Work) -> Bool {
        guard work.deadline > .now else { return false }
        return error.isReadOnly || error.kind == .notSent || work.statement.isRepeatable
    }

    private mutating func perform(
        _ statement: PostgreSQLStatement,
        until deadline: ContinuousClock.Instant
    ) throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        guard let current = session else { throw PostgreSQLFailure(.notSent, "there is no connection") }
        do throws(PostgreSQLFailure) {
            let result = try current.run(statement, until: deadline)
            nextProbe = .now.advanced(by: Self.probeInterval)
            deliver(result.notifications)
            return result.rows
        } catch {
            if error.kind == .unknown, current.isAlive { PostgreSQLCancellation.begin(current) }
            throw error
        }
    }

    /// The session ends; another one is opened at once.
    private mutating func lose(_ failure: PostgreSQLFailure) {
        endSession()
        nextAttempt = .now
        note(failure)
    }

    mutating func endSession() {
        guard session != nil else { return }
        session = nil
        owner.onDisconnection()
    }

    mutating func probe() {
        do throws(PostgreSQLFailure) {
            _ = try perform(PostgreSQLStatement("SELECT 1"), until: .now.advanced(by: Self.setupLimit))
        } catch {
            if error.endsConnection { lose(error) }
            nextProbe = .now.advanced(by: Self.probeInterval)
        }
    }

    mutating func takeNotifications() {
        guard let current = session else { return }
        guard let payloads = current.takeNotifications() else {
            endSession()
            // Not a failure yet: the next connection may come at once.
            nextAttempt = .now
            return
        }
        deliver(payloads)
    }

    private func deliver(_ payloads: [String]) {
        for payload in payloads { owner.onNotification(payload) }
    }
}
