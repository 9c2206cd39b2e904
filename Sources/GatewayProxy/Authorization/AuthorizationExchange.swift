import GatewayCore
import NIOCore

/// Answers an engine which fields the request needs that it asks about. Holds no rule.
///
/// Belongs to the connection's event loop. One connection uses it for one request after the other.
final class AuthorizationExchange {
    let configuration: WorkerConfiguration
    let engine: AuthzClient
    unowned let stream: any EngineStream
    /// The stream, where a message of gRPC asks.
    private(set) weak var check: (any CheckStream)?
    var original: OriginalRequest
    var decoder: RequestHeadDecoder
    /// ``original`` is a request that the authorizer may judge.
    var isRead = false
    var id: RequestID
    var startedAt: MonotonicTime
    /// What became of a generation that the engine reports as rejected; nil where it reports none.
    var rejection: AuthzOutcome.Outcome?
    /// What waits for a credential.
    var wait: Wait?
    /// Tells the answer of a wait from that of an earlier one.
    var attempt: UInt64 = 0

    struct Wait {
        let admitted: RequestAuthorizer.Admitted
        let route: WorkerRoute
        let source: any CredentialSource
        var ticket: CredentialTicket?
    }

    init(_ engine: AuthzClient, on stream: any EngineStream, under configuration: WorkerConfiguration) {
        self.engine = engine
        self.stream = stream
        self.configuration = configuration
        original = OriginalRequest(engine.plan)
        let limits = configuration.limits
        decoder = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        id = configuration.nextRequestID()
        startedAt = configuration.shared.clock.monotonic()
    }

    var shared: ProxyShared { configuration.shared }
    var isWaiting: Bool { wait != nil }

    // MARK: Decision

    /// The engine has proved itself. Nothing else is looked at before.
    var isProven: Bool {
        let request = stream.request
        let bytes = request.bytes
        return engine.proof.isGiven(
            by: request.decoder.head,
            bytes.readableBytesUInt8Span,
            peer: stream.identity.peer
        )
    }

    /// Decides about the request that has come on the stream.
    func begin() {
        prepare()
        guard isProven else { return refuse(EngineProof.refusal) }
        let request = stream.request
        let bytes = request.bytes
        // A 2xx would open a tunnel (RFC 9110 section 9.3.6).
        guard request.decoder.head.form != .authority else {
            return refuse(GatewayProblem(.methodRefused, "An engine asks by GET, HEAD or POST, and not by CONNECT."))
        }
        do throws(OriginalRequest.Fault) {
            try original.read(request.decoder.head, bytes.readableBytesUInt8Span)
        } catch {
            return refuse(error.problem)
        }
        decide()
    }

    /// Decides about the request of which this message tells. The engine has proved itself.
    ///
    /// - Parameter content: Of the call.
    func begin(_ content: borrowing Span<UInt8>, of call: any CheckStream) {
        prepare()
        guard let message = CheckResponse.message(in: content) else {
            return refuse(
                GatewayProblem(.requestRefused, "The content of the call is not one message without compression.")
            )
        }
        check = call
        do throws(OriginalRequest.Fault) {
            try original.read(check: content, message)
        } catch {
            return refuse(error.problem)
        }
        decide()
    }

    private func prepare() {
        id = configuration.nextRequestID()
        startedAt = shared.clock.monotonic()
        isRead = false
        rejection = nil
    }

    private func decide() {
        let bytes = original.bytes
        decoder.reset()
        switch decoder.decode(bytes.span) {
        case .head where decoder.head.end == bytes.count && decoder.head.form != .authority: isRead = true
        case .refused(let reason):
            return refuse(reason.problem("The request that the engine asks about was", under: configuration.limits))
        case .head, .needMore:
            return refuse(GatewayProblem(.requestRefused, "The request that the engine asks about is not valid."))
        }
        var trace: AuthorizationTrace?
        let decision = shared.authorizer.decide(
            decoder.head,
            bytes.span,
            scheme: original.scheme,
            route: original.route,
            askedBy: engine.plan.name,
            on: stream.identity,
            trace: &trace
        )
        switch consume decision {
        case .admitted(let admitted): admit(admitted)
        case .refused(let refusal): refuse(refusal.problem, refusal)
        // The authorizer answers engines with neither of them.
        case .preflight: refuse(Self.undecided)
        case .unrouted: refuse(Self.undecided)
        }
    }

    private static let undecided = GatewayProblem(.internalError, "The request was not decided about.")

    private func admit(_ admitted: consuming RequestAuthorizer.Admitted) {
        if let usage = shared.usage(of: admitted.client) {
            if let problem = usage.refusal(at: startedAt) { return refuse(problem, of: admitted) }
            usage.end()
        }
        let route = configuration.route(admitted.match.route)
        guard let source = admitted.chosen ?? route.state.route.source else {
            let detail = "The route has no credential that an engine could be handed."
            return refuse(GatewayProblem(.credentialMisconfigured, detail), of: admitted)
        }
        if let rejected = rejectedToken(from: source) {
            rejection = reject(rejected, of: source, for: admitted)
        } else if admitted.chosen == nil, route.credential != nil, route.isOffered(at: startedAt) {
            return answer(admitted, by: route, from: source)
        }
        take(from: source, for: admitted, by: route.state)
    }

    private func take(
        from source: any CredentialSource,
        for admitted: consuming RequestAuthorizer.Admitted,
        by route: WorkerRoute
    ) {
        switch source.current(at: startedAt) {
        case .ready(let credential):
            answer(admitted, by: configuration.credentialed(route, credential, from: admitted.chosen), from: source)
        case .wait: waitForCredential(Wait(admitted: admitted, route: route, source: source))
        case .unavailable(let problem): withhold(problem, from: source, of: admitted)
        }
    }

    // MARK: Waiting

    private func waitForCredential(_ wait: consuming Wait) {
        let client = wait.admitted.client
        guard wait.route.waiting.take(for: client, limit: shared.pendingPerRoute, isShared: shared.hasClients) else {
            let detail = "Too many requests already wait for a credential of this route."
            let problem = GatewayProblem(.overloaded, detail, retryAfter: .seconds(1))
            return withhold(problem, from: wait.source, of: wait.admitted)
        }
        let (source, request) = (wait.source, credentialRequest(of: wait.admitted))
        self.wait = wait
        stream.setDeadline(configuration.timeouts.credential)
        attempt &+= 1
        let (attempt, loop) = (attempt, configuration.loop)
        let bound = NIOLoopBound(self, eventLoop: loop)
        let ticket = source.wait(for: request) { result in
            loop.execute { bound.value.credentialCame(result, attempt) }
        }
        self.wait?.ticket = ticket
    }

    private func credentialCame(_ result: Result<Credential, GatewayProblem>, _ attempt: UInt64) {
        guard self.attempt == attempt, let wait = stopWaiting() else { return }
        switch result {
        case .success(let credential):
            // It may have been withdrawn on its way here.
            guard credential.isOffered(at: shared.clock.monotonic()) else {
                startedAt = shared.clock.monotonic()
                return take(from: wait.source, for: wait.admitted, by: wait.route)
            }
            let route = configuration.credentialed(wait.route, credential, from: wait.admitted.chosen)
            answer(wait.admitted, by: route, from: wait.source)
        case .failure(let problem): withhold(problem, from: wait.source, of: wait.admitted)
        }
    }

    private func stopWaiting() -> Wait? {
        guard let wait = wait.take() else { return nil }
        wait.route.waiting.giveBack(of: wait.admitted.client)
        stream.clearDeadline()
        return wait
    }

    func deadlinePassed() {
        guard let wait = stopWaiting() else { return }
        if let ticket = wait.ticket { wait.source.cancel(ticket) }
        let detail = "No token came within \(ConfigUnits.text(configuration.limits.credentialTimeout))."
        let problem = GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1))
        withhold(problem, from: wait.source, of: wait.admitted)
    }

    /// The engine has left, or a reload decides anew.
    func cancel() {
        guard let wait = stopWaiting(), let ticket = wait.ticket else { return }
        wait.source.cancel(ticket)
    }
}
