package import GatewayHTTP

/// Limits how many rows are written in one second, in all and for each cause, so that one cause leaves room for others.
package struct RowBudget: Sendable {
    package static let perSecond = 10
    package static let perCause = 5

    private var second: Int64 = 0
    private var spent: [String: Int] = [:]

    package init() {}

    /// - Parameter cause: The client, or the address that requests come from.
    /// - Returns: Whether a row may be written now.
    package mutating func spend(for cause: String, at now: MonotonicTime) -> Bool {
        let current = now.nanoseconds / 1_000_000_000
        if current != second {
            second = current
            spent = [:]
        }
        let own = spent[cause] ?? 0
        guard own < Self.perCause, spent.values.reduce(0, +) < Self.perSecond else { return false }
        spent[cause] = own + 1
        assert(spent.values.allSatisfy { $0 <= Self.perCause }, "A cause has more rows than a second allows it.")
        return true
    }
}
