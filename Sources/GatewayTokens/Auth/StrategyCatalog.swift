/// The strategies that `strategy:` can name.
package struct StrategyCatalog: Sendable {
    /// In the order of the list they came from.
    package let strategies: [any AuthStrategy.Type]

    /// - Precondition: No two strategies have one `kind`; a unit test of the built-in list holds it.
    package init(_ strategies: [any AuthStrategy.Type]) {
        precondition(Set(strategies.map { $0.kind }).count == strategies.count, "two strategies share one kind")
        self.strategies = strategies
    }

    package var kinds: [String] { strategies.map { $0.kind } }

    /// What reads the `downscope` of a route.
    package var downscoping: (any DerivedStrategy.Type)? {
        strategies.lazy.compactMap { $0 as? any DerivedStrategy.Type }.first
    }

    /// What `as_user` of a route sends.
    package var userField: UserField? {
        strategies.lazy.compactMap { $0.userField }.first
    }

    package func strategy(named kind: String) -> (any AuthStrategy.Type)? {
        strategies.first { $0.kind == kind }
    }
}
