import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Sends a user name and a password: with every request, or from the first challenge on.
///
/// RFC 7617, in UTF-8.
struct BasicStrategy: AuthStrategy {
    static let kind = "basic"
    static let otherNames = ["http_basic"]

    private let username: String
    private let password: Secret
    private let sending: Sending

    private enum Mode: String, CaseIterable {
        case preemptive
        case challenge
    }

    private struct Sending {
        var mode = Mode.preemptive
        var realm: String?
    }

    private static let keys = Keys(Sending()) {
        $0("username", example: "svc")
            .means("The user name (RFC 7617).")
        $0("password", example: "{env: REPORTS_PASSWORD}")
            .means("The password.")
        $0("mode", \.mode, .choice, example: "challenge")
            .means("When the password is sent: with every request, or from the first Basic challenge on.")
        $0("realm", \.realm, .text, example: "reports")
            .means("The only realm whose challenge is answered, for mode: challenge.")
    }

    init?(from fields: ConfigFields) {
        let errors = fields.context.errorCount
        var sending = Self.keys.defaults
        Self.keys.read(fields, into: &sending)
        self.sending = sending
        if sending.realm != nil, sending.mode == .preemptive {
            fields.error("realm", "is for \"mode: challenge\": without it no challenge is read")
        }
        let username = fields.basicUsername("username", isRequired: true)
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

    var behavior: AuthBehavior {
        switch sending.mode {
        case .preemptive: .fixed(injection)
        case .challenge: .onChallenge(injection, realm: sending.realm)
        }
    }

    /// Without a password the user name is the API key.
    var injectedSecret: (key: String, secret: Secret)? {
        password.isEmpty ? ("username", Secret(username)) : ("password", password)
    }

    var field: Injection.Field? { injection.fields.first }

    private var injection: Injection { .basic(username: username, password: password) }
}
