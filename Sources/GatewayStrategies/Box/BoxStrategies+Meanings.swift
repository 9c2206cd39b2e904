import GatewayCore

/// Box's own addresses are the defaults.
private let addresses: [String: KeyMeaning] = [
    "token_url": KeyMeaning(
        "Replaces Box's token endpoint, for a sandbox.",
        example: "https://box.example/oauth2/token"
    ),
    "revoke_url": KeyMeaning(
        "Replaces Box's revocation endpoint, for a sandbox.",
        example: "https://box.example/oauth2/revoke"
    ),
]

private let subject = KeyMeaning(
    "Whom the token speaks for: an enterprise's service account, or a user.",
    example: "enterprise: \"12345\"\n# or: user: \"11446498\""
)

extension BoxCCGStrategy {
    static let meanings = SharedMeanings.of("client_id", "client_secret").merging(addresses) { _, own in own }
        .merging(["subject": subject]) { own, _ in own }
}

extension BoxJWTStrategy {
    static let meanings = BoxCCGStrategy.meanings
        .merging(SharedMeanings.of("private_key", "passphrase", "key_id", "algorithm")) { own, _ in own }
        .merging([
            "app_settings": KeyMeaning(
                "The JSON file that Box's console hands out with a key pair, or a secret that holds its text.",
                type: "a path, or a secret",
                example: "box-app.json"
            )
        ]) { own, _ in own }
}

extension BoxOAuthStrategy {
    static let meanings = SharedMeanings.client
        .merging(SharedMeanings.of("redirect_uri", "pkce", "access_token", "refresh_token", "scopes")) { own, _ in own }
        .merging(addresses) { _, own in own }
        .merging([
            "authorize_url": KeyMeaning(
                "Replaces Box's login page, for a sandbox.",
                example: "https://box.example/oauth2/authorize"
            )
        ]) { own, _ in own }
}

extension BoxDeveloperTokenStrategy {
    static let meanings: [String: KeyMeaning] = [
        "token": KeyMeaning("The developer token of Box's console. It lives 60 minutes.", example: "{env: BOX_TOKEN}"),
        "obtained_at": KeyMeaning(
            "When the token was generated.",
            default: "when the gateway first sees it",
            type: "a time with its zone",
            example: "2026-03-01T09:30:00Z"
        ),
        "client_id": KeyMeaning("The app's client id, to revoke the token.", example: "abc"),
        "client_secret": KeyMeaning("The app's client secret, to revoke the token.", example: "{env: BOX_SECRET}"),
    ].merging(["revoke_url": addresses["revoke_url"]].compactMapValues(\.self)) { own, _ in own }
}
