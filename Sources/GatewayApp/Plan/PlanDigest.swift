import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayProxy
import GatewayTokens

/// A plan as far as it can leave the process: what can be shown, and keyed digests of what cannot.
///
/// Two digests made with one key are compared by ``PlanChange/between(_:_:)``, also across processes.
package struct PlanDigest: Hashable, Sendable, Codable {
    package var summary: PlanSummary
    /// By the path of a thing with a name, such as `routes.box`: everything it was defined with, secrets included. Or by the path of
    /// a key, such as `tokens.password`: what its text in the summary does not say.
    package var marks: [String: String]

    /// - Parameter mark: A keyed digest, from which nothing can be learned without the key.
    package init(_ plan: Plan, mark: ([UInt8]) -> String) { self = PlanDefinitions(plan).digest(mark) }

    fileprivate init(summary: PlanSummary, marks: [String: String]) {
        self.summary = summary
        self.marks = marks
    }
}

/// What a plan consists of, as bytes to compute digests of. It holds the plan's secrets, so it must not be kept.
///
/// With many routes, it takes longer to make than all digests of it.
package struct PlanDefinitions: Sendable {
    private let summary: PlanSummary
    private var parts: [(path: String, bytes: [UInt8])] = []

    package init(_ plan: Plan) {
        self.init(plan, summary: PlanSummary(plan))
        parts.reserveCapacity(parts.count + plan.credentials.count + plan.routes.count)
        for credential in plan.credentials { add("credentials.\(credential.name)", credential.definitionBytes) }
        for route in plan.routes { add("routes.\(route.name)", route.definitionBytes) }
    }

    /// Without credentials and routes, of which there may be many.
    init(frameOf plan: Plan) { self.init(plan, summary: PlanSummary(frameOf: plan)) }

    private init(_ plan: Plan, summary: PlanSummary) {
        self.summary = summary
        for client in plan.access.clients {
            add("access.clients.\(client.name)") { AccessDecoder.clientKeys.add(client, to: &$0) }
        }
        for user in plan.admin.users {
            add("listeners.admin.users.\(user.proofs.name)") { AdminDecoder.userKeys.add(user, to: &$0) }
        }
        for listener in plan.listeners {
            add("listeners.proxy.\(listener.address.name)") { ListenerPlan.keys.add(listener, to: &$0) }
        }
        for listener in plan.authz {
            guard let engine = listener.engine else { continue }
            add("listeners.authz.\(engine.name)") { bytes in
                ListenerPlan.keys.add(listener, to: &bytes)
                EnginePlan.keys.add(engine, to: &bytes)
            }
        }
        add(AdminDecoder.keys, of: plan.admin, in: "listeners.admin")
        add(AccessDecoder.keys, of: plan.access, in: "access")
        add(AuditPlan.keys, of: plan.audit, in: "audit")
        add(TokenPlan.keys, of: plan.tokens, in: "tokens")
        add(Limits.keys, of: plan.limits, in: "limits")
        if let proxy = plan.proxy { add("defaults.proxy") { $0.add(proxy) } }
        if let telemetry = plan.telemetry { add(TelemetryPlan.keys, of: telemetry, in: "telemetry") }
        if !plan.interceptedHosts.isEmpty { add(LocalAuthorityPlan.keys, of: plan.localAuthority, in: "ca") }
    }

    /// - Parameter mark: A keyed digest, from which nothing can be learned without the key.
    package func digest(_ mark: ([UInt8]) -> String) -> PlanDigest {
        let marks = parts.map { ($0.path, mark($0.bytes)) }
        // Listeners that ask for any free port have one name.
        return PlanDigest(summary: summary, marks: Dictionary(marks) { "\($0) \($1)" })
    }

    private mutating func add(_ path: String, _ write: (inout CanonicalBytes) -> Void) {
        var bytes = CanonicalBytes()
        write(&bytes)
        add(path, bytes.bytes)
    }

    private mutating func add<Block>(_ keys: Keys<Block>, of block: Block, in section: String) {
        for (name, bytes) in keys.coveredBytes(of: block) { parts.append(("\(section).\(name)", bytes)) }
    }

    private mutating func add(_ path: String, _ bytes: [UInt8]) { parts.append((path, bytes)) }
}

// MARK: Declared values

extension CanonicalBytes {
    /// What the digest of `defaults.proxy` is made of.
    fileprivate mutating func add(_ proxy: ProxyRule) {
        for parent in [proxy.http, proxy.https] {
            add(parent?.description)
            add(parent?.login)
            add(parent?.credential)
            add(parent?.caPath)
        }
        add(proxy.exceptions.texts)
    }
}

/// What the digest of a credential is made of.
extension CredentialPlan {
    /// Everything it was defined with, secrets included.
    var definitionBytes: [UInt8] {
        var bytes = CanonicalBytes(capacity: 512)
        add(to: &bytes)
        return bytes.bytes
    }

    private func add(to bytes: inout CanonicalBytes) {
        bytes.add(strategyKind)
        RenewalPolicy.keys.add(policy, to: &bytes)
        bytes.add(definition) { $0.add($1) }
        switch strategy.behavior {
        case .none: break
        case .fixed(let injection), .onChallenge(let injection, _):
            injection.fields.add(to: &bytes)
            bytes.add(injection.query) { bytes, query in
                bytes.add(query.name)
                bytes.add(query.value)
            }
            bytes.add(injection.path?.value)
        case .signed(let signer): bytes.add(signer.identity.canonicalBytes)
        case .token(let grant): bytes.add(grant.identity.canonicalBytes)
        case .tokens(let grants): bytes.add(grants.identity.canonicalBytes)
        }
    }
}

extension RoutePlan {
    /// Everything it was defined with but its credential, secrets included.
    var definitionBytes: [UInt8] {
        var bytes = CanonicalBytes(capacity: 512)
        bytes.add(name)
        Self.keys.add(self, to: &bytes)
        return bytes.bytes
    }
}
