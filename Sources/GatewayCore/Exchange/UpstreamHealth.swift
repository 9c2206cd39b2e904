/// How the upstream of a route has answered lately.
package struct UpstreamHealth: Hashable, Sendable, Codable {
    /// RFC 3339; nil when there was none since the start of the gateway.
    package var lastSuccessAt: String?
    package var lastFailureAt: String?
    /// Why: a ``FailureReason``, or the upstream's status.
    package var lastFailure: String?
    /// What happened and what to do; nil where ``lastFailure`` says it.
    package var lastFailureExplanation: String?
    /// Of the request that failed, for `authgateway explain`.
    package var lastFailureRequestId: String?
    /// 0...1, over the last 5 minutes; nil without a request in that time.
    package var failureRate: Double?
    /// How many answers were a 401 or 403 to a request with a credential: 0...1, over the last 5 minutes; nil without a request in that
    /// time.
    package var rejectionRate: Double?
    /// In the last 5 minutes.
    package var requests: Int

    package init(
        lastSuccessAt: String? = nil,
        lastFailureAt: String? = nil,
        lastFailure: String? = nil,
        lastFailureExplanation: String? = nil,
        lastFailureRequestId: String? = nil,
        failureRate: Double? = nil,
        requests: Int = 0
    ) {
        self.lastSuccessAt = lastSuccessAt
        self.lastFailureAt = lastFailureAt
        self.lastFailure = lastFailure
        self.lastFailureExplanation = lastFailureExplanation
        self.lastFailureRequestId = lastFailureRequestId
        self.failureRate = failureRate
        self.requests = requests
    }
}
