import Foundation
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

        var hasWork: Bool { again != nil || !queue.isEmpty }

        mutating func next() -> PostgreSQLConnection.Work? { again.take() ?? queue.removeFirst() }

        mutating func refuseAll(_ reason: String) {
            while let work = next() { work.end.keep(.failure(PostgreSQLFailure(.notSent, reason))) }
        }
    }

    /// What has lasted so long is in trouble: callers do not wait for it any more.
    package static let patience: Duration = .seconds(2)
    /// Keepers that work at a time have a limit, and each waits for one statement. So this is reached only if they have many
    /// authorities that do not answer.
    static let maximumQueue = 65_536

    fileprivate let options: PostgreSQLOptions
    /// Internal for a test that fills the queue.
    let state = Mutex(State())
    fileprivate let wake = WakeUp()
    fileprivate let onNotification: @Sendable (String) -> Void
    /// Told on the thread, after each connection.
    fileprivate let onConnection: @Sendable (PostgreSQLServer) -> Void
    /// Told on the thread, after the end of each connection.
    fileprivate let onDisconnection: @Sendable () -> Void
    fileprivate let ended = Promise<Void>()

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
    var isDirect: Bool
    /// Notifications of ``PostgreSQLOptions/channel`` arrive here.
    package var listens = false

    /// The oldest major version that the gateway is tested with.
    static let minimumVersion = 15
    var majorVersion: Int { version / 10_000 }
}

/// What the thread of a ``PostgreSQLConnection`` does.
private struct PostgreSQLThread: ~Copyable {
    private let owner: PostgreSQLConnection
    private var session: LibPQ?
    private var failures = 0
    /// When this session began.
    private var openedAt = ContinuousClock.now
    private var nextAttempt = ContinuousClock.now
    /// Until now without an answer while nothing was asked: time to see whether the server is still there.
    private var nextProbe = ContinuousClock.now

    private static let probeInterval: Duration = .seconds(15)
    private static let setupLimit: Duration = .seconds(5)
    /// A server that takes no writes is given up for another one, or for other settings, at most this often.
    private static let renewalPause: Duration = .seconds(5)

    private var mayRenew: Bool { ContinuousClock.now - openedAt >= Self.renewalPause }

    private init(_ owner: PostgreSQLConnection) { self.owner = owner }

    static func start(_ owner: PostgreSQLConnection) {
        let thread = Thread {
            var thread = PostgreSQLThread(owner)
            thread.serve()
        }
        thread.name = "postgresql"
        thread.stackSize = 1 << 20
        thread.start()
    }

    private enum Step {
        case end
        case run(PostgreSQLConnection.Work)
        case wait
        case renew
    }

    private mutating func serve() {
        while true {
            switch nextStep() {
            case .end:
                endSession()
                owner.ended.keep(())
                return
            case .run(let work): run(work)
            case .wait: waitIdle()
            case .renew:
                endSession()
                nextAttempt = .now
            }
        }
    }

    private func nextStep() -> Step {
        let (hasSession, mayRenew) = (session != nil, self.mayRenew)
        return owner.state.withLock { state in
            Self.dropAbandoned(&state)
            if state.isClosed, !state.hasWork || !hasSession {
                state.refuseAll("the connection was closed")
                return .end
            }
            if state.isStale {
                state.isStale = false
                if hasSession, mayRenew { return .renew }
            }
            guard hasSession, let work = state.next() else { return .wait }
            return .run(work)
        }
    }

    /// The caller has left, or the deadline has passed: the statement is never sent.
    private static func dropAbandoned(_ state: inout PostgreSQLConnection.State) {
        while let work = state.again ?? state.queue.first, work.end.isKept || work.deadline <= .now {
            let failure = state.trouble?.failure.reason ?? "the server did not answer in time"
            work.end.keep(.failure(PostgreSQLFailure(.notSent, failure)))
            _ = state.next()
        }
    }

    // MARK: Without work

    private mutating func waitIdle() {
        if session == nil {
            guard ContinuousClock.now >= nextAttempt else {
                _ = owner.wake.wait(beside: nil, until: nextAttempt)
                return
            }
            connect()
            return
        }
        let isReadable = owner.wake.wait(beside: session?.socket, until: nextProbe)
        if isReadable { takeNotifications() } else if ContinuousClock.now >= nextProbe { probe() }
    }

    // MARK: Connecting

    private mutating func connect() {
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

    private mutating func run(_ work: PostgreSQLConnection.Work) {
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

    private mutating func endSession() {
        guard session != nil else { return }
        session = nil
        owner.onDisconnection()
    }

    private mutating func probe() {
        do throws(PostgreSQLFailure) {
            _ = try perform(PostgreSQLStatement("SELECT 1"), until: .now.advanced(by: Self.setupLimit))
        } catch {
            if error.endsConnection { lose(error) }
            nextProbe = .now.advanced(by: Self.probeInterval)
        }
    }

    private mutating func takeNotifications() {
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
