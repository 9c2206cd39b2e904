import GatewayEvents
import GatewayHTTP

/// How many calls one credential, or several together, may make: a bucket that empties evenly over an hour.
///
/// Tokens that live for seconds need more calls than the limit allows. Their limit is twice the number of calls that
/// their lifetime requires, so that only unscheduled calls count as a storm.
package struct CallBudget: Sendable {
    /// For one credential.
    package static let usual = 60

    private let perHour: Int
    private let members: Int
    /// Into how many equal parts the whole budget was divided; this is one of them.
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

/// How many calls the subjects of one credential may cause together: the limit of one credential times `at_most`.
///
/// Renewals ahead of an expiration have their own budget, so that invented subjects do not stop the renewal of real
/// ones. So have looks into the store: each one is a row of the audit log, and a subject that made room needs another one.
///
/// The last quarter is for clients that have caused little, so that one client does not leave the others without tokens.
struct SubjectCallBudget: Sendable {
    enum SpendResult: Hashable, Sendable {
        case granted
        /// `isUnreported`: the limit was not reported since calls were last available.
        case spent(isUnreported: Bool)
    }

    private static let parts = 4
    /// How many clients are counted by name: more than most configurations have.
    static let maximumClients = 1024

    private struct TokenBuckets {
        var calls: CallBudget
        /// A quarter for each client.
        var shares: [String: CallBudget] = [:]
        var isSaid = false

        mutating func spend(by client: String?, at now: MonotonicTime) -> SpendResult {
            guard isOpen(to: client, at: now), calls.spend(at: now) else {
                defer { isSaid = true }
                return .spent(isUnreported: !isSaid)
            }
            if calls.isHalfFree { isSaid = false }
            return .granted
        }

        private mutating func isOpen(to client: String?, at now: MonotonicTime) -> Bool {
            guard let client else { return true }
            if shares[client] == nil, shares.count >= maximumClients { shares = [:] }
            let hasCausedLittle = shares[client, default: calls.part(of: parts)].spend(at: now)
            return hasCausedLittle || calls.isMoreLeft(thanOneOf: parts, at: now)
        }

        mutating func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
            calls.expect(token, renewedBy: policy)
            for index in shares.values.indices { shares.values[index].expect(token, renewedBy: policy) }
        }
    }

    private var newTokens: TokenBuckets
    private var renewals: TokenBuckets
    private var looks: TokenBuckets

    init(members: Int) {
        newTokens = TokenBuckets(calls: CallBudget(perHour: CallBudget.usual, members: members))
        (renewals, looks) = (newTokens, newTokens)
    }

    /// - Parameters:
    ///   - isLook: Only the store is asked.
    ///   - client: Whose request causes it; nil where none does, or where clients have no names.
    mutating func spend(
        for trigger: TokenEvent.Trigger,
        isLook: Bool = false,
        by client: String? = nil,
        at now: MonotonicTime
    ) -> SpendResult {
        if isLook { return looks.spend(by: client, at: now) }
        return trigger == .aheadOfExpiry ? renewals.spend(by: nil, at: now) : newTokens.spend(by: client, at: now)
    }

    /// What the calls are for lives so long.
    mutating func expect(_ token: TokenSet, renewedBy policy: RenewalPolicy) {
        newTokens.expect(token, renewedBy: policy)
        renewals.expect(token, renewedBy: policy)
        looks.expect(token, renewedBy: policy)
    }
}

/// Whether a password that all subjects of a credential share may be sent. Directories lock accounts.
struct SharedPassword: Sendable {
    /// The number of refusals in turn after which a password that has worked counts as refused. One subject may have been removed.
    static let tolerated = 3

    /// Why it is not sent, until an operator's call for one of the subjects has brought a token.
    private(set) var refusal: TokenFailure?
    private var hasWorked = false
    private var refusedInTurn = 0

    /// Takes that the authorization server has given a subject a token.
    mutating func worked() {
        hasWorked = true
        refusedInTurn = 0
        refusal = nil
    }

    /// Takes why a subject has got no token.
    ///
    /// Another status than 401 is about that subject alone. So is a 401 to one that never had a token, once the password has worked:
    /// a client could invent subjects to stop the calls of all others.
    ///
    /// - Parameter hadToken: Whether the subject has had one.
    mutating func failed(_ failure: TokenFailure, hadToken: Bool) {
        guard failure.isRefusedPassword, failure.problem.cause?.httpStatus == 401 else { return }
        guard hadToken || !hasWorked else { return }
        refusedInTurn += 1
        if !hasWorked || refusedInTurn >= Self.tolerated { refusal = failure }
    }
}
