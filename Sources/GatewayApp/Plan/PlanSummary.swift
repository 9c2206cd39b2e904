import FoundationEssentials
package import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// A plan as people and scripts read it: everything that was decided, no secret.
package struct PlanSummary: Hashable, Sendable, Codable {
    /// Where clients send requests. What it shows is declared with its keys (``ListenerPlan/keys``).
    package struct Listener: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// Another proxy that is handed credentials (``EnginePlan/keys``), with its listener among the values.
    package struct Engine: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// A route (``RoutePlan/keys``), with its name among the values.
    package struct Route: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    /// The limits of a client that has any.
    struct ClientLimits: Hashable, Sendable, Codable {
        var name: String
        var concurrent: Int?
        var perSecond: Int?
    }

    /// A credential, with what is shown of its renewal (``RenewalPolicy/keys``) among the values.
    package struct Credential: ShownValues {
        package var values: [String: ShownValue]

        package init(values: [String: ShownValue]) { self.values = values }
    }

    package var stateDirectory: String
    var workers: String
    package var proxyStatus: Bool
    var requestIdHeader: String
    package var listeners: [Listener]
    /// nil where no other proxy asks.
    package var authz: [Engine]?
    package var admin: String
    /// The role of each user, by name; nil where there are none.
    var adminUsers: [String: String]?
    package var clients: [String]
    var clientLimits: [ClientLimits]
    package var requireClient: String
    var allowOrigins: [String]
    package var audit: [String: String]
    package var tokens: [String: String]
    package var limits: [String: String]
    /// Empty where nothing is exported.
    var telemetry: [String: String]
    /// Empty where nothing is intercepted.
    package var ca: [String: String]
    /// The proxies of `defaults.proxy`; nil without any.
    var proxy: String?
    package var credentials: [Credential]
    package var routes: [Route]

    /// One JSON object with sorted keys.
    package func json() -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        guard let data = try? encoder.encode(self) else { return "{}" }
        return String(decoding: data, as: UTF8.self)
    }
}

/// What a thing of the plan shows, by name: one object in JSON.
package protocol ShownValues: Hashable, Sendable, Codable {
    var values: [String: ShownValue] { get }

    init(values: [String: ShownValue])
}

extension ShownValues {
    package init(from decoder: any Decoder) throws {
        self.init(values: try decoder.singleValueContainer().decode([String: ShownValue].self))
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(values)
    }
}

// MARK: From a plan

/// The summary of a plan, with or without its routes and credentials.
extension PlanSummary {
    package init(_ plan: Plan) {
        self.init(frameOf: plan)
        let byCredential = plan.routeNamesByCredential
        credentials = plan.credentials.enumerated().map { index, credential in
            Credential(Credential.Shown(credential, in: plan, routes: byCredential[index] ?? []))
        }
        let shared = SharedUpstream.all(of: plan.routes)
        routes = plan.routes.enumerated().map { index, route in
            var shown = Route(route, credential: route.credential.map { plan.credentials[$0].name })
            shown.values["absolute_form"] = .flag(shared[route.upstreamPlace]?.finds(index, route) ?? false)
            return shown
        }
    }

    /// Without credentials and routes, of which there may be many.
    init(frameOf plan: Plan) {
        stateDirectory = plan.stateDirectory
        workers = plan.workers.text
        proxyStatus = plan.sendsProxyStatus
        requestIdHeader = plan.requestIDHeader ?? "off"
        listeners = plan.listeners.map(Listener.init)
        authz = plan.authz.isEmpty ? nil : plan.authz.compactMap(Engine.init)
        admin =
            ListenerPlan.Address.keys.shownText(of: plan.admin.address) + (plan.admin.tls == nil ? "" : ", tls")
            + (plan.admin.requiresToken ? ", require_token" : "")
        let users = plan.admin.users.map { ($0.proofs.name, $0.role.rawValue) }
        adminUsers = users.isEmpty ? nil : Dictionary(users) { first, _ in first }
        clients = plan.access.clients.map(\.name)
        clientLimits = plan.access.clients.filter { !$0.limits.isEmpty }.map {
            ClientLimits(name: $0.name, concurrent: $0.limits.concurrent, perSecond: $0.limits.perSecond)
        }
        requireClient = plan.access.requireClient.rawValue
        allowOrigins = plan.access.allowedOrigins
        audit = AuditPlan.keys.texts(of: plan.audit)
        if plan.tokens.store != .postgres { for key in ["store", "ship"] { audit[key] = nil } }
        tokens = TokenPlan.keys.texts(of: plan.tokens)
        limits = Limits.keys.texts(of: plan.limits)
        telemetry = plan.telemetry.map { TelemetryPlan.keys.texts(of: $0) } ?? [:]
        ca = plan.interceptsHosts ? LocalAuthorityPlan.keys.texts(of: plan.localAuthority) : [:]
        let parents = plan.proxy?.parents.map(\.description) ?? []
        proxy = parents.isEmpty ? nil : parents.joined(separator: ", ")
        credentials = []
        routes = []
    }
}

extension Plan {
    /// The routes that send each credential, by its index.
    var routeNamesByCredential: [Int: [String]] {
        var names: [Int: [String]] = [:]
        for route in routes {
            if let credential = route.credential { names[credential, default: []].append(route.name) }
        }
        return names
    }
}

extension PlanSummary.Listener {
    init(_ plan: ListenerPlan) { values = ListenerPlan.keys.shownValues(of: plan) }
}

extension PlanSummary.Engine {
    /// nil for a listener that clients send requests to.
    init?(_ plan: ListenerPlan) {
        guard let engine = plan.engine else { return nil }
        values = EnginePlan.keys.shownValues(of: engine)
        values["listener"] = .mapping(ListenerPlan.keys.shownValues(of: plan))
    }
}

extension PlanSummary.Route {
    /// Without ``SharedUpstream``, which no line of the text shows.
    init(_ plan: RoutePlan, credential: String?) {
        values = RoutePlan.keys.shownValues(of: plan)
        values["name"] = .text(plan.name)
        values["credential"] = credential.map { .text($0) }
    }
}

extension PlanSummary.Credential {
    /// All that is shown of a credential. Two of them are compared sooner than what is made of them.
    struct Shown: Hashable {
        let name: String
        let strategy: String
        let isRenewable: Bool
        let policy: RenewalPolicy
        let routes: [String]
        let subject: String?
        let parent: String?
        /// The settings of its strategy, by key.
        let settings: [String: String]
        /// The header field that names the subject.
        var subjectField: String?
        /// How many subjects there may be at a time.
        var maximumSubjects: Int?
        var vendedTo: [String]?
        var vendedToken: String?

        init(_ plan: CredentialPlan, in whole: Plan, routes: [String]) {
            name = plan.name
            strategy = plan.strategyKind
            let behavior = plan.strategy.behavior
            isRenewable = behavior.isRenewable
            policy = plan.policy
            self.routes = routes
            subject = behavior.subject
            parent = plan.parent.map { whole.credentials[$0].name }
            settings = plan.strategy.shownSettings
            if case .tokens(let grants) = behavior {
                subjectField = grants.naming.field
                maximumSubjects = grants.limit
            }
            guard let vend = plan.vend else { return }
            vendedTo = vend.clients
            vendedToken = whole.credentials[vend.credential].name
        }
    }

    init(_ shown: Shown) {
        values = shown.isRenewable ? RenewalPolicy.keys.shownValues(of: shown.policy) : [:]
        values["name"] = .text(shown.name)
        values["strategy"] = .text(shown.strategy)
        values["renewable"] = .flag(shown.isRenewable)
        values["routes"] = .texts(shown.routes)
        values["subject"] = shown.subject.map { .text($0) }
        values["parent"] = shown.parent.map { .text($0) }
        if !shown.settings.isEmpty { values["settings"] = .mapping(shown.settings.mapValues { .text($0) }) }
        values["subject_field"] = shown.subjectField.map { .text($0) }
        values["maximum_subjects"] = shown.maximumSubjects.map { .number($0) }
        values["vend"] = shown.vendedTo.map { .texts($0) }
        values["vended_token"] = shown.vendedToken.map { .text($0) }
    }
}

// MARK: As text

/// The summary as text.
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
        if let proxy { page.line("defaults.proxy", proxy) }
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
        if case .mapping(let settings)? = values["settings"] {
            for (key, value) in settings.sorted(by: { $0.key < $1.key }) { add(key, value.text) }
        }
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
