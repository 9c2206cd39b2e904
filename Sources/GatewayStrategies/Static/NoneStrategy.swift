import GatewayConfiguration
import GatewayTokens

/// Forwards requests as they are.
struct NoneStrategy: AuthStrategy {
    static let kind = "none"

    init?(from fields: ConfigFields) {}

    var behavior: AuthBehavior { .none }
}
