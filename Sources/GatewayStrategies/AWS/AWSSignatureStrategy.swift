import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Signs requests to AWS with an access key (Signature Version 4).
struct AWSSignatureStrategy: AuthStrategy {
    static let kind = "aws_sigv4"
    static let otherNames = ["aws", "aws_iam", "aws_signature", "sigv4"]

    private let signer: AWSRequestSigner

    private static let meanings: [String: KeyMeaning] = [
        "access_key_id": KeyMeaning("The ID of the access key.", example: "{env: AWS_ACCESS_KEY_ID}"),
        "secret_access_key": KeyMeaning("The secret access key.", example: "{env: AWS_SECRET_ACCESS_KEY}"),
        "session_token": KeyMeaning(
            "The session token of temporary keys.",
            example: "{env: AWS_SESSION_TOKEN}"
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

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let id = fields.requiredString("access_key_id")
        let key = fields.requiredSecret("secret_access_key")
        let token = fields.secret("session_token")
        if let id, !Self.isKeyID(id) {
            fields.error(
                "access_key_id",
                "must be at most 128 visible characters, without spaces, commas, slashes or equals signs"
            )
        }
        if let token, !token.withValue(FieldSyntax.isValue) {
            fields.error("session_token", "must be visible ASCII without a space at either end")
        }
        let regions = Self.names("region", in: fields)
        let services = Self.names("service", in: fields)
        guard let id, let key, fields.context.errorCount == errors else { return nil }
        let keys = AWSRequestSigner.Keys(id: id, secret: key, token: token)
        signer = AWSRequestSigner(keys: keys, regions: regions, services: services)
    }

    var behavior: AuthBehavior { .signed(.everyRequest(signer)) }
    var injectedSecret: (key: String, secret: Secret)? { ("secret_access_key", signer.keys.secret) }

    /// It is written into `Credential=ID/…`, so it must not contain what ends it there.
    private static func isKeyID(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count) && FieldSyntax.isValue(text)
            && text.utf8.allSatisfy { $0 != 0x20 && $0 != 0x2C && $0 != 0x2F && $0 != 0x3D }
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
}
