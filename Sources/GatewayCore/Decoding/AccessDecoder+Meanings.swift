extension AccessDecoder {
    static let meanings: [String: KeyMeaning] = [
        "clients": KeyMeaning(
            "The clients, by the name that routes, logs and the audit log use.",
            example: "laptop: {token: {file: ./laptop.token}}\n"
                + "build: {certificate: {uri: spiffe://example.org/build}}\n"
                + "ci: {token_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}"
        ),
        "allow_origins": KeyMeaning(
            "The origins of web pages that may call the gateway from a browser (CORS).",
            default: "[]",
            example: "[https://app.example.com]"
        ),
        "require_client": KeyMeaning(
            "Whether a request needs a client, proved by token or certificate. auto: off loopback, and on TCP when any client is configured.",
            default: "auto",
            example: "true"
        ),
    ]

    static let clientMeanings: [String: KeyMeaning] = [
        KeyMeaning.anyName: KeyMeaning("One client.", example: "token: {env: LAPTOP_TOKEN}\nlimits: {concurrent: 10}")
    ]

    static let oneClientMeanings: [String: KeyMeaning] = [
        "token": KeyMeaning(
            "The token that the client presents, or a list of the new token and the one that it replaces.",
            example: "{env: LAPTOP_TOKEN}"
        ),
        "token_sha256": KeyMeaning(
            "In the place of token: its SHA-256 as 64 hexadecimal digits, or a list of two."
                + " printf %s \"$TOKEN\" | sha256sum",
            example: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        ),
        "certificate": KeyMeaning(
            "The name in the certificate that proves the client on listeners with tls.client_ca.",
            example: "{uri: spiffe://example.org/ci}"
        ),
        "jwt": KeyMeaning(
            "A signed JSON web token proves the client: RS256, PS256, ES256 or EdDSA. Its signature, exp, nbf, iat, iss and aud are"
                + " verified.",
            example: "issuer: https://issuer.example.com\naudience: authgateway\n"
                + "jwks: {url: https://issuer.example.com/jwks}\nsubject: build-agent"
        ),
        "limits": KeyMeaning("Limits of this client alone.", example: "concurrent: 10\nper_second: 50"),
    ]

    static let certificateMeanings: [String: KeyMeaning] = [
        "dns": KeyMeaning("A host name among the certificate's alternative names.", example: "ci.example.com"),
        "uri": KeyMeaning(
            "A URI among the certificate's alternative names, such as a SPIFFE id. With /* at its end, all below it.",
            example: "spiffe://example.org/ns/ci/*"
        ),
    ]

    static let clientLimitMeanings: [String: KeyMeaning] = [
        "concurrent": KeyMeaning(
            "The maximum number of requests of this client at a time. More get 429.",
            default: "no limit",
            example: "10"
        ),
        "per_second": KeyMeaning(
            "The maximum number of requests of this client in a second. More get 429.",
            default: "no limit",
            example: "50"
        ),
    ]
}
