/// Names from the standards and from other programs, and how the same is written here.
package enum StandardNames {
    /// Of grants, schemes and client authentications (RFC 6749, RFC 7523, RFC 8693), for `strategy`.
    package static let strategies: [String: String] = [
        "client_credentials": "oauth2_client_credentials",
        "oauth2": "oauth2_client_credentials",
        "client_secret_basic": "oauth2_client_credentials",
        "client_secret_post": "oauth2_client_credentials",
        "client_secret_jwt": "oauth2_client_credentials",
        "private_key_jwt": "oauth2_client_credentials",
        "tls_client_auth": "oauth2_client_credentials",
        "authorization_code": "oauth2_authorization_code",
        "refresh_token": "oauth2_authorization_code",
        "pkce": "oauth2_authorization_code",
        "oidc": "oauth2_authorization_code",
        "openid_connect": "oauth2_authorization_code",
        "password": "oauth2_password",
        "ropc": "oauth2_password",
        "self_signed_jwt": "jwt",
        "jwt_bearer": "oauth2_jwt_bearer",
        "urn:ietf:params:oauth:grant-type:jwt-bearer": "oauth2_jwt_bearer",
        "token_exchange": "oauth2_token_exchange",
        "urn:ietf:params:oauth:grant-type:token-exchange": "oauth2_token_exchange",
        "downscope": "oauth2_token_exchange",
        "github": "github_app",
        "service_account": "google_service_account",
        "api_key": "header",
        "apikey": "header",
        "http_basic": "basic",
        "token": "bearer",
        "static": "bearer",
        "command": "exec",
        "program": "exec",
    ]

    /// How a client proves who it is (RFC 7591 section 2), for `client_auth`.
    package static let clientAuthentications: [String: String] = [
        "client_secret_basic": "basic", "client_secret_post": "body", "post": "body", "form": "body",
        "header": "basic", "tls_client_auth": "tls", "self_signed_tls_client_auth": "tls", "mtls": "tls",
    ]

    /// Keys of a route in other proxies, and what to write here.
    package static let routeKeys: [String: String] = [
        "path": "match: {path: /…}", "prefix": "match: {path: /…}", "location": "match: {path: /…}",
        "host": "match: {hosts: […]}", "hosts": "match: {hosts: […]}", "server_name": "match: {hosts: […]}",
        "url": "upstream: https://…", "target": "upstream: https://…", "backend": "upstream: https://…",
        "proxy_pass": "upstream: https://…", "service": "upstream: https://…",
        "timeout": "timeouts: {response: …}", "read_timeout": "timeouts: {idle: …}",
        "proxy_read_timeout": "timeouts: {response: …, idle: …}",
        "credential": "auth: NAME", "credentials": "auth: NAME", "authorization": "auth: NAME",
    ]

    /// Claims of an assertion (RFC 7523 section 3), which stand in `claims`.
    package static let claims: [String: String] = [
        "iss": "claims: {iss: …}", "issuer": "claims: {iss: …}", "sub": "claims: {sub: …}",
        "subject": "claims: {sub: …}",
        "aud": "claims: {aud: …}", "audience": "claims: {aud: …}",
    ]

    /// What to say of a strategy that there is not: the standard's name for another, or what is spelt nearly so.
    package static func hint(forStrategy name: String, in kinds: [String]) -> String {
        let plain = name.lowercased().replacing("-", with: "_")
        if let known = strategies[plain] ?? strategies[name.lowercased()], kinds.contains(known) {
            let method = clientAuthentications[plain].map { " with \"client_auth: \($0)\"" } ?? ""
            let own = plain == "private_key_jwt" ? " with \"client_auth: private_key_jwt\"" : method
            return "; here that is \"\(known)\"\(own)"
        }
        let nearest = Suggestion.hint(for: name, in: kinds)
        return nearest.isEmpty ? "; strategies: \(kinds.joined(separator: ", "))" : nearest
    }
}
