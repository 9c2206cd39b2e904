package import GatewayConfiguration
package import GatewayHTTP
package import GatewayTokens

/// Reads `routes`.
package enum RouteDecoder {
    private static let names = Keys {
        $0(KeyMeaning.anyName, example: "upstream: https://api.example.com\nauth: none")
            .means("One route. Its path is /NAME and its host NAME.localhost unless match says otherwise.")
    }

    /// Keys by which a route is known whose indentation is wrong.
    private static let ownKeys: Set<String> = [
        "upstream", "auth", "match", "preset", "allow", "clients", "tls", "protocol",
    ]

    /// - Parameter proxy: `defaults.proxy`.
    package static func decode(
        _ root: ConfigFields,
        clients: [String],
        engines: [String],
        proxy: ProxyRule? = nil,
        credentials: inout CredentialDecoder
    ) -> [RoutePlan] {
        guard root.has("routes") else {
            root.reportAbsence(of: "routes")
            return []
        }
        guard let fields = root.fields("routes") else { return [] }
        fields.explain(names)
        if fields.keys.isEmpty { root.error("routes", "names no route") }
        var conflicts = RouteConflicts()
        var routes: [RoutePlan] = []
        var matches: [String: RouteMatch] = [:]
        for (name, entry) in fields.named("a route", keys: ownKeys) {
            let path = fields.path.appending(name)
            guard let own = fields.named(entry, path: path) else { continue }
            let match = RouteMatch.decode(own, name: name, at: entry.keySpan)
            matches[name] = match
            conflicts.add(match, path: own.path)
            var route = route(own, name: name, at: entry.keySpan, match, clients, proxy, &credentials)
            let authz = EngineDecoder.route(own, known: engines, of: route, credentials: credentials.plans)
            route?.authz = authz
            own.refuseUnknownKeys()
            if let route { routes.append(route) }
        }
        conflicts.report(to: fields.context)
        RouteConflicts.reportShared(routes, matches, of: fields)
        for (index, isFree) in RouteConflicts.upstreamsAreFree(routes).enumerated() {
            routes[index].matchesUpstreamHost = isFree
        }
        return routes
    }

    private static func route(
        _ fields: ConfigFields,
        name: String,
        at span: SourceSpan,
        _ match: RouteMatch,
        _ clients: [String],
        _ proxy: ProxyRule?,
        _ credentials: inout CredentialDecoder
    ) -> RoutePlan? {
        fields.explain(RoutePlan.keys)
        fields.hints = StandardNames.routeKeys
        fields.readPreset()
        let upstream = upstream(fields)
        if let upstream { match.checkUpstreamPath(below: upstream.path, in: fields) }
        let auth = credentials.decodeAuth(of: fields, named: name)
        var plan = RoutePlan.keys.defaults
        RoutePlan.keys.read(fields, into: &plan)
        plan.rewritesLinks = rewritesLinks(fields)
        plan.timeouts = timeouts(fields)
        plan.allow = allow(fields)
        if fields.has("allow_origins") { plan.allowedOrigins = AccessDecoder.origins(fields) }
        plan.whoami = whoami(fields)
        fields.refuseNothing(behind: "clients", hint: "to let in every client")
        let allowedClients = fields.clientNames(known: clients)
        let credential = auth?.credential.map { credentials.plans[$0] }
        let owned = credential.map { type(of: $0.strategy).ownedFields } ?? []
        let headers = RouteHeaders.decode(
            fields,
            beside: credential?.strategy.behavior,
            keeping: owned + (auth?.asUser.map { [$0.field.name] } ?? [])
        )
        let cookies = fields.choice("cookies", of: CookiePolicy.self)
        let tls = RouteTLS.decode(fields, of: upstream)
        let ownProxy = ProxyDecoder.decode(fields).flatMap { credentials.rule(of: $0) }
        if plan.allowsConnectionAuth, plan.upstreamProtocol == .http2 {
            fields.error("protocol", "NTLM and Negotiate need HTTP/1.1: remove this, or \"connection_auth\"")
        }
        guard let upstream, let auth else { return nil }
        (plan.name, plan.span) = (name, span)
        (plan.upstream, plan.upstreamPath) = (upstream.origin, upstream.path)
        plan.matchPath = match.path.value
        plan.matchHosts = match.hosts.map(\.value)
        plan.matchesAll = match.needsAll
        plan.upstreamMatchPath = match.upstreamPath?.value ?? upstream.path
        plan.isDefault = match.defaultSpan != nil
        (plan.credential, plan.asUser) = (auth.credential, auth.asUser)
        plan.headers = headers
        plan.cookies = cookies ?? .standard(injectsCredential: auth.credential != nil)
        plan.endpoints = auth.credential.map { credentials.endpoints(of: $0, at: upstream) } ?? []
        plan.clients = allowedClients
        plan.tls = tls
        plan.proxy = (ownProxy ?? proxy)?.parent(for: upstream.origin)
        if plan.allowsConnectionAuth, !plan.forwardsAuthorization {
            fields.error("connection_auth", obstacle(toConnectionAuthOf: plan))
        }
        return plan
    }

    private static func timeouts(_ route: ConfigFields) -> RoutePlan.Timeouts {
        var timeouts = RoutePlan.Timeouts()
        guard let fields = route.fields("timeouts") else { return timeouts }
        RoutePlan.Timeouts.keys.read(fields, into: &timeouts)
        if fields.keys.isEmpty { fields.error("sets nothing; leave it out") }
        fields.refuseUnknownKeys()
        return timeouts
    }

    private static func obstacle(toConnectionAuthOf plan: RoutePlan) -> String {
        plan.credential == nil
            ? "\"headers.remove\" takes Authorization away, so no client can authenticate its connection"
            : "is for routes with \"auth: none\"; this route sends its own credential instead of the client's"
    }

    private static func upstream(_ fields: ConfigFields) -> UpstreamURL? {
        let allowsPlaintext = fields.bool("allow_plaintext") ?? false
        guard fields.has("upstream") else {
            if fields.has("preset") { fields.noteUnusedPreset() } else { fields.missing("upstream", orAnother: true) }
            return nil
        }
        guard let text = fields.string("upstream"), let url = fields.usable("upstream", try UpstreamURL(text)) else {
            return nil
        }
        if url.origin.scheme == .http, !url.origin.isLoopback, !allowsPlaintext {
            let advice = "use https, or accept it with \"allow_plaintext: true\""
            fields.error("upstream", "everything would be sent in clear over http; \(advice)")
        }
        return url
    }

    // MARK: What narrows a route

    private static let ruleKeys = Keys {
        $0("methods", default: "all", example: "[GET, HEAD]")
            .means("The methods of this rule.")
        $0("path", example: "/files/*/content")
            .means("The paths of this rule. * stands for one segment, ** at the end for any number.")
        $0("tools", default: "not checked", example: "[search, \"read_*\"]")
            .means(
                "The MCP tools that may be called on these paths and that tools/list shows; a * at the end matches any rest. Other calls "
                    + "get a JSON-RPC error. [] allows none. Rules with the same methods and path name tools together."
            )
        $0("mcp_methods", default: "[]", example: "[prompts/get, \"resources/*\"]")
            .means(
                "With tools: MCP methods that pass besides tools/call, the handshake, ping, lists, notifications and responses."
            )
        $0("tools_from", default: "body", example: "header")
            .means(
                "Where the tool is read. body: the gateway collects the body (limits.replay_body_bytes) and compares it with Mcp-Method "
                    + "and Mcp-Name. header: only these fields; the body streams, and the gateway trusts the server to compare."
            )
        $0("approve", default: "false", example: "true")
            .means(
                "Holds each request, with tools each call of them, for up to \(ConfigUnits.text(HeldRequest.patience)) until an "
                    + "operator approves this method, URL and body: authgateway approve, or the status page. Another rule that allows "
                    + "the request does not lift this. Needs a user of listeners.admin.users with role operator and token_sha256 or "
                    + "certificate."
            )
    }

    private static func allow(_ fields: ConfigFields) -> [RoutePlan.Allow] {
        fields.refuseNothing(behind: "allow", hint: "to allow everything")
        guard let elements = fields.elements("allow") else { return [] }
        if elements.isEmpty { fields.error("allow", "allows nothing; remove it to allow everything") }
        let rules = elements.compactMap { node, path in
            ConfigFields(node, path: path, context: fields.context, example: fields.example(of: "allow"))
                .flatMap { own in rule(own).map { (own, $0) } }
        }
        for (own, rule) in rules where rule.tools != nil {
            // Rules with a wildcard at their end cover it themselves.
            let sibling = rule.path.description + "/"
            if rule.path.isExact, let other = rules.firstIndex(where: { $0.1.takesEveryCall(at: sibling) }) {
                let advice =
                    "where a server takes both for the same, any tool can be called; narrow that rule, or add tools to it"
                own.warning("tools", "rule \(other + 1) allows \(sibling) without tools: \(advice)")
            }
        }
        return rules.map(\.1)
    }

    private static func rule(_ fields: ConfigFields) -> RoutePlan.Allow? {
        fields.explain(ruleKeys)
        let methods = methods(fields)
        let tools = tools(fields)
        fields.refuseNothing(behind: "approve", hint: "to hold nothing")
        let needsApproval = fields.bool("approve") ?? false
        defer { fields.refuseUnknownKeys() }
        if needsApproval, tools?.source == .header {
            fields.error(
                "tools_from",
                "with approve, the calls are shown to an operator, so they have to be read from the body"
            )
        }
        guard fields.has("path") else {
            fields.missing("path")
            return nil
        }
        guard let text = fields.string("path") else { return nil }
        guard let pattern = PathPattern(text) else {
            fields.error("path", "expected a pattern such as /files/*/content or /files/**")
            return nil
        }
        return RoutePlan.Allow(methods: methods, path: pattern, tools: tools, needsApproval: needsApproval)
    }

    private static func tools(_ fields: ConfigFields) -> ToolRule? {
        fields.refuseNothing(behind: "tools", hint: "to check no calls")
        let tools = names("tools", fields)
        let methods = names("mcp_methods", fields)
        let source = fields.choice("tools_from", of: ToolRule.Source.self)
        guard fields.has("tools") else {
            for key in ["mcp_methods", "tools_from"] where fields.has(key) {
                fields.error(key, "has no effect without tools; \"tools: []\" allows no tool")
            }
            return nil
        }
        if source == .header {
            fields.warning(
                "tools_from",
                "the gateway trusts Mcp-Method and Mcp-Name and does not read the body; a server that does not compare them can be made"
                    + " to run any tool"
            )
        }
        return ToolRule(tools: tools, methods: methods, source: source ?? .body)
    }

    private static func names(_ key: String, _ fields: ConfigFields) -> [ToolRule.NamePattern] {
        (fields.strings(key) ?? []).compactMap { text in
            if let pattern = ToolRule.NamePattern(text) { return pattern }
            fields.error(key, "\"\(text)\": only the last character may be a *")
            return nil
        }
    }

    private static func methods(_ fields: ConfigFields) -> [String] {
        fields.refuseNothing(behind: "methods", hint: "to allow every method")
        guard let elements = fields.elements("methods") else { return [] }
        if elements.isEmpty { fields.error("methods", "names no method; remove it to allow every method") }
        return elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content, !scalar.text.isEmpty,
                scalar.text.utf8.allSatisfy({ (0x41...0x5A).contains($0) || $0 == 0x2D || $0 == 0x5F })
            else {
                fields.context.error("expected a method in capitals, such as GET", at: node.span, path: path)
                return nil
            }
            return scalar.text
        }
    }

    // MARK: Links

    private static let rewriteKeys = Keys {
        $0("links", default: "true for requests that find the route by its path, false for others", example: "true")
            .means(
                "Whether URLs of the upstream in Location, Content-Location, Link and Refresh become URLs "
                    + "of the gateway, and Destination the other way around. Bodies are never rewritten."
            )
    }

    /// - Returns: Whether links are rewritten; nil leaves it to how a request finds the route.
    private static func rewritesLinks(_ route: ConfigFields) -> Bool? {
        guard let fields = route.fields("rewrite") else { return nil }
        fields.explain(rewriteKeys)
        let links = fields.bool("links")
        if !fields.has("links"), fields.unknownKeys.isEmpty { fields.error("rewrites nothing; leave it out") }
        fields.refuseUnknownKeys()
        return links
    }

    // MARK: whoami

    private static let whoamiKeys = Keys {
        $0("path", example: "/user")
            .means("The path, and the query if it needs one.")
        $0("method", default: "GET", example: "POST")
            .means("The method.")
        $0("shows", example: "/login")
            .means("A JSON pointer (RFC 6901) to the name of the user or account in the response.")
    }

    private static func whoami(_ route: ConfigFields) -> WhoAmI? {
        switch route.scalarOrFields("whoami") {
        case nil: return nil
        case .scalar?:
            return route.string("whoami").flatMap { whoamiPath($0, of: route, key: "whoami") }.map { WhoAmI(path: $0) }
        case .fields(let fields)?: return whoami(mapping: fields)
        }
    }

    private static func whoami(mapping fields: ConfigFields) -> WhoAmI? {
        defer { fields.refuseUnknownKeys() }
        fields.explain(whoamiKeys)
        let method = fields.choice("method", of: WhoAmI.Method.self) ?? .get
        let pointer = pointer(fields)
        guard let text = fields.requiredString("path"), let path = whoamiPath(text, of: fields, key: "path") else {
            return nil
        }
        return WhoAmI(method: method, path: path, shows: pointer)
    }

    private static func whoamiPath(_ text: String, of fields: ConfigFields, key: String) -> String? {
        guard text.hasPrefix("/"), text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }) else {
            fields.error(key, "expected a path that begins with \"/\", and a query if it needs one")
            return nil
        }
        return text
    }

    private static func pointer(_ fields: ConfigFields) -> JSONPointer? {
        guard let text = fields.string("shows") else { return nil }
        guard let pointer = JSONPointer(text) else {
            fields.error("shows", "expected a JSON pointer such as /login (RFC 6901)")
            return nil
        }
        return pointer
    }
}

extension RoutePlan.Allow {
    /// Whether a POST to the path passes without a look at what it calls.
    fileprivate func takesEveryCall(at path: String) -> Bool {
        let bytes = Array(path.utf8)
        return tools == nil && (methods.isEmpty || methods.contains("POST"))
            && self.path.matches(bytes.span, bytes.indices)
    }
}
