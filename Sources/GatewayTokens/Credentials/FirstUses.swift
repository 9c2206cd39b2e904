/// Remembers on which routes a generation was used, because event loops report first uses each for itself.
package struct FirstUses: Sendable {
    /// Bounded by the number of routes.
    private var generations: [String: Int] = [:]

    package init() {}

    /// - Returns: Whether neither this generation nor a later one was reported on this route before.
    package mutating func isFirst(generation: Int, route: String) -> Bool {
        guard generation > generations[route] ?? 0 else { return false }
        generations[route] = generation
        return true
    }
}
