package import GatewayHTTP

/// Limits how many events of one kind are recorded individually in a second. Otherwise a client could fill the disk.
package struct EventBudget: Sendable {
    package static let perSecond = 10

    private var second: Int64 = 0
    private var left = perSecond
    private var unrecorded = 0

    package init() {}

    /// - Returns: How many were not recorded since the last one that was; nil when this one is not to be recorded.
    package mutating func spend(at now: MonotonicTime) -> Int? {
        let current = now.nanoseconds / 1_000_000_000
        if current != second {
            second = current
            left = Self.perSecond
        }
        guard left > 0 else {
            unrecorded += 1
            return nil
        }
        left -= 1
        defer { unrecorded = 0 }
        return unrecorded
    }
}
