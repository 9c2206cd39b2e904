import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Proves knowledge of a password without sending it, once the upstream has sent a challenge (RFC 7616).
struct DigestStrategy: AuthStrategy {
    static let kind = "digest"
    static let otherNames = ["http_digest"]

    private let signer: DigestSigner

    private struct Options {
        var realm: String?
        var algorithms = DigestAlgorithm.allCases
    }

    private static let keys = Keys(Options()) {
        $0("username", example: "svc")
            .means("The user name (RFC 7616).")
        $0("password", example: "{env: CAMERA_PASSWORD}")
            .means("The password. It is never sent: each request carries a hash of it.")
        $0("realm", \.realm, .text, example: "camera")
            .means("The only realm whose challenge is answered.")
        $0(
            "algorithms",
            default: "[\(DigestAlgorithm.allCases.map(\.rawValue).joined(separator: ", "))]",
            read: { fields, options in options.algorithms = algorithms(in: fields) ?? options.algorithms },
            example: "[SHA-256]"
        )
        .means("The hash functions that may be used. MD5 is used only if the upstream offers nothing stronger.")
    }

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        var options = Self.keys.defaults
        Self.keys.read(fields, into: &options)
        guard let account = UserAccount(in: fields), fields.context.errorCount == errors else { return nil }
        signer = DigestSigner(account: account, realm: options.realm, algorithms: options.algorithms)
    }

    /// nil if there are none, or after a mistake.
    private static func algorithms(in fields: ConfigFields) -> [DigestAlgorithm]? {
        guard let names = fields.strings("algorithms") else { return nil }
        let known = names.compactMap(DigestAlgorithm.init(rawValue:))
        guard !names.isEmpty, known.count == names.count else {
            let all = DigestAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
            fields.error("algorithms", "expected some of \(all)")
            return nil
        }
        return known
    }

    var behavior: AuthBehavior { .signed(.afterChallenge(signer)) }
    var injectedSecret: (key: String, secret: Secret)? { signer.account.secret }
}

/// Signs with the password of an account, and says which challenges are answered.
struct DigestSigner: ChallengeSigner {
    let account: UserAccount
    let realm: String?
    let algorithms: [DigestAlgorithm]

    var identity: GrantIdentity {
        var identity = GrantIdentity(strategy: DigestStrategy.kind, subject: nil)
        identity.add("username", account.username)
        identity.add("password", secret: account.password)
        identity.add("realm", realm)
        identity.add("algorithms", algorithms.map(\.rawValue).joined(separator: " "))
        return identity
    }

    func session(answering challenges: [AuthChallenge], clientNonce: String) -> (any SigningSession)? {
        DigestChallenge.best(of: challenges, realm: realm, algorithms: algorithms).map {
            DigestSession($0, account, clientNonce: clientNonce)
        }
    }
}
