import GatewayCore

/// What metrics say about credentials, taken when somebody asks.
enum TokenMetrics {
    private static let names: Set<String> = [
        "gateway_token_generation", "gateway_token_needs_person", "gateway_token_usable", "gateway_token_failing",
        "gateway_token_clock_skew_seconds",
        "gateway_token_expires_at_seconds", "gateway_token_expires_in_seconds", "gateway_login_expires_in_seconds",
        "gateway_expires_in_seconds", "gateway_expires_soon",
        "gateway_credential_accepted_at_seconds", "gateway_credential_rejected_at_seconds",
    ]

    /// Gauges of credentials that are gone are no longer exported.
    static func record(_ tokens: [TokenStatus], _ expirations: [Expiration], in metrics: MetricRegistry) {
        var kept: Set<MetricRegistry.Key> = []
        func set(_ name: String, _ labels: [(String, String)], _ value: Double) {
            metrics.gauge(name, labels).set(value)
            kept.insert(MetricRegistry.Key(name, labels))
        }
        // A subject that a request names is no label: there is no end of them.
        for token in tokens where token.perSubjectCredential == nil {
            let labels = [("credential", token.credential), ("strategy", token.strategy)]
            func setTime(_ name: String, _ time: String?) {
                guard let time = time.flatMap({ UnixTime(rfc3339: $0) }) else { return }
                set(name, labels, Double(time.milliseconds / 1000))
            }
            if token.isStatic != true { set("gateway_token_generation", labels, Double(token.generation)) }
            set("gateway_token_needs_person", labels, token.needsPerson ? 1 : 0)
            set("gateway_token_usable", labels, token.isServed ? 1 : 0)
            if token.isStatic != true { set("gateway_token_failing", labels, token.failing == nil ? 0 : 1) }
            if let seconds = token.clockSkewSeconds { set("gateway_token_clock_skew_seconds", labels, Double(seconds)) }
            setTime("gateway_token_expires_at_seconds", token.expiresAt)
            setTime("gateway_credential_accepted_at_seconds", token.lastAcceptedAt)
            setTime("gateway_credential_rejected_at_seconds", token.lastRejectedAt)
            if let remaining = token.remainingSeconds {
                set("gateway_token_expires_in_seconds", labels, Double(remaining))
            }
            if let remaining = token.renewalRemainingSeconds {
                set("gateway_login_expires_in_seconds", labels, Double(remaining))
            }
        }
        for expiration in expirations {
            let labels = [("kind", expiration.kind.rawValue), ("of", expiration.of)]
            set("gateway_expires_in_seconds", labels, Double(expiration.remainingSeconds))
            set("gateway_expires_soon", labels, expiration.isSoon ? 1 : 0)
        }
        metrics.removeGauges { names.contains($0.name) && !kept.contains($0) }
    }
}
