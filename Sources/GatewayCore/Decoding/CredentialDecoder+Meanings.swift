extension CredentialDecoder {
    static let names: [String: KeyMeaning] = [
        KeyMeaning.anyName: KeyMeaning(
            "One credential. The keys beside strategy depend on it.",
            example: "strategy: bearer\ntoken: {env: API_TOKEN}"
        )
    ]

    static let strategyMeanings: [String: KeyMeaning] = [
        "strategy": KeyMeaning(
            "How the credential is made. The other keys depend on it.",
            example: "oauth2_client_credentials"
        )
    ]

    /// `{credential: name, …}` of a route, and what a strategy that is written there takes beside its own keys.
    static let routeMeanings: [String: KeyMeaning] = [
        "credential": KeyMeaning("The name of a credential, to narrow it for this route.", example: "box-service"),
        "subject": KeyMeaning(
            "Another subject than the credential's own, with a token of its own.",
            type: "as in the credential's own block",
            example: "user: \"11446498\"\n# or: enterprise: \"12345\""
        ),
    ].merging(narrowingMeanings) { own, _ in own }

    static let narrowingMeanings: [String: KeyMeaning] = [
        "as_user": KeyMeaning(
            "Sends As-User with this user id (Box). The token stays the same.",
            example: "\"11446498\""
        ),
        "downscope": downscope,
    ]

    static let downscope = KeyMeaning(
        "Exchanges the token for a weaker one (RFC 8693).",
        example: "scopes: [item_preview]\nresource: https://api.box.com/2.0/files/1"
    )
}

extension CredentialVending {
    static let vendMeaning: [String: KeyMeaning] = [
        "vend": KeyMeaning(
            "Hands tokens of the credential out to clients, at POST /tokens/NAME of the admin listener.",
            example: "clients: [widget-backend]\nwhole_token: true"
        )
    ]

    static let meanings: [String: KeyMeaning] = [
        "clients": KeyMeaning("The clients of access.clients that are handed a token.", example: "[widget-backend]"),
        "whole_token": KeyMeaning(
            "Hands out the credential's own token, where there is no downscope.",
            default: "false",
            example: "true"
        ),
        "downscope": CredentialDecoder.downscope,
    ]
}

extension RenewalDecoder {
    static let meanings: [String: KeyMeaning] = [
        "renew": KeyMeaning(
            "How long before its end a token is renewed. false renews nothing but by authgateway token refresh.",
            default: "{ahead: 10%, at_least: 60s}",
            type: "a mapping, or false",
            example: "ahead: 20%\nat_least: 5m"
        ),
        "retry_on": KeyMeaning(
            "Statuses of the upstream that can mean that it rejected the token. The request is repeated with a new one.",
            default: "[401]",
            example: "[401, 403]"
        ),
        "on_authority_failure": KeyMeaning(
            "What happens while no new token can be had: the old one is used to its end, or requests fail at once.",
            default: "serve_until_expiry",
            example: "fail"
        ),
        "acquire_on": KeyMeaning(
            "When the first token is fetched: with the first request that needs it, or at the start.",
            default: "demand",
            example: "startup"
        ),
    ]

    static let sessionMeanings: [String: KeyMeaning] = [
        "rejected_when": KeyMeaning(
            "Which other responses mean that the session is over, such as a redirect to the login or a page with its form.",
            example: "{location: /accounts/login}"
        )
    ]

    static let rejectedWhenMeanings: [String: KeyMeaning] = [
        "status": KeyMeaning(
            "The statuses of such responses. Without location and body, the status alone is enough.",
            default: "any",
            example: "[302, 303]"
        ),
        "location": KeyMeaning(
            "A prefix of the redirect's Location, as a URL or path. /login matches /login/sso, not /logins.",
            example: "https://id.example.com/login"
        ),
        "body": KeyMeaning(
            "A regular expression for the first 64 KiB of the body. The response is held back for it, and requests ask for a body that "
                + "is not compressed.",
            example: "'\"error\":\"invalid_auth\"'"
        ),
    ]

    static let renewMeanings: [String: KeyMeaning] = [
        "ahead": KeyMeaning("The share of its lifetime that a token has left then.", default: "10%", example: "20%"),
        "at_least": KeyMeaning(
            "The minimum time that a token has left then; at most half its lifetime.",
            default: "60s",
            example: "5m"
        ),
    ]
}

extension SecretExpirationDecoder {
    static let meanings: [String: KeyMeaning] = [
        "expires": KeyMeaning(
            "When the secret, key or password here ends. status warns 14 days ahead.",
            type: "a date, or a time with its zone",
            example: "2027-01-31"
        )
    ]
}
