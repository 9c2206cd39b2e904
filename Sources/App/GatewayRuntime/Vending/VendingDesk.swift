import Crypto
import GatewayCore
import GatewayTokenKeeper
import Synchronization

/// Hands tokens out to clients, as `vend` of their credentials says in the plan that is served at the moment.
final class VendingDesk: VendingControl {
    private let live: LivePlan
    private let observer: TrafficObserver
    private let clock: any GatewayClock
    private let limits = Mutex(VendingLimits())

    init(live: LivePlan, observer: TrafficObserver, clock: any GatewayClock) {
        self.live = live
        self.observer = observer
        self.clock = clock
    }

    func vend(_ credential: String, presenting tokens: [[UInt8]]) async -> Result<VendedToken, GatewayProblem> {
        let requestID = TokenKeeper.randomNonce()
        let state = live.state
        let (plan, sources) = (state.plan, state.sources)
        let clients = ClientRegistry(plan.access.clients) { Array(SHA256.hash(data: $0)) }
        guard let client = tokens.lazy.compactMap({ clients.client(presenting: $0) }).first else {
            observer.denied(nil, requestID: requestID, reason: .clientAuthRequired)
            return .failure(Self.unknownClient(hasPresented: !tokens.isEmpty))
        }
        // An unknown name and one that is not for handing out are the same to a client.
        guard let index = plan.credentials.firstIndex(where: { $0.name == credential }),
            let vend = plan.credentials[index].vend,
            let own = sources.keeper(of: index),
            let keeper = sources.keeper(of: vend.credential)
        else {
            let detail = "No token is handed out under this name; a credential is whose vend names clients."
            return .failure(GatewayProblem(.noRoute, detail))
        }
        let demand = CredentialDemand(route: "tokens/\(credential)", client: client, requestID: requestID)
        guard vend.clients.contains(client) else {
            observer.denied(demand, requestID: requestID, reason: .routeForbidden)
            let detail = "This client is handed no token of \(credential); vend of the credential names those that are."
            return .failure(GatewayProblem(.routeForbidden, detail))
        }
        // A weaker token that was made before lives on, and is not handed out any more.
        if let problem = own.lockedProblem { return .failure(problem) }
        let now = clock.now().monotonic
        let waits = keeper.vendsLater(at: now)
        if let problem = limits.withLock({ $0.enter(client, waits: waits, at: now) }) { return .failure(problem) }
        defer { if waits { limits.withLock { $0.leave(client) } } }
        let answer = await keeper.vend(for: demand, within: plan.limits.credentialTimeout)
        // It may have been locked meanwhile.
        if let problem = own.lockedProblem { return .failure(problem) }
        return answer
    }

    private static func unknownClient(hasPresented: Bool) -> GatewayProblem {
        hasPresented
            ? GatewayProblem(
                .clientAuthRequired,
                "The client token is not known to this gateway.",
                cause: GatewayProblem.Cause(code: "invalid_token")
            )
            : GatewayProblem(.clientAuthRequired, "Send a client token in Authorization (access.clients).")
    }
}

/// How often one client is handed a token, each of which is a row of the audit log, and how many requests wait for one.
///
/// Only who waits takes a place, so that a slow authority does not keep away those whose tokens are at hand.
struct VendingLimits {
    static let mostWaiting = 64
    /// Of one client.
    static let mostWaitingOfOne = 16
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
            let spent = account.spent - Double((now - account.updatedAt).wholeMilliseconds) / 1000
            return spent > 0 ? Account(spent: spent, updatedAt: now) : nil
        }
        let spent = accounts[client]?.spent ?? 0
        guard spent + 1 <= Double(Self.burst) else { return Self.problem }
        accounts[client] = Account(spent: spent + 1, updatedAt: now)
        if waits { waiting[client, default: 0] += 1 }
        return nil
    }

    private func hasPlace(for client: String) -> Bool {
        waiting[client, default: 0] < Self.mostWaitingOfOne && waiting.values.reduce(0, +) < Self.mostWaiting
    }

    /// Of one that waited.
    mutating func leave(_ client: String) {
        guard let count = waiting[client] else { return }
        waiting[client] = count > 1 ? count - 1 : nil
    }

    private static let problem = GatewayProblem(
        .overloaded,
        "Too many tokens are asked for; keep the one that was handed out until it ends.",
        retryAfter: .seconds(1)
    )
}
