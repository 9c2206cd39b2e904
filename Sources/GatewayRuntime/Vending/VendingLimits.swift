import GatewayCore

/// How often one client is handed a token, each of which is a row of the audit log, and how many requests wait for one.
///
/// Only who waits takes a place, so that a slow authority does not keep away those whose tokens are at hand.
struct VendingLimits {
    static let maximumWaiting = 64
    /// Of one client.
    static let maximumWaitingOfOne = 16
    /// Of one client, at once; regained one by one each second.
    static let burst = 60

    private struct Account {
        var spent: Double
        var updatedAt: MonotonicTime
    }

    /// Of clients of whom a request waits.
    private var waiting: [String: Int] = [:]
    /// Of clients that have asked in the last minute.
    private var accounts: [String: Account] = [:]

    /// - Parameter waits: Takes a place until ``leave(_:)``.
    /// - Returns: Why not now; nil when the client has entered.
    mutating func enter(_ client: String, waits: Bool, at now: MonotonicTime) -> GatewayProblem? {
        guard !waits || hasPlace(for: client) else { return Self.problem }
        accounts = accounts.compactMapValues { account in
            // Not in whole milliseconds: a client that asks several times within each would stop everybody's clock.
            let spent = account.spent - (now - account.updatedAt) / .seconds(1)
            return spent > 0 ? Account(spent: spent, updatedAt: now) : nil
        }
        let spent = accounts[client]?.spent ?? 0
        guard spent + 1 <= Double(Self.burst) else { return Self.problem }
        accounts[client] = Account(spent: spent + 1, updatedAt: now)
        if waits { waiting[client, default: 0] += 1 }
        assert(spent >= 0 && spent + 1 <= Double(Self.burst), "A client was handed more tokens than it may be.")
        checkInvariants()
        return nil
    }

    private func hasPlace(for client: String) -> Bool {
        waiting[client, default: 0] < Self.maximumWaitingOfOne && waiting.values.reduce(0, +) < Self.maximumWaiting
    }

    /// Of one that waited.
    mutating func leave(_ client: String) {
        guard let count = waiting[client] else { return }
        waiting[client] = count > 1 ? count - 1 : nil
        checkInvariants()
    }

    private func checkInvariants() {
        assert(waiting.values.allSatisfy { 1...Self.maximumWaitingOfOne ~= $0 }, "More of a client wait than may.")
        assert(waiting.values.reduce(0, +) <= Self.maximumWaiting, "More requests wait than may.")
    }

    private static let problem = GatewayProblem(
        .overloaded,
        "Too many tokens are asked for; keep the one that was handed out until it ends.",
        retryAfter: .seconds(1)
    )
}
