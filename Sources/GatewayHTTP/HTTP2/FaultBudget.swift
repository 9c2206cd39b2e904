/// Bounds how often a client may break the rules on one connection: each time costs work, and may end a request that has begun.
package struct FaultBudget: Sendable {
    package static let maximum = 200
    package static let period = Duration.seconds(30)

    private var count = 0
    private var begunAt: MonotonicTime?

    package init() {}

    /// - Returns: Whether the connection may go on.
    package mutating func spend(at now: MonotonicTime) -> Bool {
        if begunAt.map({ now - $0 > Self.period }) ?? true { (begunAt, count) = (now, 0) }
        count += 1
        return count <= Self.maximum
    }
}
