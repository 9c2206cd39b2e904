import GatewayCore

/// What metrics say about credentials, taken when somebody asks.
enum TokenMetrics {
    static func record(_ tokens: [TokenStatus], in metrics: MetricRegistry) {
        // A subject that a request names is no label: there is no end of them.
        for token in tokens where token.family == nil {
            let labels = [("credential", token.credential), ("strategy", token.strategy)]
            metrics.gauge("gateway_token_generation", labels).set(Double(token.generation))
            metrics.gauge("gateway_token_needs_person", labels).set(token.needsPerson ? 1.0 : 0.0)
            let usable = token.state == .valid || token.state == .renewing
            metrics.gauge("gateway_token_usable", labels).set(usable ? 1.0 : 0.0)
            if let remaining = token.remainingSeconds {
                metrics.gauge("gateway_token_expires_in_seconds", labels).set(Double(remaining))
            }
            if let remaining = token.renewalRemainingSeconds {
                metrics.gauge("gateway_login_expires_in_seconds", labels).set(Double(remaining))
            }
        }
    }
}
