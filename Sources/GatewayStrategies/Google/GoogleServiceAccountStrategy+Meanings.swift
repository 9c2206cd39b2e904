import GatewayCore

extension GoogleServiceAccountStrategy {
    static let meanings: [String: KeyMeaning] = [
        "service_account": KeyMeaning(
            "The JSON key of the service account, or a secret that holds its text.",
            type: "a path, or a secret",
            example: "service-account.json"
        ),
        "scopes": KeyMeaning(
            "The scopes of the access token, sent as the claim scope.",
            example: "[https://www.googleapis.com/auth/drive.readonly]"
        ),
        "subject": KeyMeaning(
            "The user whose data the token opens (domain-wide delegation).",
            example: "ada@example.com"
        ),
        "audience": KeyMeaning(
            "The API that accepts a token that the gateway signs itself. Google is not asked then.",
            example: "https://pubsub.googleapis.com/"
        ),
        "target_audience": KeyMeaning(
            "Whom an ID token is meant for: a service of Cloud Run, or an IAP client ID.",
            example: "https://service-abc.a.run.app"
        ),
    ]
}
