package import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Reads `listeners.authz`: the other proxies that ask which fields a request needs, and `authz` of a route.
package enum EngineDecoder {
    private static let listenersKeys = Keys {
        $0(
            "authz",
            default: "[]",
            example: "- address: 127.0.0.1:8191\n  engine: edge\n  contract: nginx\n  token: {file: ./edge.token}"
        )
        .means(
            "Where other proxies ask which header fields a request needs (docs/engines.md). Whole tokens leave here."
        )
    }

    static func decode(_ listeners: ConfigFields) -> [ListenerPlan] {
        listeners.explain(listenersKeys)
        listeners.refuseNothing(behind: "authz", hint: "to answer no other proxy")
        guard let elements = listeners.elements("authz") else { return [] }
        var plans: [ListenerPlan] = []
        for (node, path) in elements {
            let example = listeners.example(of: "authz")
            guard let fields = ConfigFields(node, path: path, context: listeners.context, example: example),
                let plan = listener(fields)
            else { continue }
            if plans.contains(where: { $0.engine?.name == plan.engine?.name }) {
                fields.error("engine", "another listener has this engine; an engine can have only one listener")
            }
            plans.append(plan)
        }
        return plans
    }

    private static func listener(_ fields: ConfigFields) -> ListenerPlan? {
        defer { fields.refuseUnknownKeys() }
        fields.explain(ListenerPlan.Address.keys)
        let engine = engine(fields)
        let tls = fields.fields("tls").flatMap(ListenerDecoder.tls)
        switch (fields.has("address"), fields.has("unix")) {
        case (true, false):
            if fields.has("allow_users") { fields.error("allow_users", "is for unix sockets only") }
            guard let (host, port) = ListenerDecoder.address(fields) else { return nil }
            check(fields, host: host, engine)
            guard let engine, let span = fields.node("address")?.span else { return nil }
            var plan = ListenerPlan(address: .tcp(host: host, port: port), tls: tls, span: span)
            plan.engine = engine
            return plan
        case (false, true):
            if fields.has("tls") { fields.error("tls", "is for addresses only, not for unix sockets") }
            guard let place = ListenerDecoder.unix(fields) else { return nil }
            if fields.has("certificates") { fields.error("certificates", "is for addresses with tls.client_ca") }
            if !fields.has("allow_users"), !fields.has("token") {
                fields.error("does not authenticate its engine; give a token, or allow_users of the unix socket")
            }
            guard let engine, let span = fields.node("unix")?.span else { return nil }
            var plan = ListenerPlan(address: place, span: span)
            plan.engine = engine
            return plan
        default:
            fields.know("allow_users")
            if fields.unknownKeys.isEmpty { fields.error("a listener has exactly one of address and unix") }
            return nil
        }
    }

    /// Whole tokens leave here, so an engine proves itself, and they are not sent in clear.
    private static func check(_ fields: ConfigFields, host: String, _ engine: EnginePlan?) {
        if fields.fields("tls")?.has("ca") ?? false {
            fields.error("tls", "needs a certificate of its own here; \"ca: local\" is for clients of upstreams")
        }
        if !ListenerDecoder.isLoopback(host), !fields.has("tls") {
            fields.error("address", "whole tokens would be sent in clear to other machines; add tls, or use 127.0.0.1")
        }
        let asksForCertificates = fields.fields("tls")?.has("client_ca") ?? false
        if fields.has("certificates"), !asksForCertificates {
            fields.error(
                "certificates",
                "is for addresses with tls.client_ca, which asks the engine for its certificate"
            )
        }
        guard !fields.has("token"), !fields.has("certificates") else { return }
        let advice =
            asksForCertificates
            ? "client_ca accepts every certificate that its CA issued; name the engine's in certificates"
            : "give a token that the engine sends in \(EnginePlan.tokenField)"
        fields.error("does not authenticate its engine; \(advice)")
    }

    private static func engine(_ fields: ConfigFields) -> EnginePlan? {
        var plan = EnginePlan.keys.defaults
        EnginePlan.keys.read(fields, into: &plan)
        plan.tokens = tokens(fields)
        plan.certificates = certificates(fields)
        let name = fields.requiredString("engine")
        if let name, !ConfigName.isValid(name) { fields.error("engine", ConfigName.rule) }
        if !fields.has("contract") { fields.missing("contract") }
        let contract = fields.choice("contract", of: EnginePlan.Contract.self)
        plan.pathPrefix = pathPrefix(fields, contract)
        guard let name, let contract else { return nil }
        (plan.name, plan.contract) = (name, contract)
        return plan
    }

    private static func tokens(_ fields: ConfigFields) -> [Secret] {
        let tokens = fields.secrets("token", upTo: EnginePlan.maximumTokens)
        let isShort = tokens.contains { $0.byteCount < ClientTokenRule.minimumBytes }
        if isShort, let span = fields.node("token")?.span, !fields.context.isUnread(at: span) {
            fields.error(
                "token",
                "has fewer than \(ClientTokenRule.minimumBytes) bytes, so it could be guessed; make one with"
                    + " `openssl rand -hex 32`"
            )
        }
        return tokens
    }

    private static func certificates(_ fields: ConfigFields) -> [CertificateName] {
        fields.refuseNothing(behind: "certificates", hint: "to ask for no certificate")
        return (fields.elements("certificates") ?? []).compactMap { certificate($0.node, $0.path, fields) }
    }

    /// A host name, a URI, or all URIs below one.
    private static func certificate(
        _ node: ConfigNode,
        _ path: ConfigPath,
        _ fields: ConfigFields
    ) -> CertificateName? {
        if case .scalar(let scalar) = node.content, let name = CertificateName(scalar.text) { return name }
        let advice =
            "expected a name of the certificate: edge.example.com, spiffe://example.org/edge, or all below one:"
            + " spiffe://example.org/edges/*"
        fields.context.error(advice, at: node.span, path: path)
        return nil
    }

    private static func pathPrefix(_ fields: ConfigFields, _ contract: EnginePlan.Contract?) -> String {
        guard let prefix = fields.string("path_prefix") else { return "" }
        if let contract, contract != .envoy {
            fields.error("path_prefix", "is for \"contract: envoy\"; other engines name the path in a field")
        }
        guard prefix.utf8.first == 0x2F, prefix.utf8.last != 0x2F,
            prefix.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != 0x3F && $0 != 0x23 })
        else {
            fields.error("path_prefix", "expected a path such as /authz, without a slash at its end")
            return ""
        }
        return prefix
    }

    // MARK: Routes

    /// - Parameters:
    ///   - known: The engines of `listeners.authz`.
    ///   - plan: The plan of the route; nil where it has a mistake.
    ///   - credentials: Those of the configuration.
    static func route(
        _ fields: ConfigFields,
        known: [String],
        of plan: RoutePlan?,
        credentials: [CredentialPlan]
    ) -> [String] {
        fields.refuseNothing(behind: "authz", hint: "to answer no other proxy")
        guard let elements = fields.elements("authz") else { return [] }
        let names: [String] = elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                fields.context.error("expected the name of an engine", at: node.span, path: path)
                return nil
            }
            guard known.contains(scalar.text) else {
                let hint =
                    known.isEmpty
                    ? "; listeners.authz names the engines" : Suggestion.hint(for: scalar.text, in: known)
                fields.context.error("no engine is named \(scalar.shown)\(hint)", at: node.span, path: path)
                return nil
            }
            return scalar.text
        }
        if let plan, !elements.isEmpty, let obstacle = obstacle(plan.credential.map { credentials[$0] }) {
            fields.error("authz", obstacle)
        }
        if let plan, !elements.isEmpty, plan.allow.contains(where: { $0.tools?.source == .body }) {
            fields.error(
                "authz",
                "an engine sends the gateway no bodies, which a rule with tools has to read; send these requests through a proxy listener"
            )
        }
        if let plan, !elements.isEmpty, plan.allow.contains(where: \.needsApproval) {
            fields.error(
                "authz",
                "an engine cannot wait for an approval, which a rule with approve needs; send these requests through a proxy listener"
            )
        }
        return names
    }

    /// Why no field that is known beforehand signs a request in.
    private static func obstacle(_ credential: CredentialPlan?) -> String? {
        switch credential?.strategy.behavior {
        case .token where credential?.strategy.behavior.signs ?? false, .signed:
            return
                "\(credential?.strategyKind ?? "") signs each request as it is sent, and an engine cannot be handed a signature in"
                + " advance; send these requests through a proxy listener"
        case .token: return nil
        case .fixed(let injection):
            return injection.hasSecretTarget
                ? "\(credential?.strategyKind ?? "") puts its credential into the URL, and an engine can only be handed"
                    + " header fields"
                : nil
        case nil, .some(.none):
            return "the route has no credential that can be handed to an engine"
        case .onChallenge:
            return "\(credential?.strategyKind ?? "") sends its credential once the upstream has asked for it, and an"
                + " engine does not pass the challenge on; remove \"mode: challenge\""
        case .tokens(let grants):
            if case .field = grants.naming { return nil }
            return
                "\(credential?.strategyKind ?? "") needs the challenge of the upstream's response to know which token"
                + " to ask for, and an engine does not pass it on; send these requests through a proxy listener"
        }
    }

    /// Warns about engines that no route names: their listeners answer every request with 403.
    package static func warnAboutUnused(_ listeners: [ListenerPlan], _ routes: [RoutePlan], _ root: ConfigFields) {
        let used = Set(routes.flatMap(\.authz))
        for (index, listener) in listeners.enumerated() {
            guard let engine = listener.engine, !used.contains(engine.name) else { continue }
            root.context.warning(
                "no route hands anything to \(engine.name); add it to authz of a route",
                at: listener.span,
                path: root.path.appending("listeners").appending("authz").appending(index),
                mayFollow: true
            )
        }
    }
}
