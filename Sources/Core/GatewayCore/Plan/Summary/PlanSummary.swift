import FoundationEssentials

/// A plan as people and scripts read it: everything that was decided, no secret.
package struct PlanSummary: Hashable, Sendable, Codable {
    package struct Listener: Hashable, Sendable, Codable {
        package var address: String?
        package var unix: String?
        package var allowUsers: [UInt32]?
        package var tls: Bool
        package var clientCertificates: Bool
        /// nil for a listener that does not.
        package var intercepts: Bool?
        /// nil for one with a certificate of its own, or none.
        package var usesLocalAuthority: Bool?
        package var publicUrl: String?
        /// nil for a listener that refuses servers without a route.
        package var connect: Connect?
    }

    package struct Connect: Hashable, Sendable, Codable {
        package var unrouted: String
        package var allow: [String]
        package var ports: [Int]
    }

    /// Of a client that has any.
    package struct ClientLimits: Hashable, Sendable, Codable {
        package var name: String
        package var concurrent: Int?
        package var perSecond: Int?
    }

    package struct Credential: Hashable, Sendable, Codable {
        package var name: String
        package var strategy: String
        package var subject: String?
        /// The header field that names the subject, and how many subjects there may be at a time.
        package var subjectField: String?
        package var maximumSubjects: Int?
        /// The credential that it is made from.
        package var parent: String?
        package var renewable: Bool
        /// For renewable credentials only.
        package var renewsByItself: Bool?
        package var renewAhead: String?
        package var renewAtLeast: String?
        package var retryOn: [Int]?
        package var onAuthorityFailure: String?
        package var acquireOn: String?
        /// The clients that are handed a token.
        package var vend: [String]?
        /// The credential of that token: this one, or a weaker one.
        package var vendedToken: String?
        package var routes: [String]
    }

    package struct Allow: Hashable, Sendable, Codable {
        /// Empty means every method.
        package var methods: [String]
        package var path: String
    }

    /// The values are left out: they may be secrets.
    package struct Headers: Hashable, Sendable, Codable {
        package var set: [String]
        package var remove: [String]
        package var forwarded: String?
    }

    package struct Route: Hashable, Sendable, Codable {
        package var name: String
        package var upstream: String
        package var path: String
        package var hosts: [String]
        /// Whether the upstream's own host finds the route in absolute form.
        package var absoluteForm: Bool
        /// nil where it is the path of the upstream.
        package var upstreamPath: String?
        /// nil for one that is not.
        package var isDefault: Bool?
        /// nil where the host or the path is enough.
        package var matchesAll: Bool?
        package var credential: String?
        package var asUser: String?
        package var headers: Headers?
        package var cookies: String
        /// nil: for requests that find the route by its path.
        package var rewritesLinks: Bool?
        package var connectionAuth: Bool
        package var allow: [Allow]?
        package var clients: [String]?
        package var allowOrigins: [String]?
        package var pins: [String]?
        /// nil for HTTP/1.1.
        package var `protocol`: String?
        package var plaintext: Bool
    }

    package var stateDirectory: String
    package var workers: String
    package var proxyStatus: Bool
    package var requestIdHeader: String
    package var listeners: [Listener]
    package var admin: String
    package var clients: [String]
    package var clientLimits: [ClientLimits]
    package var requireClient: String
    package var allowOrigins: [String]
    package var audit: [String: String]
    package var tokens: [String: String]
    package var limits: [String: String]
    /// Empty where nothing is exported.
    package var telemetry: [String: String]
    /// Empty where nothing is intercepted.
    package var ca: [String: String]
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

extension PlanSummary {
    package init(_ plan: Plan) {
        stateDirectory = plan.stateDirectory
        workers = if case .exactly(let count) = plan.workers { String(count) } else { "auto" }
        proxyStatus = plan.sendsProxyStatus
        requestIdHeader = plan.requestIDHeader ?? "off"
        listeners = plan.listeners.map(Listener.init)
        admin = Listener(plan.admin.address).text + (plan.admin.requiresToken ? ", require_token" : "")
        clients = plan.access.clients.map(\.name)
        clientLimits = plan.access.clients.filter { !$0.limits.isEmpty }.map {
            ClientLimits(name: $0.name, concurrent: $0.limits.concurrent, perSecond: $0.limits.perSecond)
        }
        requireClient = plan.access.requireClient.rawValue
        allowOrigins = plan.access.allowedOrigins
        audit = [
            "path": plan.audit.path, "usage": plan.audit.usage.rawValue,
            "retention": ConfigUnits.text(plan.audit.retention), "on_failure": plan.audit.onFailure.rawValue,
            "on_missing": plan.audit.onMissing.rawValue, "max_bytes": ConfigUnits.text(bytes: plan.audit.maximumBytes),
        ]
        audit["anchor"] = plan.audit.anchor?.summary
        tokens = ["store": plan.tokens.store.rawValue]
        if plan.tokens.store == .sqlite { tokens["path"] = plan.tokens.path }
        if let program = plan.tokens.program { tokens["command"] = program.command.joined(separator: " ") }
        tokens["key"] = Self.shown(plan.tokens.key)
        tokens["encryption_key"] = plan.tokens.encryptionKey.map(Self.shown)
        tokens["previous_encryption_key"] = plan.tokens.previousEncryptionKey.map(Self.shown)
        limits = Self.limits(plan.limits)
        telemetry = plan.telemetry.map(Self.telemetry) ?? [:]
        ca = plan.interceptedHosts.isEmpty ? [:] : Self.localAuthority(plan.localAuthority)
        credentials = plan.credentials.enumerated().map { index, credential in
            Credential(credential, in: plan, routes: plan.routes.filter { $0.credential == index }.map(\.name))
        }
        let shared = SharedUpstream.all(of: plan.routes)
        routes = plan.routes.enumerated().map { index, route in
            var shown = Route(route, credential: route.credential.map { plan.credentials[$0].name })
            shown.absoluteForm = shared[route.upstreamPlace]?.finds(index) ?? false
            return shown
        }
    }

    private static func shown(_ key: TokenPlan.Key) -> String {
        if case .file(let path) = key { path } else { "***" }
    }

    private static func telemetry(_ plan: TelemetryPlan) -> [String: String] {
        [
            "otlp": "\(plan.origin)\(plan.path)",
            "headers": plan.headers.map { "\($0.name): ***" }.joined(separator: ", "),
            "service_name": plan.serviceName,
            "sampling": "\(plan.sampling)%",
            "traces": String(plan.exportsTraces),
            "metrics": String(plan.metricsInterval != nil),
            "metrics_interval": plan.metricsInterval.map { ConfigUnits.text($0) } ?? "",
        ].filter { !$0.value.isEmpty }
    }

    private static func localAuthority(_ plan: LocalAuthorityPlan) -> [String: String] {
        [
            "permit": "[\(plan.permit.joined(separator: ", "))]", "constrain": String(plan.isConstrained),
            "days": String(plan.days),
        ]
    }

    private static func limits(_ limits: Limits) -> [String: String] {
        [
            "header_bytes": ConfigUnits.text(bytes: limits.headerBytes),
            "header_fields": String(limits.headerFields),
            "header_timeout": ConfigUnits.text(limits.headerTimeout),
            "body_idle_timeout": ConfigUnits.text(limits.bodyIdleTimeout),
            "request_body_bytes": limits.requestBodyBytes.map { ConfigUnits.text(bytes: $0) } ?? "none",
            "replay_body_bytes": ConfigUnits.text(bytes: limits.replayBodyBytes),
            "head_memory": ConfigUnits.text(bytes: limits.headMemory),
            "connections": String(limits.connections),
            "connections_per_address": limits.connectionsPerAddress.map { String($0) } ?? "none",
            "streams_per_connection": String(limits.streamsPerConnection),
            "pending_per_route": String(limits.pendingPerRoute),
            "connections_per_upstream": String(limits.connectionsPerUpstream),
            "pending_per_upstream": String(limits.pendingPerUpstream),
            "credential_timeout": ConfigUnits.text(limits.credentialTimeout),
            "connect_timeout": ConfigUnits.text(limits.connectTimeout),
            "connection_max_age": ConfigUnits.text(limits.connectionMaxAge),
            "response_timeout": ConfigUnits.text(limits.responseTimeout),
            "idle_timeout": ConfigUnits.text(limits.idleTimeout),
            "drain": ConfigUnits.text(limits.drain),
        ]
    }
}

extension PlanSummary.Listener {
    package init(_ plan: ListenerPlan) {
        self.init(plan.address)
        tls = plan.speaksTLS
        if plan.usesLocalAuthority { usesLocalAuthority = true }
        clientCertificates = plan.tls?.clientCAPath != nil
        if plan.intercepts { intercepts = true }
        publicUrl = plan.publicURL?.text
        guard plan.connect.unrouted == .tunnel else { return }
        connect = PlanSummary.Connect(
            unrouted: plan.connect.unrouted.rawValue,
            allow: plan.connect.allow.map(\.description),
            ports: plan.connect.ports
        )
    }

    init(_ place: ListenerPlan.Address) {
        tls = false
        clientCertificates = false
        switch place {
        case .tcp(let host, let port): address = Origin(scheme: .http, host: host, port: port).hostAndPort
        case .unix(let path, let users):
            unix = path
            allowUsers = users
        }
    }
}

extension PlanSummary.Credential {
    init(_ plan: CredentialPlan, in whole: Plan, routes: [String]) {
        parent = plan.parent.map { whole.credentials[$0].name }
        name = plan.name
        strategy = plan.strategyKind
        subject = plan.strategy.subject
        renewable = false
        self.routes = routes
        vend = plan.vend?.clients
        vendedToken = plan.vend.map { whole.credentials[$0.credential].name }
        if case .tokenPerSubject(let grants) = plan.strategy.behavior {
            (subjectField, maximumSubjects) = (grants.field, grants.limit)
        }
        guard plan.strategy.isRenewable else { return }
        renewable = true
        renewsByItself = plan.policy.isAutomatic
        retryOn = plan.policy.retryOn
        guard plan.policy.isAutomatic else { return }
        renewAhead = "\(plan.policy.aheadPercent)%"
        renewAtLeast = ConfigUnits.text(plan.policy.atLeast)
        onAuthorityFailure = plan.policy.onAuthorityFailure.rawValue
        acquireOn = plan.policy.acquireOn.rawValue
    }
}

extension PlanSummary.Route {
    init(_ plan: RoutePlan, credential: String?) {
        name = plan.name
        upstream = plan.upstream.description + plan.upstreamPath
        path = plan.matchPath
        hosts = plan.matchHosts
        absoluteForm = plan.matchesUpstreamHost
        if plan.upstreamMatchPath != plan.upstreamPath { upstreamPath = plan.upstreamMatchPath }
        if plan.isDefault { isDefault = true }
        if plan.matchesAll { matchesAll = true }
        self.credential = credential
        asUser = plan.asUser
        if plan.headers != RoutePlan.Headers() {
            headers = PlanSummary.Headers(
                set: plan.headers.set.map(\.name),
                remove: plan.headers.remove,
                forwarded: plan.headers.forwarded == .standard ? nil : plan.headers.forwarded.rawValue
            )
        }
        cookies = plan.cookies.rawValue
        rewritesLinks = plan.rewritesLinks
        connectionAuth = plan.allowsConnectionAuth
        allow =
            plan.allow.isEmpty
            ? nil : plan.allow.map { PlanSummary.Allow(methods: $0.methods, path: $0.path.description) }
        clients = plan.clients
        allowOrigins = plan.allowedOrigins
        pins = plan.tls.pins.isEmpty ? nil : plan.tls.pins.map(\.description)
        `protocol` = plan.upstreamProtocol == .http1 ? nil : plan.upstreamProtocol.rawValue
        plaintext = plan.upstream.scheme == .http
    }
}

extension Origin {
    /// With the port always, for addresses.
    fileprivate var hostAndPort: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
