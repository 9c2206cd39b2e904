import GatewayCore

/// Sends a user name and a password with every request, unasked.
///
/// RFC 7617, in UTF-8.
struct BasicStrategy: AuthStrategy {
    static let kind = "basic"

    private let username: String
    private let password: Secret

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        fields.refuseUnbuilt("realm")
        if let mode = fields.string("mode"), mode != "preemptive" {
            let isPlanned = mode == "challenge"
            fields.error("mode", isPlanned ? "\"challenge\" is not supported by this version" : "must be preemptive")
        }
        let username = fields.requiredString("username")
        if let username, username.contains(":") {
            fields.error("username", "must not contain \":\", which ends the user name (RFC 7617)")
        }
        let password = Self.password(in: fields)
        guard let username, let password, fields.context.errorCount == errors else { return nil }
        self.username = username
        self.password = password
    }

    /// An empty password is a mistake unless it is written out as `""`: some services want an API key as user name
    /// and nothing else.
    private static func password(in fields: ConfigFields) -> Secret? {
        if case .scalar(let scalar) = fields.node("password")?.content, scalar.isQuoted, scalar.text.isEmpty {
            return Secret("")
        }
        return fields.requiredSecret("password")
    }

    var behavior: AuthBehavior { .fixed(injection) }

    var field: Injection.Field? { injection.fields.first }

    private var injection: Injection {
        let encoded = password.withValue { Base64.encode("\(username):\($0)".utf8) }
        return .authorization(scheme: "Basic", Secret(encoded))
    }
}
