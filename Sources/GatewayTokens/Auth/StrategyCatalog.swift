import GatewayHTTP

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
    package var downscoping: (any DownscopingStrategy.Type)? {
        strategies.lazy.compactMap { $0 as? any DownscopingStrategy.Type }.first
    }

    /// What `as_user` of a route sends.
    package var userField: UserField? {
        strategies.lazy.compactMap { $0.userField }.first
    }

    /// Every field that names a user to act for, in lower case.
    package var userFields: Set<String> { Set(strategies.compactMap { $0.userField?.name.lowercased() }) }

    package func strategy(named kind: String) -> (any AuthStrategy.Type)? {
        strategies.first { $0.kind == kind }
    }

    /// What to say of a strategy that there is not: the one that others call so, or what is spelt nearly so.
    package func hint(for name: String) -> String {
        let plain = name.lowercased().replacing("-", with: "_")
        let known = [plain, name.lowercased()].lazy
            .compactMap { name in strategies.first { $0.otherNames.contains(name) } }.first
        guard let known else {
            let nearest = Suggestion.hint(for: name, in: kinds)
            return nearest.isEmpty ? "; strategies: \(kinds.joined(separator: ", "))" : nearest
        }
        let method = StandardNames.clientAuthentications[plain].map { " with \"client_auth: \($0)\"" } ?? ""
        let own = plain == "private_key_jwt" ? " with \"client_auth: private_key_jwt\"" : method
        return "; here that is \"\(known.kind)\"\(own)"
    }
}
