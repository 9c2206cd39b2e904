package import GatewayConfiguration
import GatewayHTTP

/// `vend` of a credential: which clients may have a token of it, and which token.
package struct CredentialVending {
    let clients: [String]
    let narrowing: CredentialNarrowing
    private let fields: ConfigFields

    private static let vendKeys = Keys {
        $0("vend", example: "clients: [widget-backend]\nwhole_token: true")
            .means("Hands out tokens of this credential to clients, at POST /tokens/NAME on the admin listener.")
    }

    private static let keys = Keys {
        $0("clients", example: "[widget-backend]")
            .means("The clients of access.clients that may get a token.")
        $0("whole_token", default: "false", example: "true")
            .means("Hands out the credential's own token, instead of a weaker one (downscope).")
        $0("downscope", example: "scopes: [item_preview]\nresource: https://api.box.com/2.0/files/1")
            .means("Exchanges the token for a weaker one (RFC 8693).")
    }

    /// - Parameters:
    ///   - own: The fields of the credential.
    ///   - known: The names in `access.clients`.
    /// - Returns: nil when the credential vends nothing, or when there is a mistake, which is reported.
    package init?(of own: ConfigFields, among known: [String], catalog: StrategyCatalog) {
        own.explain(Self.vendKeys)
        guard let fields = own.fields("vend") else { return nil }
        fields.explain(Self.keys)
        defer { fields.refuseUnknownKeys() }
        if !fields.has("clients") { fields.missing("clients") }
        let clients = fields.clientNames(known: known, whenEmpty: "remove \"vend\" to hand out nothing")
        let narrowing = CredentialNarrowing(in: fields, catalog: catalog)
        // Not the default: a client that has the whole token is not bound by any route.
        let isWhole = fields.bool("whole_token") ?? false
        switch narrowing {
        case .none where !isWhole:
            fields.error(
                "must say which token is handed out: a weaker one with \"downscope\", or the credential's own with"
                    + " \"whole_token: true\""
            )
            return nil
        case .faulty, .terms:
            if isWhole { fields.error("whole_token", "cannot be combined with downscope") }
        case .none: break
        }
        guard let clients else { return nil }
        self.clients = clients
        self.narrowing = narrowing
        self.fields = fields
    }

    /// Whether a token of `plan` can be handed out; reports why not.
    func canVend(_ plan: CredentialPlan) -> Bool {
        switch plan.strategy.behavior {
        case .token: return true
        case .tokens(let grants):
            guard case .field = grants.naming else {
                fields.error(
                    "\(plan.strategyKind) gets its tokens as the upstream asks for them; they cannot be handed out"
                )
                return false
            }
            if case .none = narrowing { return true }
            fields.error(
                "downscope",
                "\(plan.name) has a token for each \(grants.keyName), and only a whole one can be handed out (whole_token: true)"
            )
        case .none, .fixed, .onChallenge, .signed:
            fields.error("\(plan.strategyKind) has no renewable token that could be handed out")
        }
        return false
    }
}

/// `clients` of a route or of `vend`: names in `access.clients`.
extension ConfigFields {
    /// - Returns: nil where `clients` is not written.
    package func clientNames(
        known: [String],
        whenEmpty advice: String = "remove it to let in every client"
    ) -> [String]? {
        guard let elements = elements("clients") else { return nil }
        if elements.isEmpty { error("clients", "names no client; \(advice)") }
        return elements.compactMap { node, path in
            guard case .scalar(let scalar) = node.content, !scalar.isNull else {
                context.error("expected the name of a client", at: node.span, path: path)
                return nil
            }
            guard known.contains(scalar.text) else {
                let hint = Suggestion.hint(for: scalar.text, in: known)
                context.error("no client is named \(scalar.shown)\(hint)", at: node.span, path: path)
                return nil
            }
            return scalar.text
        }
    }
}
