import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Signs requests to AWS (Signature Version 4), with an access key or with temporary keys.
struct AWSSignatureStrategy: DerivedStrategy {
    static let kind = "aws_sigv4"
    static let otherNames = ["aws", "aws_iam", "aws_signature", "sigv4"]
    static let maySendRequests: Bool? = true

    private enum Keys {
        case own(AWSRequestSigner)
        case temporary(AWSTokenGrant)
    }

    let parent: CredentialReference?
    private let keys: Keys

    private static let meanings: [String: KeyMeaning] = [
        "access_key_id": KeyMeaning("The ID of the access key.", example: "{env: AWS_ACCESS_KEY_ID}"),
        "secret_access_key": KeyMeaning("The secret access key.", example: "{env: AWS_SECRET_ACCESS_KEY}"),
        "session_token": KeyMeaning(
            "The session token of temporary keys.",
            example: "{env: AWS_SESSION_TOKEN}"
        ),
        "credential_process": KeyMeaning(
            "A program that prints keys as for credential_process of AWS, and its arguments. No shell is used; ./ is the folder"
                + " of this file.",
            example: "[./bin/print-keys, --account, production]"
        ),
        "parent": KeyMeaning(
            "The aws_sigv4 credential whose keys ask for the role, instead of an access key.",
            example: "aws-base"
        ),
        "web_identity": KeyMeaning(
            "A token from another issuer that asks for the role, instead of an access key. It is read again for each token request.",
            example: "{file: /var/run/secrets/eks.amazonaws.com/serviceaccount/token}"
        ),
        "assume_role": KeyMeaning(
            "The role whose temporary keys sign requests.",
            example: "role_arn: arn:aws:iam::123456789012:role/reader\nduration: 15m"
        ),
        "region": KeyMeaning(
            "The region that requests are signed for, or a list of those that clients may choose.",
            default: "the one the client signed for, or that of the host",
            example: "eu-central-1"
        ),
        "service": KeyMeaning(
            "The service that requests are signed for, or a list of those that clients may choose.",
            default: "the one the client signed for, or that of the host",
            example: "s3"
        ),
    ]

    /// What stands instead of an access key.
    private static let alternatives = ["credential_process", "parent", "web_identity"]
    private static let ownKeys = ["access_key_id", "secret_access_key", "session_token"]

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let given = Self.alternatives.filter { fields.has($0) }
        if let first = given.first {
            for key in Self.ownKeys where fields.has(key) {
                if let node = fields.node(key) { fields.context.hide(node) }
                fields.error(key, "cannot be combined with \(first)")
            }
            for other in given.dropFirst() { fields.error(other, "cannot be combined with \(first)") }
        }
        let own = given.isEmpty ? Self.accessKey(in: fields) : nil
        let program = fields.command("credential_process")
        let parent = Self.parent(in: fields)
        let assertion = given.contains("web_identity") ? fields.requiredAssertion("web_identity") : nil
        let regions = Self.names("region", in: fields)
        let services = Self.names("service", in: fields)
        var role = AssumedRole(in: fields, usualRegion: regions.count == 1 ? regions.first : nil)
        switch given.first {
        case "credential_process"? where fields.has("assume_role"):
            fields.error(
                "assume_role",
                "cannot be combined with credential_process; give the role a credential of its own, whose parent is this one"
            )
        case let other? where other != "credential_process" && !fields.has("assume_role"):
            fields.missing("assume_role", orAnother: true)
        default: break
        }
        guard fields.context.errorCount == errors else { return nil }
        if let own { role = role?.asked(by: .keys(own, of: nil)) }
        if let assertion { role = role?.asked(by: .webIdentity(assertion)) }
        self.parent = parent
        if let role {
            keys = .temporary(AWSTokenGrant(source: .role(role), regions: regions, services: services))
        } else if let program {
            // A request waits for it no longer than for STS.
            let run = TokenProgram(command: program, timeout: TokenRequest.longestCall)
            keys = .temporary(AWSTokenGrant(source: .program(run), regions: regions, services: services))
        } else if let own {
            keys = .own(AWSRequestSigner(keys: own, regions: regions, services: services))
        } else {
            return nil
        }
    }

    private init(_ strategy: AWSSignatureStrategy, made grant: AWSTokenGrant) {
        parent = strategy.parent
        keys = .temporary(grant)
    }

    private static func accessKey(in fields: ConfigFields) -> AWSRequestSigner.Keys? {
        for key in ["access_key_id", "secret_access_key"] where !fields.has(key) {
            fields.missing(key, orAnother: true)
        }
        let id = fields.string("access_key_id")
        let secret = fields.secret("secret_access_key")
        let token = fields.secret("session_token")
        if let id, !AWSRequestSigner.Keys.isID(id) {
            fields.error(
                "access_key_id",
                "must be at most 128 visible characters, without spaces, commas, slashes or equals signs"
            )
        }
        if let token, !token.withValue(FieldSyntax.isValue) {
            fields.error("session_token", "must be visible ASCII without a space at either end")
        }
        guard let id, let secret else { return nil }
        return AWSRequestSigner.Keys(id: id, secret: secret, token: token)
    }

    private static func parent(in fields: ConfigFields) -> CredentialReference? {
        guard let name = fields.string("parent"), let span = fields.node("parent")?.span else { return nil }
        return CredentialReference(name: name, span: span, path: fields.path.appending("parent"))
    }

    private static func names(_ key: String, in fields: ConfigFields) -> [String] {
        let names: [String] =
            switch fields.scalarOrStrings(key) {
            case nil: []
            case .scalar(let scalar): [scalar.text]
            case .strings(let texts): texts
            }
        if fields.has(key), names.isEmpty { fields.error(key, "is empty; remove it") }
        for name in names where !AWSRequestSigner.isScopePart(name) {
            fields.error(
                key,
                "must be letters, digits, \"-\" or \"_\", such as \"\(key == "region" ? "eu-central-1" : "s3")\""
            )
        }
        return names
    }

    var behavior: AuthBehavior {
        switch keys {
        case .own(let signer): .signed(.everyRequest(signer))
        case .temporary(let grant): .token(grant)
        }
    }

    var injectedSecret: (key: String, secret: Secret)? {
        guard case .own(let signer) = keys else { return nil }
        return ("secret_access_key", signer.keys.secret)
    }

    var shownSettings: [String: String] {
        let (regions, services) =
            switch keys {
            case .own(let signer): (signer.regions, signer.services)
            case .temporary(let grant): (grant.regions, grant.services)
            }
        return ["region": regions, "service": services].filter { !$0.value.isEmpty }
            .mapValues { $0.joined(separator: ", ") }
    }

    // MARK: Parents

    func made(from parent: any TokenGrant) throws(UnusableInput) -> any AuthStrategy {
        guard let base = parent as? AWSTokenGrant else { throw Self.noKeys(in: parent.identity) }
        let isChained = if case .role = base.source { true } else { false }
        return try asking(.parent(parent), isChained: isChained)
    }

    func made(from signer: Signer) throws(UnusableInput) -> any AuthStrategy {
        guard case .everyRequest(let signer) = signer, let base = signer as? AWSRequestSigner else {
            throw Self.noKeys(in: signer.identity)
        }
        return try asking(.keys(base.keys, of: base.identity), isChained: false)
    }

    private static func noKeys(in identity: GrantIdentity) -> UnusableInput {
        UnusableInput("\(identity.strategy) has no AWS keys; name a credential with the strategy aws_sigv4")
    }

    /// - Parameter isChained: The caller's keys are those of a role.
    private func asking(
        _ caller: AssumedRole.Caller,
        isChained: Bool
    ) throws(UnusableInput) -> any AuthStrategy {
        guard case .temporary(let grant) = keys, case .role(let role) = grant.source else {
            throw UnusableInput("\"parent\" requires \"assume_role\"")
        }
        guard !isChained || role.duration <= AssumedRole.longestChained else {
            throw UnusableInput(
                "its parent uses a role, and AWS limits chained roles to 1h; set duration to at most 1h"
            )
        }
        return AWSSignatureStrategy(
            self,
            made: AWSTokenGrant(source: .role(role.asked(by: caller)), regions: grant.regions, services: grant.services)
        )
    }
}
