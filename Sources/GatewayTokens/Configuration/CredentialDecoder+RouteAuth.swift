package import GatewayConfiguration
import GatewayHTTP

/// The `auth` of a route: the name of a credential, or a mapping.
extension CredentialDecoder {
    package struct Authentication {
        /// nil forwards without authentication.
        package var credential: Int?
        package var asUser: ActingUser?
    }

    package mutating func decodeAuth(of route: ConfigFields, named name: String) -> Authentication? {
        guard route.has("auth"), let node = route.node("auth") else {
            guard !route.has("preset") else {
                route.noteUnusedPreset()
                return nil
            }
            route.reportAbsence(of: "auth", hint: "; write \"auth: none\" to forward without a credential")
            return nil
        }
        let path = route.path.appending("auth")
        switch node.content {
        case .scalar(let scalar):
            if scalar.text == "none" { return Authentication() }
            let alternative = ", or a mapping such as {strategy: bearer, token: {env: NAME}}"
            return use(scalar, at: node.span, path: path, or: alternative).map { Authentication(credential: $0) }
        case .sequence:
            node.keylessScalars.forEach(context.hide)
            context.error("expected a name or a mapping, found a sequence", at: node.span, path: path)
            return nil
        case .mapping:
            guard let fields = ConfigFields(node, path: path, context: context) else { return nil }
            if fields.keys.contains("credential") { return shared(fields, of: name) }
            guard !route.has("preset") || fields.has("strategy") || fields.has("preset") else {
                route.noteUnusedPreset()
                return nil
            }
            return inline(fields, of: name)
        }
    }

    /// What narrows a credential for one route.
    static func narrowingKeys(_ catalog: StrategyCatalog) -> Keys<Void> {
        Keys {
            $0("as_user", example: "\"11446498\"")
                .means(catalog.userField?.meaning ?? "No strategy knows a field that names a user to act for.")
            $0("downscope", example: "scopes: [item_preview]\nresource: https://api.box.com/2.0/files/1")
                .means("Exchanges the token for a weaker one (RFC 8693).")
        }
    }

    private func actingUser(_ fields: ConfigFields) -> ActingUser? {
        guard let id = fields.string("as_user") else { return nil }
        guard let field = catalog.userField else {
            fields.error("as_user", "no strategy knows a field that names a user to act for")
            return nil
        }
        return ActingUser(id: id, field: field)
    }

    private mutating func inline(_ fields: ConfigFields, of route: String) -> Authentication? {
        fields.explain(narrowingKeys)
        let asUser = actingUser(fields)
        let narrowing = CredentialNarrowing(in: fields, catalog: catalog)
        defer { fields.refuseUnknownKeysIfComplete() }
        guard var plan = decode(fields, name: "routes.\(route)", at: fields.span) else { return nil }
        if let reference = (plan.strategy as? any DerivedStrategy)?.parent {
            guard let parent = parent(reference, of: [plan.name]),
                let made = plan.derived(from: plans[parent], at: parent, context, reference.span, reference.path)
            else { return nil }
            plan = made
        }
        if case .none = plan.strategy.behavior, case .none = narrowing { return Authentication(asUser: asUser) }
        return narrowed(add(plan), narrowing, as: "routes.\(route).downscope").map {
            Authentication(credential: $0, asUser: asUser)
        }
    }

    /// `{credential: name, …}` of a route, and what a strategy that is written there takes beside its own keys.
    private static let sharedKeys = Keys {
        $0("credential", example: "box-service")
            .means("The name of a credential, to narrow it for this route.")
        $0(
            "subject",
            type: "as in the credential's own block",
            example: "user: \"11446498\"\n# or: enterprise: \"12345\""
        )
        .means("A subject other than the credential's own, with its own token.")
    }

    private mutating func shared(_ fields: ConfigFields, of route: String) -> Authentication? {
        defer { fields.refuseUnknownKeys() }
        fields.explain(narrowingKeys)
        fields.explain(Self.sharedKeys)
        if fields.has("strategy") {
            fields.know(Self.sharedKeys)
            fields.know(narrowingKeys)
            fields.error("strategy", "give either a strategy or the name of a credential, not both")
            return nil
        }
        let asUser = actingUser(fields)
        let narrowing = CredentialNarrowing(in: fields, catalog: catalog)
        let wantsSubject = fields.has("subject")
        guard let (scalar, span) = fields.scalar("credential") else {
            fields.know("credential")
            if !fields.has("credential") { fields.missing("credential") }
            return nil
        }
        guard let base = use(scalar, at: span, path: fields.path.appending("credential")) else { return nil }
        guard let subject = wantsSubject ? switched(base, fields) : base else { return nil }
        return narrowed(subject, narrowing, as: "routes.\(route).downscope").map {
            Authentication(credential: $0, asUser: asUser)
        }
    }

    /// The credential for another subject; routes that ask for the same one share it.
    private mutating func switched(_ base: Int, _ fields: ConfigFields) -> Int? {
        let plan = plans[base]
        guard type(of: plan.strategy).hasSubject else {
            fields.error("subject", "\(plan.strategyKind) has no subject that a route could replace")
            return nil
        }
        let before = context.errorCount
        let strategy = context.readingTexts { plan.strategy.switchingSubject(fields) }
        guard let strategy else {
            if context.errorCount == before { fields.error("subject", "is not a subject of \(plan.strategyKind)") }
            return nil
        }
        guard let subject = strategy.subject else { return base }
        if subject == plan.strategy.subject { return base }
        let name = "\(plan.name)[\(subject)]"
        if let index = index(of: name) { return index }
        var switched = plan
        switched.name = name
        switched.strategy = strategy
        switched.vend = nil
        switched.definition.append(Secret(subject))
        // The same secret: it is told of once.
        switched.expires = nil
        switched.span = fields.node("subject")?.span ?? fields.span
        return add(switched)
    }
}

/// A `downscope`, read before it is known which credential it narrows.
enum CredentialNarrowing {
    case none
    case faulty
    case terms(any DerivedStrategy, ConfigFields)

    /// - Parameter fields: Where a `downscope` may stand: the `auth` of a route, or `vend`.
    init(in fields: ConfigFields, catalog: StrategyCatalog) {
        guard fields.has("downscope") else {
            self = .none
            return
        }
        guard let own = fields.fields("downscope") else {
            self = .faulty
            return
        }
        defer { own.refuseUnknownKeys() }
        self = catalog.downscoping?.init(downscope: own).map { .terms($0, own) } ?? .faulty
    }
}
