import GatewayCore

extension DelegatedStrategy {
    static let meanings = request.merging(SharedMeanings.of("default_ttl", "apply")) { own, _ in own }.merging([
        "unique_id": KeyMeaning(
            "Whose token it is: a name, or which header field of a request names the user.",
            type: "a text, or a mapping",
            example: "header: X-Box-User\nallow: [\"11446498\"]"
        ),
        "info": KeyMeaning(
            "More values for templates, as {{info.NAME}}.",
            default: "{}",
            example: "tier: gold\nregion: eu"
        ),
        "response": KeyMeaning(
            "What the token server answers: json, text, or where JSON has the token and its end.",
            default: "json",
            example: "token: /data/token\nexpires_in: /data/ttl"
        ),
        "default_ttl": KeyMeaning("How long a token lives that does not say so.", default: "45m", example: "30m"),
        "initial_token": KeyMeaning(
            "The token to begin with, before the first request.",
            example: "{env: FIRST_TOKEN}"
        ),
        "initial_token_expires": KeyMeaning(
            "When that token ends.",
            type: "a date, or a time with its zone",
            example: "2027-01-31"
        ),
    ]) { _, own in own }

    private static let request: [String: KeyMeaning] = [
        "url": KeyMeaning(
            "Where your token server is asked. Templates such as {{unique_id}} are filled in.",
            example: "\"https://tokens.example.com/token?id={{unique_id}}\""
        ),
        "method": KeyMeaning("The method of that request.", default: "GET, or POST with a body", example: "POST"),
        "headers": KeyMeaning("Header fields of that request.", default: "{}", example: "X-Region: eu\nX-Tier: gold"),
        "body": KeyMeaning(
            "The content of that request: a form, JSON or text.",
            example: "json: {id: \"{{unique_id}}\"}\n# or: form: {id: \"{{unique_id}}\"}"
        ),
        "request_auth": KeyMeaning(
            "How the gateway proves to the token server who it is: bearer, basic, header or jwt; tls beside any.",
            example: "bearer: {env: TOKEN_SERVER_KEY}\n# or: basic: {username: svc, password: {env: PASSWORD}}"
        ),
    ]
}
