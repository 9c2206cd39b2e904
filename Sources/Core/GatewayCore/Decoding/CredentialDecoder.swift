/// Reads `credentials`, and the `auth` of routes: which credentials there are, and who shares them.
struct CredentialDecoder {
    private let catalog: StrategyCatalog
    private let context: ConfigContext
    /// The names in `access.clients`.
    private let clients: [String]
    private(set) var plans: [CredentialPlan] = []
    private var indices: [String: Int] = [:]
    /// Every name in `credentials`, also of those that could not be decoded, in file order.
    private var declared: [(name: String, span: SourceSpan)] = []
    private var used: Set<String> = []

    init(catalog: StrategyCatalog, context: ConfigContext, clients: [String]) {
        self.catalog = catalog
        self.context = context
        self.clients = clients
    }

    mutating func decodeNamed(_ fields: ConfigFields?) {
        guard let fields else { return }
        var vended: [(credential: Int, vending: Vending)] = []
        for (name, entry) in fields.named() {
            declared.append((name, entry.keySpan))
            let path = fields.path.appending(name)
            guard name != "none" else {
                context.error("\"none\" means no credential; choose another name", at: entry.keySpan, path: path)
                continue
            }
            guard let own = ConfigFields(entry.value, path: path, context: context, under: entry.keySpan) else {
                continue
            }
            let plan = decode(own, name: name, at: entry.keySpan)
            let vending = vending(own)
            if own.has("vend") { used.insert(name) }
            own.refuseUnknownKeysIfComplete()
            guard let plan else { continue }
            add(plan)
            if let vending { vended.append((plans.count - 1, vending)) }
        }
        var orphans: Set<Int> = []
        for index in plans.indices { _ = attach(index, below: [], &orphans) }
        for (index, vending) in vended where !orphans.contains(index) { vend(index, vending) }
    }

    // MARK: Credentials that are vended

    /// `vend` of a credential.
    struct Vending {
        let clients: [String]
        let narrowing: Narrowing
        let fields: ConfigFields
    }

    func vending(_ own: ConfigFields) -> Vending? {
        guard let fields = own.fields("vend") else { return nil }
        defer { fields.refuseUnknownKeys() }
        if !fields.has("clients") { fields.missing("clients") }
        let clients = RouteAccess.clients(fields, known: clients, whenEmpty: "remove \"vend\" to hand out nothing")
        let narrowing = narrowing(fields)
        // Not the default: whoever has the whole token is bound by no route.
        let isWhole = fields.bool("whole_token") ?? false
        switch narrowing {
        case .none where !isWhole:
            fields.error(
                "says which token is handed out: a weaker one by \"downscope\", or the credential's own by"
                    + " \"whole_token: true\""
            )
            return nil
        case .faulty, .terms:
            if isWhole { fields.error("whole_token", "has no place beside downscope") }
        case .none: break
        }
        return clients.map { Vending(clients: $0, narrowing: narrowing, fields: fields) }
    }

    private mutating func vend(_ index: Int, _ vending: Vending) {
        let name = plans[index].name
        switch plans[index].strategy.behavior {
        case .token: break
        case .tokenPerSubject(let grants):
            guard case .none = vending.narrowing else {
                return vending.fields.error(
                    "downscope",
                    "\(name) has a token for each \(grants.field), and only a whole one can be handed out (whole_token: true)"
                )
            }
        case .none, .fixed, .onChallenge:
            let kind = plans[index].strategyKind
            return vending.fields.error("\(kind) has no token with a life of its own that could be handed out")
        }
        guard let credential = narrowed(index, vending.narrowing, as: "\(name)[vend]") else { return }
        plans[index].vend = VendPlan(clients: vending.clients, credential: credential)
    }

    // MARK: Credentials that are made from others

    /// Gives a named credential its parent, and the parent its own before that.
    ///
    /// - Parameter orphans: Those that have none; the reason has been reported.
    private mutating func attach(_ index: Int, below: [String], _ orphans: inout Set<Int>) -> Bool {
        guard !orphans.contains(index) else { return false }
        guard plans[index].parent == nil, let reference = (plans[index].strategy as? any DerivedStrategy)?.parent else {
            return true
        }
        orphans.insert(index)
        let chain = below + [plans[index].name]
        guard let parent = parent(reference, of: chain) else { return false }
        guard attach(parent, below: chain, &orphans) else { return false }
        guard let made = made(plans[index], from: parent, at: reference.span, reference.path) else { return false }
        plans[index] = made
        orphans.remove(index)
        return true
    }

    private mutating func parent(_ reference: ParentReference, of chain: [String]) -> Int? {
        guard !chain.contains(reference.name) else {
            let circle = (chain.drop { $0 != reference.name } + [reference.name]).joined(separator: " from ")
            context.error("a circle: \(circle)", at: reference.span, path: reference.path)
            return nil
        }
        let scalar = ConfigNode.Scalar(text: reference.name, isQuoted: false)
        return use(scalar, at: reference.span, path: reference.path)
    }

    private func made(
        _ plan: CredentialPlan,
        from parent: Int,
        at span: SourceSpan,
        _ path: ConfigPath
    ) -> CredentialPlan? {
        guard let derived = plan.strategy as? any DerivedStrategy else { return plan }
        // Why the parent lacks a parent of its own has been said.
        guard plans[parent].parent != nil || !(plans[parent].strategy is any DerivedStrategy) else { return nil }
        let grant: any TokenGrant
        switch plans[parent].strategy.behavior {
        case .token(let single): grant = single
        case .tokenPerSubject(let grants):
            let name = plans[parent].name
            context.error(
                "\(name) has a token for each \(grants.field); only a single one can be exchanged",
                at: span,
                path: path
            )
            return nil
        case .none, .fixed, .onChallenge:
            let kind = plans[parent].strategyKind
            context.error("\(kind) has no token that could be exchanged", at: span, path: path)
            return nil
        }
        do throws(ParentRefusal) {
            var made = plan
            made.strategy = try derived.made(from: grant)
            made.parent = parent
            made.definition += plans[parent].definition
            return made
        } catch {
            context.error(error.message, at: span, path: path)
            return nil
        }
    }

    /// The `downscope` of a route, read before it is known what it is made from.
    enum Narrowing {
        case none
        case faulty
        case terms(any DerivedStrategy, ConfigFields)
    }

    private func narrowing(_ fields: ConfigFields) -> Narrowing {
        guard fields.has("downscope") else { return .none }
        guard let own = fields.fields("downscope") else { return .faulty }
        defer { own.refuseUnknownKeys() }
        return catalog.downscoping?.init(downscope: own).map { .terms($0, own) } ?? .faulty
    }

    /// `base`, or what a `downscope` makes from it.
    private mutating func narrowed(
        _ base: Int,
        _ narrowing: Narrowing,
        as name: String
    ) -> Int? {
        switch narrowing {
        case .none: return base
        case .faulty: return nil
        case .terms(let strategy, let fields):
            var policy = plans[base].policy
            // Whether there is a token to make it from is what a person decides with `renew: false`.
            policy.isAutomatic = true
            let plan = CredentialPlan(
                name: name,
                strategyKind: type(of: strategy).kind,
                strategy: strategy,
                policy: policy,
                definition: [fields.definition()],
                span: fields.span
            )
            guard let made = made(plan, from: base, at: fields.span, fields.path) else { return nil }
            return add(made)
        }
    }

    mutating func warnAboutUnused() {
        for (name, span) in declared where indices[name] != nil && !used.contains(name) {
            context.warning(
                "no route uses this credential",
                at: span,
                path: .root.appending("credentials").appending(name)
            )
        }
    }

    // MARK: The auth of a route

    struct Authentication {
        /// nil forwards without authentication.
        var credential: Int?
        var asUser: String?
    }

    mutating func decodeAuth(of route: ConfigFields, named name: String) -> Authentication? {
        guard route.has("auth"), let node = route.node("auth") else {
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
            return inline(fields, of: name)
        }
    }

    private mutating func inline(_ fields: ConfigFields, of route: String) -> Authentication? {
        let asUser = fields.string("as_user")
        let narrowing = narrowing(fields)
        defer { fields.refuseUnknownKeysIfComplete() }
        guard var plan = decode(fields, name: "routes.\(route)", at: fields.span) else { return nil }
        if let reference = (plan.strategy as? any DerivedStrategy)?.parent {
            guard let parent = parent(reference, of: [plan.name]),
                let made = made(plan, from: parent, at: reference.span, reference.path)
            else { return nil }
            plan = made
        }
        if case .none = plan.strategy.behavior, case .none = narrowing { return Authentication(asUser: asUser) }
        return narrowed(add(plan), narrowing, as: "routes.\(route).downscope").map {
            Authentication(credential: $0, asUser: asUser)
        }
    }

    private mutating func shared(_ fields: ConfigFields, of route: String) -> Authentication? {
        defer { fields.refuseUnknownKeys() }
        if fields.has("strategy") {
            fields.know("credential", "subject", "as_user", "downscope")
            fields.error("strategy", "give either a strategy or the name of a credential, not both")
            return nil
        }
        let asUser = fields.string("as_user")
        let narrowing = narrowing(fields)
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

    /// Where the requests of a credential go, as far as they go to this upstream.
    func endpoints(of credential: Int, at upstream: UpstreamURL) -> [AuthorityEndpoint] {
        var endpoints: [AuthorityEndpoint] = []
        for endpoint in plans[credential].strategy.behavior.authorityEndpoints where endpoint.origin == upstream.origin
        {
            guard let endpoint = endpoint.behind(upstream.path), !endpoints.contains(endpoint) else { continue }
            endpoints.append(endpoint)
        }
        return endpoints
    }

    /// The credential for another subject; routes that ask for the same one share it.
    private mutating func switched(_ base: Int, _ fields: ConfigFields) -> Int? {
        let plan = plans[base]
        guard type(of: plan.strategy).hasSubject else {
            fields.error("subject", "\(plan.strategyKind) has no subject that a route could switch")
            return nil
        }
        let before = context.errorCount
        guard let strategy = plan.strategy.switchingSubject(fields) else {
            if context.errorCount == before { fields.error("subject", "is not a subject of \(plan.strategyKind)") }
            return nil
        }
        guard let subject = strategy.subject else { return base }
        if subject == plan.strategy.subject { return base }
        let name = "\(plan.name)[\(subject)]"
        if let index = indices[name] { return index }
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

    /// Looks a credential up by the name that a route gives.
    ///
    /// - Parameter alternative: What else could stand in its place.
    private mutating func use(
        _ scalar: ConfigNode.Scalar,
        at span: SourceSpan,
        path: ConfigPath,
        or alternative: String = ""
    ) -> Int? {
        let name = scalar.text
        used.insert(name)
        if let index = indices[name] { return index }
        guard !declared.contains(where: { $0.name == name }) else { return nil }
        let names = declared.map(\.name)
        // Not called unused as well: it is the one that is meant.
        if let meant = Suggestion.nearest(to: name, in: names) { used.insert(meant) }
        let fault = context.unknownName(scalar, of: "credential", at: span, or: alternative)
        context.error("\(fault)\(Suggestion.hint(for: name, in: names))", at: span, path: path)
        return nil
    }

    @discardableResult
    private mutating func add(_ plan: CredentialPlan) -> Int {
        plans.append(plan)
        indices[plan.name] = plans.count - 1
        return plans.count - 1
    }

    // MARK: One credential

    private func decode(_ fields: ConfigFields, name: String, at span: SourceSpan) -> CredentialPlan? {
        guard fields.has("strategy") else {
            fields.missingOrMisspelt("strategy")
            return nil
        }
        guard let (scalar, place) = fields.scalar("strategy") else { return nil }
        guard let type = catalog.strategy(named: scalar.text) else {
            let hint = Suggestion.hint(for: scalar.text, in: catalog.kinds)
            fields.error("strategy", "\(context.unknownName(scalar, of: "strategy", at: place))\(hint)")
            return nil
        }
        let strategy = type.init(from: fields)
        let policy = RenewalDecoder.decode(fields, for: strategy, kind: type.kind)
        let expires = SecretExpirationDecoder.decode(fields, for: strategy)
        fields.isComplete = true
        guard let strategy else { return nil }
        var plan = CredentialPlan(
            name: name,
            strategyKind: type.kind,
            strategy: strategy,
            policy: policy,
            // Who may have the token does not make it another one.
            definition: [fields.definition(without: "vend")],
            span: span
        )
        plan.expires = expires
        return plan
    }
}

extension AuthStrategy {
    /// Whom the token speaks for; nil when the strategy has no token or no subject.
    var subject: String? {
        guard case .token(let grant) = behavior else { return nil }
        return grant.identity.subject
    }
}
