/// Reads the keys that all renewable strategies share: `renew`, `retry_on`, `on_authority_failure`, `acquire_on`.
enum RenewalDecoder {
    private static let keys = ["renew", "retry_on", "on_authority_failure", "acquire_on"]

    /// - Parameter strategy: nil when its own keys were faulty; the shared ones are checked all the same.
    static func decode(_ fields: ConfigFields, for strategy: (any AuthStrategy)?, kind: String) -> RenewalPolicy {
        if let strategy, !strategy.isRenewable {
            for key in keys {
                guard let entry = fields.entry(key) else { continue }
                fields.error("\"\(key)\" has no effect: \(kind) has nothing to renew", at: entry.keySpan)
            }
            return RenewalPolicy()
        }
        fields.explain(meanings)
        var policy = RenewalPolicy()
        decodeRenew(fields, &policy)
        if let statuses = fields.elements("retry_on") {
            policy.retryOn = statuses.compactMap { status($0.node, $0.path, fields.context) }
        }
        let behavior = fields.choice("on_authority_failure", of: RenewalPolicy.OnAuthorityFailure.self)
        if let behavior { policy.onAuthorityFailure = behavior }
        if !policy.isAutomatic, let entry = fields.entry("on_authority_failure") {
            fields.error("\"on_authority_failure\" has no effect with renew: false", at: entry.keySpan)
        }
        if let acquire = fields.choice("acquire_on", of: RenewalPolicy.AcquireOn.self) { policy.acquireOn = acquire }
        if policy.acquireOn == .startup, let reason = strategy?.behavior.reasonForDemand {
            fields.error("acquire_on", "is demand here: \(reason)")
        }
        return policy
    }

    /// `false`, or `{ahead, at_least}`.
    private static func decodeRenew(_ fields: ConfigFields, _ policy: inout RenewalPolicy) {
        if case .scalar(let scalar)? = fields.node("renew")?.content, !scalar.isNull {
            policy.isAutomatic = fields.bool("renew") ?? true
        } else if let renew = fields.fields("renew") {
            renew.explain(renewMeanings)
            if let ahead = renew.percent("ahead", in: 1...50) { policy.aheadPercent = ahead }
            if let atLeast = renew.duration("at_least", in: .seconds(1) ... .seconds(86_400)) {
                policy.atLeast = atLeast
            }
            renew.refuseUnknownKeys()
        }
    }

    private static func status(_ node: ConfigNode, _ path: ConfigPath, _ context: ConfigContext) -> Int? {
        guard case .scalar(let scalar) = node.content, !scalar.isQuoted, let status = Int(scalar.text),
            (400...499).contains(status)
        else {
            context.error("expected a status between 400 and 499", at: node.span, path: path)
            return nil
        }
        return status
    }
}

extension AuthStrategy {
    var isRenewable: Bool {
        switch behavior {
        case .token(let grant): grant.isRenewable
        case .tokenPerSubject(let grants): grants.isRenewable
        case .tokenPerChallenge(let grants): grants.isRenewable
        case .none, .fixed, .onChallenge: false
        }
    }
}

extension AuthBehavior {
    /// Why no token can be asked for before a request needs it; nil where one can.
    fileprivate var reasonForDemand: String? {
        switch self {
        case .tokenPerSubject: "whose token is needed is known with each request (unique_id)"
        case .tokenPerChallenge: "the upstream says which token it wants"
        case .none, .fixed, .onChallenge, .token: nil
        }
    }
}
