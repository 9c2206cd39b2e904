import GatewayAudit
package import GatewayEvents
package import GatewayHTTP
package import GatewayTokenStores
package import GatewayTokens
package import Logging

/// The sources of all credentials of a plan: one keeper per distinct token, shared by all routes that use it.
package struct CredentialSources: Sendable {
    /// By index into ``Plan/credentials``; nil where nothing is injected.
    private(set) var sources: [(any CredentialSource)?] = []
    private(set) var keepers: [TokenKeeper] = []
    /// By index into ``Plan/credentials``: the keeper that serves it.
    private var keeperIndices: [Int?] = []
    /// By index into ``Plan/credentials``: the keepers of those whose subject the request names.
    private(set) var perSubjectKeepers: [Int: PerSubjectKeepers] = [:]
    /// In the order of the plan.
    private(set) var fixed: [FixedCredential] = []
    /// Where each stands in ``fixed``, by its name.
    private var fixedPlaces: [String: Int] = [:]
    /// Places in ``fixed``: those of one secret together.
    private(set) var fixedGroups: [[Int]] = []
    /// By what each was made from.
    private var definedKeepers: [Definition: TokenKeeper] = [:]
    private var definedPerSubjectKeepers: [Definition: PerSubjectKeepers] = [:]

    private struct Definition: Hashable {
        let key: CredentialKey
        let name: String
        let policy: RenewalPolicy
        let definition: [Secret]
        let proxy: ProxyRule?
        /// A keeper that lends another one its token is part of that one.
        let parent: ObjectIdentifier?
    }

    package struct Parts: Sendable {
        let key: InstallationKey
        let store: any TokenStore
        let endpoint: any TokenEndpoint
        let programs: any ProgramRunner
        let audit: any AuditLog
        let onAuditFailure: AuditPlan.OnFailure
        let feed: AuditEventQueue
        let locks: CredentialLocks
        /// Runs a keeper that did not exist when the configuration was loaded.
        let start: @Sendable (TokenKeeper) -> Void
        /// Raised when an upstream rejects keys of the configuration.
        let secretRejection: SecretRejectionFlag
        let clock: any GatewayClock
        let logger: Logger

        package init(
            key: InstallationKey,
            store: any TokenStore,
            endpoint: any TokenEndpoint,
            programs: any ProgramRunner,
            audit: any AuditLog,
            onAuditFailure: AuditPlan.OnFailure,
            feed: AuditEventQueue,
            locks: CredentialLocks,
            start: @escaping @Sendable (TokenKeeper) -> Void,
            secretRejection: SecretRejectionFlag = SecretRejectionFlag(),
            clock: any GatewayClock,
            logger: Logger
        ) {
            self.key = key
            self.store = store
            self.endpoint = endpoint
            self.programs = programs
            self.audit = audit
            self.onAuditFailure = onAuditFailure
            self.feed = feed
            self.locks = locks
            self.start = start
            self.secretRejection = secretRejection
            self.clock = clock
            self.logger = logger
        }
    }

    /// - Parameter previous: Hands over the sources of what is defined as before, tokens and all.
    package init(credentials: [CredentialPlan], parts: Parts, keeping previous: CredentialSources? = nil) {
        var known: [CredentialKey: Int] = [:]
        for (index, credential) in credentials.enumerated() {
            switch credential.strategy.behavior {
            case .none: add(nil, keeper: nil)
            case .fixed(let injection): add(fixed(credential, injection, parts, previous), keeper: nil)
            case .signed(let signer): add(fixed(credential, signer: signer, parts, previous), keeper: nil)
            case .onChallenge(let injection, _):
                let generation = ChallengeCredentialSource.fullGeneration
                add(fixed(credential, injection, generation: generation, parts, previous), keeper: nil)
            case .token:
                let keeper = keeper(at: index, of: credentials, parts, previous, &known)
                // What shares a token shares its lock.
                if let keeper, parts.locks.contains(credential.name) { keepers[keeper].lock() }
                add(keeper.map { keepers[$0] }, keeper: keeper)
            case .tokens(let grants): add(credential, grants, at: index, parts, previous)
            }
        }
        fixedGroups = Array(Dictionary(grouping: fixed.indices, by: { fixed[$0].secret }).values)
        for group in fixedGroups {
            let names = group.map { fixed[$0].name }
            for place in group { fixed[place].sharing = names }
        }
        // Sources that are in use follow once the reload has succeeded.
        _ = followFixed(parts.locks, newSince: previous)
    }

    func fixed(named name: String) -> FixedCredential? { fixedPlaces[name].map { fixed[$0] } }

    /// The credential that a proxy is sent, whose lock counts; nil where it is sent none.
    func proxyLogin(_ proxy: ParentProxy?) -> FixedCredentialSource? {
        proxy?.credential.flatMap { fixed(named: $0)?.source }
    }

    /// What a route takes its credential from; nil where nothing is injected.
    func source(_ credential: Int, in plan: Plan) -> (any CredentialSource)? {
        guard let source = sources[credential] else { return nil }
        guard case .onChallenge(_, let realm) = plan.credentials[credential].strategy.behavior,
            let fixed = source.fixed
        else { return source }
        return ChallengeCredentialSource(fixed, realm: realm)
    }

    func captured(in plan: Plan) -> CapturedRoutes { CapturedRoutes(plan) { source($0, in: plan)?.grantKey } }

    /// Where each request of a route says which token it needs; nil where no request does.
    func selection(_ credential: Int, in plan: Plan) -> (any SubjectCredentialResolver)? {
        guard let keepers = perSubjectKeepers[credential] else { return nil }
        return switch keepers.naming {
        case .field: keepers
        case .challenge(let rule): ChallengeTokenCredentials(keepers, rule)
        }
    }

    /// The keeper that serves a credential; nil where there is no token to keep.
    func keeper(of credential: Int) -> TokenKeeper? { keeperIndices[credential].map { keepers[$0] } }

    /// The keeper of a credential, made after that of its parent, which may stand further down.
    private mutating func keeper(
        at index: Int,
        of credentials: [CredentialPlan],
        _ parts: Parts,
        _ previous: CredentialSources?,
        _ known: inout [CredentialKey: Int]
    ) -> Int? {
        let credential = credentials[index]
        guard case .token(let grant) = credential.strategy.behavior else { return nil }
        let key = parts.key.credentialKey(for: grant.identity)
        if let index = known[key] { return index }
        let parent = credential.parent.flatMap { keeper(at: $0, of: credentials, parts, previous, &known) }
            .map { keepers[$0] }
        let definition = Definition(
            key: key,
            name: credential.name,
            policy: credential.policy,
            definition: credential.definition,
            proxy: credential.proxy,
            parent: parent.map { ObjectIdentifier($0) }
        )
        known[key] = keepers.count
        let kept = previous?.definedKeepers[definition]
        let trigger: TokenEvent.Trigger = previous == nil ? .startup : .reload
        let problem = Self.problem(ofParent: credential.parent, in: credentials, parts.locks)
        let own = kept ?? Self.keeper(credential, grant, key, parent, parentProblem: problem, parts, begunBy: trigger)
        definedKeepers[definition] = own
        keepers.append(own)
        return known[key]
    }

    /// Why a parent with keys from the configuration may not be used: it, or a credential with the same secret, is locked.
    private static func problem(
        ofParent index: Int?,
        in credentials: [CredentialPlan],
        _ locks: CredentialLocks
    ) -> @Sendable () -> GatewayProblem? {
        guard let index, case .signed = credentials[index].strategy.behavior else { return { nil } }
        let (parent, secret) = (credentials[index].name, credentials[index].strategy.injectedSecret?.secret)
        let others = credentials.filter { secret != nil && $0.strategy.injectedSecret?.secret == secret }.map(\.name)
        let names = [parent] + others.filter { $0 != parent }
        return { names.first { locks.contains($0) }.map { .locked($0) } }
    }

    private mutating func add(
        _ credential: CredentialPlan,
        _ grants: any TokenGrants,
        at index: Int,
        _ parts: Parts,
        _ previous: CredentialSources?
    ) {
        add(nil, keeper: nil)
        let definition = Definition(
            key: parts.key.credentialKey(for: grants.identity),
            name: credential.name,
            policy: credential.policy,
            definition: credential.definition,
            proxy: credential.proxy,
            parent: nil
        )
        let all =
            previous?.definedPerSubjectKeepers[definition]
            ?? PerSubjectKeepers(
                name: credential.name,
                strategy: credential.strategyKind,
                grants: grants,
                key: definition.key,
                policy: credential.policy,
                make: { name, grant, budget in
                    var member = credential
                    member.name = name
                    // One keeper for each token: two credentials that are defined alike have tokens of their own.
                    var identity = grant.identity
                    identity.add("credential", credential.name)
                    let key = parts.key.credentialKey(for: identity)
                    let store: any TokenStore = grants.storesTokens ? parts.store : NoTokenStore()
                    return Self.keeper(member, grant, key, nil, parts, store, callLimit: budget, begunBy: .demand)
                },
                start: { keeper in
                    // Not in `make`: it holds a lock for which an operator who locks the credential would wait.
                    parts.locks.decide([keeper.name, credential.name]) { $0 ? keeper.change(isLocked: true) : nil }
                    parts.start(keeper)
                }
            )
        definedPerSubjectKeepers[definition] = all
        perSubjectKeepers[index] = all
        if parts.locks.contains(credential.name) { all.lock() }
    }

    /// Those that the configuration names, and those that requests have named.
    package var allKeepers: [TokenKeeper] {
        keepers + perSubjectKeepers.sorted { $0.key < $1.key }.flatMap(\.value.keepers)
    }

    func perSubjectKeepers(notIn other: CredentialSources) -> [PerSubjectKeepers] {
        perSubjectKeepers.values.filter { keepers in !other.perSubjectKeepers.values.contains { $0 === keepers } }
    }

    func keepers(notIn other: CredentialSources) -> [TokenKeeper] {
        let others = Set(other.keepers.map { ObjectIdentifier($0) })
        return keepers.filter { !others.contains(ObjectIdentifier($0)) }
    }

    /// All that an operator can take from requests.
    var withdrawable: [any CredentialSource] { allKeepers + fixed.map(\.source) }

    /// Those that a reload has left as they were.
    func keepers(keptFrom previous: CredentialSources) -> [TokenKeeper] {
        let earlier = Set(previous.allKeepers.map { ObjectIdentifier($0) })
        return allKeepers.filter { earlier.contains(ObjectIdentifier($0)) }
    }

    private mutating func add(_ source: (any CredentialSource)?, keeper: Int?) {
        sources.append(source)
        keeperIndices.append(keeper)
    }

    private static func keeper(
        _ credential: CredentialPlan,
        _ grant: any TokenGrant,
        _ key: CredentialKey,
        _ parent: TokenKeeper?,
        parentProblem: @escaping @Sendable () -> GatewayProblem? = { nil },
        _ parts: Parts,
        _ store: (any TokenStore)? = nil,
        callLimit: SubjectCallLimit? = nil,
        begunBy trigger: TokenEvent.Trigger = .startup
    ) -> TokenKeeper {
        let keeper = TokenKeeper(
            KeeperContext(
                name: credential.name,
                strategyKind: credential.strategyKind,
                grant: grant,
                policy: credential.policy,
                key: key,
                store: store ?? parts.store,
                endpoint: credential.proxied(parts.endpoint) { [locks = parts.locks] in locks.contains($0) },
                programs: parts.programs,
                audit: parts.audit,
                onAuditFailure: parts.onAuditFailure,
                clock: parts.clock,
                logger: parts.logger,
                parent: parent,
                parentProblem: parentProblem,
                callLimit: callLimit,
                secretOrigin: credential.clientSecretOrigin
            ),
            begunBy: trigger
        )
        parent?.adopt(keeper)
        return keeper
    }

    /// The source that there was, as long as it injects the same thing, or signs with the same keys.
    private mutating func fixed(
        _ credential: CredentialPlan,
        _ injection: Injection = Injection(),
        signer: Signer? = nil,
        generation: Int = 1,
        _ parts: Parts,
        _ previous: CredentialSources?
    ) -> FixedCredentialSource {
        let kept = previous?.fixed(named: credential.name)?.source
        let isSame =
            kept.map { source in
                source.injection == injection && source.credential.signer?.identity == signer?.identity
                    && source.generation == generation
                    && source.strategy == credential.strategyKind
            } ?? false
        let source =
            (isSame ? kept : nil)
            ?? FixedCredentialSource(
                name: credential.name,
                strategy: credential.strategyKind,
                injection: injection,
                signer: signer,
                generation: generation,
                grantKey: Self.grantKey(of: credential, injection, signer, parts),
                noted: Self.note(of: credential, parts),
                keysRejected: { [rejection = parts.secretRejection] in rejection.raise() }
            )
        fixedPlaces[credential.name] = fixed.count
        fixed.append(FixedCredential(source, credential))
        return source
    }

    /// What is injected as long as the configuration is as it is: another secret is another credential.
    private static func grantKey(
        of credential: CredentialPlan,
        _ injection: Injection,
        _ signer: Signer?,
        _ parts: Parts
    ) -> CredentialKey {
        if let signer { return parts.key.credentialKey(for: signer.identity) }
        var identity = GrantIdentity(strategy: credential.strategyKind, subject: nil)
        for field in injection.fields { identity.add("field \(field.name)", secret: field.value) }
        if let query = injection.query { identity.add("query \(query.name)", secret: query.value) }
        if let path = injection.path { identity.add("path", secret: path.value) }
        return parts.key.credentialKey(for: identity)
    }

    /// Writes what happens to a static credential to the audit log. The source says when a use is the first one.
    private static func note(
        of credential: CredentialPlan,
        _ parts: Parts
    ) -> @Sendable (CredentialUseEvent, CredentialRequest) -> Void {
        let (name, kind, feed, clock) = (credential.name, credential.strategyKind, parts.feed, parts.clock)
        return { use, demand in
            feed.offer(
                TokenEvent(
                    at: clock.now().wall,
                    name: TokenEvent.Name(use),
                    credential: name,
                    strategy: kind,
                    generation: 1,
                    demand: demand,
                    outcome: use == .withheld ? .failed : .ok,
                    detail: demand.engine.map { ["engine": $0] } ?? [:]
                )
            )
        }
    }

    // MARK: Locks

    /// Locks and unlocks the new sources as `locks` says by now.
    ///
    /// - Parameter credentials: What these sources were made of.
    /// - Returns: Those that were locked and may be in use.
    func follow(
        _ locks: CredentialLocks,
        as credentials: [CredentialPlan],
        newSince previous: CredentialSources
    ) -> [any CredentialSource] {
        let names = self.names(in: credentials)
        for keeper in keepers(notIn: previous) {
            locks.decide(names[ObjectIdentifier(keeper)] ?? []) { keeper.change(isLocked: $0) }
        }
        for keepers in perSubjectKeepers(notIn: previous) { keepers.follow(locks) }
        // Those that were kept, too: a locked credential may share their secret since.
        return followFixed(locks)
    }

    /// Locks and unlocks the sources of these names, as `locks` says by now. Those that are as they should be are left alone.
    ///
    /// - Parameter credentials: What these sources were made of.
    /// - Returns: Those that were locked.
    func follow(
        _ locks: CredentialLocks,
        as credentials: [CredentialPlan],
        changed names: Set<String>
    ) -> [any CredentialSource] {
        var locked: [any CredentialSource] = []
        let own = self.names(in: credentials)
        for keeper in keepers {
            let own = own[ObjectIdentifier(keeper)] ?? []
            guard !names.isDisjoint(with: own) else { continue }
            follow(locks, own, keeper, &locked)
        }
        for members in perSubjectKeepers.values {
            if names.contains(members.name) { locks.decide([members.name]) { members.change(isLocked: $0) } }
            for keeper in members.keepers where !names.isDisjoint(with: [members.name, keeper.name]) {
                follow(locks, [members.name, keeper.name], keeper, &locked)
            }
        }
        return locked + followFixed(locks, named: names)
    }

    private func follow(
        _ locks: CredentialLocks,
        _ names: [String],
        _ keeper: TokenKeeper,
        _ locked: inout [any CredentialSource]
    ) {
        locks.decide(names) { isLocked in
            let rest = keeper.follow(isLocked: isLocked)
            if rest != nil, isLocked { locked.append(keeper) }
            return rest
        }
    }

    /// Locks and unlocks static credentials as `locks` says by now. What shares a secret shares its lock.
    ///
    /// - Parameters:
    ///   - changed: With one of these names in the group; nil for all.
    ///   - previous: Leaves its sources alone.
    /// - Returns: Those that were locked and were not before.
    func followFixed(
        _ locks: CredentialLocks,
        named changed: Set<String>? = nil,
        newSince previous: CredentialSources? = nil
    ) -> [any CredentialSource] {
        var locked: [any CredentialSource] = []
        for group in fixedGroups {
            guard let names = group.first.map({ fixed[$0].sharing }) else { continue }
            if let changed, changed.isDisjoint(with: names) { continue }
            let members = group.map { fixed[$0].source }.filter { previous?.fixed(named: $0.name)?.source !== $0 }
            locks.decide(names) { isLocked in
                for source in members {
                    if !isLocked {
                        source.unlock()
                    } else if source.lock() {
                        locked.append(source)
                    }
                }
                return nil
            }
        }
        return locked
    }

    /// Locks what has the secret of a credential that is locked in `previous`: a reload that renames a credential does not unlock its
    /// secret.
    ///
    /// - Returns: The names that were not locked before.
    func holdLockedSecrets(in locks: CredentialLocks, of previous: CredentialSources) -> [String] {
        let secrets = Set(previous.fixed.filter { $0.source.isLocked }.map { $0.secret })
        let names = fixed.filter { secrets.contains($0.secret) && !locks.contains($0.name) }.map { $0.name }
        for name in names { locks.hold(name) }
        return names
    }

    /// The credentials that each keeper serves.
    private func names(in credentials: [CredentialPlan]) -> [ObjectIdentifier: [String]] {
        var names: [ObjectIdentifier: [String]] = [:]
        for index in credentials.indices {
            guard let keeper = keeper(of: index) else { continue }
            names[ObjectIdentifier(keeper), default: []].append(credentials[index].name)
        }
        return names
    }
}

extension TokenEvent.Name {
    fileprivate init(_ use: CredentialUseEvent) {
        switch use {
        case .injected: self = .injected
        case .handedOut: self = .handedOut
        case .replayed: self = .replayed
        case .withheld: self = .withheld
        }
    }
}

/// The lock and the status of all subjects of a credential.
extension PerSubjectKeepers {
    /// Locks and unlocks them, and each of their tokens, as `locks` says by now.
    func follow(_ locks: CredentialLocks) {
        locks.decide([name]) { change(isLocked: $0) }
        for keeper in keepers { locks.decide([keeper.name, name]) { keeper.change(isLocked: $0) } }
    }

    /// The status of the credential itself; each of its tokens has its own.
    func status(isLocked: Bool) -> TokenStatus {
        TokenStatus(
            credential: name,
            strategy: strategy,
            subject: nil,
            state: isLocked ? .locked : .empty,
            generation: 0,
            isRenewable: isRenewable,
            lastError: isLocked ? GatewayProblem.locked(name).detail : nil,
            action: isLocked ? GatewayCommand.line("token", "unlock", name) : nil
        )
    }
}

/// A static credential of the plan that is served.
struct FixedCredential: Sendable {
    let source: FixedCredentialSource
    /// The names of all credentials with its secret, which are locked and unlocked together.
    var sharing: [String]
    let origin: SecretOrigin?
    /// Equal for two that have the same secret.
    let secret: Injected

    enum Injected: Hashable {
        case secret(Secret)
        /// Everything that is injected, for a strategy that does not name its secret.
        case whole(Injection)
        /// The same for one that signs.
        case signing(GrantIdentity)
    }

    init(_ source: FixedCredentialSource, _ plan: CredentialPlan) {
        self.source = source
        secret =
            plan.strategy.injectedSecret.map { .secret($0.secret) }
            ?? source.credential.signer.map { .signing($0.identity) } ?? .whole(source.injection)
        sharing = [source.name]
        origin = plan.secretOrigin
    }

    var name: String { source.name }
    /// ``sharing``, its own name first.
    var names: [String] { [name] + sharing.filter { $0 != name } }

    func status(at now: Moment) -> TokenStatus {
        TokenStatus(of: source, origin: origin, at: now)
    }
}
