import GatewayCore
import GatewayTokens

extension PerSubjectKeepers {
    /// Locks and unlocks them, and each of their tokens, as `locks` says by now.
    func follow(_ locks: CredentialLocks) {
        locks.decide([name]) { change(isLocked: $0) }
        for keeper in keepers { locks.decide([keeper.name, name]) { keeper.change(isLocked: $0) } }
    }

    /// Of the credential itself; those of its tokens are their own.
    func status(isLocked: Bool) -> TokenStatus {
        TokenStatus(
            credential: name,
            strategy: strategy,
            subject: nil,
            state: isLocked ? .locked : .empty,
            generation: 0,
            isRenewable: isRenewable,
            lastError: isLocked ? GatewayProblem.locked(name).detail : nil,
            action: isLocked ? GatewayCommand.line("token", "unlock", name) : nil
        )
    }
}
