/// Which rows the audit log goes without first when it runs out of room, lowest first.
package enum AuditPriority: Int, CaseIterable, Comparable, Sendable {
    /// What requests cause and what stops nothing when it is missing: denials, uses, counts.
    case traffic
    /// What happens to tokens. With `audit.on_failure: block` no token is used without it.
    case token
    /// What operators do, and the gateway itself. Without it a gateway could neither start nor be mended.
    case `operator`

    package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

extension TokenEvent.Name {
    package var priority: AuditPriority {
        switch self {
        case .injected, .replayed, .withheld, .clientDenied, .requestFailed:
            .traffic
        case .acquiring, .acquired, .acquisitionFailed, .renewing, .renewed, .renewalFailed, .loaded, .rejected,
            .expired, .downscoped, .adopted, .loginRequired, .expiringSoon, .vended, .handedOut, .storeFailed:
            .token
        case .gatewayStarted, .gatewayStopped, .configLoaded, .configRefused, .operatorRequest, .imported, .revoked,
            .revocationFailed,
            .cleared, .loginStarted, .loginCompleted, .loginFailed, .revealed, .locked, .unlocked, .keyRotating,
            .keyRotated, .authorityRotated, .stateBackedUp, .stateRestored, .auditRecreated:
            .operator
        }
    }

    /// Whether it takes a right away. That is done first, whatever the audit log does, and recorded as soon as possible.
    /// What gives a right is recorded first.
    package var isWithdrawal: Bool {
        switch self {
        case .locked, .cleared, .revoked, .revocationFailed: true
        default: false
        }
    }
}
