package import GatewayHTTP

/// How many renewals one engine may cause. Beyond that it gets the token that there is.
///
/// One that reports every response as a rejection would otherwise have tokens renewed without end. A generation is paid for once,
/// however many requests report it.
package struct EngineRenewalBudget: Sendable {
    package static let burst = 60
    package static let interval = Duration.seconds(1)

    package enum Answer: Hashable, Sendable {
        case granted
        /// - Parameter isUnreported: None was refused in the last minute, so that the log is told.
        case refused(isUnreported: Bool)
    }

    /// Generations that were paid for lately.
    static let maximumPaid = 64
    private struct Payment: Equatable {
        let credential: String
        let generation: Int
    }

    private static let reportInterval = Duration.seconds(60)
    private var fullAt: MonotonicTime?
    private var toldAt: MonotonicTime?
    private var paid: [Payment] = []
    private var next = 0

    package init() {}

    /// - Returns: Whether this generation of this credential may be renewed because the engine says so.
    package mutating func spend(_ credential: String, generation: Int, at now: MonotonicTime) -> Answer {
        let payment = Payment(credential: credential, generation: generation)
        if paid.contains(payment) { return .granted }
        let full = max(fullAt ?? now, now)
        guard full - now <= Self.interval * (Self.burst - 1) else { return refuse(at: now) }
        fullAt = full + Self.interval
        if paid.count < Self.maximumPaid {
            paid.append(payment)
        } else {
            paid[next] = payment
            next = (next + 1) % Self.maximumPaid
        }
        checkInvariants(at: now)
        return .granted
    }

    private func checkInvariants(at now: MonotonicTime) {
        assert(paid.count <= Self.maximumPaid, "More payments are remembered than there may be.")
        assert((0..<Self.maximumPaid).contains(next), "The index of the next payment is out of range.")
        assert(next == 0 || paid.count == Self.maximumPaid, "A payment was replaced although there was room.")
        assert(
            fullAt.map { $0 - now <= Self.interval * Self.burst } ?? true,
            "The engine has spent more than its bucket holds."
        )
    }

    private mutating func refuse(at now: MonotonicTime) -> Answer {
        let isUnreported = toldAt.map { now - $0 >= Self.reportInterval } ?? true
        if isUnreported { toldAt = now }
        return .refused(isUnreported: isUnreported)
    }
}
