import GRDB
import GatewayEvents
import GatewayFiles
import GatewayHTTP

/// Adds up `token_events` and `token_use` by one of their columns, with one pass over each table: a question for each name would
/// read the log again and again.
struct AuditTally {
    enum Column: String { case credential, route, client }

    /// The sums for one name. Numbers that were tampered with do not overflow.
    struct Sum {
        var events = 0
        var failures = 0
        var requests = 0
        var errors = 0
        var bytesReceived = 0
        var bytesSent = 0
        var acquire = Durations()
        var renew = Durations()
        var tokenCalls = 0
        var failedTokenCalls = 0
        var lastEvent: Int64?
        var lastFailure: Int64?
    }

    /// How often each number of milliseconds occurred: enough for a median, and bounded by their range.
    struct Durations {
        private var counts: [Int64: Int] = [:]

        mutating func add(_ milliseconds: Int64) { counts[milliseconds, default: 0] += 1 }

        var latency: AuditStats.Latency? {
            let count = counts.values.reduce(0, +)
            guard let longest = counts.keys.max() else { return nil }
            var left = (count + 1) / 2
            let median = counts.keys.sorted().first { duration in
                left -= counts[duration] ?? 0
                return left <= 0
            }
            return AuditStats.Latency(count: count, p50: Int(median ?? 0), max: Int(longest))
        }
    }

    fileprivate enum Call {
        case acquire(failed: Bool)
        case renew(failed: Bool)
    }

    /// By the event that tells of its end. Their lengths differ, so that one at most is compared.
    private static let calls: [(event: [UInt8], call: Call)] = [
        (.acquired, .acquire(failed: false)), (.acquisitionFailed, .acquire(failed: true)),
        (.renewed, .renew(failed: false)), (.renewalFailed, .renew(failed: true)),
    ].map { (event: TokenEvent.Name, call: Call) in (Array(event.rawValue.utf8), call) }

    private let column: Column
    private let timesCalls: Bool
    private var names = TextNumbers()
    private var sums: [Sum] = []
    /// The sums of rows without a name in that column.
    private(set) var unnamed = Sum()

    /// - Parameters:
    ///   - filter: Which rows count; of uses, the whole minutes.
    ///   - timesCalls: Whether ``Sum/acquire`` and ``Sum/renew`` are asked for.
    init(by column: Column, _ filter: AuditFilter, timesCalls: Bool, in database: Database) throws {
        self.column = column
        self.timesCalls = timesCalls
        try addEvents(of: database, filter)
        try addUses(of: database, filter)
    }

    /// By name, in the order of the bytes.
    var named: [(name: String, sum: Sum)] {
        names.texts.indices.sorted { names.texts[$0].lexicographicallyPrecedes(names.texts[$1]) }
            .map { (names.text($0), sums[$0]) }
    }

    var total: Sum {
        var total = unnamed
        for sum in sums { total.add(sum) }
        return total
    }

    private mutating func addEvents(of database: Database, _ filter: AuditFilter) throws {
        var selection = AuditSelection(
            columns: [column.rawValue, "event", "outcome", "duration_ms", "id"],
            table: AuditSchema.rows,
            condition: filter.condition(for: .events)
        )
        try selection.condition.addIndexedEvents(filter, in: database)
        let failed = Array(TokenEvent.Outcome.failed.rawValue.utf8)
        let failedRequest = Array(TokenEvent.Name.requestFailed.rawValue.utf8)
        let arguments = selection.condition.arguments
        try StatementRow.forEach(of: selection.sql, arguments: arguments, in: database) { row in
            let call = Self.call(row)
            // A request that failed is no failure of what it is counted under.
            let hasFailed = row.holds(failed, at: 2) && !row.holds(failedRequest, at: 1)
            let id = row.integer(at: 4)
            let duration = timesCalls && row.kind(at: 3) == .integer ? row.integer(at: 3) : nil
            change(row) { sum in
                sum.events += 1
                sum.lastEvent = id
                if hasFailed {
                    sum.failures += 1
                    sum.lastFailure = id
                }
                if let call { sum.add(call, duration: duration) }
            }
        }
    }

    private mutating func addUses(of database: Database, _ filter: AuditFilter) throws {
        let selection = AuditSelection(
            columns: [column.rawValue, "status_class", "requests", "bytes_received", "bytes_sent"],
            table: "token_use",
            condition: filter.condition(for: .uses)
        )
        let arguments = selection.condition.arguments
        try StatementRow.forEach(of: selection.unorderedSQL, arguments: arguments, in: database) { row in
            let (statusClass, requests) = (row.integer(at: 1), Int(row.integer(at: 2)))
            let (received, sent) = (Int(row.integer(at: 3)), Int(row.integer(at: 4)))
            change(row) { sum in
                sum.requests = sum.requests.adding(requests)
                // 0: no response was sent.
                if statusClass == 0 || statusClass >= 4 { sum.errors = sum.errors.adding(requests) }
                sum.bytesReceived = sum.bytesReceived.adding(received)
                sum.bytesSent = sum.bytesSent.adding(sent)
            }
        }
    }

    private mutating func change(_ row: borrowing StatementRow, _ body: (inout Sum) -> Void) {
        guard row.kind(at: 0) == .text else { return body(&unnamed) }
        let number: Int? = row.withBytes(at: 0, of: .text) { name in
            // Uses without a client have an empty one.
            name.byteCount == 0 ? nil : names.number(of: name)
        }
        guard let number else { return body(&unnamed) }
        if number == sums.count { sums.append(Sum()) }
        body(&sums[number])
    }

    private static func call(_ row: borrowing StatementRow) -> Call? {
        row.withBytes(at: 1, of: .text) { event in
            for known in calls where event.holds(known.event) { return known.call }
            return nil
        }
    }
}

extension AuditTally.Sum {
    fileprivate mutating func add(_ call: AuditTally.Call, duration: Int64?) {
        switch call {
        case .acquire(let failed):
            if let duration { acquire.add(duration) }
            count(failed: failed)
        case .renew(let failed):
            if let duration { renew.add(duration) }
            count(failed: failed)
        }
    }

    private mutating func count(failed: Bool) {
        tokenCalls += 1
        if failed { failedTokenCalls += 1 }
    }

    mutating func add(_ other: AuditTally.Sum) {
        events += other.events
        failures += other.failures
        requests = requests.adding(other.requests)
        errors = errors.adding(other.errors)
        bytesReceived = bytesReceived.adding(other.bytesReceived)
        bytesSent = bytesSent.adding(other.bytesSent)
        tokenCalls += other.tokenCalls
        failedTokenCalls += other.failedTokenCalls
    }
}

extension UnixTime {
    /// Uses are counted by the minute, so the whole minute of a moment counts.
    var startOfMinute: UnixTime { UnixTime(milliseconds: milliseconds / 60_000 * 60_000) }
}

/// Numbers texts in the order in which they are first seen, without making a string of each one that is seen again.
struct TextNumbers {
    private(set) var texts: [[UInt8]] = []
    private var hashes: [Int] = []
    /// For each slot of an open-addressed table: the number of a text and one, or 0. Twice as many as texts at least.
    private var slots = [Int](repeating: 0, count: 64)

    mutating func number(of text: RawSpan) -> Int {
        var hasher = Hasher()
        unsafe text.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        let hash = hasher.finalize()
        var slot = first(hash)
        while slots[slot] != 0 {
            let number = slots[slot] - 1
            if hashes[number] == hash, text.holds(texts[number]) { return number }
            slot = next(slot)
        }
        texts.append(unsafe text.withUnsafeBytes { unsafe Array($0) })
        hashes.append(hash)
        slots[slot] = texts.count
        if texts.count * 2 > slots.count { grow() }
        return texts.count - 1
    }

    func text(_ number: Int) -> String { String(decoding: texts[number], as: UTF8.self) }

    private func first(_ hash: Int) -> Int { hash & (slots.count - 1) }

    private func next(_ slot: Int) -> Int { (slot + 1) & (slots.count - 1) }

    private mutating func grow() {
        slots = [Int](repeating: 0, count: slots.count * 2)
        for number in hashes.indices {
            var slot = first(hashes[number])
            while slots[slot] != 0 { slot = next(slot) }
            slots[slot] = number + 1
        }
    }
}
