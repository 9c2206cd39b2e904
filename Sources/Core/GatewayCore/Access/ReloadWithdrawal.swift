/// What a reload takes from requests that began before it: clients, routes and credentials that it removes or replaces by others.
///
/// A client is the same while its name and the digest of its token are. A route is, while its name and its credential
/// are. A credential is, while its name, its strategy and its grant are: one whose renewal changes is the same.
package struct ReloadWithdrawal: Sendable {
    /// One route as a configuration has it.
    package struct Route: Hashable, Sendable {
        package var name: String
        package var credential: String?
        package var strategy: String?
        package var grant: CredentialKey?

        package init(
            name: String,
            credential: String? = nil,
            strategy: String? = nil,
            grant: CredentialKey? = nil
        ) {
            self.name = name
            self.credential = credential
            self.strategy = strategy
            self.grant = grant
        }
    }

    /// By index into the old configuration's routes.
    private let routes: [Bool]
    private let clients: Set<String>

    /// - Parameter digest: Of a client's token.
    package init(
        from old: (routes: [Route], clients: [AccessPlan.Client]),
        to new: (routes: [Route], clients: [AccessPlan.Client]),
        digest: (AccessPlan.Client) -> [UInt8]
    ) {
        let kept = Set(new.routes)
        routes = old.routes.map { !kept.contains($0) }
        let known = Dictionary(new.clients.map { ($0.name, digest($0)) }) { first, _ in first }
        clients = Set(old.clients.filter { known[$0.name] != digest($0) }.map(\.name))
    }

    package var isEmpty: Bool { clients.isEmpty && !routes.contains(true) }

    /// - Parameter route: Its index in the old configuration.
    package func covers(client: String?, route: Int) -> Bool {
        routes[route] || client.map(clients.contains) ?? false
    }
}
