/// What an engine was answered that asked about a request.
package struct AuthzOutcome: Hashable, Sendable {
    package enum Outcome: String, CaseIterable, Sendable {
        /// It was given the credential.
        case handedOut = "handed_out"
        /// It was given a newer credential than the one that it reported as rejected.
        case renewed
        /// It was given the credential that it reported as rejected: the path rejects every token, or nothing newer can be had.
        case unchanged
        /// The same, because the engine or the client has caused as many renewals as it may.
        case overBudget = "over_budget"
        /// The request may not have the credential.
        case refused
        /// The engine did not prove itself.
        case unproven
        /// There is no credential at the moment.
        case unavailable
    }

    package var name: String
    package var outcome: Outcome

    package init(name: String, outcome: Outcome) {
        self.name = name
        self.outcome = outcome
    }
}

extension AuthzOutcome.Outcome {
    /// Of a refusal.
    package init(_ kind: ProblemKind) {
        self =
            switch kind {
            case .engineAuthRequired: .unproven
            case let kind where kind.status >= 500: .unavailable
            default: .refused
            }
    }
}
