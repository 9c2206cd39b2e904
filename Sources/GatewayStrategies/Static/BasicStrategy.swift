import GatewayConfiguration
import GatewayHTTP
import GatewayTokens

/// Sends a user name and a password: with every request, or from the first challenge on.
///
/// RFC 7617, in UTF-8.
struct BasicStrategy: AuthStrategy {
    static let kind = "basic"
    static let otherNames = ["http_basic"]

    private let account: UserAccount
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
        guard let account = UserAccount(in: fields), fields.context.errorCount == errors else { return nil }
        self.account = account
    }

    var behavior: AuthBehavior {
        switch sending.mode {
        case .preemptive: .fixed(account.basic)
        case .challenge: .onChallenge(account.basic, realm: sending.realm)
        }
    }

    var injectedSecret: (key: String, secret: Secret)? { account.secret }
    var field: Injection.Field? { account.basic.fields.first }
}
