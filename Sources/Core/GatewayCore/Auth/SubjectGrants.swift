/// One token for each subject, of which there are many: a header field of the request says whose token it goes with.
package protocol SubjectGrants: Sendable {
    /// The name of that field; nil where upstreams say in a challenge which token they want.
    var field: String? { get }

    /// Which challenges those are.
    var challenges: RegistryRule? { get }

    /// Whether tokens outlive the process.
    var storesTokens: Bool { get }

    /// Whether a text is a subject, whatever the configuration allows.
    func isSubject(_ text: String) -> Bool

    /// The maximum number of subjects that have a token at a time.
    var limit: Int { get }

    /// What the tokens of all subjects have in common.
    var identity: GrantIdentity { get }

    var isRenewable: Bool { get }

    /// Where the requests of all of them go.
    var authorityEndpoints: [AuthorityEndpoint] { get }

    /// Whether requests may name this subject, which has passed ``SubjectSyntax``.
    func allows(_ subject: String) -> Bool

    func grant(for subject: String) -> any TokenGrant
}

extension SubjectGrants {
    package var authorityEndpoints: [AuthorityEndpoint] { [] }
    package var challenges: RegistryRule? { nil }
    package var storesTokens: Bool { true }
    package func isSubject(_ text: String) -> Bool { SubjectSyntax.isSubject(text) }

    /// What each has a token of its own for, in a message.
    package var subjectName: String { field ?? "scope" }
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
