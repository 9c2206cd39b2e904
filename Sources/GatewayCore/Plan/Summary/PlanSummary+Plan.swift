extension PlanSummary {
    package init(_ plan: Plan) {
        stateDirectory = plan.stateDirectory
        workers = if case .exactly(let count) = plan.workers { String(count) } else { "auto" }
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
        ca = plan.interceptedHosts.isEmpty ? [:] : LocalAuthorityPlan.keys.texts(of: plan.localAuthority)
        let byCredential = Dictionary(grouping: plan.routes, by: \.credential)
        credentials = plan.credentials.enumerated().map { index, credential in
            Credential(credential, in: plan, routes: byCredential[index]?.map(\.name) ?? [])
        }
        let shared = SharedUpstream.all(of: plan.routes)
        routes = plan.routes.enumerated().map { index, route in
            var shown = Route(values: RoutePlan.keys.shownValues(of: route))
            shown.values["name"] = .text(route.name)
            shown.values["credential"] = route.credential.map { .text(plan.credentials[$0].name) }
            shown.values["absolute_form"] = .flag(shared[route.upstreamPlace]?.finds(index, route) ?? false)
            return shown
        }
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

extension PlanSummary.Credential {
    init(_ plan: CredentialPlan, in whole: Plan, routes: [String]) {
        let isRenewable = plan.strategy.isRenewable
        values = isRenewable ? RenewalPolicy.keys.shownValues(of: plan.policy) : [:]
        values["name"] = .text(plan.name)
        values["strategy"] = .text(plan.strategyKind)
        values["renewable"] = .flag(isRenewable)
        values["routes"] = .texts(routes)
        values["subject"] = plan.strategy.subject.map { .text($0) }
        values["parent"] = plan.parent.map { .text(whole.credentials[$0].name) }
        if case .tokens(let grants) = plan.strategy.behavior {
            // The header field that names the subject, and how many subjects there may be at a time.
            values["subject_field"] = grants.naming.field.map { .text($0) }
            values["maximum_subjects"] = .number(grants.limit)
        }
        guard let vend = plan.vend else { return }
        values["vend"] = .texts(vend.clients)
        values["vended_token"] = .text(whole.credentials[vend.credential].name)
    }
}
