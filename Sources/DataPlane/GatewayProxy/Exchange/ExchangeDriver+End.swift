import GatewayCore
import NIOCore

/// The ways in which an exchange ends.
extension ExchangeDriver {
    // MARK: Withdrawal

    /// - Parameter sources: Those whose credential an operator has taken away.
    func endIfWithdrawn(_ sources: Set<ObjectIdentifier>) {
        let now = shared.clock.monotonic()
        guard let source, sources.contains(ObjectIdentifier(source)),
            // One that has the credential that came afterwards goes on.
            let credential, !credential.isOffered(at: now)
        else { return }
        enter()
        switch rules.handle(.withdrawn) {
        case .reauthorize: reauthorize(at: now)
        case .respond: respond(with: withdrawn(source))
        case .cut:
            record.problem = .locked
            cut(within: Self.withdrawalLimit)
        default: break
        }
        leave()
        client.resumeRequest()
    }

    /// A reload has come before the request has left: its connection begins the request anew, under the new configuration.
    func leaveUnsent() {
        _ = rules.handle(.clientLeft)
        leaveUpstream(isCut: false)
        stopWaiting()
        usage.take()?.end()
    }

    /// A reload has taken the right of the client, the route or the credential away.
    func exclude(_ problem: GatewayProblem) {
        enter()
        end(with: .excluded, problem, cutWithin: Self.withdrawalLimit)
        leave()
    }

    /// The operator is promised that responses are cut within a second.
    static let withdrawalLimit = TimeAmount.milliseconds(900)

    func withdrawn(_ source: any CredentialSource) -> GatewayProblem {
        let detail = "\(source.name) was taken away while this request was under way."
        return GatewayProblem(.locked, detail, retryAfter: .seconds(1))
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
    func upstreamLost(hasAnswered: Bool) {
        upstreamCame(to: .lost(ConnectionLoss(hasAnswered: hasAnswered, isUnprocessed: false)))
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
        switch rules.handle(.upstreamLost(loss)) {
        case .connect(let isFresh): connect(isFresh: isFresh)
        case .respond:
            let detail = "\(compiled.plan.upstream) closed the connection early."
            respond(with: GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated))
        case .cut:
            record.problem = .upstreamUnreachable
            cut(within: nil)
        default: break
        }
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
    func end(with event: ExchangeEvent, _ problem: GatewayProblem, cutWithin limit: TimeAmount? = nil) {
        switch rules.handle(event) {
        case .respond: respond(with: problem)
        case .cut:
            record.problem = problem.kind
            cut(within: limit)
        default: break
        }
    }

    func respond(with problem: GatewayProblem) {
        record.problem = problem.kind
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
        if let place = place.take() { route.pool.leave(place) }
        upstream.take()?.abandon(isCut: isCut)
    }

    func report() {
        stopWaiting()
        usage.take()?.end()
        record.credential = credential
        record.wasReplayed = rules.wasReplayed
        record.finishedAt = shared.clock.monotonic()
        shared.observer.finished(record)
    }
}
