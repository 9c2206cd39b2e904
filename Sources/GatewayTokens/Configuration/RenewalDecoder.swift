package import GatewayConfiguration
package import GatewayHTTP

/// Reads the keys that all renewable strategies share: `renew`, `retry_on`, `on_authority_failure`, `acquire_on`; and `rejected_when`
/// of those that have sessions.
package enum RenewalDecoder {
    /// - Parameter strategy: nil when its own keys were faulty; the shared ones are checked all the same.
    package static func decode(
        _ fields: ConfigFields,
        for strategy: (any AuthStrategy)?,
        of type: any AuthStrategy.Type
    ) -> RenewalPolicy {
        if let strategy, !strategy.isRenewable {
            for key in RenewalPolicy.keys.names {
                guard let entry = fields.entry(key) else { continue }
                fields.error("\"\(key)\" has no effect: \(type.kind) has nothing to renew", at: entry.keySpan)
            }
            return RenewalPolicy()
        }
        var policy = RenewalPolicy.keys.defaults
        RenewalPolicy.keys.read(fields, into: &policy)
        decodeRenew(fields, &policy)
        if let statuses = fields.elements("retry_on") {
            let hint = type.hasSessions ? "; for a redirect or a page, see rejected_when" : ""
            policy.retryOn = statuses.compactMap { status($0.node, $0.path, fields.context, in: 400...499, hint) }
        }
        if type.hasSessions {
            fields.explain(sessionKeys)
            policy.rejectedWhen = rejectedWhen(fields)
        }
        if !policy.isAutomatic, let entry = fields.entry("on_authority_failure") {
            fields.error("\"on_authority_failure\" has no effect with renew: false", at: entry.keySpan)
        }
        if policy.acquireOn == .startup, let reason = strategy?.behavior.reasonForDemand {
            fields.error("acquire_on", "can only be demand here: \(reason)")
        }
        return policy
    }

    private static let renewKeys = Keys(RenewalPolicy()) {
        $0("ahead", \.aheadPercent, .percent(1...50), example: "20%")
            .means("The share of its lifetime that a token has left when it is renewed.")
        $0(
            "at_least",
            \.atLeast,
            .duration(.seconds(1) ... .seconds(86_400)),
            default: RenewalPolicy.standardAtLeast,
            example: "5m"
        )
        .means("The minimum time that a token has left when it is renewed; at most half its lifetime.")
    }

    /// `false`, or `{ahead, at_least}`.
    private static func decodeRenew(_ fields: ConfigFields, _ policy: inout RenewalPolicy) {
        switch fields.scalarOrFields("renew") {
        case nil: break
        case .scalar?: policy.isAutomatic = fields.bool("renew") ?? true
        case .fields(let renew)?:
            renewKeys.read(renew, into: &policy)
            renew.refuseUnknownKeys()
        }
    }

    private static let sessionKeys = Keys {
        $0("rejected_when", example: "{location: /accounts/login}")
            .means(
                "Which other responses mean that the session is over, such as a redirect to the login or a page with its form."
            )
    }

    private static let rejectedWhenKeys = Keys {
        $0("status", default: "any", example: "[302, 303]")
            .means("The statuses of such responses. Without location and body, the status alone is enough.")
        $0("location", example: "https://id.example.com/login")
            .means("A prefix of the redirect's Location, as a URL or path. /login matches /login/sso, not /logins.")
        $0("body", example: "'\"error\":\"invalid_auth\"'")
            .means(
                "A regular expression for the first 64 KiB of the body. The response is held back for it, and requests ask for a body that "
                    + "is not compressed."
            )
    }

    /// `{status, location, body}`
    private static func rejectedWhen(_ fields: ConfigFields) -> RejectionRule? {
        guard let own = fields.fields("rejected_when") else { return nil }
        own.explain(rejectedWhenKeys)
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
                own.error("status", "would match every such response; add location or body to narrow it")
            }
        }
        return RejectionRule(statuses: statuses, location: location, body: body)
    }

    private static func pattern(_ text: String, _ fields: ConfigFields) -> TextPattern? {
        guard let pattern = fields.usable("body", try TextPattern(text)) else { return nil }
        guard pattern.size <= RejectionRule.largestPattern else {
            fields.error(
                "body",
                "the pattern takes up to \(pattern.size) steps for each byte, and at most \(RejectionRule.largestPattern) are"
                    + " allowed, because it runs on every response; shorten it, or lower the numbers in {m,n}"
            )
            return nil
        }
        return pattern
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
        case .tokens(let grants):
            switch grants.naming {
            case .field: "each request names the user whose token is needed (unique_id)"
            case .challenge: "the upstream says which token it wants"
            }
        case .none, .fixed, .onChallenge, .signed, .token: nil
        }
    }
}

/// Reads `expires`: the end of the secret, key or password of a credential. Only the configuration knows it.
package enum SecretExpirationDecoder {
    private static let keys = Keys {
        $0("expires", type: "a date, or a time with its zone", example: "2027-01-31")
            .means("When the secret, key or password expires. status warns 14 days ahead.")
    }

    /// - Parameter strategy: nil when its own keys were faulty.
    package static func decode(_ fields: ConfigFields, for strategy: (any AuthStrategy)?) -> UnixTime? {
        if let strategy, !strategy.hasSecret { return nil }
        fields.explain(keys)
        return fields.time("expires")
    }
}

extension ConfigFields {
    /// A time with its zone, or a date, which begins at midnight UTC.
    package func time(_ key: String) -> UnixTime? {
        guard let text = string(key) else { return nil }
        guard let time = UnixTime(rfc3339: text) ?? UnixTime(rfc3339: text + "T00:00:00Z") else {
            error(key, "expected a date such as 2027-01-31, or a time such as 2027-01-31T12:00:00Z")
            return nil
        }
        return time
    }
}

extension AuthStrategy {
    /// Whether there is anything that could end.
    package var hasSecret: Bool {
        if case .none = behavior { return false }
        return true
    }
}
