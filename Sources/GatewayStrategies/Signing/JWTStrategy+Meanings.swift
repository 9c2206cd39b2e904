import GatewayCore

extension JWTStrategy {
    static let meanings = SharedMeanings.of("passphrase", "key_id", "apply").merging([
        "key": KeyMeaning("The private key that tokens are signed with, in PEM.", example: "{file: key.p8}"),
        "secret": KeyMeaning(
            "The shared secret that tokens are signed with, for HS256, HS384 and HS512.",
            example: "{env: SIGNING_SECRET}"
        ),
        "algorithm": KeyMeaning("How tokens are signed.", default: "RS256", example: "ES256"),
        "claims": KeyMeaning(
            "What the token says. {{fingerprint}} is SHA256: and the digest of the public key. exp and iat are added.",
            example: "iss: reporting\naud: https://api.example.com"
        ),
        "lifetime": KeyMeaning("How long a token is valid.", default: "5m", example: "20m"),
        "jti": KeyMeaning("Whether each token has an id of its own, the claim jti.", default: "false", example: "true"),
    ]) { _, own in own }
}
