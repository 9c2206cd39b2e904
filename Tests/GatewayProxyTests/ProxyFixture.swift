import Foundation
import GatewayConfiguration
import GatewayEvents
import GatewayHTTP
import GatewayTesting
import GatewayTokens
import Logging
import NIOCore
import NIOPosix
import Synchronization

@testable import GatewayProxy

final class TestClock: GatewayClock {
    func now() -> Moment {
        let elapsed = ContinuousClock.now - Self.start
        return Moment(
            monotonic: MonotonicTime(nanoseconds: elapsed.wholeNanoseconds),
            wall: UnixTime(milliseconds: Int64(Date().timeIntervalSince1970 * 1000))
        )
    }

    func sleep(for duration: Duration) async throws { try await Task.sleep(for: duration) }

    private static let start = ContinuousClock.now
}

final class RecordingObserver: ExchangeObserver {
    private let state = Mutex<(uses: [(client: String?, generation: Int?)], denials: [ProblemKind])>(([], []))
    private let ended = Mutex<[FinishedRequest]>([])
    private let held = Mutex<[String]>([])
    func finished(_ record: borrowing ExchangeRecord) {
        let (use, problem, request) =
            ((record.client, record.credential?.generation), record.problem, FinishedRequest(record))
        state.withLock { state in
            state.uses.append(use)
            if let problem, problem.isDenial { state.denials.append(problem) }
        }
        ended.withLock { $0.append(request) }
    }
    func held(_ request: HeldRequest, _ event: HeldRequest.Event) {
        let text =
            switch event {
            case .held: "held"
            case .released(let user): "released by \(user)"
            case .expired: "expired"
            case .dropped(let reason): "dropped: \(reason)"
            }
        held.withLock { $0.append(text) }
    }
    /// What became of requests that wait for an approval.
    var approvals: [String] { held.withLock { $0 } }
    /// All requests that are over, those that were refused included.
    var requests: [FinishedRequest] { ended.withLock { $0 } }
    /// Of the exchanges that are finished.
    var uses: [(client: String?, generation: Int?)] { state.withLock { $0.uses } }
    var denials: [ProblemKind] { state.withLock { $0.denials } }
}

/// A renewable credential whose renewals a test directs.
final class ScriptedSource: CredentialSource {
    let name = "scripted"
    let strategy = "oauth2_client_credentials"
    let isRenewable = true

    struct State {
        var generation = 1
        /// What the generations of this gateway are ahead of those of another one.
        var ahead = 0
        var rejected = 0
        var renewals = 0
        var waiters: [@Sendable (Result<Credential, GatewayProblem>) -> Void] = []
        var events: [String] = []
        var renewsAtOnce = true
        var failure: GatewayProblem?
        var isCold = false
        /// What signs requests with a generation; nil for a token that is injected.
        var signer: (@Sendable (Int) -> Signer)?
    }

    let state: Mutex<State>

    init(_ configure: (inout State) -> Void = { _ in }) {
        var initial = State()
        configure(&initial)
        state = Mutex(initial)
    }

    static func credential(_ generation: Int, ahead: Int = 0) -> Credential {
        let injection = Injection.authorization(scheme: "Bearer", Secret("token-\(generation)"))
        return Credential(name: "scripted", generation: generation + ahead, injection: injection)
    }

    func current(at now: MonotonicTime) -> CredentialAnswer {
        state.withLock { state in
            if let failure = state.failure { return .unavailable(failure) }
            if state.isCold || state.generation <= state.rejected { return .wait }
            guard let signer = state.signer?(state.generation) else {
                return .ready(Self.credential(state.generation, ahead: state.ahead))
            }
            let (name, injection) = (name, Injection())
            return .ready(Credential(name: name, generation: state.generation, injection: injection, signer: signer))
        }
    }

    func wait(
        for demand: CredentialRequest,
        _ done: @escaping @Sendable (Result<Credential, GatewayProblem>) -> Void
    ) -> CredentialTicket {
        state.withLock { $0.waiters.append(done) }
        return CredentialTicket(id: 1)
    }

    func cancel(_ ticket: CredentialTicket) { state.withLock { $0.events.append("cancelled") } }

    func rejected(generation: Int, by demand: CredentialRequest) {
        state.withLock { state in
            guard generation - state.ahead > state.rejected else { return }
            state.rejected = generation - state.ahead
            guard state.renewsAtOnce else { return }
            state.renewals += 1
            state.generation += 1
        }
    }

    func lacks(_ scopes: [String], generation: Int, by demand: CredentialRequest) {
        state.withLock { $0.events.append("lacks \(scopes.joined(separator: " ")) \(generation) \(demand.route)") }
    }

    func note(_ event: CredentialUseEvent, generation: Int, by demand: CredentialRequest) {
        state.withLock { $0.events.append("\(event.rawValue) \(generation)") }
    }

    /// Waits until so many requests wait for a credential.
    func untilAsked(_ count: Int = 1) throws {
        try blockUntil("\(count) requests wait for a credential") { state.withLock { $0.waiters.count >= count } }
    }

    func settle(_ result: Result<Credential, GatewayProblem>) {
        let waiters = state.withLock { state in
            state.isCold = false
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter(result) }
    }
}

/// A proxy on a free port in front of one origin.
final class ProxyFixture: Sendable {
    let server: ProxyServer
    let port: Int
    let configuration: ProxyConfiguration
    let listener: ListenerPlan
    let observer = RecordingObserver()
    private let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    init(
        upstreamPort: Int,
        source: (any CredentialSource)? = nil,
        selection: (any SubjectCredentialResolver)? = nil,
        access: AccessPlan = AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
        limits: Limits = Limits(),
        descriptorLimit: Int? = nil,
        engine: EnginePlan? = nil,
        ownedFields: [String] = [],
        policy: RenewalPolicy = RenewalPolicy(),
        sha256: @escaping @Sendable ([UInt8]) -> [UInt8] = { $0 },
        route configure: (inout RoutePlan) -> Void = { _ in },
        adjust: (inout ProxyConfiguration) -> Void = { _ in }
    ) async throws {
        let span = SourceSpan(file: 0, line: 1, column: 1)
        var plan = RoutePlan(
            name: "api",
            upstream: Origin(scheme: .http, host: "127.0.0.1", port: upstreamPort),
            upstreamPath: "",
            matchPath: "/api",
            matchHosts: ["api.localhost"],
            credential: source == nil && selection == nil ? nil : 0,
            span: span
        )
        configure(&plan)
        var configuration = ProxyConfiguration(
            routes: [
                ProxyRoute(
                    plan: plan,
                    source: source,
                    selection: selection,
                    ownedFields: ownedFields,
                    policy: policy,
                    number: 0
                )
            ],
            access: access,
            engines: engine.map { [$0] } ?? [],
            limits: limits,
            requestIDHeader: "Gateway-Request-Id",
            sha256: sha256,
            // No real code; it depends on every byte.
            authenticate: { bytes in Array(repeating: bytes.reduce(0) { $0 &* 31 &+ $1 }, count: 32) }
        )
        adjust(&configuration)
        self.configuration = configuration
        server = try ProxyServer(
            group: group,
            configuration: configuration,
            clock: TestClock(),
            observer: observer,
            logger: Logger(label: "test"),
            descriptorLimit: descriptorLimit
        )
        var listener = ListenerPlan(address: .tcp(host: "127.0.0.1", port: 0), span: span)
        listener.engine = engine
        self.listener = listener
        port = try await server.bind([listener])[0].port ?? 0
        server.start()
    }

    func client(receiveBuffer: Int32? = nil) throws -> RawConnection {
        try RawConnection(port: port, receiveBuffer: receiveBuffer)
    }

    /// Sends one request and reads one answer on a fresh connection.
    func exchange(_ request: String) throws -> (head: String, body: String) {
        let client = try client()
        defer { client.close() }
        client.send(request)
        guard let answer = client.readMessage() else { throw RawError("no answer") }
        return answer
    }

    func stop() async {
        await server.drain(within: .milliseconds(200))
        try? await group.shutdownGracefully()
    }
}

/// Runs `body` with a proxy that is stopped afterwards, off the cooperative pool because raw sockets block.
func withProxy(
    _ origin: RawOrigin,
    source: (any CredentialSource)? = nil,
    selection: (any SubjectCredentialResolver)? = nil,
    access: AccessPlan = AccessPlan(clients: [], allowedOrigins: [], requireClient: .auto),
    limits: Limits = Limits(),
    descriptorLimit: Int? = nil,
    engine: EnginePlan? = nil,
    ownedFields: [String] = [],
    policy: RenewalPolicy = RenewalPolicy(),
    route: (inout RoutePlan) -> Void = { _ in },
    sha256: @escaping @Sendable ([UInt8]) -> [UInt8] = { $0 },
    adjust: (inout ProxyConfiguration) -> Void = { _ in },
    _ body: @escaping @Sendable (ProxyFixture) throws -> Void
) async throws {
    let proxy = try await ProxyFixture(
        upstreamPort: origin.port,
        source: source,
        selection: selection,
        access: access,
        limits: limits,
        descriptorLimit: descriptorLimit,
        engine: engine,
        ownedFields: ownedFields,
        policy: policy,
        sha256: sha256,
        route: route,
        adjust: adjust
    )
    let result = await onThread { try body(proxy) }
    await proxy.stop()
    let originResult = await onThread { try origin.finish() }
    try result.get()
    try originResult.get()
}

private func onThread(_ body: @escaping @Sendable () throws -> Void) async -> Result<Void, any Error> {
    await withCheckedContinuation { continuation in
        Thread.detachNewThread { continuation.resume(returning: Result { try body() }) }
    }
}
