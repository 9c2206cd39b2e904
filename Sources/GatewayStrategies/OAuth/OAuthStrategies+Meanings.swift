import GatewayCore

extension ClientCredentialsStrategy {
    static let meanings = SharedMeanings.client
        .merging(SharedMeanings.of("token_url", "revoke_url", "scopes", "parameters")) { own, _ in own }
}

extension PasswordStrategy {
    static let meanings = ClientCredentialsStrategy.meanings.merging([
        "username": KeyMeaning("The user's name.", example: "svc@example.com"),
        "password": KeyMeaning("The user's password.", example: "{env: USER_PASSWORD}"),
    ]) { own, _ in own }
    .merging(SharedMeanings.of("refresh_parameters")) { own, _ in own }
}

extension AuthorizationCodeStrategy {
    static let meanings = ClientCredentialsStrategy.meanings
        .merging(
            SharedMeanings.of(
                "authorize_url",
                "redirect_uri",
                "pkce",
                "access_token",
                "refresh_token",
                "refresh_parameters"
            )
        ) { own, _ in own }
        .merging([
            "authorize_parameters": KeyMeaning(
                "What else the authority wants in the address of the login page.",
                default: "{}",
                example: "prompt: consent\naudience: https://api.example.com"
            ),
            "device_authorization_url": KeyMeaning(
                "Where a login on another device begins (RFC 8628), for login --device.",
                example: "https://id.example.com/oauth2/device"
            ),
            "issuer": KeyMeaning(
                "The issuer that the answer to a login must name (RFC 9207).",
                example: "https://id.example.com"
            ),
            "refresh_token_lifetime": KeyMeaning(
                "How long a refresh token lives, where the authority does not say it. For the countdown in status.",
                example: "90d"
            ),
        ]) { own, _ in own }
}

extension JWTBearerStrategy {
    static let meanings = SharedMeanings.of(
        "token_url",
        "revoke_url",
        "scopes",
        "parameters",
        "client_id",
        "client_secret",
        "client_auth",
        "client_auth_encoding",
        "tls",
        "passphrase",
        "key_id",
        "algorithm"
    ).merging([
        "key": KeyMeaning("The private key that assertions are signed with, in PEM.", example: "{file: key.pem}"),
        "assertion": KeyMeaning(
            "An assertion that others issue, in the place of key and claims. It is fetched for each request.",
            example: "{file: /var/run/secrets/tokens/federation}"
        ),
        "claims": KeyMeaning(
            "What the assertion says: iss at least. aud is token_url unless it is given.",
            example: "iss: mailer\nsub: postmaster@example.com"
        ),
        "lifetime": KeyMeaning("How long an assertion is valid; at most 1h.", default: "60s", example: "5m"),
    ]) { own, _ in own }
}

extension TokenExchangeStrategy {
    static let meanings = ClientCredentialsStrategy.meanings.merging(termMeanings) { _, own in own }
        .merging([
            "parent": KeyMeaning("The name of the credential whose token is exchanged.", example: "box-service"),
            "subject_token": KeyMeaning(
                "A token that others issue, in the place of parent. It is fetched for each request.",
                example: "{file: /var/run/secrets/tokens/federation}"
            ),
            "subject_token_type": KeyMeaning(
                "What subject_token is (RFC 8693 3).",
                default: "urn:ietf:params:oauth:token-type:jwt",
                example: "urn:ietf:params:oauth:token-type:id_token"
            ),
        ]) { own, _ in own }

    /// What a `downscope` takes as well.
    static let termMeanings: [String: KeyMeaning] = [
        "scopes": KeyMeaning("The scopes of the weaker token.", example: "[item_preview]"),
        "resource": KeyMeaning(
            "What the token is for (RFC 8693 2.1); at Box one file or folder.",
            example: "https://api.box.com/2.0/files/1"
        ),
        "shared_link": KeyMeaning(
            "The shared link of the item that the token is for (Box).",
            example: "https://app.box.com/s/abc"
        ),
    ]
}
