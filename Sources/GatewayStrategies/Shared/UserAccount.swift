import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// A user name and a password, as Basic and Digest use them (RFC 7617, RFC 7616).
struct UserAccount: Hashable, Sendable {
    let username: String
    let password: Secret

    init(username: String, password: Secret) {
        self.username = username
        self.password = password
    }

    /// Reads `username` and `password`, which are both required.
    init?(in fields: ConfigFields) {
        let username = fields.basicUsername("username", isRequired: true)
        let password = Self.password(in: fields)
        guard let username, let password else { return nil }
        self.init(username: username, password: password)
    }

    /// An empty password is a mistake unless it is written out as `""`: some services want an API key as user name
    /// and nothing else.
    private static func password(in fields: ConfigFields) -> Secret? {
        if case .scalar(let scalar) = fields.node("password")?.content, scalar.isQuoted, scalar.text.isEmpty {
            return Secret("")
        }
        return fields.requiredSecret("password")
    }

    /// Without a password the user name is the API key.
    var secret: (key: String, secret: Secret) {
        password.isEmpty ? ("username", Secret(username)) : ("password", password)
    }

    /// Sends both as `Authorization: Basic`.
    var basic: Injection { .basic(username: username, password: password) }
}
