/// Reads `routes`.
enum RouteDecoder {
    static func decode(
        _ root: ConfigFields,
        clients: [String],
        engines: [String],
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
        for (name, entry) in fields.named() {
            let path = fields.path.appending(name)
            guard let own = fields.named(entry, path: path) else { continue }
            let match = RouteMatch.decode(own, name: name, at: entry.keySpan)
            matches[name] = match
            conflicts.add(match, path: own.path)
            var route = route(own, name: name, at: entry.keySpan, match, clients, &credentials)
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
        _ credentials: inout CredentialDecoder
    ) -> RoutePlan? {
        fields.explain(meanings)
        fields.hints = StandardNames.routeKeys
        fields.readPreset()
        let upstream = upstream(fields)
        if let upstream { match.checkUpstreamPath(below: upstream.path, in: fields) }
        let auth = credentials.decodeAuth(of: fields, named: name)
        let allow = RouteAccess.allow(fields)
        fields.refuseNothing(behind: "clients", hint: "to let in every client")
        let allowedClients = RouteAccess.clients(fields, known: clients)
        let allowedOrigins = fields.has("allow_origins") ? AccessDecoder.origins(fields) : nil
        let credential = auth?.credential.map { credentials.plans[$0] }
        let headers = RouteHeaders.decode(
            fields,
            beside: credential?.strategy.behavior,
            of: credential?.strategyKind,
            asUser: auth?.asUser
        )
        let cookies = fields.choice("cookies", of: CookiePolicy.self)
        let rewritesLinks = RouteRewrite.decode(fields)
        let allowsConnectionAuth = fields.bool("connection_auth") ?? false
        let tls = RouteTLS.decode(fields, of: upstream)
        let upstreamProtocol = fields.choice("protocol", of: UpstreamProtocol.self) ?? .http1
        if allowsConnectionAuth, upstreamProtocol == .http2 {
            fields.error("protocol", "NTLM and Negotiate need HTTP/1.1: remove this, or \"connection_auth\"")
        }
        let sendsVia = fields.bool("via") ?? true
        let timeouts = timeouts(fields)
        let whoami = WhoAmIDecoder.decode(fields)
        guard let upstream, let auth else { return nil }
        var plan = RoutePlan(
            name: name,
            upstream: upstream.origin,
            upstreamPath: upstream.path,
            matchPath: match.path.value,
            matchHosts: match.hosts.map(\.value),
            matchesAll: match.needsAll,
            upstreamMatchPath: match.upstreamPath?.value,
            isDefault: match.defaultSpan != nil,
            credential: auth.credential,
            asUser: auth.asUser,
            headers: headers,
            cookies: cookies,
            rewritesLinks: rewritesLinks,
            allowsConnectionAuth: allowsConnectionAuth,
            allow: allow,
            endpoints: auth.credential.map { credentials.endpoints(of: $0, at: upstream) } ?? [],
            clients: allowedClients,
            allowedOrigins: allowedOrigins,
            tls: tls,
            upstreamProtocol: upstreamProtocol,
            timeouts: timeouts,
            span: span
        )
        plan.whoami = whoami
        plan.sendsVia = sendsVia
        if plan.allowsConnectionAuth, !plan.forwardsAuthorization {
            fields.error("connection_auth", obstacle(toConnectionAuthOf: plan))
        }
        return plan
    }

    /// Other gateways and proxies on the way find a loop by `Via` alone.
    static func refuseLoopsWithoutVia(_ plan: Plan, _ fields: ConfigFields) {
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

    private static func timeouts(_ route: ConfigFields) -> RoutePlan.Timeouts {
        guard let fields = route.fields("timeouts") else { return RoutePlan.Timeouts() }
        fields.explain(timeoutMeanings)
        let timeouts = RoutePlan.Timeouts(
            response: fields.duration("response", in: Limits.responseTimes),
            idle: fields.duration("idle", in: Limits.responseTimes)
        )
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
        guard let text = fields.string("upstream") else { return nil }
        let url: UpstreamURL
        do throws(UpstreamURL.Refusal) {
            url = try UpstreamURL(text)
        } catch {
            fields.error("upstream", error.message)
            return nil
        }
        if url.origin.scheme == .http, !url.origin.isLoopback, !allowsPlaintext {
            let advice = "use https, or accept it with \"allow_plaintext: true\""
            fields.error("upstream", "everything would be sent in clear over http; \(advice)")
        }
        return url
    }
}
