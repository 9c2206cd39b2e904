import GatewayCore

extension Injection {
    /// RFC 6750 §2.1, with a capital B whatever `token_type` an authority answers.
    static func bearer(_ token: Secret) -> Injection { .authorization(scheme: "Bearer", token) }
}
