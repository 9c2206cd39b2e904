package import GatewayCore
package import GatewayFiles
package import Logging
import Synchronization

/// Copies the local log to a database that gateways share, in its order, for as long as the log is open.
///
/// Has a connection of its own, so that rows that wait do not delay a lease. What the database does not take stays in the local log.
package final class AuditShipper: Sendable {
    private struct State {
        var failure: AuditShipping.Failure?
        var failures = 0
        /// The failure was told of.
        var complained = false
        var isFinishing = false
        var task: Task<Void, Never>?
    }

    /// Rows of `token_use`, and what has come without a commit of an event.
    private static let interval: Duration = .seconds(5)

    private let log: SQLiteAuditLog
    private let connection: PostgreSQLConnection
    private let database: String
    private let host: String
    private let isRequired: Bool
    private let limits: ShippedRows.Limits
    private let clock: any GatewayClock
    private let logger: Logger
    private let confirmations = ShippingConfirmations()
    private let state = Mutex(State())
    private let (wakes, wake) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

    /// Connects in the background; returns at once.
    ///
    /// - Parameter isRequired: `audit.store: postgres`.
    package convenience init(
        _ log: SQLiteAuditLog,
        to options: PostgreSQLOptions,
        host: String,
        isRequired: Bool,
        clock: any GatewayClock,
        logger: Logger
    ) {
        self.init(log, to: options, host: host, isRequired: isRequired, limits: .init(), clock: clock, logger: logger)
    }

    init(
        _ log: SQLiteAuditLog,
        to options: PostgreSQLOptions,
        host: String,
        isRequired: Bool,
        limits: ShippedRows.Limits,
        clock: any GatewayClock,
        logger: Logger
    ) {
        self.log = log
        self.host = host
        self.isRequired = isRequired
        self.limits = limits
        self.clock = clock
        self.logger = logger
        database = "the database \(options.url)"
        connection = PostgreSQLConnection(options)
        let task = Task { await self.run() }
        state.withLock { $0.task = task }
    }

    /// How the copy is doing, as far as is known. Never waits.
    package var shipping: AuditShipping {
        let failure = state.withLock { $0.failure }
        return AuditShipping(unshipped: log.unshippedEvents, failure: failure, isRequired: isRequired)
    }

    /// The same, if somebody should know.
    package var trouble: AuditShipping? {
        let shipping = shipping
        return shipping.trouble(at: clock.now().wall) == nil ? nil : shipping
    }

    /// - Returns: Why the database does not have the row; nil once it has.
    func confirm(_ row: Int64, within limit: Duration) async -> AuditError? {
        if !confirmations.isConfirmed(row), let failure = state.withLock({ $0.failure }),
            clock.now().wall - failure.since > limit
        {
            return Self.unconfirmed(failure.reason)
        }
        if await confirmations.wait(for: row, within: limit) { return nil }
        let reason = state.withLock { $0.failure?.reason } ?? "\(database) did not take it in time"
        return Self.unconfirmed(reason)
    }

    private static func unconfirmed(_ reason: String) -> AuditError {
        AuditError("the event is in the local log, and not yet in the database (audit.store: postgres): \(reason)")
    }

    /// Ships what is left, within a limit, and ends.
    package func finish(within limit: Duration = .seconds(3)) async {
        let task = state.withLock { state in
            state.isFinishing = true
            return state.task.take()
        }
        guard let task else { return }
        wake.yield()
        let end = Promise<Void>()
        Task {
            await task.value
            end.keep(())
        }
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(())
        }
        await end.value()
        watchdog.cancel()
        task.cancel()
        wake.finish()
        await connection.close(within: .seconds(1))
        await log.saveShippingProgress()
    }

    // MARK: The task

    private var isFinishing: Bool { state.withLock { $0.isFinishing } }

    private func run() async {
        await withTaskGroup { group in
            group.addTask { [log, wake] in
                for await _ in log.headChanges { wake.yield() }
            }
            group.addTask { [wake] in
                while (try? await Task.sleep(for: Self.interval)) != nil { wake.yield() }
            }
            await work()
            group.cancelAll()
        }
    }

    private func work() async {
        var run = makeRun()
        var wakes = wakes.makeAsyncIterator()
        var saved = ContinuousClock.now
        while true {
            let begun = clock.now().wall
            var failure: ShippingRun.Failure?
            do throws(ShippingRun.Failure) {
                try await run.ship(isLast: isFinishing) { !Task.isCancelled }
            } catch {
                failure = error
            }
            // Nothing was sent, perhaps: the connection knows by itself whether the server is there.
            let lost = connection.failure.map { ShippingRun.Failure(reason: run.words(for: $0)) }
            let pause = ended(failure ?? lost, begunAt: begun)
            if isFinishing || Task.isCancelled { return }
            if ContinuousClock.now - saved > .seconds(60) {
                await log.saveShippingProgress()
                saved = .now
            }
            if let pause {
                guard (try? await Task.sleep(for: pause)) != nil else { return }
            } else if await wakes.next() == nil {
                return
            }
        }
    }

    private func makeRun() -> ShippingRun {
        ShippingRun(
            log: log,
            connection: connection,
            database: database,
            host: host,
            limits: limits,
            confirm: { [confirmations] in confirmations.confirm(to: $0) },
            forked: { [self] difference, old in
                logger.warning(
                    "The audit log is shipped to the database under a new name, since its copy there is that of another log",
                    metadata: [
                        "chain": "\(log.chainName)", "earlier_chain": "\(old)",
                        "difference": "\(difference.explanation)",
                        "cause": "this state was copied or restored, or rows were changed",
                        "remedy": "if it was neither copied nor restored, run `authgateway audit verify`",
                    ]
                )
            }
        )
    }

    /// - Returns: How long to wait before the next attempt; nil after one that did not fail.
    private func ended(_ failure: ShippingRun.Failure?, begunAt begun: UnixTime) -> Duration? {
        let failures = state.withLock { state in
            state.failures = failure == nil ? 0 : state.failures + 1
            state.failure = failure.map {
                AuditShipping.Failure(since: state.failure?.since ?? begun, reason: $0.reason)
            }
            return state.failures
        }
        tell()
        return failures == 0 ? nil : ShippedChain.pause(afterFailures: failures, jitter: .random(in: 0.5...1))
    }

    /// Once, when a failure has lasted, and once when it is over.
    private func tell() {
        let shipping = shipping
        let trouble = shipping.trouble(at: clock.now().wall)
        let (isNews, isOver) = state.withLock { state in
            let isNews = trouble != nil && !state.complained
            let isOver = shipping.failure == nil && state.complained
            if isNews || isOver { state.complained = isNews }
            return (isNews, isOver)
        }
        let metadata: Logger.Metadata = ["database": "\(database)", "unshipped": "\(shipping.unshipped)"]
        if let trouble, isNews {
            logger.warning(
                "The database does not take the audit log; events wait in the local log",
                metadata: metadata.merging(["reason": "\(trouble.reason)", "since": "\(trouble.since.rfc3339)"]) { $1 }
            )
        } else if isOver {
            logger.notice("The database takes the audit log again", metadata: metadata)
        }
    }
}
