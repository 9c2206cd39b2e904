import GatewayHTTP
import Logging
import Synchronization

/// What outlives every reload: who is connected, how requests are numbered, what the gateway calls itself.
final class ProxyState: Sendable {
    let clock: any GatewayClock
    let observer: any ExchangeObserver
    let logger: Logger
    /// In `Via`, `Proxy-Status` and challenges; its suffix makes a loop through this very gateway visible.
    let viaName: String
    /// Tells the request ids of this run from those of another.
    let run: UInt32
    let tokenUses: ClientTokenUses?
    let jwts: ClientJWTParts?
    /// nil where no listener intercepts.
    let interception: InterceptionTLS?
    /// The counts of clients with limits, by name. A reload that does not change the limits of a client keeps its counts.
    private let usages = Mutex<[String: ClientUsage]>([:])
    /// The renewal budgets of engines, by name.
    private let renewals = Mutex<[String: EngineRenewalBudget]>([:])
    /// Memory of request heads that are not complete yet.
    let headMemory: HeadMemory
    /// Memory of request bodies that upstreams have not taken yet.
    let uploads: UploadMemory
    /// Requests that wait for an operator.
    let approvals: ApprovalDesk
    let memoryTrim = MemoryTrim()
    let addresses = ConnectionsPerAddress(capacity: 65_536)
    /// How many descriptors the process may have; nil where that is not looked at.
    let descriptorLimit: Int?
    private let connections = Atomic<Int>(0)
    /// Connections that were refused and have not left yet.
    private let refusals = Atomic<Int>(0)
    private let draining = Atomic<Bool>(false)

    init(
        clock: any GatewayClock,
        observer: any ExchangeObserver,
        logger: Logger,
        limits: Limits,
        workers: Int,
        descriptorLimit: Int? = nil,
        tokenUses: ClientTokenUses? = nil,
        jwts: ClientJWTParts? = nil,
        authority: (any LeafAuthority)? = nil
    ) {
        self.descriptorLimit = descriptorLimit
        interception = authority.map { InterceptionTLS(authority: $0, clock: clock) }
        headMemory = HeadMemory(limit: limits.headMemory, workers: workers)
        uploads = UploadMemory(limit: limits.uploadMemory)
        approvals = ApprovalDesk(clock: clock, observer: observer)
        self.tokenUses = tokenUses
        self.jwts = jwts
        self.clock = clock
        self.observer = observer
        self.logger = logger
        var generator = SystemRandomNumberGenerator()
        let random = generator.next()
        run = UInt32(truncatingIfNeeded: random) & RequestID.maximumRun
        viaName = "\(ProxyStatus.gateway)-\(String(random >> 32, radix: 16))"
    }

    func usages(of clients: [AccessPlan.Client]) -> [String: ClientUsage] {
        usages.withLock { usages in
            var current: [String: ClientUsage] = [:]
            for client in clients where !client.limits.isEmpty {
                let known = usages[client.name]
                current[client.name] = known?.limits == client.limits ? known : ClientUsage(client.limits)
            }
            usages = current
            return current
        }
    }

    /// Whether an engine may have this generation of this credential renewed.
    func spendRenewal(
        of engine: String,
        _ credential: String,
        generation: Int,
        at now: MonotonicTime
    ) -> EngineRenewalBudget.Answer {
        renewals.withLock {
            $0[engine, default: EngineRenewalBudget()].spend(credential, generation: generation, at: now)
        }
    }

    var isDraining: Bool { draining.load(ordering: .relaxed) }
    func beginDraining() { draining.store(true, ordering: .relaxed) }

    var connectionCount: Int { connections.load(ordering: .relaxed) }

    /// - Returns: How many connections there are with the new one.
    func connectionOpened() -> Int { connections.add(1, ordering: .relaxed).newValue }
    func connectionClosed() {
        // The one that closes is among them, whatever other workers do meanwhile.
        assert(connectionCount > 0, "More connections have closed than were opened.")
        connections.subtract(1, ordering: .relaxed)
    }

    /// - Returns: Whether there is a place for a connection that is refused; it is counted then.
    func refusalBegan(most: Int) -> Bool {
        guard refusals.add(1, ordering: .relaxed).newValue > most else { return true }
        refusalEnded()
        return false
    }
    func refusalEnded() { refusals.subtract(1, ordering: .relaxed) }
}
