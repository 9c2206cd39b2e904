package import GatewayConfiguration
import GatewayHTTP

/// What the local CA may sign for, and for how long: `ca`.
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

    /// Stands for the name of a host, for an issuer without constraints.
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

/// The keys of `ca`, and how they are read.
extension LocalAuthorityPlan {
    package static let keys = Keys(LocalAuthorityPlan()) {
        $0("permit", \.permit, .suffixes, type: "a list of host names", example: "[box.com, github.com]")
            .means(
                "Host suffixes that the local certificate authority may sign for before there is a route: a "
                    + "new host below one needs no new trust."
            )
        $0("constrain", \.isConstrained, .flag, example: "false")
            .means(
                "Whether each issuer may sign for only one host or suffix. If false, anyone who steals its "
                    + "key from this machine can impersonate any host to those who trust it."
            )
        $0("days", \.days, .count(1...3650), example: "30")
            .means("How many days a new root certificate is valid.")
    }

    package static func decode(_ fields: ConfigFields?) -> LocalAuthorityPlan {
        var plan = keys.defaults
        guard let fields else { return plan }
        keys.read(fields, into: &plan)
        if !plan.isConstrained {
            fields.warning(
                "constrain",
                "a person who steals the key of the local CA can pose as any host to its users"
            )
            if !plan.permit.isEmpty { fields.error("permit", "has no effect with constrain: false") }
        }
        fields.refuseUnknownKeys()
        return plan
    }
}

/// Suffixes of host names, as `ca.permit` lists them.
extension KeyKind where Value == [String] {
    fileprivate static var suffixes: Self {
        KeyKind { fields, key in
            fields.elements(key)?.compactMap { suffix($0.node, $0.path, fields.context) }
        } text: { suffixes in
            "[\(suffixes.joined(separator: ", "))]"
        }
    }

    private static func suffix(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> String? {
        if case .scalar(let scalar) = node.content {
            let name = scalar.text.lowercased()
            let isName = !name.contains(":") && !name.contains("[") && !name.hasPrefix(".") && !name.hasPrefix("*")
            if isName, let origin = Origin(scheme: .https, authority: name), !origin.isIPv4 {
                guard !name.contains(".") else { return name }
                context.error("would permit a whole top-level domain; name what is below it", at: node.span, path: path)
                return nil
            }
        }
        context.error("expected the name of a host such as example.com, without * and port", at: node.span, path: path)
        return nil
    }
}
