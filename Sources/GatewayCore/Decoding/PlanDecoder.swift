/// What decoding a document yields.
package struct PlanDecoding: Sendable {
    /// nil when there was any error.
    package let plan: Plan?
    /// All of them, in file order; warnings also when there is a plan.
    package let diagnostics: [ConfigDiagnostic]
    /// What must not be shown with a diagnostic.
    package let secretSpans: Set<SourceSpan>
}

/// Checks a configuration document and makes a plan of it.
package enum PlanDecoder {
    /// - Parameters:
    ///   - earlier: What loading has found already. What decoding says about the same place is left out.
    ///   - presets: What `preset` can name.
    package static func decode(
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
        // Of a file with secrets that is included, or no configuration at all, the values are not shown.
        fields.hidesUnknownValues = true
        fields.explain(meanings)
        defer { fields.refuseUnknownKeys() }
        version(fields)
        // Read by what loads the configuration.
        _ = fields.filePath("presets")
        let stateDirectory = stateDirectory(fields)
        let workers = workers(fields)
        let sendsProxyStatus = fields.bool("proxy_status") ?? true
        let requestIDHeader = RequestIDHeader.decode(fields)
        let access = AccessDecoder.decode(fields.fields("access"))
        let listeners = ListenerDecoder.decode(fields.fields("listeners"), at: fields.span, access: access)
        AccessDecoder.checkProofs(fields.fields("access"), of: access, listeners: listeners.proxy)
        ListenerDecoder.checkLocalSocket(of: listeners.admin, in: stateDirectory, fields)
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
        let routes = RouteDecoder.decode(fields, clients: clients, engines: engines, credentials: &credentials)
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
        ListenerDecoder.warnAboutNothingToIntercept(plan, fields)
        RouteDecoder.refuseLoopsWithoutVia(plan, fields)
        return plan
    }

    static func stateDirectory(_ fields: ConfigFields) -> String {
        fields.context.resolve(
            fields.string("state_directory") ?? "./state",
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
        guard fields.has("workers"), fields.scalar("workers")?.scalar.text != "auto" else { return .auto }
        guard let scalar = fields.scalar("workers")?.scalar else { return .auto }
        guard let count = Int(scalar.text), (1...256).contains(count), !scalar.isQuoted else {
            fields.error("workers", "expected auto or a number between 1 and 256, found \(scalar.shown)")
            return .auto
        }
        return .exactly(count)
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
