extension PlanSummary {
    /// The plan in the words and the order of the configuration file.
    package func text() -> String {
        var page = IndentedText()
        page.line("state_directory", stateDirectory)
        page.line("workers", workers)
        page.line("proxy_status", String(proxyStatus))
        page.line("request_id_header", requestIdHeader)
        page.heading("listeners")
        page.indented { page in
            for listener in listeners { page.line("proxy", listener.text) }
            for engine in authz ?? [] { page.line("authz", engine.text) }
            page.line("admin", admin)
            for (name, role) in (adminUsers ?? [:]).sorted(by: { $0.key < $1.key }) {
                page.line("admin.users.\(name)", role)
            }
        }
        page.heading("access")
        page.indented { page in
            page.line("clients", Self.list(clients))
            for limits in clientLimits { page.line("clients.\(limits.name).limits", limits.text) }
            page.line("require_client", requireClient)
            page.line("allow_origins", Self.list(allowOrigins))
        }
        let sections = [("audit", audit), ("tokens", tokens), ("limits", limits), ("telemetry", telemetry), ("ca", ca)]
        for (heading, values) in sections where !values.isEmpty {
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

extension PlanSummary {
    /// One line of the plan.
    struct Fact {
        let key: String
        let value: String
    }
}

/// Something of which the plan has several, each with a name.
protocol PlanSummaryItem {
    var name: String { get }
    var facts: [PlanSummary.Fact] { get }
}

extension PlanSummaryItem {
    fileprivate func write(to page: inout IndentedText) {
        page.heading(name)
        page.indented { page in for fact in facts { page.line(fact.key, fact.value) } }
    }
}

extension PlanSummary.Listener: PlanSummaryItem {
    /// What the listener takes from the system (``ListenerPlan/Address/name``).
    package var name: String { values["unix"].map { "unix \($0.text)" } ?? values["address"]?.text ?? "" }

    var facts: [PlanSummary.Fact] { [PlanSummary.Fact(key: "", value: text)] }

    var text: String { ListenerPlan.keys.shownLines(of: values).map(\.text).joined(separator: ", ") }
}

extension PlanSummary.Engine: PlanSummaryItem {
    var name: String { values["engine"]?.text ?? "" }

    package var listener: PlanSummary.Listener {
        if case .mapping(let values)? = values["listener"] {
            PlanSummary.Listener(values: values)
        } else {
            PlanSummary.Listener(values: [:])
        }
    }

    var facts: [PlanSummary.Fact] { [PlanSummary.Fact(key: "", value: text)] }

    var text: String {
        ([listener.text] + EnginePlan.keys.shownLines(of: values).map { "\($0.key) \($0.text)" }).joined(
            separator: ", "
        )
    }
}

extension PlanSummary.ClientLimits {
    /// As the configuration spells it.
    var text: String {
        let parts = [concurrent.map { "concurrent: \($0)" }, perSecond.map { "per_second: \($0)" }]
        return "{\(parts.compactMap(\.self).joined(separator: ", "))}"
    }
}

extension PlanSummary.Credential: PlanSummaryItem {
    var name: String { values["name"]?.text ?? "" }

    var facts: [PlanSummary.Fact] {
        var facts: [PlanSummary.Fact] = []
        func add(_ key: String, _ value: String?) {
            if let value { facts.append(PlanSummary.Fact(key: key, value: value)) }
        }
        add("strategy", values["strategy"]?.text)
        add("subject", values["subject"]?.text)
        if let field = values["subject_field"], let maximum = values["maximum_subjects"] {
            add("subject", "of \(field.text), at most \(maximum.text)")
        }
        add("parent", values["parent"]?.text)
        for line in RenewalPolicy.keys.shownLines(of: values) { add(line.key, line.text) }
        if let clients = values["vend"], let token = values["vended_token"] {
            add("vend", "\(token.text) to \(clients.text)")
        }
        guard case .list(let routes)? = values["routes"] else { return facts }
        add("used by", routes.isEmpty ? "no route" : routes.map(\.text).joined(separator: ", "))
        return facts
    }
}

extension PlanSummary.Route: PlanSummaryItem {
    var name: String { values["name"]?.text ?? "" }

    var facts: [PlanSummary.Fact] {
        RoutePlan.keys.shownLines(of: values).map { PlanSummary.Fact(key: $0.key, value: $0.text) }
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
