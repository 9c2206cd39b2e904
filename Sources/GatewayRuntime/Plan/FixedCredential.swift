import GatewayCore

/// A static credential of the plan that is served.
struct FixedCredential: Sendable {
    let source: FixedCredentialSource
    /// The names of all credentials with its secret, which are locked and unlocked together.
    var sharing: [String]
    let origin: SecretOrigin?
    /// Equal for two that have the same secret.
    let secret: Injected

    enum Injected: Hashable {
        case secret(Secret)
        /// Everything that is injected, for a strategy that does not name its secret.
        case whole(Injection)
    }

    init(_ source: FixedCredentialSource, _ plan: CredentialPlan) {
        self.source = source
        secret = plan.strategy.injectedSecret.map { .secret($0.secret) } ?? .whole(source.injection)
        sharing = [source.name]
        origin = plan.secretOrigin
    }

    var name: String { source.name }
    /// ``sharing``, its own name first.
    var names: [String] { [name] + sharing.filter { $0 != name } }

    func status(at now: Moment) -> TokenStatus {
        TokenStatus(of: source, origin: origin, at: now)
    }
}
