import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// What decoding a document yields.
struct PlanDecoding: Sendable {
    /// nil when there was any error.
    let plan: Plan?
    /// All of them, in file order; warnings also when there is a plan.
    let diagnostics: [ConfigDiagnostic]
    /// What must not be shown with a diagnostic.
    let secretSpans: Set<SourceSpan>
}

/// Checks a configuration document and makes a plan of it.
enum PlanDecoder {
    private static let standardStateDirectory = "./state"

    /// The keys of the whole document.
    static let keys = Keys {
        $0("version", type: "the number 1", example: "1")
            .means("The version of the configuration format.")
        // Read by what loads the files, before this is decoded.
        $0("include", type: "a path, or a list of paths", example: "conf.d/*.yaml")
            .means("More files to merge into this one. The last part of a path may contain * and ?.")
        $0("presets", type: "a path", example: "./presets")
            .means("A folder with your own presets (*.yaml). They replace built-in presets of the same name.")
        $0("state_directory", default: standardStateDirectory, example: "/var/lib/authgateway")
            .means("The folder for tokens, keys, the audit log and the admin token. It is created with mode 0700.")
        $0("workers", default: Plan.WorkerCount.auto.text, type: "auto, or a whole number from 1 to 256", example: "2")
            .means("The number of event loops that handle connections. auto: one per processor core.")
        $0("proxy_status", default: String(Plan.sendsProxyStatusByDefault), example: "false")
            .means("Whether responses carry Proxy-Status (RFC 9209), which names the upstream.")
        $0(
            "request_id_header",
            default: RequestIDHeader.standard,
            type: "the name of a header field, or off",
            example: "X-Request-Id"
        )
        .means(
            "The response header with the ID of the request, which logs and the audit log have as "
                + "well. off omits it."
        )
        $0("listeners", example: "proxy: [{address: 127.0.0.1:8080}]\nadmin: {address: 127.0.0.1:8081}")
            .means("Where the gateway listens.")
        $0("access", example: "clients: {laptop: {token: {file: ./laptop.token}}}\nrequire_client: auto")
            .means("Who may use the gateway.")
        $0("audit", example: "usage: minute\nretention: 90d")
            .means("What is recorded of tokens and requests, and for how long.")
        $0("tokens", example: "store: sqlite\nkey: {file: ./state/token.key}")
            .means("Where tokens are stored.")
        $0("limits", example: "header_bytes: 64KiB\nresponse_timeout: 2m")
            .means("Maximum sizes, counts and times of requests and connections.")
        $0("ca", example: "permit: [box.com]\ndays: 30")
            .means(
                "The local certificate authority, which signs certificates for the hosts of routes where a "
                    + "listener has intercept: true."
            )
        $0("telemetry", example: "otlp: http://127.0.0.1:4318\nsampling: 10%")
            .means("Where traces and metrics are exported (OpenTelemetry). Without it, nothing is exported.")
        $0("defaults", example: "{proxy: http://proxy.example.com:3128}")
            .means("Values for all routes and credentials that do not set them.")
        $0(
            "credentials",
            example: "reports: {strategy: bearer, token: {env: REPORTS_TOKEN}}\n"
                + "box: {strategy: box_ccg, client_id: abc, client_secret: {env: BOX}, subject: {enterprise: \"1\"}}"
        )
        .means("Named credentials, which routes can share.")
        $0(
            "routes",
            example: "reports: {upstream: https://reports.example.com, auth: none}\n"
                + "api: {upstream: https://api.example.com, auth: none}"
        )
        .means("Which requests go to which upstream, and with which credential.")
    }

    /// - Parameters:
    ///   - earlier: What loading has found already. What decoding says about the same place is left out.
    ///   - presets: What `preset` can name.
    static func decode(
        _ document: ConfigDocument,
        after earlier: [ConfigDiagnostic] = [],
        catalog: StrategyCatalog,
        presets: PresetLibrary = PresetLibrary(),
        secrets: any SecretSource
    ) -> PlanDecoding {
        let expansion = PresetExpansion.expand(document, with: presets, secrets: secrets)
        let earlier = earlier + expansion.diagnostics
        let context = ConfigContext(document: expansion.document, secrets: secrets)
        let plan = ConfigFields(expansion.document.root, path: .root, context: context).flatMap { root($0, catalog) }
        let found = earlier.prefix(1000)
        let new = context.diagnostics.filter { diagnostic in !found.contains { diagnostic.isSaid(by: $0) } }
        var all = (earlier + new).inFileOrder + context.consequences.inFileOrder
        // A mapping that was left out must not look like one that is not there.
        if !all.contains(where: { $0.severity == .error }) { all += context.unusedPresets }
        let isFaulty = all.contains { $0.severity == .error }
        let secretSpans = context.secretSpans.subtracting(PresetExpansion.names(in: document.root, of: presets))
        return PlanDecoding(plan: isFaulty ? nil : plan, diagnostics: all, secretSpans: secretSpans)
    }

    /// Asks for every key, for the schema.
    static func explore(
        _ document: ConfigDocument,
        catalog: StrategyCatalog,
        secrets: any SecretSource,
        recorder: KeyRecorder
    ) {
        let context = ConfigContext(document: document, secrets: secrets, recorder: recorder)
        _ = ConfigFields(document.root, path: .root, context: context).flatMap { root($0, catalog) }
    }

    private static func root(_ fields: ConfigFields, _ catalog: StrategyCatalog) -> Plan? {
        // Values are not shown: this may be an included file with secrets, or no configuration at all.
        fields.hidesUnknownValues = true
        fields.explain(keys)
        defer { fields.refuseUnknownKeys() }
        version(fields)
        // Read by what loads the configuration.
        _ = fields.filePath("presets")
        let stateDirectory = stateDirectory(fields)
        let workers = workers(fields)
        let sendsProxyStatus = fields.bool("proxy_status") ?? Plan.sendsProxyStatusByDefault
        let requestIDHeader = RequestIDHeader.decode(fields)
        let access = AccessDecoder.decode(fields.fields("access"))
        let listeners = ListenerDecoder.decode(fields.fields("listeners"), at: fields.span, access: access)
        AccessDecoder.checkProofs(fields.fields("access"), of: access, listeners: listeners.proxy)
        AdminDecoder.checkLocalSocket(of: listeners.admin, in: stateDirectory, fields)
        let audit = AuditPlan.decode(fields.fields("audit"), stateDirectory: stateDirectory)
        let tokens = TokenPlan.decode(fields.fields("tokens"), stateDirectory: stateDirectory)
        audit.checkShipping(to: tokens, fields.fields("audit"))
        let limits = Limits.keys.decode(fields.fields("limits"))
        let localAuthority = LocalAuthorityPlan.decode(fields.fields("ca"))
        let telemetry = TelemetryPlan.decode(fields.fields("telemetry"))
        let clients = access.clients.map(\.name)
        var credentials = CredentialDecoder(catalog: catalog, context: fields.context, clients: clients)
        credentials.decodeNamed(fields.fields("credentials"))
        let engines = listeners.authz.compactMap(\.engine?.name)
        let proxy = proxy(fields, &credentials)
        let routes = RouteDecoder.decode(
            fields,
            clients: clients,
            engines: engines,
            proxy: proxy,
            credentials: &credentials
        )
        credentials.followProxies(proxy)
        EngineDecoder.warnAboutUnused(listeners.authz, routes, fields)
        credentials.warnAboutUnused()
        var plan = Plan(
            stateDirectory: stateDirectory,
            workers: workers,
            sendsProxyStatus: sendsProxyStatus,
            requestIDHeader: requestIDHeader,
            listeners: listeners.proxy,
            admin: listeners.admin,
            access: access,
            audit: audit,
            tokens: tokens,
            limits: limits,
            credentials: credentials.plans,
            routes: routes
        )
        plan.authz = listeners.authz
        plan.telemetry = telemetry
        plan.localAuthority = localAuthority
        plan.proxy = proxy
        refuseOwnListeners(plan, fields)
        warnAboutNothingToIntercept(plan, fields)
        refuseLoopsWithoutVia(plan, fields)
        requireApprovers(plan, fields)
        plan.reportCaptures(in: fields)
        return plan
    }

    private static let defaultKeys = Keys {
        $0("proxy", default: "none", type: ProxyDecoder.type, example: ProxyDecoder.example)
            .means(
                "The proxy for routes, token requests, keys of client JWTs, telemetry, and tunnels to servers without a "
                    + "route; not for PostgreSQL. Servers on this machine are reached directly. environment: the one of "
                    + "HTTPS_PROXY, HTTP_PROXY and NO_PROXY."
            )
    }

    private static func proxy(_ root: ConfigFields, _ credentials: inout CredentialDecoder) -> ProxyRule? {
        guard let fields = root.fields("defaults") else { return nil }
        fields.explain(defaultKeys)
        let setting = ProxyDecoder.decode(fields, isShared: true)
        if fields.keys.isEmpty { fields.error("sets nothing; leave it out") }
        fields.refuseUnknownKeys()
        return setting.flatMap { credentials.rule(of: $0) }
    }

    /// A gateway that is its own proxy would ask itself without end.
    private static func refuseOwnListeners(_ plan: Plan, _ fields: ConfigFields) {
        var places: [(rule: [ParentProxy], path: ConfigPath, span: SourceSpan)] = []
        if let proxy = plan.proxy {
            places.append((proxy.parents, fields.path.appending("defaults").appending("proxy"), fields.span))
        }
        for route in plan.routes {
            let path = fields.path.appending("routes").appending(route.name).appending("proxy")
            places.append(([route.proxy].compactMap(\.self), path, route.span))
        }
        for credential in plan.credentials {
            let path = fields.path.appending("credentials").appending(credential.name).appending("proxy")
            places.append((credential.proxy?.parents ?? [], path, credential.span))
        }
        var reported: Set<ParentProxy> = []
        for (parents, path, span) in places {
            for parent in parents where reported.insert(parent).inserted && plan.listens(at: parent.origin) {
                fields.context.error(
                    "\(parent) is a listener of this gateway, which cannot be its own proxy",
                    at: span,
                    path: path
                )
            }
        }
    }

    /// CONNECT is taken for `https` upstreams: without one the authority is not even made. A listener that also tunnels has a use then.
    private static func warnAboutNothingToIntercept(_ plan: Plan, _ fields: ConfigFields) {
        guard !plan.interceptsHosts else { return }
        for (index, listener) in plan.listeners.enumerated()
        where listener.intercepts && listener.connect.unrouted != .tunnel {
            fields.context.warning(
                "intercepts nothing: no route leads to an https:// upstream",
                at: listener.span,
                path: fields.path.appending("listeners").appending("proxy").appending(index).appending("intercept"),
                mayFollow: true
            )
        }
    }

    /// The admin token is in the state directory, and other tokens are in files that the configuration names: a program that runs as the
    /// same user could approve its own requests.
    private static func requireApprovers(_ plan: Plan, _ fields: ConfigFields) {
        guard !plan.admin.users.contains(where: \.mayApprove) else { return }
        for route in plan.routes {
            for (number, rule) in route.allow.enumerated() where rule.needsApproval {
                fields.context.error(
                    "no operator can approve these requests: add a user with role: operator and token_sha256 or certificate to"
                        + " listeners.admin.users. The admin token and users with token cannot approve, because programs on this"
                        + " machine could read those tokens",
                    at: route.span,
                    path: fields.path.appending("routes").appending(route.name).appending("allow").appending(number)
                        .appending("approve")
                )
            }
        }
    }

    /// Other gateways and proxies on the way find a loop by `Via` alone.
    private static func refuseLoopsWithoutVia(_ plan: Plan, _ fields: ConfigFields) {
        let ownHosts = Set(plan.routes.flatMap(\.matchHosts))
        for route in plan.routes where !route.sendsVia {
            let leadsHere = plan.listeners.contains { listener in
                let port: Int? = if case .tcp(_, let port) = listener.address { port } else { nil }
                return listener.address.isMeant(by: route.upstream, port: port)
                    || listener.publicURL?.origin == route.upstream
            }
            let host = route.upstream.host
            // A wildcard covers names of any depth below it.
            let isServedHere = ownHosts.contains { own in
                own.hasPrefix("*.") ? host.hasSuffix(own.dropFirst()) : own == host
            }
            guard leadsHere || isServedHere else { continue }
            fields.context.error(
                "cannot be false: this upstream may be the gateway itself, and other proxies detect loops by Via alone",
                at: route.span,
                path: fields.path.appending("routes").appending(route.name).appending("via")
            )
        }
    }

    static func stateDirectory(_ fields: ConfigFields) -> String {
        fields.context.resolve(
            fields.string("state_directory") ?? standardStateDirectory,
            at: fields.node("state_directory")?.span ?? SourceSpan(file: 0, line: 1, column: 1)
        )
    }

    private static func version(_ fields: ConfigFields) {
        guard fields.has("version") else {
            fields.reportAbsence(of: "version", hint: "; this version of the gateway reads \"version: 1\"")
            return
        }
        guard let scalar = fields.scalar("version")?.scalar, scalar.text != "1" || scalar.isQuoted else { return }
        let quotes = scalar.text == "1" ? ", without quotes" : ""
        fields.error("version", "this version of the gateway reads \"version: 1\"\(quotes)")
    }

    private static func workers(_ fields: ConfigFields) -> Plan.WorkerCount {
        let auto = Plan.WorkerCount.auto
        guard fields.has("workers"), fields.scalar("workers")?.scalar.text != auto.text else { return auto }
        guard let scalar = fields.scalar("workers")?.scalar else { return auto }
        guard let count = Int(scalar.text), (1...256).contains(count), !scalar.isQuoted else {
            fields.error("workers", "expected auto or a number between 1 and 256, found \(scalar.shown)")
            return auto
        }
        return .exactly(count)
    }
}

/// Reads `request_id_header`: the field that names each request in its answer.
enum RequestIDHeader {
    static let standard = "Gateway-Request-Id"
    private static let maximumLength = 64

    /// Fields that mean something else in an answer, in lower case.
    private static let taken: Set<String> = [
        "age", "allow", "authorization", "cache-control", "content-disposition", "content-language", "content-location",
        "content-range", "content-security-policy", "content-type", "date", "etag", "expires", "gateway-note",
        "gateway-token", "last-modified", "location", "proxy-status", "retry-after", "server", "set-cookie",
        "strict-transport-security", "vary", "warning", "www-authenticate",
    ]

    /// - Returns: nil for `off`.
    static func decode(_ fields: ConfigFields) -> String? {
        let key = "request_id_header"
        guard fields.has(key) else { return standard }
        guard let scalar = fields.scalar(key)?.scalar else { return standard }
        let name = scalar.text
        guard name != "off", name != "false" else { return nil }
        if !FieldSyntax.isToken(name) || name.utf8.count > maximumLength {
            fields.error(key, "expected the name of a header field such as \(standard), or off, found \(scalar.shown)")
        } else if FieldSyntax.reserved.contains(FieldSyntax.slot(name)) || taken.contains(FieldSyntax.slot(name)) {
            fields.error(key, "\(name) has another meaning in an answer; use a name such as X-Request-Id")
        }
        return name
    }
}

extension ConfigDiagnostic {
    /// Whether `earlier` is about the same place, and as grave.
    fileprivate func isSaid(by earlier: ConfigDiagnostic) -> Bool {
        span.covers(earlier.span) && (earlier.severity == .error || severity == .warning)
    }
}

extension SourceSpan {
    fileprivate func covers(_ other: SourceSpan) -> Bool {
        file == other.file && line == other.line && column <= other.column && other.column < column + length
    }
}
