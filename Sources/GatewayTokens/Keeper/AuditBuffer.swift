import GatewayEvents
import GatewayHTTP

/// Events of the request path that wait for the audit log, so that no request does.
struct AuditBuffer: Sendable {
    /// How many may wait.
    static let limit = 1024

    private var waiting: [TokenEvent] = []
    private var firstUses = FirstUses()
    private var withheld = EventBudget()

    /// See ``FirstUses/isFirst(generation:route:)``.
    mutating func isFirstUse(of generation: Int, on route: String) -> Bool {
        firstUses.isFirst(generation: generation, route: route)
    }

    /// Asks for room for one event of a request that got no token: see ``EventBudget/spend(at:)``.
    mutating func spendForWithheld(at now: MonotonicTime) -> Int? { withheld.spend(at: now) }

    /// - Returns: false when too many wait; the event is lost then.
    mutating func add(_ event: TokenEvent) -> Bool {
        guard waiting.count < Self.limit else { return false }
        waiting.append(event)
        return true
    }

    mutating func take() -> [TokenEvent] {
        defer { waiting = [] }
        return waiting
    }
}
