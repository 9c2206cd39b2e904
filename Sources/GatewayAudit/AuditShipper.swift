package import GatewayEvents
package import GatewayFiles
package import GatewayHTTP
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

    /// ``shipping``, if a failure has lasted long enough to be reported; otherwise nil.
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
        let reason = state.withLock { $0.failure?.reason } ?? "\(database) did not accept it in time"
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
            var failure: AuditError?
            do throws(AuditError) {
                try await run.ship(isLast: isFinishing) { !Task.isCancelled }
            } catch {
                failure = error
            }
            // Nothing was sent, perhaps: the connection knows by itself whether the server is there.
            let lost = connection.failure.map { AuditError(run.words(for: $0)) }
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
    private func ended(_ failure: AuditError?, begunAt begun: UnixTime) -> Duration? {
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
        let (hasBegun, isOver) = state.withLock { state in
            let hasBegun = trouble != nil && !state.complained
            let isOver = shipping.failure == nil && state.complained
            if hasBegun || isOver { state.complained = hasBegun }
            return (hasBegun, isOver)
        }
        let metadata: Logger.Metadata = ["database": "\(database)", "unshipped": "\(shipping.unshipped)"]
        if let trouble, hasBegun {
            logger.warning(
                "The database does not accept the audit log; events wait in the local log",
                metadata: metadata.merging(["reason": "\(trouble.reason)", "since": "\(trouble.since.rfc3339)"]) { $1 }
            )
        } else if isOver {
            logger.notice("The database accepts the audit log again", metadata: metadata)
        }
    }
}

/// One pass after the other over what the shared database does not have yet. Used by one task.
struct ShippingRun {
    let log: SQLiteAuditLog
    let connection: PostgreSQLConnection
    /// For messages: without a password.
    let database: String
    let host: String
    let limits: ShippedRows.Limits
    /// Told of each row that the database has.
    let confirm: @Sendable (Int64) -> Void
    /// Told when the chain gets another name, and why.
    let forked: @Sendable (ShippedChain.Difference, _ old: String) -> Void

    /// The chain and what the database has of it; nil when it has to be asked.
    private var known: (chain: String, copy: ShippedChain.Copy)?
    /// Whether the database has columns for refusals: `authgateway store migrate` adds them.
    private var takesRefusals = false
    private var removedTo: Int64 = 0
    private var nextUses = ContinuousClock.now
    private var nextCleaning = ContinuousClock.now

    private static let statementLimit: Duration = .seconds(15)
    private static let usesInterval: Duration = .seconds(5)
    private static let cleaningInterval: Duration = .seconds(3600)

    init(
        log: SQLiteAuditLog,
        connection: PostgreSQLConnection,
        database: String,
        host: String,
        limits: ShippedRows.Limits,
        confirm: @escaping @Sendable (Int64) -> Void,
        forked: @escaping @Sendable (ShippedChain.Difference, String) -> Void
    ) {
        self.log = log
        self.connection = connection
        self.database = database
        self.host = host
        self.limits = limits
        self.confirm = confirm
        self.forked = forked
    }

    /// Returns once the database has everything. Uses and the work of retention have their turn now and then.
    ///
    /// - Parameters:
    ///   - isLast: No other pass comes.
    ///   - isWanted: Asked between statements.
    mutating func ship(isLast: Bool, while isWanted: () -> Bool) async throws(AuditError) {
        if isLast { nextUses = .now }
        do {
            while isWanted() {
                let (chain, copy) = try await position()
                if let shipment = try await log.shipment(after: copy, limits), shipment.chain == chain {
                    try await send(shipment)
                    continue
                }
                guard ContinuousClock.now >= nextUses else { return }
                if try await shipUses(chain, copy) { continue }
                if try await clean(chain, copy) { continue }
                nextUses = .now.advanced(by: Self.usesInterval)
                return
            }
        } catch let failure as PostgreSQLFailure {
            known = nil
            throw AuditError(words(for: failure))
        } catch let error as AuditError {
            known = nil
            throw error
        } catch {
            known = nil
            throw AuditError("an unknown error")
        }
    }

    // MARK: Where the copy ends

    /// Another copy of the log may have shipped rows under the same name: this one takes another name then.
    private mutating func position() async throws -> (String, ShippedChain.Copy) {
        let chain = log.chainName
        if let known, known.chain == chain { return known }
        let row = try await run(ShippingStatement.copy(of: chain)).first
        let copy = ShippedChain.Copy(head: row.flatMap { $0.link(0) }, checkpoint: row.flatMap { $0.link(2) })
        takesRefusals = row?.boolean(4) == true
        let facts = try await log.facts(for: copy)
        guard log.chainName == chain else { return try await position() }
        guard let difference = ShippedChain.difference(between: facts, and: copy) else {
            known = (chain, copy)
            (removedTo, nextCleaning) = (0, .now)
            note(max(copy.head?.id ?? 0, facts.removedTo?.id ?? 0))
            return (chain, copy)
        }
        try await log.takeNewChainName()
        confirm(0)
        forked(difference, chain)
        return try await position()
    }

    private func note(_ row: Int64) {
        log.withShipping { $0.confirm(to: row) }
        confirm(row)
    }

    // MARK: Rows

    private mutating func send(_ shipment: AuditShipment) async throws {
        let keyCheck = log.chain.keyCheck
        let rows = try await run(ShippingStatement.add(shipment, host: host, keyCheck: keyCheck))
        guard !rows.isEmpty else {
            // The copy has moved: the answer to an earlier statement was lost, or another log has this name.
            known = nil
            return
        }
        let copy = ShippedChain.Copy(head: shipment.after, checkpoint: shipment.lastCheckpoint)
        known = (shipment.chain, copy)
        note(shipment.after.id)
    }

    /// - Returns: Whether there may be more to do.
    private mutating func shipUses(_ chain: String, _ copy: ShippedChain.Copy) async throws -> Bool {
        guard let head = copy.head, let uses = try await log.useShipment(limits), uses.chain == chain else {
            return false
        }
        guard try await !run(ShippingStatement.put(uses, head: head, hasRefusals: takesRefusals)).isEmpty else {
            known = nil
            return true
        }
        try await log.shipped(uses)
        return true
    }

    // MARK: What retention has removed

    /// - Returns: Whether there may be more to do.
    private mutating func clean(_ chain: String, _ copy: ShippedChain.Copy) async throws -> Bool {
        let covered = try await log.facts(for: copy).removedTo?.id ?? 0
        if covered > removedTo, covered <= copy.head?.id ?? 0 {
            let count = try await run(ShippingStatement.removeEvents(of: chain, upTo: covered)).first?.integer(0) ?? 0
            if count < ShippingStatement.removalLimit { removedTo = covered }
            return true
        }
        guard ContinuousClock.now >= nextCleaning, let first = try await log.firstUse() else { return false }
        let count = try await run(ShippingStatement.removeUses(of: chain, before: first)).first?.integer(0) ?? 0
        if count < ShippingStatement.removalLimit { nextCleaning = .now.advanced(by: Self.cleaningInterval) }
        return true
    }

    // MARK: Statements

    private func run(_ statement: PostgreSQLStatement) async throws(PostgreSQLFailure) -> [PostgreSQLRow] {
        try await connection.run(statement, within: Self.statementLimit)
    }

    func words(for failure: PostgreSQLFailure) -> String { failure.words(for: database) }
}

extension PostgreSQLRow {
    /// An id and a hash behind it.
    fileprivate func link(_ column: Int) -> ShippedChain.Link? {
        guard let id = integer(column), let hash = text(column + 1) else { return nil }
        return ShippedChain.Link(id: id, hash: hash)
    }
}

/// Callers that wait until a row is in the shared database.
final class ShippingConfirmations: Sendable {
    private struct State {
        var confirmed: Int64 = 0
        var waiters: [(row: Int64, end: Promise<Bool>)] = []
    }

    /// As many as events may wait for the local log.
    static let limit = EventQueue.limit

    private let state = Mutex(State())

    /// The database has the rows up to this one.
    func confirm(to row: Int64) {
        let done = state.withLock { state in
            state.confirmed = row
            let done = state.waiters.filter { $0.row <= row }
            state.waiters.removeAll { $0.row <= row || $0.end.isKept }
            return done
        }
        for waiter in done { waiter.end.keep(true) }
    }

    /// The number of callers that wait, including those that gave up and have not been removed yet.
    var waiting: Int { state.withLock { $0.waiters.count } }

    func isConfirmed(_ row: Int64) -> Bool { state.withLock { $0.confirmed >= row } }

    /// - Returns: Whether the database has the row within the limit.
    func wait(for row: Int64, within limit: Duration) async -> Bool {
        let end = Promise<Bool>()
        let waits = state.withLock { state in
            guard state.confirmed < row else {
                end.keep(true)
                return true
            }
            state.waiters.removeAll { $0.end.isKept }
            guard state.waiters.count < Self.limit else { return false }
            state.waiters.append((row, end))
            return true
        }
        guard waits else { return false }
        let watchdog = Task {
            guard (try? await Task.sleep(for: limit)) != nil else { return }
            end.keep(false)
        }
        defer { watchdog.cancel() }
        return await end.value()
    }
}
