import GatewayCore

extension RecipeStrategy {
    static let meanings = steps.merging(SharedMeanings.of("apply", "expiry", "lifetime")) { own, _ in own }.merging([
        "values": KeyMeaning(
            "Plain values for templates, as {{name}}.",
            default: "{}",
            example: "tenant: acme\nlang: en"
        ),
        "secrets": KeyMeaning(
            "Secrets for templates, as {{name}}.",
            default: "{}",
            example: "username: {env: PORTAL_USER}\npassword: {env: PORTAL_PASSWORD}"
        ),
        "keep": KeyMeaning("Outputs that are stored with the token, encrypted.", default: "[]", example: "[device]"),
        "initial": KeyMeaning(
            "The first token, for a login that needs a person.",
            example: "token: {env: FIRST_TOKEN}\nrenewal: {env: FIRST_RENEWAL}"
        ),
        "login_hint": KeyMeaning("What tells that person what to do.", example: "Log in at https://portal.example.com"),
    ]) { own, _ in own }

    private static let steps: [String: KeyMeaning] = [
        "acquire": KeyMeaning(
            "The requests that yield a token, one after the other.",
            example: "- url: https://portal.example.com/login\n  outputs: {token: /data/token}"
        ),
        "refresh": KeyMeaning(
            "The requests that renew it. When they are refused, acquire is tried.",
            example: "- url: https://portal.example.com/refresh\n  outputs: {token: /data/token}"
        ),
        "revoke": KeyMeaning(
            "The requests that make the authority forget it.",
            example: "- method: DELETE\n  url: https://portal.example.com/session"
        ),
    ]
}
