package import GatewayHTTP

/// How a request says which of a credential's tokens it goes with.
package enum TokenNaming: Sendable {
    /// The field of this name holds the subject. It is not forwarded.
    case field(String)
    /// The upstream asks for a token in a challenge.
    case challenge(any ChallengeRule)

    package var field: String? {
        if case .field(let name) = self { name } else { nil }
    }
}

/// Which challenges are answered, with which token, and which requests need the same token. Pure.
package protocol ChallengeRule: Sendable {
    /// Equal for requests for which the upstream asks for the same token.
    func requestKey(method: String, path: String) -> String

    /// The key of the token that the challenges ask for; nil where none of them may be answered.
    func tokenKey(answering challenges: [AuthChallenge]) -> String?
}
