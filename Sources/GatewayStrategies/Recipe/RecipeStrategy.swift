import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Any login that can be said as requests and what to take from their answers.
struct RecipeStrategy: AuthStrategy {
    static let kind = "recipe"
    static let hasSessions = true

    /// More would not fit into one attempt that renews in vain and begins anew.
    static let maximumSteps = GrantAttempt.maximumSteps / 2

    private let grant: RecipeGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let names = RecipeNames(in: fields)
        let kept = Self.keep(in: fields, names)
        let held = names.scope.adding(kept.union(["token", "renewal"]))
        let acquire = Self.steps("acquire", in: fields, names.scope, names.own)
        let refresh = Self.steps("refresh", in: fields, held, names.own)
        // What is to be revoked keeps its name to the last step.
        let revoke = Self.steps("revoke", in: fields, held, held.names.union(names.own))
        let initial = Self.initial(in: fields, kept)
        let expiry = ExpiryRule(in: fields)
        let placement = TokenPlacement(in: fields, extras: kept)
        let loginHint = fields.string("login_hint")
        if acquire == nil, refresh == nil, fields.context.errorCount == errors {
            fields.error("missing key \"acquire\": the steps that yield a token")
        }
        if acquire == nil, initial == nil, refresh != nil, !fields.has("acquire"), !fields.has("initial") {
            fields.error("without \"acquire\" the first token has to come from \"initial\"")
        }
        Self.checkOutputs(acquire, "acquire", needs: kept.union(["token"]), in: fields)
        Self.checkOutputs(refresh, "refresh", needs: ["token"], in: fields)
        Self.checkExpiry(expiry, [("acquire", acquire), ("refresh", refresh)], in: fields)
        guard let placement, fields.context.errorCount == errors else { return nil }
        let keys = ["acquire", "refresh", "revoke", "initial", "keep", "expiry", "lifetime", "apply"]
        var inputs = keys.compactMap { key in fields.node(key).map { (key, Secret($0.canonicalText)) } }
        inputs += names.secrets.sorted { $0.key < $1.key }.map { ("secrets.\($0.key)", $0.value) }
        inputs += names.scope.constants.sorted { $0.key < $1.key }.map { ("values.\($0.key)", Secret($0.value)) }
        if acquire == nil, let initial {
            inputs += initial.sorted { $0.key < $1.key }.map { ("initial.\($0.key)", $0.value) }
        }
        grant = RecipeGrant(
            inputs: inputs,
            secrets: names.secrets,
            acquire: acquire ?? [],
            refresh: refresh ?? [],
            revoke: revoke ?? [],
            kept: kept,
            initial: initial,
            expiry: expiry,
            placement: placement,
            loginHint: loginHint,
            place: fields.path.description
        )
    }

    var behavior: AuthBehavior { .token(grant) }

    private static func steps(
        _ key: String,
        in fields: ConfigFields,
        _ scope: TemplateScope,
        _ reserved: Set<String>
    ) -> [RecipeStep]? {
        guard let elements = fields.elements(key) else { return nil }
        guard (1...maximumSteps).contains(elements.count) else {
            fields.error(key, "between 1 and \(maximumSteps) steps")
            return nil
        }
        var scope = scope
        return elements.compactMap { node, path in
            ConfigFields(node, path: path, context: fields.context).flatMap {
                RecipeStep($0, scope: &scope, reserved: reserved)
            }
        }
    }

    /// What is kept with the token beside it, for `refresh`, `revoke` and `apply`.
    private static func keep(in fields: ConfigFields, _ names: RecipeNames) -> Set<String> {
        let kept = fields.strings("keep") ?? []
        let taken = names.own.union(RecipeGrant.told)
        for name in kept where !Template.isName(name) || taken.contains(name) {
            fields.error("keep", "\"\(name)\" is not the name of an output that could be kept")
        }
        return Set(kept)
    }

    private static func initial(in fields: ConfigFields, _ kept: Set<String>) -> [String: Secret]? {
        guard let own = fields.fields("initial") else { return nil }
        own.explain([
            "token": KeyMeaning("The token.", example: "{env: FIRST_TOKEN}"),
            "renewal": KeyMeaning("What refresh sends as {{renewal}}.", example: "{env: FIRST_RENEWAL}"),
        ])
        var initial: [String: Secret] = [:]
        for key in ["token", "renewal"] where own.has(key) { initial[key] = own.requiredSecret(key) }
        if !own.has("token") { own.missing("token") }
        for key in own.chosenNames(among: kept) { initial[key] = own.requiredSecret(key) }
        own.refuseUnknownKeys()
        return initial
    }

    // MARK: Expiry

    private static func checkExpiry(
        _ expiry: ExpiryRule,
        _ flows: [(String, [RecipeStep]?)],
        in fields: ConfigFields
    ) {
        let yielded = Set(flows.flatMap { $0.1 ?? [] }.flatMap(\.outputs).map(\.name))
        let isStated = yielded.contains("expires_in") || yielded.contains("expires_at")
        if fields.has("expiry"), expiry.source == .response, !isStated {
            fields.error("expiry", "no step yields expires_in or expires_at")
        }
        if expiry.source != .response, isStated {
            let name = yielded.contains("expires_in") ? "expires_in" : "expires_at"
            fields.error("expiry", "contradicts the output \"\(name)\"")
        }
    }

    private static func checkOutputs(
        _ steps: [RecipeStep]?,
        _ key: String,
        needs: Set<String>,
        in fields: ConfigFields
    ) {
        guard let steps else { return }
        let yielded = Set(steps.flatMap(\.outputs).map(\.name))
        for name in needs.subtracting(yielded).sorted() where fields.elements(key)?.count == steps.count {
            fields.error(key, "no step has the output \"\(name)\"")
        }
    }
}

/// The names that a recipe defines before its first step.
private struct RecipeNames {
    var scope = TemplateScope()
    var secrets: [String: Secret] = [:]

    var own: Set<String> { Set(secrets.keys).union(scope.constants.keys) }

    init(in fields: ConfigFields) {
        for (name, value) in fields.stringMap("values") ?? [] where Self.check(name, "values", fields) {
            scope.constants[name] = value
        }
        for (name, value) in fields.secretMap("secrets") ?? [] where Self.check(name, "secrets", fields) {
            if scope.constants[name] != nil { fields.error("secrets", "\"\(name)\" is in \"values\" too") }
            secrets[name] = value
        }
        scope.names = Set(secrets.keys)
    }

    private static func check(_ name: String, _ key: String, _ fields: ConfigFields) -> Bool {
        if !Template.isName(name) {
            fields.error(key, "\"\(name)\": a name has letters, digits, \"_\", \"-\" and \".\", at most 64")
        } else if RecipeGrant.told.contains(name) {
            fields.error(key, "\"\(name)\" is what a step yields")
        } else {
            return true
        }
        return false
    }
}

extension TemplateScope {
    fileprivate func adding(_ names: Set<String>) -> TemplateScope {
        var copy = self
        copy.names.formUnion(names)
        return copy
    }
}

extension RecipeStrategy {
    static let meanings = steps.merging(SharedMeanings.of("apply")) { own, _ in own }.merging([
        "values": KeyMeaning(
            "Plain values for templates, as {{name}}.",
            default: "{}",
            example: "tenant: acme\nlang: en"
        ),
        "secrets": KeyMeaning(
            "Secrets for templates, as {{name}}.",
            default: "{}",
            example: "username: {env: PORTAL_USER}\npassword: {env: PORTAL_PASSWORD}"
        ),
        "keep": KeyMeaning("Outputs that are stored with the token, encrypted.", default: "[]", example: "[device]"),
        "initial": KeyMeaning(
            "The first token, for a login that needs a person.",
            example: "token: {env: FIRST_TOKEN}\nrenewal: {env: FIRST_RENEWAL}"
        ),
        "login_hint": KeyMeaning("Instructions for that person.", example: "Log in at https://portal.example.com"),
    ]) { own, _ in own }

    private static let steps: [String: KeyMeaning] = [
        "acquire": KeyMeaning(
            "The requests that yield a token, one after the other.",
            example: "- url: https://portal.example.com/login\n  outputs: {token: /data/token}"
        ),
        "refresh": KeyMeaning(
            "The requests that renew the token. If they are refused, acquire is tried.",
            example: "- url: https://portal.example.com/refresh\n  outputs: {token: /data/token}"
        ),
        "revoke": KeyMeaning(
            "The requests that revoke the token.",
            example: "- method: DELETE\n  url: https://portal.example.com/session"
        ),
    ]
}
