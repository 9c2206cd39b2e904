/// Reads the keys that all renewable strategies share: `renew`, `retry_on`, `on_authority_failure`, `acquire_on`; and `rejected_when`
/// of those that have sessions.
enum RenewalDecoder {
    private static let keys = ["renew", "retry_on", "on_authority_failure", "acquire_on"]

    /// - Parameter strategy: nil when its own keys were faulty; the shared ones are checked all the same.
    static func decode(
        _ fields: ConfigFields,
        for strategy: (any AuthStrategy)?,
        of type: any AuthStrategy.Type
    ) -> RenewalPolicy {
        if let strategy, !strategy.isRenewable {
            for key in keys {
                guard let entry = fields.entry(key) else { continue }
                fields.error("\"\(key)\" has no effect: \(type.kind) has nothing to renew", at: entry.keySpan)
            }
            return RenewalPolicy()
        }
        fields.explain(meanings)
        var policy = RenewalPolicy()
        decodeRenew(fields, &policy)
        if let statuses = fields.elements("retry_on") {
            let hint = type.hasSessions ? "; for a redirect or a page, see rejected_when" : ""
            policy.retryOn = statuses.compactMap { status($0.node, $0.path, fields.context, in: 400...499, hint) }
        }
        if type.hasSessions {
            fields.explain(sessionMeanings)
            policy.rejectedWhen = rejectedWhen(fields)
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
        switch fields.scalarOrFields("renew") {
        case nil: break
        case .scalar?: policy.isAutomatic = fields.bool("renew") ?? true
        case .fields(let renew)?:
            renew.explain(renewMeanings)
            if let ahead = renew.percent("ahead", in: 1...50) { policy.aheadPercent = ahead }
            if let atLeast = renew.duration("at_least", in: .seconds(1) ... .seconds(86_400)) {
                policy.atLeast = atLeast
            }
            renew.refuseUnknownKeys()
        }
    }

    /// `{status, location, body}`
    private static func rejectedWhen(_ fields: ConfigFields) -> RejectionRule? {
        guard let own = fields.fields("rejected_when") else { return nil }
        own.explain(rejectedWhenMeanings)
        let statuses = (own.elements("status") ?? []).compactMap {
            status($0.node, $0.path, own.context, in: 200...499)
        }
        let location = own.string("location").flatMap { text in
            let location = RejectionRule.Location(text)
            if location == nil {
                own.error("location", "expected the beginning of a URL, https://host/path or /path, without a query")
            }
            return location
        }
        let body = own.string("body").flatMap { pattern($0, own) }
        own.refuseUnknownKeys()
        if !own.has("location"), !own.has("body") {
            if !own.has("status") {
                fields.error("rejected_when", "needs at least one of status, location and body")
            } else if statuses.contains(where: { $0 < 300 }) {
                own.error("status", "would reject every such response; add location or body, which say which ones")
            }
        }
        return RejectionRule(statuses: statuses, location: location, body: body)
    }

    private static func pattern(_ text: String, _ fields: ConfigFields) -> TextPattern? {
        do throws(TextPattern.Mistake) {
            let pattern = try TextPattern(text)
            guard pattern.size <= RejectionRule.largestPattern else {
                fields.error(
                    "body",
                    "the pattern takes up to \(pattern.size) steps for each byte, and at most \(RejectionRule.largestPattern) are"
                        + " allowed, because it runs on every response; shorten it, or lower the numbers in {m,n}"
                )
                return nil
            }
            return pattern
        } catch {
            fields.error("body", error.message)
            return nil
        }
    }

    private static func status(
        _ node: ConfigNode,
        _ path: ConfigPath,
        _ context: ConfigContext,
        in range: ClosedRange<Int>,
        _ hint: String = ""
    ) -> Int? {
        guard case .scalar(let scalar) = node.content, !scalar.isQuoted, let status = Int(scalar.text),
            range.contains(status)
        else {
            context.error(
                "expected a status between \(range.lowerBound) and \(range.upperBound)\(hint)",
                at: node.span,
                path: path
            )
            return nil
        }
        return status
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
