package import GatewayHTTP

/// A record that the store has yet to take.
package enum PendingWrite: Hashable, Sendable {
    /// The store holds the record.
    case none
    /// The gateway's own write: it is refused when somebody else has changed the record.
    case own(due: MonotonicTime)
    /// What an operator brought or took away. It is written whatever the store holds.
    case operators(due: MonotonicTime)

    /// A write that failed, to be tried again.
    package init(isOperators: Bool, due: MonotonicTime) {
        self = isOperators ? .operators(due: due) : .own(due: due)
    }

    /// When to try again; nil when there is nothing to write.
    package var due: MonotonicTime? {
        switch self {
        case .none: nil
        case .own(let due), .operators(let due): due
        }
    }

    package var isOperators: Bool {
        switch self {
        case .operators: true
        case .none, .own: false
        }
    }
}
