import GatewayEvents
import GatewayHTTP

/// Events on their way into the log.
struct EventQueue {
    typealias End = Promise<Result<Void, AuditError>>

    struct Entry {
        let event: TokenEvent
        /// Is to be written whenever that is possible.
        let isWithdrawal: Bool
        /// For the author, who waits for a limited time.
        let end: End
    }

    /// Events that may wait for a commit; more are refused rather than held in memory.
    static let limit = 4096
    static let batchLimit = 512
    /// Withdrawals that could not be written, and events whose authors did not wait for the commit.
    static let memoryLimit = 1024

    private var entries: [Entry] = []
    /// The entries of the commit that is being made.
    private var underWay: [Entry] = []
    /// What could not be written yet, oldest first.
    private(set) var withdrawals: [TokenEvent] = []
    /// Committed after their authors had given up. They may bring them again.
    private var late: [TokenEvent] = []
    /// The thread has been told that there is something to do.
    private var isDraining = false

    /// Withdrawals that are not in the log yet, as far as is known.
    var unrecorded: [TokenEvent] {
        withdrawals + (underWay + entries).filter(\.isWithdrawal).map(\.event)
    }

    var isFull: Bool { entries.count >= Self.limit }

    mutating func add(_ entry: Entry) {
        entries.append(entry)
        checkInvariants()
    }

    /// - Returns: Whether the thread is to be told. It is once, until it has found nothing more to do.
    mutating func startDraining() -> Bool {
        defer { isDraining = true }
        return !isDraining
    }

    /// - Returns: Whether there is a place for it.
    mutating func keep(_ withdrawal: TokenEvent) -> Bool {
        // A program that prints another secret each second must not take the places of locks.
        let limit = withdrawal.name == .configLoaded ? Self.memoryLimit / 2 : Self.memoryLimit
        guard withdrawals.count < limit else { return false }
        withdrawals.append(withdrawal)
        return true
    }

    /// The first of them were written.
    mutating func removeWithdrawals(_ count: Int) { withdrawals.removeFirst(count) }

    /// Written with the next commit. An event whose author has given up is left out.
    ///
    /// - Returns: nil when there is nothing to do.
    mutating func nextBatch() -> (new: [Entry], written: [Entry])? {
        guard !entries.isEmpty else {
            isDraining = false
            return nil
        }
        let taken = Array(entries.prefix(Self.batchLimit))
        entries.removeFirst(taken.count)
        var batch: (new: [Entry], written: [Entry]) = ([], [])
        for entry in taken where entry.isWithdrawal || !entry.end.isKept {
            if let index = late.firstIndex(of: entry.event) {
                late.remove(at: index)
                batch.written.append(entry)
            } else {
                batch.new.append(entry)
            }
        }
        underWay = batch.new
        checkInvariants()
        return batch
    }

    /// - Returns: The withdrawals for which there is no place.
    mutating func settle(_ batch: [Entry], isCommitted: Bool) -> [TokenEvent] {
        defer { checkInvariants() }
        underWay = []
        guard isCommitted else {
            return batch.filter { $0.isWithdrawal && !keep($0.event) }.map(\.event)
        }
        late += batch.filter { !$0.isWithdrawal && $0.end.isKept }.map(\.event)
        late.removeFirst(max(0, late.count - Self.memoryLimit))
        return []
    }

    private func checkInvariants() {
        assert(entries.count <= Self.limit, "More events wait than there may be.")
        assert(underWay.count <= Self.batchLimit, "A commit has more events than it may.")
        assert(
            withdrawals.count <= Self.memoryLimit && late.count <= Self.memoryLimit,
            "More events are remembered than there may be."
        )
    }
}

/// Requests that wait to be written.
struct PendingRequests {
    /// More are refused rather than held in memory.
    static let limit = 65_536
    /// Written in one transaction, so that a token event does not wait for long.
    static let batchLimit = 2048

    private var requests: [RequestUse] = []
    private var isWriting = false
    /// The last attempt failed, and that was said.
    private var isFailing = false

    /// - Returns: How many there was no place for.
    mutating func add(_ new: [RequestUse]) -> Int {
        let accepted = min(new.count, max(0, Self.limit - requests.count))
        requests.append(contentsOf: new.prefix(accepted))
        return new.count - accepted
    }

    var batch: [RequestUse] { Array(requests.prefix(Self.batchLimit)) }

    /// - Returns: Whether the thread is to be told. It is once, until it has written all of them or has failed.
    mutating func startWriting() -> Bool {
        guard !isWriting, !requests.isEmpty else { return false }
        isWriting = true
        return true
    }

    /// - Returns: Whether there is more to write.
    @discardableResult
    mutating func written(_ count: Int) -> Bool {
        requests.removeFirst(count)
        isFailing = false
        isWriting = !requests.isEmpty
        return isWriting
    }

    /// - Returns: Whether that is news.
    mutating func failed() -> Bool {
        defer { isFailing = true }
        isWriting = false
        return !isFailing
    }
}

/// Uses counted since the last flush.
struct UsageCounts {
    /// Distinct keys held at once. One minute of a hundred routes with a hundred clients each fits.
    static let limit = 16_384

    private var uses: [TokenUse.Key: TokenUse] = [:]
    /// Requests that are in none of them.
    private(set) var dropped = 0

    mutating func drop(_ use: TokenUse) { dropped += use.requests }

    mutating func takeAll() -> [TokenUse] {
        defer { uses = [:] }
        return Array(uses.values)
    }

    mutating func add(_ use: TokenUse) {
        guard var sum = uses[use.key] else {
            guard uses.count < Self.limit else { return drop(use) }
            uses[use.key] = use
            return
        }
        sum.requests += use.requests
        sum.refusals.add(use.refusals)
        sum.bytesReceived += use.bytesReceived
        sum.bytesSent += use.bytesSent
        uses[use.key] = sum
    }
}
