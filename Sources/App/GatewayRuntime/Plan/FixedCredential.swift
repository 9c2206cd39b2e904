import GatewayCore

/// A static credential of the plan that is served.
struct FixedCredential: Sendable {
    let source: FixedCredentialSource
    /// Those of all credentials with its secret, which are locked and unlocked together; its own comes first.
    var names: [String]
    /// Where its secret comes from, in words.
    let origin: String?
    private let secret: Secret?

    init(_ source: FixedCredentialSource, secret: Secret?, _ plan: CredentialPlan) {
        self.source = source
        self.secret = secret
        names = [source.name]
        origin = plan.secretOrigin
    }

    var name: String { source.name }

    func sharesSecret(with other: FixedCredential) -> Bool {
        if let secret, let others = other.secret { return secret == others }
        return source.injection == other.source.injection
    }

    /// Locks and unlocks it as `locks` says by now.
    ///
    /// - Returns: Whether it is locked now and was not before.
    @discardableResult
    func follow(_ locks: CredentialLocks) -> Bool {
        var isNew = false
        locks.decide(names) { isLocked in
            if isLocked { isNew = source.lock() } else { source.unlock() }
        }
        return isNew
    }

    func status(at now: Moment) -> TokenStatus {
        TokenStatus(of: source, origin: origin, at: now)
    }
}
