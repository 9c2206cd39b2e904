import GatewayCore
import NIOCore

/// The ways in which an exchange ends.
extension ExchangeDriver {
    // MARK: Withdrawal

    func endIfWithdrawn(_ withdrawn: WithdrawnCredentials) {
        let now = shared.clock.monotonic()
        guard let source, let credential, let event = withdrawn.event(credential, of: source, at: now) else { return }
        enter()
        let step = rules.handle(event)
        if step == .reauthorize { reauthorize(at: now) } else { end(by: step) }
        leave()
        client.resumeRequest()
    }

    /// A reload has come.
    ///
    /// - Parameter verdict: On the same request, by the configuration that has come.
    /// - Returns: Whether the connection is to authorize the request again, under the configuration that has come. This exchange
    ///   is over then.
    func followReload(_ withdrawal: ReloadWithdrawal, _ verdict: ReloadWithdrawal.Verdict) -> Bool {
        let event = withdrawal.event(
            of: record.client,
            route: admitted.route,
            on: admitted.reach,
            verdict: verdict
        )
        let step = rules.handle(event)
        guard step == .beginAgain else {
            enter()
            end(by: step)
            leave()
            return false
        }
        leaveUpstream(isCut: false)
        stopWaiting()
        usage.take()?.undo()
        releaseUpload()
        return true
    }

    // MARK: Loss

    /// The client reads no more, or its connection is lost.
    ///
    /// - Parameter isCut: A tunnel must not pass its end on as an end.
    func clientLeft(isCut: Bool) {
        guard backlog.depth == 0 else { return backlog.clientLeft = (isCut, ()) }
        leaveClient(isCut: isCut)
    }

    func leaveClient(isCut: Bool) {
        _ = rules.handle(.clientLeft)
        leaveUpstream(isCut: isCut)
        report()
    }

    /// The connection ended before the response did.
    ///
    /// - Parameters:
    ///   - isRefused: The upstream has not looked at the request.
    ///   - alert: What it said of TLS.
    func upstreamLost(hasAnswered: Bool, isRefused: Bool = false, alert: TLSAlert? = nil) {
        let loss = ConnectionLoss(
            hasAnswered: hasAnswered,
            isUnprocessed: false,
            isRefused: isRefused,
            alert: alert
        )
        upstreamCame(to: .lost(loss))
    }

    /// The end of the connection is the end of the response, or of the tunnel.
    func responseEndedWithConnection() { upstreamCame(to: .complete) }

    func upstreamCame(to end: UpstreamEnd) {
        guard backlog.depth == 0 else { return backlog.upstreamEnd = end }
        upstreamEnded(end)
        client.resumeRequest()
    }

    func upstreamEnded(_ end: UpstreamEnd) {
        guard let upstream = upstream.take() else { return }
        enter()
        defer { leave() }
        switch end {
        case .lost(let loss): lost(upstream, loss)
        case .complete:
            if rules.phase == .tunnelling {
                _ = rules.handle(.tunnelEnded)
            } else {
                client.sendEnd(trailers: nil)
                _ = rules.handle(.responseEnded(isReusable: false))
            }
            finish()
        }
    }

    func lost(_ upstream: any UpstreamStream, _ loss: ConnectionLoss) {
        unsent = upstream.takeUnsent()
        var loss = loss
        loss.isUnprocessed = unsent != nil
        let step = rules.handle(.upstreamLost(loss))
        if case .connect(let isFresh) = step { connect(isFresh: isFresh) } else { end(by: step) }
    }

    /// The response breaks a rule of its protocol; its connection is closed already.
    func upstreamBroke(_ detail: String) {
        enter()
        upstream = nil
        end(with: .responseInvalid, upstreamProblem(.upstreamInvalidResponse, detail))
        leave()
    }

    func upstreamProblem(_ kind: ProblemKind, _ detail: String) -> GatewayProblem {
        GatewayProblem(kind, "\(compiled.plan.upstream): \(detail)")
    }

    // MARK: End

    /// Ends the exchange with a problem that the event brings.
    func end(with event: ExchangeEvent, _ problem: GatewayProblem) { end(by: rules.handle(event), problem) }

    /// Carries out the end that was decided on; without effect where the exchange goes on.
    ///
    /// - Parameter reported: What the event brings.
    func end(by step: ExchangeStep, _ reported: GatewayProblem? = nil) {
        switch step {
        case .respond(let reason): respond(with: problem(reason, reported))
        case .cut(let reason):
            noteFailure(problem(reason, reported), isCut: true)
            cut(within: reason.cutLimit.map { TimeAmount($0) })
        default: break
        }
    }

    private func problem(_ reason: ExchangeProblem, _ reported: GatewayProblem?) -> GatewayProblem {
        let problem = reason.problem(
            upstream: compiled.plan.upstream.description,
            credential: source?.name,
            timeouts: compiled.plan.timeouts,
            limits: configuration.limits
        )
        return problem ?? reported ?? GatewayProblem(.internalError, "The exchange ended without a reason.")
    }

    func respond(with problem: GatewayProblem) {
        noteFailure(problem)
        record.status = problem.kind.status
        leaveUpstream(isCut: false)
        report()
        let subject = ProblemSubject(
            requestID: record.requestID,
            route: compiled,
            credential: admitted.chosen?.name,
            disclosesNames: admitted.disclosesNames
        )
        client.respond(with: problem, as: subject, requestIsComplete: rules.requestIsComplete)
    }

    func noteFailure(_ problem: GatewayProblem, isCut: Bool = false) {
        record.problem = problem.kind
        record.failure = RequestFailure(problem, isCut: isCut, credential: source?.name, place: requestPlace)
    }

    var requestPlace: RequestPlace {
        let bytes = client.request.bytes
        return RequestPlace(client.request.decoder.head, bytes.readableBytesUInt8Span, peer: client.peer)
    }

    func cut(within limit: TimeAmount?) {
        leaveUpstream(isCut: true)
        report()
        client.cut(within: limit)
    }

    func finish() {
        report()
        client.finish(requestIsComplete: rules.requestIsComplete)
    }

    func leaveUpstream(isCut: Bool) {
        if let ticket = wait.ticket { source?.cancel(ticket) }
        if let place = place.take() { pool.leave(place) }
        upstream.take()?.abandon(isCut: isCut)
    }

    func report() {
        stopWaiting()
        releaseUpload()
        usage.take()?.end()
        record.credential = credential
        record.wasReplayed = rules.wasReplayed
        record.finishedAt = shared.clock.monotonic()
        shared.observer.finished(record)
    }
}
