import AsyncHTTPClient
import GatewayHTTP
import GatewayProxy
import GatewayTokens
import Logging
import NIOCore
import NIOHTTP1
import ServiceLifecycle

/// Fetches the public keys that signed tokens of clients are verified with: verified TLS, no redirects, no proxy, one deadline.
struct ClientKeyService: Service {
    private static let interval = Duration.seconds(1)
    private static let limit = Duration.seconds(10)

    let sets: ClientKeySets
    let live: LivePlan
    let clock: any GatewayClock
    let logger: Logger

    func run() async throws {
        let client = HTTPClient.direct()
        await cancelWhenGracefulShutdown {
            repeat { await fetchDue(client) } while (try? await clock.sleep(for: Self.interval)) != nil
        }
        // Fails only when it was shut down before.
        try? await client.shutdown()
    }

    private func fetchDue(_ client: HTTPClient) async {
        let urls = Set(live.state.plan.access.clients.compactMap { $0.jwt?.url })
        await withDiscardingTaskGroup { tasks in
            for url in sets.due(among: urls, at: clock.now().monotonic) {
                tasks.addTask { await fetch(url, client) }
            }
        }
    }

    private func fetch(_ url: AuthorityURL, _ client: HTTPClient) async {
        let reason: String
        switch await answer(of: url, client) {
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

    private func answer(of url: AuthorityURL, _ client: HTTPClient) async -> Result<[UInt8], Failure> {
        var request = HTTPClientRequest(url: url.unrootedText)
        request.headers.add(name: "Accept", value: "application/jwk-set+json, application/json")
        request.headers.add(name: "User-Agent", value: "authgateway/\(GatewayVersion.current)")
        let end = ContinuousClock.now + Self.limit
        do {
            let response = try await client.execute(request, timeout: .nanoseconds(Self.limit.wholeNanoseconds))
            guard response.status == .ok else { return .failure(Failure(text: "status \(response.status.code)")) }
            // The time limit above ends with the head of the answer.
            let content = await Deadline.value(within: max(.zero, end - .now)) {
                try? await response.body.collect(upTo: JSONWebKeySet.maximumBytes)
            }
            guard let bytes = content ?? nil else { return .failure(Failure(text: "too slow or too large")) }
            return .success(Array(bytes.readableBytesView))
        } catch {
            return .failure(Failure(text: "\(type(of: error))"))
        }
    }
}
