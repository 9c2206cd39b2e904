package import GatewayHTTP

/// How the copy of the audit log in the shared database is doing.
package struct AuditShipping: Hashable, Sendable {
    /// Since when a copy of the log lags behind, and why.
    package struct Failure: Hashable, Sendable {
        package let since: UnixTime
        package let reason: String

        package init(since: UnixTime, reason: String) {
            self.since = since
            self.reason = reason
        }
    }

    /// How long events may wait for the database before operators are told.
    package static let patience: Duration = .seconds(60)
    /// ``patience`` if no token is used before its event is in the database.
    private static let requiredPatience: Duration = .seconds(5)

    /// Events that the database does not have yet.
    package var unshipped: Int
    /// nil while the database takes what it gets.
    package var failure: Failure?
    /// `audit.store: postgres`: an event that is not in the database does not count as recorded.
    package var isRequired: Bool

    package init(unshipped: Int, failure: Failure? = nil, isRequired: Bool = false) {
        self.unshipped = unshipped
        self.failure = failure
        self.isRequired = isRequired
    }

    /// The failure that somebody should know of.
    package func trouble(at now: UnixTime) -> Failure? {
        guard let failure, isRequired || unshipped > 0 else { return nil }
        return now - failure.since >= (isRequired ? Self.requiredPatience : Self.patience) ? failure : nil
    }

    /// - Parameter effect: What follows where the database is required.
    package func sentence(_ failure: Failure, effect: String) -> String {
        let waiting = "\(unshipped.counted("event")) \(unshipped == 1 ? "waits" : "wait")"
        guard isRequired else {
            return
                "since \(failure.since.rfc3339) the database has not accepted the audit log (\(waiting)): \(failure.reason). "
                + "They stay in the local log, and are sent once the database accepts them"
        }
        return
            "since \(failure.since.rfc3339) events have not been committed to the database (audit.store: postgres, \(waiting)), "
            + "so \(effect): \(failure.reason)"
    }
}

/// Compares an audit log with its copy in a database that gateways share.
package enum ShippedChain {
    /// A row and its hash.
    package struct Link: Hashable, Sendable {
        package let id: Int64
        package let hash: String

        package init(id: Int64, hash: String) {
            self.id = id
            self.hash = hash
        }
    }

    /// What the database holds of the chain. Nothing is there before the first shipment.
    package struct Copy: Hashable, Sendable {
        package var head: Link?
        package var checkpoint: Link?

        package init(head: Link? = nil, checkpoint: Link? = nil) {
            self.head = head
            self.checkpoint = checkpoint
        }
    }

    /// What the log holds.
    package struct Log: Hashable, Sendable {
        /// The last row or, where retention has removed all of them, the last one that it removed.
        package var end: Link
        /// The last row that retention has removed.
        package var removedTo: Link?
        /// The hash of the row that is the copy's head; nil where the log does not have it.
        package var hashAtHead: String?
        /// The hash of the copy's last checkpoint; nil if the log does not have it.
        package var hashOfCheckpoint: String?

        package init(end: Link, removedTo: Link? = nil, hashAtHead: String? = nil, hashOfCheckpoint: String? = nil) {
            self.end = end
            self.removedTo = removedTo
            self.hashAtHead = hashAtHead
            self.hashOfCheckpoint = hashOfCheckpoint
        }
    }

    /// Why the copy is not one of this log.
    package enum Difference: Hashable, Sendable {
        case otherRow(Int64)
        case otherCheckpoint(Int64)
        /// The log ends before its copy does.
        case longer(copy: Int64, log: Int64)

        /// Ends a sentence.
        package var explanation: String {
            switch self {
            case .otherRow(let id): "row \(id) differs"
            case .otherCheckpoint(let id): "checkpoint \(id) differs"
            case .longer(let copy, let log): "the database has rows up to \(copy), and the log ends at \(log)"
            }
        }
    }

    /// nil where the log goes on from its copy.
    ///
    /// Rows that retention has removed before they were shipped cannot be compared. A checkpoint stands in their place.
    package static func difference(between log: Log, and copy: Copy) -> Difference? {
        if let checkpoint = copy.checkpoint, log.hashOfCheckpoint != checkpoint.hash {
            return .otherCheckpoint(checkpoint.id)
        }
        guard let head = copy.head, head.id > 0 else { return nil }
        if head.id > log.end.id { return .longer(copy: head.id, log: log.end.id) }
        let removedTo = log.removedTo?.id ?? 0
        if head.id < removedTo { return nil }
        let known = head.id == removedTo ? log.removedTo?.hash : log.hashAtHead
        return known == head.hash ? nil : .otherRow(head.id)
    }

    /// How long to wait after so many failures in a row. Gateways that lost the same database must not all come back at the same
    /// moment.
    ///
    /// - Parameter jitter: From 0.5 to 1.
    package static func pause(afterFailures count: Int, jitter: Double) -> Duration {
        min(.milliseconds(200) * (1 << min(max(count - 1, 0), 4)), .seconds(2)) * jitter
    }
}

/// Says how often the head of the audit log is sent to its anchor: once a second at most, and less often while that fails.
package struct AnchorSchedule: Sendable {
    private static let shortestPause: Duration = .seconds(1)
    package static let longestPause: Duration = .seconds(60)

    /// nil while it works.
    package private(set) var failure: AuditShipping.Failure?
    private var failures = 0
    private var lastEnd: MonotonicTime?

    package init() {}

    /// How long the next attempt has to wait.
    package func pause(at now: MonotonicTime) -> Duration {
        guard let lastEnd else { return .zero }
        // No more than six doublings: the longest pause is reached.
        let pause = failures == 0 ? Self.shortestPause : Self.shortestPause * (1 << min(failures - 1, 6))
        return max(.zero, min(pause, Self.longestPause) - (now - lastEnd))
    }

    /// - Parameter reason: Why the attempt failed; nil when it did not.
    /// - Returns: Whether this is the first failure, or the first success after one.
    package mutating func ended(_ reason: String?, at now: Moment) -> Bool {
        lastEnd = now.monotonic
        let isChange = (failure == nil) != (reason == nil)
        failures = reason == nil ? 0 : failures + 1
        failure = reason.map { AuditShipping.Failure(since: failure?.since ?? now.wall, reason: $0) }
        return isChange
    }
}
