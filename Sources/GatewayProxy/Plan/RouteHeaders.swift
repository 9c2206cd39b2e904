import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Reads `headers` of a route: the fields that it sets, those that it takes away, and what it tells of where a request came from.
struct RouteHeaders {
    /// Names that are not for `headers`, each with what to do instead.
    private var owned: [String: String]
    private var headers = RoutePlan.Headers()
    private var slots: Set<String> = []

    private static let keys = Keys {
        $0("set", example: "X-Tenant: acme\nX-Api-Key: {env: PARTNER_API_KEY}")
            .means("Fields that are sent instead of the client's own: a string or a secret each.")
        $0("remove", default: "[]", example: "[X-Debug]")
            .means("Fields that are not forwarded.")
        $0("forwarded", default: "remove", example: "append")
            .means("What happens to Forwarded, X-Forwarded-For and the like.")
    }

    /// - Parameters:
    ///   - behavior: The behavior of the route's credential; nil without one.
    ///   - kept: Fields that the gateway keeps from clients, because they name a user to act for.
    static func decode(
        _ route: ConfigFields,
        beside behavior: AuthBehavior?,
        keeping kept: [String]
    ) -> RoutePlan.Headers {
        guard let fields = route.fields("headers") else { return RoutePlan.Headers() }
        fields.explain(keys)
        var decoder = RouteHeaders(owned: owned(by: behavior, keeping: kept))
        decoder.readForwarded(fields)
        decoder.readSet(fields)
        decoder.readRemove(fields)
        if !fields.has("set"), !fields.has("remove"), !fields.has("forwarded"), fields.unknownKeys.isEmpty {
            fields.error("sets and removes nothing; leave it out")
        }
        fields.refuseUnknownKeys()
        return decoder.headers
    }

    private init(owned: [String: String]) { self.owned = owned }

    private static func owned(by behavior: AuthBehavior?, keeping kept: [String]) -> [String: String] {
        var owned: [String: String] = [:]
        for name in behavior?.injectedFields ?? [] {
            owned[FieldSyntax.slot(name)] = "the route's credential takes the place of this field"
        }
        if case .tokens(let grants)? = behavior, let field = grants.naming.field {
            owned[FieldSyntax.slot(field)] =
                "this field names the user whose token goes along; it is not forwarded"
        }
        for name in kept {
            owned[FieldSyntax.slot(name)] =
                "the gateway keeps this field from clients; to set it, use \"auth: {…, as_user: …}\""
        }
        return owned
    }

    // MARK: Fields

    private mutating func readForwarded(_ fields: ConfigFields) {
        guard let policy = fields.choice("forwarded", of: ForwardedPolicy.self) else { return }
        headers.forwarded = policy
        guard policy != .pass else { return }
        for name in ForwardedPolicy.names { owned[name] = "\"forwarded: \(policy.rawValue)\" decides about this field" }
    }

    private mutating func readSet(_ fields: ConfigFields) {
        guard let own = fields.fields("set") else { return }
        guard let values = fields.valueMap("set") else { return }
        if values.isEmpty, own.keys.isEmpty { fields.error("set", "sets nothing; leave it out") }
        for name in own.keys where !own.has(name) { own.error(name, "has no value") }
        for (name, value) in values {
            if let reason = obstacle(to: name) {
                own.error(name, reason)
            } else if FieldSyntax.slot(name) == "authorization" {
                own.error(name, "credentials belong to \"auth\": strategy bearer, basic or header sends this field")
            } else if !value.withValue(FieldSyntax.isValue) {
                own.error(name, "a header field must be visible ASCII without a space at either end (RFC 9110)")
            } else if !slots.insert(FieldSyntax.slot(name)).inserted {
                own.error(name, "the field is set twice; case, \"_\" and \"-\" make no difference")
            } else {
                headers.set.append(Injection.Field(name: name, value: value))
            }
        }
    }

    private mutating func readRemove(_ fields: ConfigFields) {
        fields.refuseNothing(behind: "remove", hint: "to forward what clients send")
        guard let elements = fields.elements("remove") else { return }
        if elements.isEmpty { fields.error("remove", "removes nothing; leave it out") }
        for (node, path) in elements {
            let name = if case .scalar(let scalar) = node.content { scalar.text } else { "" }
            if let reason = obstacle(to: name) {
                fields.context.error(reason, at: node.span, path: path)
            } else if slots.contains(FieldSyntax.slot(name)) {
                let reason = "the field is in \"set\" too, which replaces what the client sends"
                fields.context.error(reason, at: node.span, path: path)
            } else if !headers.remove.contains(where: { FieldSyntax.slot($0) == FieldSyntax.slot(name) }) {
                headers.remove.append(name)
            }
        }
    }

    /// Why a name is not for `headers`; nil when it is.
    private func obstacle(to name: String) -> String? {
        if !FieldSyntax.isToken(name) { return "not a valid header field name" }
        if FieldSyntax.reserved.contains(FieldSyntax.slot(name)) {
            return "this field belongs to the connection; the gateway writes it itself"
        }
        return owned[FieldSyntax.slot(name)]
    }
}

extension AuthBehavior {
    /// The header fields that it is known to put its credential into.
    fileprivate var injectedFields: [String] {
        let token = Self.exampleToken
        let names: [String]? =
            switch self {
            case .none: nil
            case .signed(let signer): signer.ownedFields
            case .fixed(let injection), .onChallenge(let injection, _): injection.fields.map(\.name)
            case .token(let grant):
                grant.signer(with: token)?.ownedFields ?? grant.injection(of: token).fields.map(\.name)
            // The form is the same for all of them.
            case .tokens(let grants): grants.grant(for: "user").injection(of: token).fields.map(\.name)
            }
        // What clients send there never goes along with a credential, wherever that stands.
        return names.map { $0 + ["Authorization"] } ?? []
    }
}
