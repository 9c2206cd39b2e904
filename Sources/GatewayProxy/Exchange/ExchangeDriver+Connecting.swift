import GatewayCore
import NIOCore

/// What an exchange needs before it can send its request: a credential, then a connection.
extension ExchangeDriver {
    // MARK: Credential

    func begin(at now: MonotonicTime) {
        enter()
        if case .length(let length) = client.request.decoder.head.framing,
            let problem = configuration.limits.refusal(ofContent: length)
        {
            end(with: .requestInvalid, problem)
        } else if let problem = limitReached(at: now) {
            end(with: .requestInvalid, problem)
        } else {
            authorize(at: now)
        }
        leave()
    }

    func limitReached(at now: MonotonicTime) -> GatewayProblem? {
        guard let usage = shared.usage(of: record.client) else { return nil }
        if let problem = usage.refusal(at: now) { return problem }
        self.usage = usage
        return nil
    }

    /// Takes the credential that is at hand, or waits for one.
    func authorize(at now: MonotonicTime) {
        // The source has to be told first of one that is sent again.
        let isReplaying = if case .replaying = rules.phase { true } else { false }
        if !isReplaying, admitted.chosen == nil, route.isOffered(at: now) { return connect(by: route) }
        guard let source else { return connect(with: nil) }
        switch source.current(at: now) {
        case .ready(let credential): connect(with: credential)
        case .wait: waitForCredential(source)
        case .unavailable(let problem): credentialUnavailable(problem)
        }
    }

    func waitForCredential(_ source: any CredentialSource) {
        let isShared = shared.hasClients
        guard route.state.waiting.take(for: record.client, limit: shared.pendingPerRoute, isShared: isShared) else {
            let detail = "Too many requests already wait for a credential of this route."
            return credentialUnavailable(GatewayProblem(.overloaded, detail, retryAfter: .seconds(1)))
        }
        wait.isWaiting = true
        _ = rules.handle(.credentialAwaited)
        followDeadline()
        let attempt = nextAttempt()
        let loop = configuration.loop
        let bound = NIOLoopBound(self, eventLoop: loop)
        let ticket = source.wait(for: credentialRequest) { result in
            loop.execute { bound.value.credentialCame(result, attempt) }
        }
        wait.ticket = ticket
    }

    func nextAttempt() -> UInt64 {
        attemptID &+= 1
        return attemptID
    }

    func credentialCame(_ result: Result<Credential, GatewayProblem>, _ attempt: UInt64) {
        guard wait.isWaiting, attemptID == attempt else { return }
        enter()
        stopWaiting()
        switch result {
        case .success(let credential): connect(with: credential)
        case .failure(let problem): credentialUnavailable(problem)
        }
        leave()
        client.resumeRequest()
    }

    func stopWaiting() {
        guard wait.isWaiting else { return }
        wait = CredentialWait()
        route.state.waiting.giveBack(of: record.client)
        client.clearDeadline()
    }

    func credentialTimedOut() {
        if let ticket = wait.ticket { source?.cancel(ticket) }
        stopWaiting()
        let detail = "No token came within \(ConfigUnits.text(configuration.limits.credentialTimeout))."
        credentialUnavailable(GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1)))
    }

    func credentialUnavailable(_ problem: GatewayProblem) {
        if case .passHeldResponse(let note) = rules.handle(.credentialUnavailable(problem.kind)), let upstream {
            self.note = note
            followDeadline()
            return upstream.passHeldResponse()
        }
        source?.note(.withheld, generation: 0, by: credentialRequest)
        respond(with: problem)
    }

    // MARK: Connection

    func connect(with credential: Credential?) {
        if case .replaying = rules.phase {
            let rejected = self.credential?.generation ?? 0
            source?.note(.replayed, generation: rejected, by: credentialRequest)
            dropHeldResponse()
        }
        connect(by: configuration.credentialed(route.state, credential, from: admitted.chosen))
    }

    func dropHeldResponse() {
        guard let upstream = upstream.take() else { return }
        upstream.dropHeldResponse(requestWasSent: hasSentAll(to: upstream))
    }

    func connect(by prepared: CredentialedRoute) {
        if route !== prepared { route = prepared }
        isAuthorized = true
        reached(.credential)
        if let problem = refusalOfHead() { return end(with: .requestInvalid, problem) }
        guard case .connect(let isFresh) = rules.handle(.authorized) else { return }
        connect(isFresh: isFresh)
    }

    /// What can be said of a head only once it is known what is injected.
    func refusalOfHead() -> GatewayProblem? {
        let hasDoubts = client.request.decoder.head.present.contains(.secondAuthorization)
        guard hasDoubts || client.request.decoder.head.section.hasUnderscore else { return nil }
        let bytes = client.request.bytes
        return route.requestFields.refusal(
            of: client.request.decoder.head,
            bytes.readableBytesUInt8Span,
            stripsAuthorization: admitted.stripsAuthorization
        )
    }

    /// - Parameter isFresh: Never a pooled connection: the last one died under this request.
    func connect(isFresh: Bool) {
        if route.pool.mayUseHTTP2, !goesByHTTP1 { chooseProtocol() }
        let pool = pool
        client.clearDeadline()
        let mayRepeat = rules.mayRepeat
        let own = route.usesPrivateConnection ? client.privateConnection(to: pool, for: record.client) : nil
        guard mayRepeat || isFresh || !(own?.isBusyReading ?? pool.isBusyReading) else { return connectNextTurn() }
        if !isFresh, let stream = takeIdle(of: pool, or: own, mayRepeat: mayRepeat) { return send(on: stream) }
        let attempt = nextAttempt()
        place = pool.connect(client: record.client, isFresh: isFresh, for: own) { [self] result in
            connected(result, attempt)
        }
    }

    private func takeIdle(
        of pool: UpstreamPool,
        or own: PrivateConnection?,
        mayRepeat: Bool
    ) -> (any UpstreamStream)? {
        guard let own else { return pool.takeIdle(for: record.client, mayRepeat: mayRepeat) }
        return own.takeIdle()
    }

    /// By then it is known whether a connection that has just brought a response has ended with it.
    func connectNextTurn() {
        let attempt = nextAttempt()
        configuration.loop.assumeIsolated()
            .execute { [self] in
                guard rules.phase == .connecting, attemptID == attempt else { return }
                enter()
                connect(isFresh: false)
                leave()
                client.resumeRequest()
            }
    }

    func connected(_ result: Result<any UpstreamStream, GatewayProblem>, _ attempt: UInt64) {
        guard rules.phase == .connecting, attemptID == attempt else {
            if case .success(let stream) = result { stream.returnUnused() }
            return
        }
        enter()
        place = nil
        switch result {
        case .success(let stream): send(onceConnected: stream)
        case .failure(let problem): end(with: .connectionFailed, problem)
        }
        leave()
        client.resumeRequest()
    }

    /// The credential may have been taken away, or have expired, while the connection was waited for.
    func send(onceConnected stream: any UpstreamStream) {
        let now = shared.clock.monotonic()
        if let credential, !credential.isOffered(at: now) {
            stream.returnUnused()
            let step = rules.handle(.withdrawn)
            return step == .reauthorize ? reauthorize(at: now) : end(by: step)
        }
        send(on: stream)
    }

    /// Gives up the place in the queue for a connection, and asks the source again.
    func reauthorize(at now: MonotonicTime) {
        if let place = place.take() { pool.leave(place) }
        // It begins with the credential that is asked for anew.
        unsent = nil
        isAuthorized = false
        // A connection that comes for the earlier attempt is given back.
        attemptID &+= 1
        authorize(at: now)
    }
}
