/// How the upstream of a route has answered lately.
package struct UpstreamHealth: Hashable, Sendable, Codable {
    /// RFC 3339; nil when there was none since the start of the gateway.
    package var lastSuccessAt: String?
    package var lastFailureAt: String?
    /// Why: the kind of the problem, or the upstream's status.
    package var lastFailure: String?
    /// 0...1, over the last 5 minutes; nil without a request in that time.
    package var failureRate: Double?
    /// In the last 5 minutes.
    package var requests: Int

    package init(
        lastSuccessAt: String? = nil,
        lastFailureAt: String? = nil,
        lastFailure: String? = nil,
        failureRate: Double? = nil,
        requests: Int = 0
    ) {
        self.lastSuccessAt = lastSuccessAt
        self.lastFailureAt = lastFailureAt
        self.lastFailure = lastFailure
        self.failureRate = failureRate
        self.requests = requests
    }
}
