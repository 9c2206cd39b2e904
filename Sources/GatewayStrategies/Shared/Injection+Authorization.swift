import GatewayCore

extension Injection {
    /// RFC 6750 §2.1, with a capital B whatever `token_type` an authority answers.
    static func bearer(_ token: Secret) -> Injection { .authorization(scheme: "Bearer", token) }

    /// RFC 7617, in UTF-8.
    static func basic(username: String, password: Secret) -> Injection {
        .authorization(scheme: "Basic", password.withValue { Secret(Base64.encode("\(username):\($0)".utf8)) })
    }
}
