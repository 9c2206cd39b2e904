package import GatewayEvents
package import GatewayHTTP

/// How the upstream of a route has answered lately.
package struct UpstreamHealth: Hashable, Sendable, Codable {
    /// RFC 3339; nil when there was none since the start of the gateway.
    package var lastSuccessAt: String?
    package var lastFailureAt: String?
    /// Why: a ``FailureReason``, or the upstream's status.
    package var lastFailure: String?
    /// What happened and what to do; nil where ``lastFailure`` says it.
    package var lastFailureExplanation: String?
    /// The id of the request that failed, for `authgateway explain`.
    package var lastFailureRequestId: String?
    /// 0...1, over the last 5 minutes; nil without a request in that time.
    package var failureRate: Double?
    /// How many answers were a 401 or 403 to a request with a credential: 0...1, over the last 5 minutes; nil without a request in that
    /// time.
    package var rejectionRate: Double?
    /// The requests of the last 5 minutes.
    package var requests = 0
    /// How many requests in a row got no response before their clients gave up, in the last 5 minutes; nil for one or two.
    package var unanswered: Int?
}

extension UpstreamHealth {
    /// For a person; nil where the last requests got a response.
    package var silence: String? { unanswered.map { "no response to the last \($0) requests (clients gave up)" } }
}

/// What an exchange says about its upstream.
package enum UpstreamOutcome: Hashable, Sendable {
    case success
    /// The upstream works, and does not let the credential in.
    case rejection
    /// For example `upstream-timeout` or `status 503`.
    case failure(String)

    /// nil for an exchange that says nothing: the upstream was not asked, or the client left before the response.
    ///
    /// - Parameters:
    ///   - status: What the client was sent; 0 for nothing.
    ///   - problem: Why the gateway answered by itself, or cut the response.
    ///   - hadCredential: The request went with one.
    package init?(status: Int, problem: ProblemKind?, hadCredential: Bool = false) {
        switch problem {
        case .upstreamUnreachable?, .upstreamInvalidResponse?, .upstreamTimeout?, .upstreamBusy?,
            .destinationProhibited?:
            self = .failure(problem?.rawValue ?? "")
        case nil where status >= 500: self = .failure("status \(status)")
        case nil where RouteTraffic.Counts.isRejection(status: status, problem: nil, hadCredential: hadCredential):
            self = .rejection
        case nil where status > 0: self = .success
        default: return nil
        }
    }
}

/// Counts how the upstream of one route answers, over the last 5 minutes.
package struct UpstreamHealthMeter: Sendable {
    static let window: Duration = .seconds(300)
    private static let slotSeconds: Int64 = 10
    private static let slotCount = 30

    /// The exchanges of ten seconds.
    private struct Slot {
        /// Which ten seconds since 1970.
        var number: UInt32 = 0
        var requests: UInt32 = 0
        var failures: UInt32 = 0
        var rejections: UInt32 = 0
    }

    private struct Failure {
        var at: UnixTime
        var reason: String
        var explanation: String?
        var requestID: String?
    }

    /// Requests since the last response whose clients gave up.
    private struct Unanswered {
        var count: Int
        var latest: UnixTime
    }

    /// Clients give up for reasons of their own, too: these many in a row, and so long after the last response, are told.
    private static let fewestUnanswered = 3
    private static let silence: Duration = .seconds(10)

    private var slots = [Slot](repeating: Slot(), count: slotCount)
    private var lastSuccess: UnixTime?
    private var lastFailure: Failure?
    private var lastAnswer: UnixTime?
    private var unanswered: Unanswered?

    package init() {}

    /// - Parameters:
    ///   - count: How many exchanges ended so.
    ///   - latest: When the last of them ended.
    package mutating func add(_ outcome: UpstreamOutcome, count: Int, latest: UnixTime) {
        let number = Self.number(of: latest)
        let index = Int(number) % Self.slotCount
        let count = UInt32(clamping: count)
        // What is older than the slot's present ten seconds is out of the window.
        if slots[index].number < number { slots[index] = Slot(number: number) }
        assert(Int(slots[index].number) % Self.slotCount == index, "A slot counts the time of another one.")
        lastAnswer = max(lastAnswer ?? latest, latest)
        if let silent = unanswered, silent.latest <= latest { unanswered = nil }
        let isCounted = slots[index].number == number
        if isCounted { slots[index].requests &+= count }
        switch outcome {
        case .success: lastSuccess = max(lastSuccess ?? latest, latest)
        case .rejection: if isCounted { slots[index].rejections &+= count }
        case .failure(let reason):
            if isCounted { slots[index].failures &+= count }
            keep(Failure(at: latest, reason: reason))
        }
    }

    /// Counts requests that got no response before their clients gave up. They say nothing alone: many in a row do.
    package mutating func addUnanswered(count: Int, latest: UnixTime) {
        if let lastAnswer, latest <= lastAnswer { return }
        let (known, before) = (unanswered?.count ?? 0, unanswered?.latest ?? latest)
        unanswered = Unanswered(count: known + count, latest: max(before, latest))
    }

    private func unanswered(at now: UnixTime) -> Int? {
        guard let unanswered, unanswered.count >= Self.fewestUnanswered, now - unanswered.latest < Self.window,
            lastAnswer.map({ unanswered.latest - $0 >= Self.silence }) ?? true
        else { return nil }
        return unanswered.count
    }

    /// Says more of one of the failures that are counted. It may come before it is counted.
    package mutating func explain(_ failure: RequestFailure, status: Int, requestID: RequestID, at time: UnixTime) {
        let reason = failure.reason == .upstreamStatus ? "status \(status)" : "\(failure.reason)"
        keep(Failure(at: time, reason: reason, explanation: failure.explanation, requestID: "\(requestID)"))
    }

    private mutating func keep(_ failure: Failure) {
        if let lastFailure, lastFailure.at > failure.at { return }
        lastFailure = failure
    }

    package func health(at now: UnixTime) -> UpstreamHealth {
        let current = Self.number(of: now)
        let recent = slots.filter { $0.number <= current && Int(current - $0.number) < Self.slotCount }
        let requests = recent.reduce(0) { $0 + Int($1.requests) }
        let failures = recent.reduce(0) { $0 + Int($1.failures) }
        let rejections = recent.reduce(0) { $0 + Int($1.rejections) }
        return UpstreamHealth(
            lastSuccessAt: lastSuccess?.rfc3339,
            lastFailureAt: lastFailure?.at.rfc3339,
            lastFailure: lastFailure?.reason,
            lastFailureExplanation: lastFailure?.explanation,
            lastFailureRequestId: lastFailure?.requestID,
            failureRate: requests == 0 ? nil : Double(failures) / Double(requests),
            rejectionRate: requests == 0 ? nil : Double(rejections) / Double(requests),
            requests: requests,
            unanswered: unanswered(at: now)
        )
    }

    private static func number(of time: UnixTime) -> UInt32 {
        UInt32(clamping: time.milliseconds / (slotSeconds * 1000))
    }
}
