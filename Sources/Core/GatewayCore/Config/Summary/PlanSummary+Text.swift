extension PlanSummary {
    /// The plan in the words and the order of the configuration file.
    package func text() -> String {
        var page = IndentedText()
        page.line("state_directory", stateDirectory)
        page.line("workers", workers)
        page.heading("listeners")
        page.indented { page in
            for listener in listeners { page.line("proxy", listener.text) }
            page.line("admin", admin)
        }
        page.heading("access")
        page.indented { page in
            page.line("clients", Self.list(clients))
            page.line("require_client", requireClient)
            page.line("allow_origins", Self.list(allowOrigins))
        }
        for (heading, values) in [("audit", audit), ("tokens", tokens), ("limits", limits)] {
            page.heading(heading)
            page.indented { page in
                for (key, value) in values.sorted(by: { $0.key < $1.key }) { page.line(key, value) }
            }
        }
        page.heading("credentials")
        page.indented { page in for credential in credentials { credential.write(to: &page) } }
        page.heading("routes")
        page.indented { page in for route in routes { route.write(to: &page) } }
        return page.text
    }

    fileprivate static func list(_ values: [String]) -> String { "[\(values.joined(separator: ", "))]" }
}

extension PlanSummary.Listener {
    fileprivate var text: String {
        if let unix {
            let users = (allowUsers ?? []).map { String($0) }
            return users.isEmpty ? "unix \(unix)" : "unix \(unix), allow_users \(PlanSummary.list(users))"
        }
        let tls = tls ? (clientCertificates ? ", tls with client certificates" : ", tls") : ""
        return "\(address ?? "")\(tls)"
    }
}

extension PlanSummary.Credential {
    fileprivate func write(to page: inout IndentedText) {
        page.heading(name)
        page.indented { page in
            page.line("strategy", strategy)
            if let subject { page.line("subject", subject) }
            if let renewAhead, let renewAtLeast {
                page.line("renew", "{ahead: \(renewAhead), at_least: \(renewAtLeast)}")
            }
            if let retryOn { page.line("retry_on", PlanSummary.list(retryOn.map { String($0) })) }
            if let onAuthorityFailure { page.line("on_authority_failure", onAuthorityFailure) }
            page.line("used by", routes.isEmpty ? "no route" : routes.joined(separator: ", "))
        }
    }
}

extension PlanSummary.Route {
    fileprivate func write(to page: inout IndentedText) {
        page.heading(name)
        page.indented { page in
            page.line("upstream", plaintext ? "\(upstream) (plaintext)" : upstream)
            page.line("path", path)
            page.line("hosts", PlanSummary.list(hosts))
            page.line("credential", credential ?? "none")
            if let asUser { page.line("as_user", asUser) }
            for rule in allow ?? [] {
                page.line(
                    "allow",
                    "\(rule.methods.isEmpty ? "any method" : rule.methods.joined(separator: ", ")) \(rule.path)"
                )
            }
            if let clients { page.line("clients", PlanSummary.list(clients)) }
        }
    }
}

/// Lines of `key: value`, two spaces per level.
private struct IndentedText {
    private(set) var text = ""
    private var level = 0

    mutating func line(_ key: String, _ value: String) { text += "\(margin)\(key): \(value)\n" }
    mutating func heading(_ title: String) { text += "\(margin)\(title):\n" }

    mutating func indented(_ body: (inout IndentedText) -> Void) {
        level += 1
        body(&self)
        level -= 1
    }

    private var margin: String { String(repeating: "  ", count: level) }
}
