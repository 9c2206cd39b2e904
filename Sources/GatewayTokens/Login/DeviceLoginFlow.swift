package import GatewayHTTP

/// How a person logs in on another device (RFC 8628): types a short code on a page there, while this side asks for the token. Pure.
package protocol DeviceLoginFlow: Sendable {
    /// Asks for a code.
    func begin(nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem>

    /// What the authorization server answered to that.
    func code(in reply: TokenReply, at now: Moment) -> Result<DeviceCode, GatewayProblem>

    /// Asks for the token.
    func poll(_ code: DeviceCode, nonce: String, at now: Moment) -> Result<TokenRequest, GatewayProblem>

    /// What the authorization server answered to that.
    func interpret(_ reply: TokenReply, at now: Moment) -> DeviceLoginStep

    /// See ``LoginFlow/asking(alsoFor:)``.
    func asking(alsoFor scopes: [String]) -> any DeviceLoginFlow
}

extension DeviceLoginFlow {
    package func asking(alsoFor scopes: [String]) -> any DeviceLoginFlow { self }
}

/// What an authorization server gave for a login on another device.
package struct DeviceCode: Hashable, Sendable {
    /// Proves that the token is asked for by the program that asked for the code.
    package let deviceCode: Secret
    /// What the person types.
    package let userCode: String
    /// Where.
    package let page: String
    package let lifetime: Duration
    package let interval: Duration

    package init(deviceCode: Secret, userCode: String, page: String, lifetime: Duration, interval: Duration) {
        self.deviceCode = deviceCode
        self.userCode = userCode
        self.page = page
        self.lifetime = lifetime
        self.interval = interval
    }
}

package enum DeviceLoginStep: Hashable, Sendable {
    /// The person is not done yet.
    case pending
    /// As ``pending``, and the gateway has asked too often.
    case slowDown
    /// The answer is of no use; a later one may be.
    case unclear(TokenFailure)
    case token(TokenSet)
    /// - Parameter reason: One fixed word, for the audit log.
    case refused(GatewayProblem, reason: String)
}

/// When the gateway asks for the token of a login on another device, and when that login expires (RFC 8628 section 3.5).
package struct DevicePolling: Hashable, Sendable {
    package enum Event: Hashable, Sendable {
        case started
        /// The pause of ``Step/wait(_:)`` is over.
        case waited
        case answered(DeviceLoginStep)
        case unanswered(TokenFailure, because: TokenTransportFailure.Reason)
    }

    package enum Step: Hashable, Sendable {
        case wait(Duration)
        case ask
        case take(TokenSet)
        case end(End)
    }

    /// How a login ends without a token.
    package struct End: Hashable, Sendable {
        package let problem: GatewayProblem
        /// One fixed word, for the audit log.
        package let reason: String
        /// The error code for the audit log.
        package let code: String?

        package init(problem: GatewayProblem, reason: String, code: String?) {
            self.problem = problem
            self.reason = reason
            self.code = code
        }
    }

    private static let maximumBackOff: Duration = .seconds(60)

    private var interval: Duration
    private let deadline: MonotonicTime
    /// What the login ends with at the deadline when the last request brought no answer of use.
    private var lastFailure: End?

    package init(_ code: DeviceCode, until deadline: MonotonicTime) {
        interval = code.interval
        self.deadline = deadline
    }

    package mutating func next(_ event: Event, at now: MonotonicTime) -> Step {
        switch event {
        case .started: return pause(at: now)
        case .waited: return now < deadline ? .ask : .end(endAtDeadline)
        case .answered(let answer): return next(answer, at: now)
        case .unanswered(let failure, let reason):
            // The person waits: what has to be fixed on this machine is said at once.
            guard !reason.isLocal else {
                return .end(End(problem: failure.problem, reason: "not_asked", code: reason.rawValue))
            }
            return backOff(after: failure, reason.rawValue, at: now)
        }
    }

    private mutating func next(_ answer: DeviceLoginStep, at now: MonotonicTime) -> Step {
        switch answer {
        case .pending:
            lastFailure = nil
            return pause(at: now)
        case .slowDown:
            lastFailure = nil
            interval += .seconds(5)
            return pause(at: now)
        case .unclear(let failure): return backOff(after: failure, failure.problem.cause?.code, at: now)
        case .token(let token): return .take(token)
        case .refused(let problem, let reason):
            return .end(End(problem: problem, reason: reason, code: problem.cause?.code))
        }
    }

    private mutating func backOff(after failure: TokenFailure, _ code: String?, at now: MonotonicTime) -> Step {
        lastFailure = End(problem: failure.problem, reason: "no_answer", code: code)
        interval = max(interval, min(interval * 2, Self.maximumBackOff))
        return pause(at: now)
    }

    private func pause(at now: MonotonicTime) -> Step {
        now < deadline ? .wait(min(interval, deadline - now)) : .end(endAtDeadline)
    }

    private static let advice = "Nothing was changed; begin a new login."

    private var endAtDeadline: End {
        guard let lastFailure else {
            let problem = GatewayProblem(.loginFailed, "The code was not entered in time. \(Self.advice)")
            return End(problem: problem, reason: "timeout", code: nil)
        }
        var problem = lastFailure.problem
        problem.detail += " The code has expired in the meantime. \(Self.advice)"
        return End(problem: problem, reason: lastFailure.reason, code: lastFailure.code)
    }
}
