/// Reads `access`: who may use the gateway.
enum AccessDecoder {
    static func decode(_ fields: ConfigFields?) -> AccessPlan {
        guard let fields else { return AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto) }
        fields.explain(meanings)
        let clients = clients(fields.fields("clients"))
        let required = fields.choice("require_client", of: AccessPlan.RequireClient.self) ?? .auto
        if required == .true, clients.isEmpty, fields.fields("clients")?.keys.isEmpty ?? true {
            fields.error("require_client", "no client is configured, so every request would be refused")
        }
        let origins = origins(fields)
        fields.refuseUnknownKeys()
        return AccessPlan(clients: clients, allowedOrigins: origins, requireClient: required)
    }

    private static func clients(_ fields: ConfigFields?) -> [AccessPlan.Client] {
        guard let fields else { return [] }
        fields.explain(clientMeanings)
        var clients: [AccessPlan.Client] = []
        for (name, entry) in fields.named() {
            let path = fields.path.appending(name)
            guard let own = fields.named(entry, path: path) else { continue }
            own.explain(oneClientMeanings)
            let limits = limits(own.fields("limits"))
            guard var client = client(name, own) else { continue }
            client.limits = limits
            refuseTwins(of: client, among: clients, own, at: entry.keySpan)
            clients.append(client)
        }
        return clients
    }

    private static func limits(_ fields: ConfigFields?) -> ClientLimitsPlan {
        guard let fields else { return ClientLimitsPlan() }
        fields.explain(clientLimitMeanings)
        let range = 1...1_000_000
        let limits = ClientLimitsPlan(
            concurrent: fields.integer("concurrent", in: range),
            perSecond: fields.integer("per_second", in: range)
        )
        if fields.keys.isEmpty { fields.error("limits nothing; leave it out") }
        fields.refuseNothing(behind: "concurrent", hint: "to allow any number of requests at a time")
        fields.refuseNothing(behind: "per_second", hint: "to allow any number of requests in a second")
        fields.refuseUnknownKeys()
        return limits
    }

    /// Of `access`, or of a route.
    static func origins(_ fields: ConfigFields) -> [String] {
        var origins: [String] = []
        for (node, path) in fields.elements("allow_origins") ?? [] {
            let text = if case .scalar(let scalar) = node.content { scalar.text } else { "" }
            guard let origin = origin(text) else {
                let advice =
                    text == "*" || text == "null"
                    ? "names no page; name each origin, such as https://app.example.com"
                    : "expected a browser origin such as https://app.example.com"
                fields.context.error(advice, at: node.span, path: path)
                continue
            }
            origins.append(origin)
        }
        return origins
    }

    /// As browsers spell it: lower case, without the default port (RFC 6454 §6.1).
    private static func origin(_ text: String) -> String? {
        guard let separator = text.firstRange(of: "://") else { return nil }
        guard let scheme = Origin.Scheme(rawValue: text[..<separator.lowerBound].lowercased()) else { return nil }
        return Origin(scheme: scheme, authority: String(text[separator.upperBound...]))?.description
    }
}
