import GatewayCore

/// The JSON key of a service account, as Google's console hands it out.
struct GoogleKeyFile {
    private static let key = "service_account"

    let clientEmail: String
    let signer: JWTSigner
    /// Where Google exchanges assertions; also whom they are meant for.
    let tokenURL: AuthorityURL

    /// Reads `service_account`: a path, or a secret that holds the file's text. nil after a mistake.
    init?(in fields: ConfigFields) {
        guard let text = fields.fileOrSecret(Self.key) else { return nil }
        guard let file = text.withValue({ JSONValue(Array($0.utf8)) }), case .object = file else {
            fields.error(
                Self.key,
                "is not the JSON key of a service account (Google Cloud console, Service Accounts, Keys)"
            )
            return nil
        }
        if let refusal = Self.refusal(of: file["type"]?.string) {
            fields.error(Self.key, refusal)
            return nil
        }
        guard let email = file["client_email"]?.string, !email.isEmpty, let key = file["private_key"]?.string else {
            fields.error(Self.key, "there is no client_email or no private_key in it; download a new JSON key")
            return nil
        }
        guard let address = file["token_uri"]?.string, let tokenURL = try? AuthorityURL(address) else {
            fields.error(Self.key, "there is no token_uri in it that is an https URL; download a new JSON key")
            return nil
        }
        let keyID = file["private_key_id"]?.string
        guard let signer = fields.signer(Secret(key), from: Self.key, algorithm: .rs256, keyID: keyID) else {
            return nil
        }
        self.clientEmail = email
        self.signer = signer
        self.tokenURL = tokenURL
    }

    /// What other files of Google hold, and what to write for them; nil for a service account.
    private static func refusal(of type: String?) -> String? {
        switch type {
        case "service_account": nil
        case "authorized_user":
            "is the login of a person (authorized_user); use the strategy oauth2_authorization_code with the client_id,"
                + " client_secret and refresh_token of this file"
        case "external_account", "external_account_authorized_user", "impersonated_service_account":
            "leads to other credentials (\(type ?? "")) and holds no key; use the strategy exec with the command"
                + " [gcloud, auth, application-default, print-access-token] and format: text"
        default: "is not the key of a service account; its \"type\" is not service_account"
        }
    }
}
