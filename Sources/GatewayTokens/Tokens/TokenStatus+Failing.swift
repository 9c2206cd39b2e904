extension TokenStatus {
    /// Since when a credential gets no new token, why, and what a person can do. Holds no secret.
    package struct Failing: Hashable, Sendable, Codable {
        /// The first failed call since the last token, RFC 3339.
        package var since: String
        /// One sentence.
        package var reason: String
        /// RFC 3339; nil: the gateway does not try again by itself.
        package var nextTryAt: String?
        /// RFC 3339; nil unless the next request tries again, and not before this.
        package var notBefore: String?
        /// What to do, one sentence.
        package var remedy: String
        /// What to type.
        package var command: String?
        /// How many requests were refused for want of a token since then; nil when not counted.
        package var failedRequests: Int?

        package init(
            since: String,
            reason: String,
            nextTryAt: String? = nil,
            notBefore: String? = nil,
            remedy: String,
            command: String? = nil,
            failedRequests: Int? = nil
        ) {
            self.since = since
            self.reason = reason
            self.nextTryAt = nextTryAt
            self.notBefore = notBefore
            self.remedy = remedy
            self.command = command
            self.failedRequests = failedRequests
        }
    }
}
