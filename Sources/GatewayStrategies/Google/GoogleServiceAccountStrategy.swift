import GatewayCore

/// A token for a service account of Google, from the JSON key that its console hands out.
///
/// "Using OAuth 2.0 for Server to Server Applications", developers.google.com/identity/protocols/oauth2/service-account.
struct GoogleServiceAccountStrategy: AuthStrategy {
    static let kind = "google_service_account"

    private let grant: GoogleServiceAccountGrant

    init?(from fields: ConfigFields) {
        fields.explain(Self.meanings)
        let errors = fields.context.errorCount
        let file = GoogleKeyFile(in: fields)
        let purpose = Self.purpose(in: fields)
        guard let file, let purpose, fields.context.errorCount == errors else { return nil }
        grant = GoogleServiceAccountGrant(file: file, purpose: purpose)
    }

    var behavior: AuthBehavior { .token(grant) }

    private static func purpose(in fields: ConfigFields) -> GoogleServiceAccountGrant.Purpose? {
        let scopes = fields.scopes()
        let subject = fields.string("subject")
        let audience = fields.string("audience")
        let target = fields.string("target_audience")
        let given = ["scopes", "audience", "target_audience"].filter { fields.has($0) }
        guard given.count == 1, let kind = given.first else {
            fields.error(
                "a token of a service account is for exactly one of scopes (an access token), audience (signed here) and"
                    + " target_audience (an ID token)"
            )
            return nil
        }
        if fields.has("subject"), kind != "scopes" {
            fields.error("subject", "is for scopes: only an access token can be that of another user")
        }
        switch kind {
        case "scopes":
            if scopes.isEmpty { fields.error("scopes", "names no scope") }
            return .access(scopes: scopes, subject: subject)
        case "audience": return audience.map { .selfSigned(audience: $0) }
        default: return target.map { .identity(audience: $0) }
        }
    }
}
