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
            guard let proof = proof(own) ?? unreadProof(of: name, own.context) else { continue }
            if let twin = clients.first(where: { $0.proof == proof }) {
                own.error("has the same token as the client \"\(twin.name)\"", at: entry.keySpan)
            }
            clients.append(AccessPlan.Client(name: name, proof: proof, limits: limits))
        }
        return clients
    }

    /// A client whose digest was not read is a client: routes may name it.
    private static func unreadProof(of name: String, _ context: ConfigContext) -> AccessPlan.Client.Proof? {
        context.isIncomplete ? .token(Secret("unread token of \(name)")) : nil
    }

    /// Once it is known who can reach the gateway.
    static func checkTokens(_ fields: ConfigFields?, of access: AccessPlan, listeners: [ListenerPlan]) {
        guard case .mapping(let entries)? = fields?.node("clients")?.content, let fields else { return }
        let isReachable = listeners.contains { $0.address.isReachable }
        for client in access.clients {
            guard case .token(let token) = client.proof,
                let finding = ClientTokenRule.finding(bytes: token.byteCount, isReachable: isReachable),
                case .mapping(let keys)? = entries.first(where: { $0.key == client.name })?.value.content,
                let span = keys.first(where: { $0.key == "token" })?.value.span,
                !fields.context.isUnread(at: span)
            else { continue }
            let path = fields.path.appending("clients").appending(client.name).appending("token")
            fields.context.report(ConfigDiagnostic(finding.severity, finding.message, at: span, path: path))
        }
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

    private static func proof(_ fields: ConfigFields) -> AccessPlan.Client.Proof? {
        fields.hidesUnknownValues = true
        defer { fields.refuseUnknownKeys() }
        switch (fields.has("token"), fields.has("token_sha256")) {
        case (true, false): return fields.secret("token").map { .token($0) }
        case (false, true):
            guard let text = fields.string("token_sha256") else { return nil }
            guard let digest = Hexadecimal.bytes(of: text), digest.count == 32 else {
                fields.error("token_sha256", "expected 64 hexadecimal digits, the SHA-256 of the token")
                return nil
            }
            return .tokenSHA256(digest)
        case (false, false) where !fields.unknownKeys.isEmpty: return nil
        default:
            fields.error("a client has exactly one of token and token_sha256")
            return nil
        }
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
