import Synchronization

/// How many connections there may be to one target, over all event loops.
///
/// Each loop has a share that is its own, half of them together; the other half is for whichever needs more, because clients
/// do not spread evenly.
final class ConnectionBudget: Sendable {
    /// One at least, also where that makes more than there may be.
    private let share: Int
    private let common: Atomic<Int>

    init(most: Int, lanes: Int) {
        share = max(1, most / (2 * lanes))
        common = Atomic(max(0, most - share * lanes))
    }

    /// - Parameter count: The connections that the loop has.
    /// - Returns: Whether it may open one more.
    func take(having count: Int) -> Bool {
        guard count >= share else { return true }
        guard common.subtract(1, ordering: .relaxed).newValue < 0 else { return true }
        common.add(1, ordering: .relaxed)
        return false
    }

    /// - Parameter count: The connections that the loop has, the one included that has ended.
    func giveBack(having count: Int) {
        if count > share { common.add(1, ordering: .relaxed) }
    }

    /// Whether a connection that nobody uses is kept from other loops that may need one.
    func isNeededElsewhere(having count: Int) -> Bool {
        count > share && common.load(ordering: .relaxed) <= 0
    }
}
