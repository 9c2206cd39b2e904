import Crypto
import GatewayApp
import GatewayHTTP
import GatewayProxy
import GatewayTokenClient
import GatewayTokens
import NIOCore
import NIOPosix

/// Connects to every upstream and every authority of a plan, side by side.
struct EndpointProbe: Sendable {
    /// The number of probes at a time: each may take a thread for its name.
    private static let atOnce = 16
    /// Where there are more, only those are asked that answer within ``limitOfMany``.
    private static let few = 100
    private static let limitOfMany: Duration = .seconds(2)

    /// Connected to once, even if several routes or credentials use it.
    private enum Target: Sendable {
        case upstream(RoutePlan, users: [String])
        case authority(Origin, ClientTLS?, ParentProxy?, users: [String])

        var route: RoutePlan? {
            guard case .upstream(let route, _) = self else { return nil }
            return route
        }

        var proxy: ParentProxy? {
            switch self {
            case .upstream(let route, _): route.proxy
            case .authority(_, _, let proxy, _): proxy
            }
        }

        var endpoint: DoctorEndpoint {
            let proxy = proxy?.description
            return switch self {
            case .upstream(let route, let users):
                DoctorEndpoint(.upstream, route.upstream, users: users, through: proxy)
            case .authority(let origin, _, _, let users):
                DoctorEndpoint(.authority, origin, users: users, through: proxy)
            }
        }
    }

    private struct Answer: Sendable {
        let endpoint: DoctorEndpoint
        let outcome: EndpointOutcome
        var clock: ClockRule.Reading?
    }

    let plan: Plan
    /// Hosts that are named by them are left out.
    var unset: UnsetVariables?

    /// - Parameters:
    ///   - limit: How long each endpoint is waited for.
    ///   - all: Whether each is asked, however many there are.
    func findings(within limit: Duration, all: Bool) async -> [DoctorFinding] {
        let targets = targets
        let locked = LockedCredentials(plan)
        let clock = ContinuousClock()
        // Each reads the certificates of all authorities, and most upstreams have the same.
        let contexts = UpstreamTLSContexts(of: targets.prefix(Self.few).compactMap(\.route))
        let end = all || targets.count <= Self.few ? nil : clock.now + Self.limitOfMany
        let answers = await withTaskGroup(of: (Int, Answer?).self) { tasks in
            var waiting = targets.indices
            func start() {
                let rest = end.map { $0 - clock.now } ?? limit
                guard rest > .zero, let index = waiting.popFirst() else { return }
                let target = targets[index]
                tasks.addTask {
                    if let problem = Self.lock(of: target, locked) { return (index, problem) }
                    let answer = await Self.ask(target, within: min(limit, rest), contexts)
                    // It was not given the time that others have.
                    return (index, rest < limit && answer.outcome.isOverdue ? nil : answer)
                }
            }
            for _ in 0..<Self.atOnce { start() }
            var answers: [Answer?] = Array(repeating: nil, count: targets.count)
            for await (index, answer) in tasks {
                answers[index] = answer
                start()
            }
            return answers
        }
        let now = SystemClock().now().wall
        let findings = zip(targets, answers).flatMap { target, answer in
            answer.map { EndpointRule.findings(of: $0.endpoint, $0.outcome, at: now) }
                ?? EndpointRule.unchecked(target.endpoint, within: Self.limitOfMany)
        }
        return unique(findings) + ClockRule.findings(of: answers.compactMap { $0?.clock })
    }

    func offlineFindings() -> [DoctorFinding] { targets.flatMap { EndpointRule.offline($0.endpoint) } }

    /// A host may be both upstream and authority, and have several routes with TLS settings of their own.
    private func unique(_ findings: [DoctorFinding]) -> [DoctorFinding] {
        var seen: Set<DoctorFinding> = []
        return findings.filter { seen.insert($0).inserted }
    }

    // MARK: Targets

    private struct UpstreamKey: Hashable {
        let origin: Origin
        let tls: RoutePlan.TLS
        let proxy: ParentProxy?
    }

    private struct AuthorityKey: Hashable {
        let origin: Origin
        let tls: ClientTLS?
        let proxy: ParentProxy?
    }

    private var targets: [Target] {
        var routes: [UpstreamKey: [RoutePlan]] = [:]
        var keys: [UpstreamKey] = []
        for route in plan.routes {
            let key = UpstreamKey(origin: route.upstream, tls: route.tls, proxy: route.proxy)
            if routes[key] == nil { keys.append(key) }
            routes[key, default: []].append(route)
        }
        let upstreams = keys.compactMap { key in
            routes[key].flatMap { routes in routes.first.map { Target.upstream($0, users: routes.map(\.name)) } }
        }
        return (upstreams + authorities).filter { unset?.areIn(host: $0.endpoint.origin.host) != true }
    }

    private var authorities: [Target] {
        var users: [AuthorityKey: [String]] = [:]
        var keys: [AuthorityKey] = []
        for credential in plan.credentials where Self.fetchesTokens(credential.strategy.behavior) {
            let tls = credential.strategy.clientTLS
            for origin in Set(credential.strategy.behavior.authorityEndpoints.map(\.origin)) {
                let key = AuthorityKey(origin: origin, tls: tls, proxy: credential.proxy?.parent(for: origin))
                if users[key] == nil { keys.append(key) }
                users[key, default: []].append(credential.name)
            }
        }
        return keys.map { .authority($0.origin, $0.tls, $0.proxy, users: users[$0] ?? []) }
    }

    /// Whether the gateway asks the authority for tokens, and not only for revocations.
    private static func fetchesTokens(_ behavior: AuthBehavior) -> Bool {
        switch behavior {
        case .none, .fixed, .onChallenge, .signed: false
        case .token(let grant): grant.isRenewable || grant.login != nil
        case .tokens: true
        }
    }

    // MARK: Questions

    /// The answer where the proxy would be sent a credential that is locked.
    private static func lock(of target: Target, _ locked: LockedCredentials) -> Answer? {
        guard let proxy = target.proxy, let problem = proxy.lockProblem({ locked.contains($0) }) else { return nil }
        let detail = locked.unknown.map { "The proxy \(proxy) needs a credential, and \($0)." } ?? problem.detail
        return Answer(endpoint: target.endpoint, outcome: .failed(.proxy(detail)))
    }

    private static func ask(
        _ target: Target,
        within limit: Duration,
        _ contexts: UpstreamTLSContexts
    ) async -> Answer {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        switch target {
        case .upstream(let route, _):
            let outcome = await UpstreamProbe.connect(
                route,
                within: limit,
                contexts: contexts,
                sha256: { Array(SHA256.hash(data: $0)) },
                on: loop
            )
            return Answer(endpoint: target.endpoint, outcome: outcome)
        case .authority(let origin, let tls, let proxy, _):
            let clock = SystemClock()
            let sent = clock.now().wall
            let answer = await AuthorityProbe.ask(
                origin,
                showing: tls,
                through: proxy,
                version: GatewayVersion.current,
                within: limit
            )
            let received = clock.now().wall
            switch answer {
            case .success(let answer):
                let reading = answer.date.map {
                    ClockRule.Reading(authority: origin, date: $0, sent: sent, received: received)
                }
                let outcome = EndpointOutcome.connected(answer.took, certificateEnd: answer.certificateEnd)
                return Answer(endpoint: target.endpoint, outcome: outcome, clock: reading)
            case .failure(.certificate):
                let seen = await UpstreamProbe.certificate(
                    of: origin,
                    serverName(of: origin),
                    through: proxy,
                    within: limit,
                    on: loop
                )
                return Answer(endpoint: target.endpoint, outcome: .failed(seen.map { .certificate($0) } ?? .handshake))
            case .failure(let cause): return Answer(endpoint: target.endpoint, outcome: .failed(cause))
            }
        }
    }

    /// TLS names no addresses in its hello (RFC 6066 section 3).
    private static func serverName(of origin: Origin) -> String? {
        origin.isAddress ? nil : origin.host
    }
}

extension EndpointOutcome {
    /// Whether there was no answer in the time that it had.
    fileprivate var isOverdue: Bool {
        switch self {
        case .failed(.overdue), .failed(.nameOverdue): true
        case .connected, .failed: false
        }
    }
}
