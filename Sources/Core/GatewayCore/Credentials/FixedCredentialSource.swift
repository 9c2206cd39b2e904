/// A credential that never changes: static schemes, and routes without authentication.
package final class FixedCredentialSource: CredentialSource {
    package let strategy: String
    package let isRenewable = false
    package var name: String { credential.name }
    package let grantKey: CredentialKey?

    private let credential: Credential
    private let firstUses = FirstUses()
    private let noted: @Sendable (CredentialUseEvent, CredentialRequest) -> Void

    /// - Parameters:
    ///   - grantKey: Of what is injected.
    ///   - noted: Told of first uses and rejections, for the audit log. Must not block.
    package init(
        name: String,
        strategy: String,
        injection: Injection,
        grantKey: CredentialKey? = nil,
        noted: @escaping @Sendable (CredentialUseEvent, CredentialRequest) -> Void = { _, _ in }
    ) {
        self.strategy = strategy
        self.grantKey = grantKey
        self.credential = Credential(name: name, generation: 1, injection: injection)
        self.noted = noted
    }

    package func current(at now: MonotonicTime) -> CredentialAnswer { .ready(credential) }

    package func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        done(.success(credential))
        return CredentialTicket(id: 0)
    }

    package func cancel(_ ticket: CredentialTicket) {}
    package func rejected(generation: Int, by demand: CredentialRequest) {}

    package func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        switch event {
        case .injected, .handedOut:
            if firstUses.isFirst(generation: generation, route: demand.use) { noted(event, demand) }
        case .replayed, .withheld: noted(event, demand)
        }
    }
}
