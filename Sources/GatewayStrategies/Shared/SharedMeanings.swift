import GatewayConfiguration
import GatewayHTTP

/// The meanings of keys that several strategies read alike.
enum SharedMeanings {
    /// - Parameter keys: Each is in one of the tables here; a test finds those that are not.
    static func of(_ keys: String...) -> [String: KeyMeaning] {
        var found: [String: KeyMeaning] = [:]
        for key in keys { found[key] = oauth[key] ?? client[key] ?? tokens[key] }
        return found
    }

    /// A part of `response`.
    static let expiresIn = KeyMeaning(
        "Where the lifetime in seconds is.",
        default: "/expires_in",
        example: "/data/expires_in"
    )

    /// How a client proves who it is: `client_id`, `client_auth` and what belongs to them.
    static let client: [String: KeyMeaning] = [
        "client_id": KeyMeaning("The client ID, as registered with the authorization server.", example: "my-app"),
        "client_secret": KeyMeaning("The client's secret.", example: "{env: CLIENT_SECRET}"),
        "client_auth": KeyMeaning(
            "How the client authenticates. body is client_secret_post, basic is client_secret_basic (RFC "
                + "6749 section 2.3.1).",
            default: "body with a secret, none where a public client is accepted",
            example: "basic"
        ),
        "client_auth_encoding": KeyMeaning(
            "How ID and secret are encoded for client_auth: basic. form follows RFC 6749 section 2.3.1; "
                + "none sends them as they are.",
            default: "form",
            example: "none"
        ),
        "private_key": KeyMeaning("The key that assertions are signed with, in PEM.", example: "{file: key.pem}"),
        "passphrase": KeyMeaning(
            "The passphrase of the private key, if it is encrypted.",
            example: "{env: KEY_PASSPHRASE}"
        ),
        "key_id": KeyMeaning("The ID of the key, sent as kid.", example: "\"2026-03\""),
        "algorithm": KeyMeaning("How assertions are signed.", default: "RS256", example: "RS512"),
        "certificate": KeyMeaning(
            "The certificate of the private key, in PEM. Its digest is sent as x5t#S256, as Microsoft Entra requires.",
            example: "client.pem"
        ),
        "assertion": KeyMeaning(
            "An assertion from another issuer, for client_auth: assertion (RFC 7521). It is read again for each token request.",
            example: "{file: /var/run/secrets/tokens/federation}"
        ),
        "tls": KeyMeaning(
            "The client certificate for the authorization server, for client_auth: tls (RFC 8705).",
            example: "certificate: client.pem\nprivate_key: {file: client-key.pem}"
        ),
        "audience": KeyMeaning(
            "The audience (aud) of the client's assertion.",
            default: "token_url",
            example: "https://id.example.com"
        ),
    ]

    static let oauth: [String: KeyMeaning] = [
        "token_url": KeyMeaning(
            "Where tokens are requested (RFC 6749 section 3.2).",
            example: "https://id.example.com/oauth2/token"
        ),
        "authorize_url": KeyMeaning(
            "The login page, where the browser is sent (RFC 6749 section 3.1).",
            example: "https://id.example.com/oauth2/authorize"
        ),
        "revoke_url": KeyMeaning(
            "Where authgateway token revoke sends the token (RFC 7009). Without it nothing is revoked.",
            example: "https://id.example.com/oauth2/revoke"
        ),
        "scopes": KeyMeaning("The scopes to request.", default: "[]", example: "[read, write]"),
        "parameters": KeyMeaning(
            "Additional form parameters for token requests.",
            default: "{}",
            example: "audience: https://api.example.com\nresource: https://api.example.com"
        ),
        "refresh_parameters": KeyMeaning(
            "Form parameters for refresh requests only. Added to parameters; override those of the same name.",
            default: "{}",
            example: "{scope: api://calendar/read offline_access}"
        ),
        "redirect_uri": KeyMeaning(
            "Where the authorization server sends the browser after a login, exactly as registered there.",
            default: "any free port of http://127.0.0.1/callback",
            example: "http://127.0.0.1:8765/callback"
        ),
        "pkce": KeyMeaning("Whether a login uses PKCE (RFC 7636).", default: "true", example: "false"),
        "refresh_token": KeyMeaning(
            "The refresh token of a login that was done elsewhere. It is tried at the start.",
            example: "{env: REFRESH_TOKEN}"
        ),
    ]

    static let tokens: [String: KeyMeaning] = [
        "access_token": KeyMeaning(
            "The access token of a login that was done elsewhere.",
            example: "{env: ACCESS_TOKEN}"
        ),
        "session_token": KeyMeaning(
            "The session token of a login that was done elsewhere. It is sent only to the authorizer.",
            example: "{env: SESSION_TOKEN}"
        ),
        "session_lifetime": KeyMeaning(
            "The lifetime of an unused session token, for the countdown in status.",
            example: "30d"
        ),
        "base_url": KeyMeaning("The URL of the authorizer.", example: "https://authorizer.example.com"),
        "client_name": KeyMeaning("The name of the client in the authorizer's paths.", example: "portal"),
        "apply": KeyMeaning(
            "Where the token goes: a header field, a query parameter, a cookie, the path, or the password of a user.",
            default: "{header: Authorization, scheme: Bearer}",
            example: "header: X-Api-Token\nvalue: \"{{token}}\""
        ),
    ]

    // MARK: Below a key

    static let assertion: [String: KeyMeaning] = [
        "file": KeyMeaning(
            "The file that holds it. Another program may replace the file at any time.",
            example: "/var/run/secrets/tokens/federation"
        ),
        "github_actions": KeyMeaning(
            "GitHub Actions issues it. The job needs the permission id-token: write.",
            example: "{audience: \"api://AzureADTokenExchange\"}"
        ),
    ]

    static let gitHubActions: [String: KeyMeaning] = [
        "audience": KeyMeaning(
            "The audience (aud) that the authorization server expects.",
            example: "api://AzureADTokenExchange"
        )
    ]

    static let clientTLS: [String: KeyMeaning] = [
        "certificate": KeyMeaning("The gateway's certificate, in PEM, with its intermediates.", example: "client.pem"),
        "private_key": KeyMeaning("The key of that certificate, in PEM.", example: "{file: client-key.pem}"),
        "passphrase": KeyMeaning(
            "The passphrase of the private key, if it is encrypted.",
            example: "{env: KEY_PASSPHRASE}"
        ),
        "ca": KeyMeaning(
            "The certificate authorities that the server's certificate must come from, in PEM.",
            default: "those of the system",
            example: "corp-ca.pem"
        ),
    ]

    static let subject: [String: KeyMeaning] = [
        "enterprise": KeyMeaning("The ID of the enterprise whose service account is used.", example: "\"12345\""),
        "user": KeyMeaning("The ID of the user.", example: "\"11446498\""),
    ]

    static let placement: [String: KeyMeaning] = [
        "header": KeyMeaning("The header field that holds the token.", example: "X-Api-Token"),
        "query": KeyMeaning("The query parameter that holds the token.", example: "access_token"),
        "cookie": KeyMeaning("The cookie that holds the token. It replaces all cookies of the client.", example: "sid"),
        "basic": KeyMeaning("Sends the token as the password of this user (RFC 7617).", example: "x-access-token"),
        "path": KeyMeaning(
            "The path with the token, which is put before the path of each request.",
            example: "\"/bot{{token}}\""
        ),
        "scheme": KeyMeaning("The word before the token in the header field, such as Bearer.", example: "Bearer"),
        "value": KeyMeaning("The string with the token in it.", default: "\"{{token}}\"", example: "\"{{token}}\""),
    ]

    static let signaturePlacement: [String: KeyMeaning] = [
        "header": KeyMeaning("The header field to set. The client's own is not forwarded.", example: "X-Signature"),
        "query": KeyMeaning("The query parameter to set, at the end of the query.", example: "signature"),
        "basic": KeyMeaning(
            "Sends the value as the password of this user (RFC 7617).",
            example: "my-key-id"
        ),
        "scheme": KeyMeaning("The word before the value in the header field.", example: "HMAC"),
        "value": KeyMeaning(
            "What is sent: {{signature}}, {{key_id}}, {{time}}, {{expires}}, {{nonce}}, {{body.sha256}} and other text. "
                + "Parts without {{signature}} are set before the request is signed.",
            default: "\"{{signature}}\"",
            example: "\"keyId={{key_id}},signature={{signature}}\""
        ),
    ]
}
