package import GatewayEvents
package import GatewayHTTP

/// Where a ``TokenLifecycle`` stands. Its picture is there.
enum TokenPhase: ~Copyable {
    /// There is no token, and no request has needed one.
    case empty
    /// A call is wanted, or (once ``TokenCall/hasBegun``) under way.
    case calling(HeldToken?, TokenCall)
    case ready(HeldToken)
    /// The last call failed; the next may be made when the pause is over.
    case backingOff(HeldToken?, Pause)
    /// Somebody has to change something. Until then calls are rare, or there is none.
    case stopped(HeldToken?, Stop)

    /// Why a call was made.
    enum Cause {
        /// Nothing lacked a token: a live one was served. After a failure, a request that needs a token cuts the pause short.
        case aheadOfNeed
        case need
    }

    struct Stop {
        let failure: TokenFailure
        /// When the next call is made all the same; nil: never.
        let retryAt: MonotonicTime?
        /// Of the call that has failed.
        var cause = Cause.need
    }

    struct Pause {
        var until: MonotonicTime
        let failure: TokenFailure
        /// The next call is made when the pause is over, although no request waits and no token is live.
        var isRetryFixed = false
        /// Of the call that has failed.
        var cause = Cause.need

        func problem(at now: MonotonicTime) -> GatewayProblem {
            var problem = failure.problem
            problem.retryAfter = max(until - now, .seconds(1))
            return problem
        }
    }

    /// A phase without the token, to be looked at.
    enum Kind {
        case empty
        case calling(TokenCall)
        case ready
        case backingOff(Pause)
        case stopped(Stop)
    }

    var kind: Kind {
        switch self {
        case .empty: .empty
        case .calling(_, let call): .calling(call)
        case .ready: .ready
        case .backingOff(_, let pause): .backingOff(pause)
        case .stopped(_, let stop): .stopped(stop)
        }
    }

    var held: HeldToken? {
        switch self {
        case .empty: nil
        case .calling(let held, _): held
        case .ready(let held): held
        case .backingOff(let held, _): held
        case .stopped(let held, _): held
        }
    }

    /// When the next call is made although no request waits; nil: it may be made before a request asks, or never.
    var retryAt: MonotonicTime? {
        switch kind {
        case .stopped(let stop): stop.retryAt
        case .backingOff(let pause): pause.isRetryFixed ? pause.until : nil
        case .empty, .calling, .ready: nil
        }
    }

    /// Whether a request that needs a token may have the next call made at once, although the last one has failed.
    var isCutShortByNeed: Bool {
        switch kind {
        case .stopped(let stop): stop.cause == .aheadOfNeed && stop.retryAt != nil
        case .backingOff(let pause): pause.cause == .aheadOfNeed
        case .empty, .calling, .ready: false
        }
    }

    /// - Returns: Whether `call` became due; false when another one is due or under way already.
    mutating func want(_ call: TokenCall) -> Bool {
        switch consume self {
        case .calling(let held, let earlier):
            self = .calling(held, earlier)
            return false
        case .empty:
            self = .calling(nil, call)
            return true
        case .ready(let held):
            self = .calling(held, call)
            return true
        case .backingOff(let held, _):
            self = .calling(held, call)
            return true
        case .stopped(let held, _):
            self = .calling(held, call)
            return true
        }
    }

    /// Renewal has its time: ahead of the end (or after it, when the machine was asleep), or when a pause is over and a
    /// live token is still served.
    ///
    /// After a failure without a live token the next request asks, so that an idle gateway does not call a broken
    /// authority for ever.
    mutating func renewWhenDue(with call: TokenCall, at now: MonotonicTime) {
        switch consume self {
        case .empty:
            self = .empty
        case .calling(let held, let earlier):
            self = .calling(held, earlier)
        case .ready(let held):
            guard let renewAt = held.renewAt, renewAt <= now else {
                self = .ready(held)
                return
            }
            self = .calling(held, call)
        case .backingOff(let held, let pause):
            guard let held, held.isLive(at: now), pause.until <= now, !pause.isRetryFixed else {
                self = .backingOff(held, pause)
                return
            }
            self = .calling(held, call)
        case .stopped(let held, let stop):
            self = .stopped(held, stop)
        }
    }

    /// A retry has its time that is made whether or not a request waits.
    mutating func retryWhenDue(with call: TokenCall, isRenewable: Bool, at now: MonotonicTime) {
        if case .backingOff = kind, !isRenewable { return }
        guard let retryAt, retryAt <= now else { return }
        _ = want(call)
    }

    mutating func changeHeld(_ change: (inout HeldToken) -> Void) {
        func changed(_ held: HeldToken?) -> HeldToken? {
            guard var held else { return nil }
            change(&held)
            return held
        }
        switch consume self {
        case .empty:
            self = .empty
        case .calling(let held, let call):
            self = .calling(changed(held), call)
        case .ready(let held):
            var held = held
            change(&held)
            self = .ready(held)
        case .backingOff(let held, let pause):
            self = .backingOff(changed(held), pause)
        case .stopped(let held, let stop):
            self = .stopped(changed(held), stop)
        }
    }
}

/// One call to the authority, or the first look into the store.
package struct TokenCall: Hashable, Sendable {
    static let firstLook = 1
    /// For a token that is handed out and not kept: no lifecycle waits for the end of this call.
    package static let outsideSchedule = TokenCall(id: 0, trigger: .operator, demand: nil)

    package let id: Int
    package let trigger: TokenEvent.Trigger
    /// The request that caused it, when one did.
    package let demand: CredentialRequest?
    package internal(set) var hasBegun = false
    /// ``TokenPhase/Cause/aheadOfNeed`` if it began while a live token was served.
    var cause = TokenPhase.Cause.need
    /// Another gateway renews; when to ask again whether it has. It is still the same call.
    var isPostponedUntil: MonotonicTime?
    /// See ``GrantAttempt/mayAcquireAnew``.
    package let mayAcquireAnew: Bool

    init(id: Int, trigger: TokenEvent.Trigger, demand: CredentialRequest?, mayAcquireAnew: Bool = false) {
        self.id = id
        self.trigger = trigger
        self.demand = demand
        self.mayAcquireAnew = mayAcquireAnew
    }

    /// What it finds in the store or the configuration ends it; the authority is asked by the next call.
    package var isFirstLook: Bool { id == Self.firstLook }

    /// An operator asked for it.
    var isCommanded: Bool { trigger == .operator }
}

/// A token with what the machine has found out about it.
package struct HeldToken: Sendable {
    /// What readers are given.
    package let credential: Credential
    package let token: TokenSet
    /// When background renewal begins; nil when it does not.
    package let renewAt: MonotonicTime?
    /// See ``FreshToken/lacksRefreshToken``.
    package let lacksRefreshToken: Bool
    package internal(set) var isRejected = false
    var hasWarned = false
    var hasExpired = false

    package var generation: Int { credential.generation }

    package func isLive(at now: MonotonicTime) -> Bool { !isRejected && credential.isUsable(at: now) }
}
