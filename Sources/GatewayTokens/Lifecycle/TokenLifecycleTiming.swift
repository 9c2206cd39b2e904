package import GatewayHTTP

extension RenewalPolicy {
    /// How long before its end a token of this lifetime is renewed: the configured share, at least ``atLeast``, and
    /// never more than half, so that a token that is shorter-lived than the threshold is used nevertheless.
    package func ahead(of lifetime: Duration) -> Duration {
        min(max(lifetime * aheadPercent / 100, atLeast), lifetime / 2)
    }
}

extension HeldToken {
    /// What must be left of a token that is handed to somebody who uses it by himself: ten seconds, or a quarter of its life
    /// where that is less.
    package var usefulLife: Duration { min(.seconds(10), (token.lifetime ?? .seconds(40)) / 4) }

    package func remainder(at now: MonotonicTime) -> Duration? { credential.expiresAt.map { $0 - now } }

    /// Whether its time to be renewed is still to come.
    package func isFresh(at now: MonotonicTime) -> Bool {
        (renewAt.map { now < $0 } ?? true) && (remainder(at: now).map { $0 >= usefulLife } ?? true)
    }
}

/// How many calls one credential, or several together, may make: a bucket that empties evenly over an hour.
///
/// Tokens that live for seconds need more calls than the limit allows. Their limit is twice the number of calls that
/// their lifetime requires, so that only unscheduled calls count as a storm.
package struct CallBudget: Sendable {
    /// For one credential.
    package static let usual = 60

    private let perHour: Int
    private let members: Int
    /// Of how many equal parts this is one.
    private var parts = 1
    private var allowance: Double
    private var spent = 0.0
    private var updatedAt: MonotonicTime?

    init(perHour: Int, members: Int = 1) {
        self.perHour = perHour
        self.members = members
        allowance = Double(perHour * members)
    }

    /// One of so many equal parts of it, with nothing spent.
    func part(of parts: Int) -> CallBudget {
        var part = CallBudget(perHour: perHour, members: members)
        part.parts = parts
        part.allowance = allowance / Double(parts)
        return part
    }

    mutating func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        guard let lifetime = token.lifetime else {
            allowance = Double(perHour * members) / Double(parts)
            return
        }
        let interval = lifetime - policy.ahead(of: lifetime)
        let seconds = max(Double(interval.wholeMilliseconds) / 1000, 0.5)
        allowance = max(Double(perHour), 2 * 3600 / seconds) * Double(members) / Double(parts)
    }

    var isHalfFree: Bool { spent <= allowance / 2 }

    /// Whether more than one of so many equal parts is left.
    mutating func isMoreLeft(thanOneOf parts: Int, at now: MonotonicTime) -> Bool {
        settle(at: now)
        return allowance - spent > allowance / Double(parts)
    }

    /// - Returns: Whether the call may be made; only then it is counted.
    mutating func spend(at now: MonotonicTime) -> Bool {
        settle(at: now)
        guard spent + 1 <= allowance else { return false }
        spent += 1
        assert(spent <= allowance, "More calls were made than there may be.")
        return true
    }

    private mutating func settle(at now: MonotonicTime) {
        if let updatedAt {
            // Not in whole milliseconds: a flood of calls within each would stop the hour.
            let hours = (now - updatedAt) / .seconds(3600)
            spent = max(0, spent - max(0, hours) * allowance)
        }
        updatedAt = now
        assert(spent >= 0 && allowance >= 0 && spent.isFinite && allowance.isFinite, "A budget of calls has no bound.")
    }
}
