package import GatewayConfiguration
package import GatewayHTTP

/// Reads `credentials`, and the `auth` of routes: which credentials exist, and which routes share them.
package struct CredentialDecoder {
    let catalog: StrategyCatalog
    let context: ConfigContext
    let narrowingKeys: Keys<Void>
    /// The names in `access.clients`.
    private let clients: [String]
    package private(set) var plans: [CredentialPlan] = []
    private var indices: [String: Int] = [:]
    /// Every name in `credentials`, also of those that could not be decoded, in file order.
    private var declared: [(name: String, span: SourceSpan)] = []
    /// Made for the first name that is unknown. By then all are declared.
    private lazy var declaredNames = Set(declared.map(\.name))
    private var used: Set<String> = []

    /// Keys by which a credential is known whose indentation is wrong.
    private static let ownKeys: Set<String> = [
        "strategy", "token", "token_url", "client_id", "client_secret", "username", "password", "scopes", "preset",
    ]

    private static let names = Keys {
        $0(KeyMeaning.anyName, example: "strategy: bearer\ntoken: {env: API_TOKEN}")
            .means("One credential. Its other keys depend on the strategy.")
    }

    package init(catalog: StrategyCatalog, context: ConfigContext, clients: [String]) {
        self.catalog = catalog
        narrowingKeys = Self.narrowingKeys(catalog)
        self.context = context
        self.clients = clients
    }

    package mutating func decodeNamed(_ fields: ConfigFields?) {
        guard let fields else { return }
        fields.explain(Self.names)
        var vended: [(credential: Int, vending: CredentialVending)] = []
        for (name, entry) in fields.named("a credential", keys: Self.ownKeys) {
            declared.append((name, entry.keySpan))
            let path = fields.path.appending(name)
            guard name != "none" else {
                context.error("\"none\" means no credential; choose another name", at: entry.keySpan, path: path)
                continue
            }
            guard let own = fields.named(entry, path: path) else { continue }
            let plan = decode(own, name: name, at: entry.keySpan)
            let vending = CredentialVending(of: own, among: clients, catalog: catalog)
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

    private mutating func vend(_ index: Int, _ vending: CredentialVending) {
        guard vending.canVend(plans[index]),
            let credential = narrowed(index, vending.narrowing, as: "\(plans[index].name)[vend]")
        else { return }
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
        let made = plans[index].derived(from: plans[parent], at: parent, context, reference.span, reference.path)
        guard let made else { return false }
        plans[index] = made
        orphans.remove(index)
        return true
    }

    mutating func parent(_ reference: CredentialReference, of chain: [String]) -> Int? {
        guard !chain.contains(reference.name) else {
            let circle = (chain.drop { $0 != reference.name } + [reference.name]).joined(separator: " → ")
            context.error("circular parent: \(circle)", at: reference.span, path: reference.path)
            return nil
        }
        let scalar = ConfigNode.Scalar(text: reference.name, isQuoted: false)
        return use(scalar, at: reference.span, path: reference.path)
    }

    /// `base`, or what a `downscope` makes from it.
    mutating func narrowed(
        _ base: Int,
        _ narrowing: CredentialNarrowing,
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
            return plan.derived(from: plans[base], at: base, context, fields.span, fields.path).map { add($0) }
        }
    }

    package mutating func warnAboutUnused() {
        // What could not be decoded may use it.
        guard !context.isIncomplete else { return }
        for (name, span) in declared where indices[name] != nil && !used.contains(name) {
            context.warning(
                "no route uses this credential",
                at: span,
                path: .root.appending("credentials").appending(name),
                mayFollow: true
            )
        }
    }

    /// Where the requests of a credential go, as far as they go to this upstream.
    package func endpoints(of credential: Int, at upstream: UpstreamURL) -> [AuthorityEndpoint] {
        var endpoints: [AuthorityEndpoint] = []
        for endpoint in plans[credential].strategy.behavior.authorityEndpoints where endpoint.origin == upstream.origin
        {
            guard let endpoint = endpoint.behind(upstream.path), !endpoints.contains(endpoint) else { continue }
            endpoints.append(endpoint)
        }
        return endpoints
    }

    /// Finds a credential by the name that a route or another credential gives.
    ///
    /// - Parameter alternative: What else could stand in its place.
    mutating func use(
        _ scalar: ConfigNode.Scalar,
        at span: SourceSpan,
        path: ConfigPath,
        or alternative: String = ""
    ) -> Int? {
        let name = scalar.text
        used.insert(name)
        if let index = indices[name] { return index }
        guard !declaredNames.contains(name) else { return nil }
        let meant = Suggestion.nearest(to: name, in: declared.lazy.map(\.name))
        // The misspelt name means this credential, so it is not reported as unused too.
        if let meant { used.insert(meant) }
        let fault = context.unknownName(scalar, of: "credential", at: span, or: alternative)
        context.error("\(fault)\(Suggestion.hint(meant))", at: span, path: path)
        return nil
    }

    func index(of name: String) -> Int? { indices[name] }

    mutating func setProxy(_ rule: ProxyRule, of index: Int) { plans[index].proxy = rule }

    @discardableResult
    mutating func add(_ plan: CredentialPlan) -> Int {
        plans.append(plan)
        indices[plan.name] = plans.count - 1
        return plans.count - 1
    }

    // MARK: One credential

    private static let keys = Keys {
        $0("strategy", example: "oauth2_client_credentials")
            .means("How the credential is made. The other keys depend on it.")
    }

    /// The key of every strategy that sends requests of its own.
    package static let proxyKeys = Keys {
        $0("proxy", default: "defaults.proxy", type: ProxyDecoder.type, example: ProxyDecoder.example)
            .means("The proxy for the requests of the credential itself, such as those for tokens.")
    }

    func decode(_ fields: ConfigFields, name: String, at span: SourceSpan) -> CredentialPlan? {
        fields.explain(Self.keys)
        let hasPreset = fields.readPreset()
        guard fields.has("strategy") else {
            guard !hasPreset else {
                fields.noteUnusedPreset()
                return nil
            }
            fields.missingOrMisspelt("strategy")
            return nil
        }
        guard let (scalar, place) = fields.scalar("strategy") else { return nil }
        guard let type = catalog.strategy(named: scalar.text) else {
            let fault = context.unknownName(scalar, of: "strategy", at: place)
            fields.error("strategy", fault + catalog.hint(for: scalar.text))
            return nil
        }
        let strategy = type.read(from: fields)
        let policy = RenewalDecoder.decode(fields, for: strategy, of: type)
        let expires = SecretExpirationDecoder.decode(fields, for: strategy)
        // What is made from a parent asks its server with the parent's token, and does not know that server yet.
        let isDerived = (strategy as? any DerivedStrategy)?.parent != nil
        let sendsRequests = isDerived || strategy?.behavior.sendsRequests ?? true
        if sendsRequests { fields.explain(Self.proxyKeys) }
        let proxy = ProxyDecoder.decode(fields)
        fields.isComplete = true
        guard let strategy else { return nil }
        if proxy != nil, !sendsRequests {
            fields.error("proxy", "has no effect: \(type.kind) sends no requests of its own")
        }
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
        plan.ownProxy = proxy
        plan.secretOrigin = strategy.injectedSecret.flatMap { fields.secretOrigin($0.key) }
        plan.clientSecretOrigin = fields.secretOrigin("client_secret")
        return plan
    }
}

extension AuthStrategy {
    /// Whom the token speaks for; nil when the strategy has no token or no subject.
    package var subject: String? { behavior.subject }
}

extension CredentialPlan {
    /// This plan with a strategy that makes its token from the token of another credential.
    ///
    /// - Parameters:
    ///   - parent: The plan of the other credential. It has a parent itself where its strategy needs one.
    ///   - index: The place of `parent` among the plans.
    ///   - span: Where the configuration names the parent, for problems.
    /// - Returns: nil when no token can be made from the parent's; the reason is reported.
    func derived(
        from parent: CredentialPlan,
        at index: Int,
        _ context: ConfigContext,
        _ span: SourceSpan,
        _ path: ConfigPath
    ) -> CredentialPlan? {
        guard let derived = strategy as? any DerivedStrategy else { return self }
        // Otherwise the parent lacks its own parent, and the reason has been reported.
        guard parent.parent != nil || (parent.strategy as? any DerivedStrategy)?.parent == nil else { return nil }
        func refuse(_ reason: String) -> CredentialPlan? {
            context.error(reason, at: span, path: path)
            return nil
        }
        do throws(UnusableInput) {
            var made = self
            switch parent.strategy.behavior {
            case .token(let grant): made.strategy = try derived.made(from: grant)
            case .signed(let signer): made.strategy = try derived.made(from: signer)
            case .tokens(let grants):
                return refuse(
                    "\(parent.name) has a token for each \(grants.keyName); only a single one can be exchanged"
                )
            case .none, .fixed, .onChallenge:
                return refuse("\(parent.strategyKind) has no token that could be exchanged")
            }
            made.parent = index
            made.definition += parent.definition
            return made
        } catch {
            return refuse(error.message)
        }
    }
}
