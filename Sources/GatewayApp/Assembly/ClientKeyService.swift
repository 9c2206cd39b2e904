import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokens
import Logging
import ServiceLifecycle

/// Fetches the public keys that signed tokens of clients are verified with.
struct ClientKeyService: Service {
    private static let interval = Duration.seconds(1)
    private static let limit = Duration.seconds(10)

    let sets: ClientKeySets
    let live: LivePlan
    let requests: OwnRequests
    let clock: any GatewayClock
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            repeat { await fetchDue() } while (try? await clock.sleep(for: Self.interval)) != nil
        }
    }

    private func fetchDue() async {
        let urls = Set(live.state.plan.access.clients.compactMap { $0.jwt?.url })
        await withDiscardingTaskGroup { tasks in
            for url in sets.due(among: urls, at: clock.now().monotonic) {
                tasks.addTask { await fetch(url) }
            }
        }
    }

    private func fetch(_ url: AuthorityURL) async {
        let reason: String
        switch await answer(of: url) {
        case .success(let bytes):
            if let set = JSONWebKeySet(bytes) {
                return sets.take(set, from: url, at: clock.now().monotonic)
            }
            reason = "the answer is not a JSON Web Key Set with a key that can be used"
        case .failure(let failure): reason = failure.text
        }
        guard sets.fail(url, at: clock.now().monotonic) else { return }
        logger.warning(
            "The keys of an issuer of client tokens cannot be fetched; those that are known stay in use",
            metadata: ["url": "\(url)", "reason": "\(reason)"]
        )
    }

    /// Why the keys of an issuer were not fetched, for the log.
    private struct Failure: Error {
        let text: String
    }

    private func answer(of url: AuthorityURL) async -> Result<[UInt8], Failure> {
        let accept = Injection.Field(name: "Accept", value: Secret("application/jwk-set+json, application/json"))
        switch await requests.send(OutgoingRequest("GET", url, fields: [accept]), deadline: Self.limit) {
        case .success(let reply) where reply.status != 200: return .failure(Failure(text: "status \(reply.status)"))
        case .success(let reply) where reply.body.count > JSONWebKeySet.maximumBytes:
            return .failure(Failure(text: "too large"))
        case .success(let reply): return .success(reply.body)
        case .failure(let failure):
            let parts = [failure.reason.rawValue, failure.proxyDetail]
            return .failure(Failure(text: parts.compactMap(\.self).joined(separator: "; ")))
        }
    }
}

/// Sends what the gateway asks for itself and no credential stands for, such as keys of issuers and telemetry, through
/// `defaults.proxy` as it is now.
struct OwnRequests: Sendable {
    let http: OutgoingHTTP
    let live: LivePlan
    let locks: CredentialLocks

    func send(_ request: OutgoingRequest, deadline: Duration) async -> Result<TokenReply, TokenTransportFailure> {
        let request = request.through(live.state.plan.proxy)
        if let problem = request.proxy?.lockProblem({ locks.contains($0) }) {
            return .failure(TokenTransportFailure(problem))
        }
        return await http.send(request, deadline: deadline)
    }
}
