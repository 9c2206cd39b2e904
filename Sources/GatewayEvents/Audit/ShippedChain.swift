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
        /// The same of the copy's last checkpoint.
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
