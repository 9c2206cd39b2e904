import GatewayCore
import GatewayFiles

/// One pass after the other over what the shared database does not have yet. Used by one task.
struct ShippingRun {
    /// Why a pass has ended early.
    struct Failure: Error {
        let reason: String
    }

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
    mutating func ship(isLast: Bool, while isWanted: () -> Bool) async throws(Failure) {
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
            throw Failure(reason: words(for: failure))
        } catch let error as AuditError {
            known = nil
            throw Failure(reason: error.reason)
        } catch {
            known = nil
            throw Failure(reason: "an unknown error")
        }
    }

    // MARK: Where the copy ends

    /// Another copy of the log may have shipped rows under the same name: this one takes another name then.
    private mutating func position() async throws -> (String, ShippedChain.Copy) {
        let chain = log.chainName
        if let known, known.chain == chain { return known }
        let row = try await run(ShippingStatement.copy(of: chain)).first
        let copy = ShippedChain.Copy(head: row.flatMap { $0.link(0) }, checkpoint: row.flatMap { $0.link(2) })
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
        log.noteShipped(to: row)
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
        guard try await !run(ShippingStatement.put(uses, head: head)).isEmpty else {
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
