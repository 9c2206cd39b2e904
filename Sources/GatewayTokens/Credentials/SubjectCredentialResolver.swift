package import GatewayHTTP

/// Where the request path takes credentials from when each request says which token it goes with.
///
/// Every call returns at once and may be made on an event loop.
package protocol SubjectCredentialResolver: AnyObject, Sendable {
    /// The name from the configuration.
    var name: String { get }
    var strategy: String { get }

    /// What its tokens have in common: equal for two that get the same tokens.
    var grantKey: CredentialKey { get }

    var naming: TokenNaming { get }

    /// Why no subject gets a token, until an operator unlocks the credential; nil otherwise.
    var lockedProblem: GatewayProblem? { get }

    /// - Parameters:
    ///   - subject: As the request names it, unchecked.
    ///   - client: Who sends the request; nil where clients have no names.
    func source(for subject: String, client: String?) -> Result<any CredentialSource, GatewayProblem>

    /// The source that there is; nil when no request has named this subject lately. It creates none and counts as no use.
    func look(for subject: String, client: String?) -> Result<(any CredentialSource)?, GatewayProblem>
}

/// The problems of requests that name no subject, or several.
extension SubjectCredentialResolver {
    package var lockedProblem: GatewayProblem? { nil }

    package var missingSubject: GatewayProblem {
        GatewayProblem(
            .subjectRequired,
            "\(naming.field ?? "") is missing: it names the subject whose token is sent."
        )
    }

    package var repeatedSubject: GatewayProblem {
        GatewayProblem(.subjectRequired, "\(naming.field ?? "") is given more than once.")
    }
}

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
