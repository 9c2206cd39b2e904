/// Reads `listeners.admin`: where operators reach the gateway, and who they are.
extension ListenerDecoder {
    static func admin(_ fields: ConfigFields) -> AdminPlan? {
        guard var plan = adminPlace(fields) else {
            fields.know("tls", "users", "require_token")
            return nil
        }
        let isTCP = if case .tcp = plan.address { true } else { false }
        if isTCP {
            plan.tls = fields.fields("tls").flatMap(tls)
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
    static func adminPlace(_ fields: ConfigFields) -> AdminPlan? {
        fields.explain(addressMeanings)
        fields.explain(adminMeanings)
        let requiresToken = fields.bool("require_token") ?? false
        return adminAddress(fields).map { AdminPlan(address: $0, requiresToken: requiresToken) }
    }

    private static func adminAddress(_ fields: ConfigFields) -> ListenerPlan.Address? {
        if fields.has("unix") {
            guard fields.has("address") else { return unix(fields) }
            fields.know("allow_users")
            fields.error("a listener has exactly one of address and unix")
            return nil
        }
        if fields.has("allow_users") { fields.error("allow_users", "is for unix sockets only") }
        guard ["address", "require_token", "tls", "users"].contains(where: fields.has) else {
            // A misspelt key is one mistake, not two.
            if fields.unknownKeys.isEmpty { fields.error("a listener has exactly one of address and unix") }
            return nil
        }
        guard fields.has("address") else { return adminAddress }
        return address(fields).map { .tcp(host: $0.host, port: $0.port) }
    }

    /// Beside an admin listener with TLS.
    static func checkLocalSocket(of admin: AdminPlan, in stateDirectory: String, _ fields: ConfigFields) {
        guard admin.tls != nil, case .unix(let path, _) = AdminPlan.localSocket(in: stateDirectory) else { return }
        let maximum = ListenerPlan.Address.maximumSocketPath
        guard path.utf8.count > maximum else { return }
        fields.error(
            "state_directory",
            "its path is too long: commands of this machine use the socket admin.sock in it, whose path has at most \(maximum) bytes"
        )
    }

    // MARK: Users

    private static func users(_ fields: ConfigFields, tls: ListenerPlan.TLS?) -> [AdminUser] {
        fields.explain(adminUserMeanings)
        var users: [AdminUser] = []
        for (name, entry) in fields.named() {
            guard let own = fields.named(entry, path: fields.path.appending(name)) else { continue }
            own.explain(oneAdminUserMeanings)
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

    static let adminUserMeanings: [String: KeyMeaning] = [
        KeyMeaning.anyName: KeyMeaning(
            "One user, by the name in the audit log.",
            example: "role: viewer\ntoken: {env: WATCHER_TOKEN}"
        )
    ]

    static let oneAdminUserMeanings: [String: KeyMeaning] = [
        "role": KeyMeaning(
            "viewer sees the page, the status, events and metrics. operator also changes what the gateway does, and sees tokens.",
            example: "viewer"
        ),
        "token": KeyMeaning(
            "The token that the user presents, or a list of the new token and the one that it replaces.",
            example: "{env: WATCHER_TOKEN}"
        ),
        "token_sha256": KeyMeaning(
            "In the place of token: its SHA-256 as 64 hexadecimal digits, or a list of two.",
            example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        ),
        "certificate": KeyMeaning(
            "The name in the certificate that proves the user, where the listener has tls.client_ca.",
            example: "{dns: alice.example.com}"
        ),
    ]
}
