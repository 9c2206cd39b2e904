import GatewayCore

extension SessionRefreshStrategy {
    static let meanings = SharedMeanings.of(
        "access_token",
        "session_token",
        "session_lifetime",
        "base_url",
        "client_name",
        "expiry",
        "lifetime"
    ).merging([
        "login": KeyMeaning(
            "Where a person logs in, and the path that the login ends on.",
            example: "path: /portal/login\ntoken_path: /portal/token"
        ),
        "refresh": KeyMeaning(
            "The request that buys the next pair of tokens.",
            example: "path: /portal/refresh\nsession_token: {header: X-Session-Token}"
        ),
        "revoke": KeyMeaning(
            "The request that ends the session. Its header fields are those of refresh unless they are given.",
            example: "path: /portal/revoke\nmethod: POST"
        ),
        "response": KeyMeaning(
            "Where the answer has the tokens, as JSON pointers (RFC 6901).",
            default: "{access_token: /access_token, session_token: /session_token, expires_in: /expires_in}",
            example: "access_token: /data/access_token\nsession_token: /data/session_token"
        ),
        "rotate": KeyMeaning("Whether the session token changes, too.", default: "both", example: "access_only"),
        "status": KeyMeaning(
            "What a status of the authorizer means.",
            default: "{success: [2xx], terminal: [400], transient: [408, 429, 5xx]}",
            example: "success: [200]\nterminal: [400, 410]"
        ),
    ]) { own, _ in own }
}

extension DukeSessionStrategy {
    static let meanings = SharedMeanings.of("access_token", "session_token", "session_lifetime", "client_name")
        .merging([
            "environment": KeyMeaning("Which authorizer is used.", default: "release", example: "debug"),
            "path_style": KeyMeaning(
                "The shape of its paths: /NAME/ios/refresh (2019) or /NAME/refresh (2022).",
                default: "2019",
                example: "2022"
            ),
            "base_url": KeyMeaning("Replaces the authorizer, for a sandbox.", example: "https://auth.example"),
        ]) { own, _ in own }
}
