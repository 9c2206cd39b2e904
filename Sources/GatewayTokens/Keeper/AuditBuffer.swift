import GatewayEvents
import GatewayHTTP
import Synchronization

/// Events of the request path that wait for the audit log, so that no request does.
final class AuditBuffer: Sendable {
    /// How many may wait.
    static let limit = 1024

    private let waiting = Mutex<[TokenEvent]>([])
    private let firstUses = FirstUses()
    private let withheld = Mutex(EventBudget())

    /// See ``FirstUses/isFirst(generation:route:)``.
    func isFirstUse(of generation: Int, on route: String) -> Bool {
        firstUses.isFirst(generation: generation, route: route)
    }

    /// Asks for room for one event of a request that got no token: see ``EventBudget/spend(at:)``.
    func spendForWithheld(at now: MonotonicTime) -> Int? { withheld.withLock { $0.spend(at: now) } }

    /// - Returns: false when too many wait; the event is lost then.
    func add(_ event: TokenEvent) -> Bool {
        waiting.withLock { waiting in
            guard waiting.count < Self.limit else { return false }
            waiting.append(event)
            return true
        }
    }

    func take() -> [TokenEvent] {
        waiting.withLock { waiting in
            defer { waiting = [] }
            return waiting
        }
    }
}
