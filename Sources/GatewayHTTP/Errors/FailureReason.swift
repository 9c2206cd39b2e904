/// Why a request failed, in one word of a bounded set: labels metrics, stands in the log, and merges events.
package struct FailureReason: Hashable, Sendable, CustomStringConvertible {
    package let description: String

    private init(word: String) { description = word }

    /// The upstream answered with a status of 500 or more.
    package static let upstreamStatus = FailureReason(word: "upstream_status")
    /// The upstream rejected the credential that was injected, and no other one helped.
    package static let credentialRejected = FailureReason(word: "credential_rejected")

    /// The gateway answered by itself, or cut a response.
    ///
    /// What happened on the way to the upstream is told apart. On the way to a token endpoint the kind says enough, and whose way it was.
    package init(_ problem: GatewayProblem) {
        let error = problem.nextHop == nil ? problem.hopError : nil
        self.init(word: error?.rawValue ?? problem.kind.rawValue)
    }
}
