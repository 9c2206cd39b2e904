/// What the local authority may sign for, and for how long.
package struct LocalAuthorityPlan: Hashable, Sendable {
    /// Suffixes of hosts that it may sign for ahead of their routes; each has an issuer that is constrained to it.
    package var permit: [String]
    /// Whether its issuers are constrained. Without it, one may sign for any host, and a new host needs no new trust.
    package var isConstrained: Bool
    /// How long a root holds.
    package var days: Int

    package init(permit: [String] = [], isConstrained: Bool = true, days: Int = 90) {
        self.permit = permit
        self.isConstrained = isConstrained
        self.days = days
    }

    /// In the place of the name of a host: an issuer without constraints.
    package static let anyHost = "*"

    /// The names that need an issuer so that certificates for these hosts can be made.
    package func scopes(for hosts: [String]) -> Set<String> {
        guard isConstrained else { return hosts.isEmpty ? [] : [Self.anyHost] }
        guard !hosts.isEmpty else { return [] }
        return Set(permit + hosts.map { $0.lowercased() }.filter { permitted($0) == nil })
    }

    /// Which issuers can sign for a host, the narrowest first.
    package func scopes(of host: String) -> [String] {
        let own = [host] + [permitted(host)].compactMap(\.self)
        return isConstrained ? own : own + [Self.anyHost]
    }

    /// The suffix that the host has; the longest of several.
    private func permitted(_ host: String) -> String? {
        permit.filter { host == $0 || host.hasSuffix("." + $0) }.max { $0.utf8.count < $1.utf8.count }
    }
}
