import GatewayEvents
import GatewayHTTP
import GatewayTokens
import NIOCore

/// One event loop's share of the data plane under one configuration. Everything in it belongs to that loop.
final class WorkerConfiguration {
    let worker: Worker
    let shared: ProxyShared
    let loop: any EventLoop
    let clock: LoopClock
    let buffers: SpareBuffers
    /// Copied for each worker, so that threads do not contend for one reference count.
    let limits: Limits
    let timeouts: Timeouts
    /// A reload has put another one in its place.
    private(set) var isReplaced = false
    /// By index into ``ProxyShared/routes``, each with the credential that was used last. Made with the first request: of many
    /// routes most are idle. nil as the credential: nothing is injected, none has come yet, or requests choose their source.
    private var routes: [CredentialedRoute?]
    /// By index and source, where requests choose one; those of a route are thrown away together when there are too many.
    private var chosen: [Int: [ObjectIdentifier: CredentialedRoute]] = [:]
    static let maximumChosen = 256
    /// By index into ``ProxyShared/targets``; made with the first request, too.
    private var pools: [UpstreamPool?]
    /// Clients that engines have asked about.
    let engineClients = EngineClients()

    /// - Parameter old: Hands over the connections to upstreams that are reached as before.
    init(worker: Worker, shared: ProxyShared, replacing old: WorkerConfiguration?) {
        self.worker = worker
        self.shared = shared
        loop = worker.loop
        clock = worker.clock
        buffers = worker.buffers
        limits = shared.limits
        timeouts = shared.timeouts
        routes = Array(repeating: nil, count: shared.routes.count)
        if let old, shared.countsConnections(as: old.shared) {
            let kept = Dictionary(old.pools.compactMap(\.self).map { ($0.key, $0) }) { first, _ in first }
            pools = shared.targets.map { kept[$0.key] }
        } else {
            pools = Array(repeating: nil, count: shared.targets.count)
        }
        old?.retire(keeping: pools)
    }

    private func retire(keeping kept: [UpstreamPool?]) {
        isReplaced = true
        let kept = Set(kept.compactMap { $0.map { ObjectIdentifier($0) } })
        for case let pool? in pools where !kept.contains(ObjectIdentifier(pool)) { pool.retire() }
    }

    /// - Parameter index: Into ``ProxyShared/routes``.
    func route(_ index: Int) -> CredentialedRoute { routes[index] ?? makeRoute(index) }

    private func makeRoute(_ index: Int) -> CredentialedRoute {
        let route = shared.routes[index]
        let state = WorkerRoute(
            route: route,
            pool: pool(shared.targetOfRoute[index]),
            http1Pool: pool(shared.http1TargetOfRoute[index]),
            limits: limits
        )
        let made = CredentialedRoute(state, credential: nil, of: route.source)
        routes[index] = made
        return made
    }

    private func pool(_ index: Int) -> UpstreamPool {
        if let pool = pools[index] { return pool }
        let pool = UpstreamPool(target: shared.targets[index], worker: worker, shared: shared)
        // For a request that came before the reload.
        if isReplaced { pool.retire() }
        pools[index] = pool
        return pool
    }

    /// The route with this credential: made once for each generation.
    ///
    /// - Parameter chosen: The source of the request, where requests choose one.
    func credentialed(
        _ state: WorkerRoute,
        _ credential: Credential?,
        from chosen: (any CredentialSource)?
    ) -> CredentialedRoute {
        let index = state.route.index
        let key = chosen.map { ObjectIdentifier($0) }
        let known = if let key { self.chosen[index]?[key] } else { routes[index] }
        if let known, known.credential === credential { return known }
        let source = chosen ?? state.route.source
        let new = CredentialedRoute(state, credential: credential, of: source)
        if let key { keep(new, for: key, of: index) } else { routes[index] = new }
        return new
    }

    private func keep(_ route: CredentialedRoute, for source: ObjectIdentifier, of index: Int) {
        if chosen[index]?.count ?? 0 >= Self.maximumChosen { chosen[index] = nil }
        chosen[index, default: [:]][source] = route
    }

    func nextRequestID() -> RequestID {
        RequestID(run: shared.state.run, worker: worker.number, number: worker.nextRequestNumber())
    }

    /// The request's part of its trace; nil where telemetry is off.
    func beginTrace(_ head: borrowing RequestHead, _ bytes: borrowing Span<UInt8>) -> RequestTrace? {
        guard let tracing = shared.tracing else { return nil }
        return worker.beginTrace(head, bytes, tracing)
    }

    // MARK: Refusals

    /// Tells the observer of a request that was refused before an exchange began.
    ///
    /// - Parameters:
    ///   - refusal: nil where the head could not be read.
    ///   - isReset: Its stream is reset: the client sees no status.
    func observe(
        _ problem: GatewayProblem,
        _ refusal: RequestAuthorizer.Refusal?,
        of request: RequestMessage,
        id: RequestID,
        from peer: String,
        isTLS: Bool,
        isReset: Bool
    ) {
        let route = refusal?.route.map { shared.routes[$0] }
        var record = record(of: request, id: id, isTLS: isTLS)
        record.route = route?.number
        record.client = refusal?.client
        record.status = isReset ? 0 : problem.status
        record.problem = problem.kind
        let bytes = request.bytes
        let place =
            bytes.readableBytes > 0
            ? RequestPlace(request.decoder.head, bytes.readableBytesUInt8Span, peer: peer) : RequestPlace(peer: peer)
        record.failure = RequestFailure(problem, credential: route?.credentialName, place: place)
        shared.observer.finished(record)
    }

    /// The answer that a browser gets instead of the upstream's; the observer sees it, too.
    func answer(_ preflight: Preflight, of request: RequestMessage, id: RequestID, isTLS: Bool) -> ProblemAnswer {
        var record = record(of: request, id: id, isTLS: isTLS)
        record.route = preflight.route.map { shared.routes[$0].number }
        record.status = preflight.answer.status
        shared.observer.finished(record)
        guard let header = shared.configuration.requestIDHeader else { return preflight.answer }
        return preflight.answer.with([ProblemAnswer.Field(name: header, value: id.description)])
    }

    /// The record of a request that no exchange has begun for, as far as its head could be read.
    private func record(of request: RequestMessage, id: RequestID, isTLS: Bool) -> ExchangeRecord {
        let bytes = request.bytes
        let span = bytes.readableBytesUInt8Span
        let hasHead = bytes.readableBytes > 0
        var record = ExchangeRecord(
            requestID: id,
            clientRequestID: hasHead ? ClientRequestID.read(from: request.decoder.head, span) : nil,
            worker: worker.number,
            route: nil,
            client: nil,
            method: hasHead ? request.decoder.head.methodName(span) : "",
            startedAt: shared.clock.monotonic()
        )
        record.trace = hasHead ? beginTrace(request.decoder.head, span) : nil
        record.isTLS = isTLS
        return record
    }

    // MARK: Connections

    func closeIdle() {
        for case let pool? in pools { pool.closeIdle() }
    }
}
