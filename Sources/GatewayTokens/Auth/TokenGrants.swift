package import GatewayHTTP

/// The grants of one credential that has many tokens, each with a key.
package protocol TokenGrants: Sendable {
    /// What the tokens have in common.
    var identity: GrantIdentity { get }

    /// How a request says which token it goes with.
    var naming: TokenNaming { get }

    /// What each token is for, in a message.
    var keyName: String { get }

    /// The maximum number of tokens at a time.
    var limit: Int { get }

    /// The key of the configuration that says so; nil where none does.
    var limitKey: String? { get }

    var isRenewable: Bool { get }

    /// Whether tokens outlive the process.
    var storesTokens: Bool { get }

    /// Where the requests of all of them go.
    var authorityEndpoints: [AuthorityEndpoint] { get }

    /// Why there is no token with this key, which comes from outside; nil where there is one.
    func refusal(of key: String, credential: String) -> GatewayProblem?

    /// - Parameter key: One that was not refused.
    func grant(for key: String) -> any TokenGrant
}

extension TokenGrants {
    package var storesTokens: Bool { true }
    package var authorityEndpoints: [AuthorityEndpoint] { [] }
}

/// One token for each subject, of which there are many: a header field of the request says whose token it goes with.
package protocol SubjectGrants: TokenGrants {
    /// The name of that field.
    var field: String { get }

    /// Whether requests may name this subject, which has passed ``SubjectSyntax``.
    func allows(_ subject: String) -> Bool
}

/// How a request names a subject, and which names are refused.
extension SubjectGrants {
    package var naming: TokenNaming { .field(field) }
    package var keyName: String { field }
    package var limitKey: String? { "unique_id.at_most" }

    package func refusal(of subject: String, credential: String) -> GatewayProblem? {
        guard SubjectSyntax.isSubject(subject) else {
            return GatewayProblem(
                .subjectRequired,
                "\(field) is not the name of a subject: \(SubjectSyntax.rule)."
            )
        }
        guard allows(subject) else {
            let detail = "\(field) names a subject that \(credential) may not get a token for (unique_id)."
            return GatewayProblem(.routeForbidden, detail)
        }
        return nil
    }
}

/// What a subject that a request names may look like, whatever the configuration allows.
///
/// Nothing in it means anything in a path, a query, a header field, JSON or a shell, so it can go into all of them.
package enum SubjectSyntax {
    package static let longest = 128
    package static let rule =
        "at most \(longest) letters, digits and -._~@:+=, beginning with a letter or a digit"

    package static func isSubject(_ text: String) -> Bool {
        guard let first = text.utf8.first, isLetterOrDigit(first), text.utf8.count <= longest else { return false }
        return text.utf8.allSatisfy { byte in
            switch byte {
            case 0x2B, 0x2D, 0x2E, 0x3A, 0x3D, 0x40, 0x5F, 0x7E: true
            default: isLetterOrDigit(byte)
            }
        }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }
}
