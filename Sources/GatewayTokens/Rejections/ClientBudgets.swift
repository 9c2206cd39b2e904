import GatewayHTTP

/// A token bucket for each client; those without a name share one.
struct ClientBudgets: Sendable {
    private let burst: Int
    private let interval: Duration
    private let maximumClients: Int
    /// When the bucket of a client is full again. A client that is not here has a full one.
    private var fullAt: [String?: MonotonicTime] = [:]

    init(burst: Int, interval: Duration, maximumClients: Int) {
        self.burst = burst
        self.interval = interval
        self.maximumClients = maximumClients
    }

    var count: Int { fullAt.count }

    /// - Returns: Whether there was something left; only then it is spent.
    mutating func spend(_ client: String?, at now: MonotonicTime) -> Bool {
        let full = max(fullAt[client] ?? now, now)
        guard full - now <= interval * (burst - 1) else { return false }
        if fullAt[client] == nil { makeRoom(at: now) }
        fullAt[client] = full + interval
        assert(full + interval - now <= interval * burst, "A client has spent more than its bucket holds.")
        assert(fullAt.count <= max(1, maximumClients), "More buckets are kept than there may be.")
        return true
    }

    /// When this client may spend again; not later than `now` while something is left.
    func fillsAt(of client: String?) -> MonotonicTime? {
        fullAt[client].map { $0 + interval * (1 - burst) }
    }

    /// Those that may not spend now, and when they may again; at most so many, the last ones to fill.
    func empty(at now: MonotonicTime, limit: Int) -> [(client: String?, fillsAt: MonotonicTime)] {
        let empty = fullAt.keys.compactMap { client in fillsAt(of: client).map { (client: client, fillsAt: $0) } }
            .filter { $0.fillsAt > now }
        return Array(empty.sorted { ($1.fillsAt, $0.client ?? "") < ($0.fillsAt, $1.client ?? "") }.prefix(limit))
    }

    mutating func giveBack(to client: String?) {
        guard let full = fullAt[client] else { return }
        fullAt[client] = full - interval
    }

    /// A bucket that is full says nothing. If none is, the fullest one is forgotten: no client is refused for what others spent.
    private mutating func makeRoom(at now: MonotonicTime) {
        guard fullAt.count >= maximumClients else { return }
        fullAt = fullAt.filter { $0.value > now }
        guard fullAt.count >= maximumClients, let fullest = fullAt.min(by: { $0.value < $1.value }) else { return }
        fullAt[fullest.key] = nil
    }
}
