package import GatewayConfiguration

/// Reads `listeners.admin`: where operators reach the gateway, and who they are.
package enum AdminDecoder {
    private static let standardAddress = ListenerPlan.Address.tcp(host: "127.0.0.1", port: 8081)

    package static let keys = Keys(AdminPlan(address: standardAddress)) {
        $0("tls", example: "certificate: cert.pem\nprivate_key: {file: key.pem}")
            .covers { $0.tls.map { [$0] } ?? [] }
            .means("Serves https. Required if other machines can reach the address.")
        $0(
            "users",
            example: "prometheus: {role: viewer, token: {file: ./prometheus.token}}\n"
                + "alice: {role: operator, token: {file: ./alice.token}}"
        )
        // They are compared one by one.
        .covers { _ in [] }
        .means(
            "Who may use the listener, besides anyone who can read the admin token in the state directory. "
                + "Required if other machines can reach the address."
        )
        $0("require_token", \.requiresToken, .flag, example: "true")
            .means("Requires the admin token for reading as well: the page, /api/*, /metrics and /readyz?verbose.")
    }

    static func decode(_ fields: ConfigFields) -> AdminPlan? {
        guard var plan = place(fields) else {
            fields.know(keys)
            return nil
        }
        let isTCP = if case .tcp = plan.address { true } else { false }
        if isTCP {
            plan.tls = fields.fields("tls").flatMap(ListenerDecoder.tls)
            if fields.fields("tls")?.has("ca") ?? false {
                fields.error("tls", "the admin listener needs a certificate of its own: certificate and private_key")
            }
        } else if fields.has("tls") {
            fields.error("tls", "is for addresses only, not for unix sockets")
        }
        plan.users = fields.fields("users").map { users($0, tls: plan.tls) } ?? []
        guard plan.address.isReachable else { return plan }
        if !fields.has("tls") {
            fields.error("address", "reachable from other machines without TLS; add tls and users, or use 127.0.0.1")
        }
        if !fields.has("users") {
            fields.error(
                "address",
                "reachable from other machines, but there are no users; add users, or use 127.0.0.1"
            )
        }
        // Where other machines can ask, nothing is shown to those who prove nothing.
        plan.requiresToken = true
        return plan
    }

    /// The part of `listeners.admin` that commands beside a running gateway need. No secret is read.
    package static func place(_ fields: ConfigFields) -> AdminPlan? {
        fields.explain(ListenerPlan.Address.keys)
        var plan = keys.defaults
        keys.read(fields, into: &plan)
        guard let address = address(fields) else { return nil }
        plan.address = address
        return plan
    }

    private static func address(_ fields: ConfigFields) -> ListenerPlan.Address? {
        if fields.has("unix") {
            guard fields.has("address") else { return ListenerDecoder.unix(fields) }
            fields.know("allow_users")
            fields.error("a listener has exactly one of address and unix")
            return nil
        }
        if fields.has("allow_users") { fields.error("allow_users", "is for unix sockets only") }
        guard (["address"] + keys.names).contains(where: fields.has) else {
            // A misspelt key is one mistake, not two.
            if fields.unknownKeys.isEmpty { fields.error("a listener has exactly one of address and unix") }
            return nil
        }
        guard fields.has("address") else { return keys.defaults.address }
        return ListenerDecoder.address(fields).map { .tcp(host: $0.host, port: $0.port) }
    }

    /// Beside an admin listener with TLS.
    package static func checkLocalSocket(of admin: AdminPlan, in stateDirectory: String, _ fields: ConfigFields) {
        guard admin.tls != nil, case .unix(let path, _) = AdminPlan.localSocket(in: stateDirectory) else { return }
        let maximum = ListenerPlan.Address.maximumSocketPath
        guard path.utf8.count > maximum else { return }
        fields.error(
            "state_directory",
            "its path is too long: commands of this machine use the socket admin.sock in it, whose path has at most \(maximum) bytes"
        )
    }

    // MARK: Users

    private static let userNames = Keys {
        $0(KeyMeaning.anyName, example: "role: viewer\ntoken: {env: WATCHER_TOKEN}")
            .means("One user, by the name in the audit log.")
    }

    /// The name is the key of the user itself.
    package static let userKeys = Keys(AdminUser(role: .viewer, proofs: AccessPlan.Client(name: "", tokens: []))) {
        $0("role", example: "viewer")
            .covers { [$0.role.rawValue] }
            .means(
                "viewer sees the page, the status, events and metrics. operator also changes what the gateway does, and sees tokens."
            )
        $0("token", example: "{env: WATCHER_TOKEN}")
            .covers { [$0.proofs.tokens] }
            .means("The token that the user presents, or a list of the new token and the one that it replaces.")
        // It is one of the tokens above.
        $0("token_sha256", example: "02ed3077b032c1e0a58c88b63840ca927c8a0fcab59f6c6f19fc4225c594fc4e")
            .covers { _ in [] }
            .means("Instead of token: its SHA-256 as 64 hexadecimal digits, or a list of two.")
        $0("certificate", example: "{dns: alice.example.com}")
            .covers { [$0.proofs.certificate?.description] }
            .means("The name in the certificate that proves the user, where the listener has tls.client_ca.")
    }

    private static func users(_ fields: ConfigFields, tls: ListenerPlan.TLS?) -> [AdminUser] {
        fields.explain(userNames)
        var users: [AdminUser] = []
        for (name, entry) in fields.named() {
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { continue }
            own.explain(userKeys)
            let role = own.choice("role", of: AdminRole.self)
            if !own.has("role") { own.missing("role") }
            guard let proofs = AccessDecoder.client(name, own, takesJWT: false), let role else { continue }
            AccessDecoder.refuseTwins(of: proofs, among: users.map(\.proofs), own, at: entry.keySpan)
            AccessDecoder.refuseShortTokens(of: proofs, own)
            if proofs.certificate != nil, tls?.clientCAPath == nil {
                own.error("certificate", "has no effect: tls.client_ca is not set")
            }
            users.append(AdminUser(role: role, proofs: proofs))
        }
        if fields.keys.isEmpty { fields.error("names no user") }
        return users
    }
}
