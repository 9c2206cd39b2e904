import GatewayCore
import NIOCore

/// From the first byte of a head to the exchange of its request.
extension HTTP1ClientConnection {
    /// - Returns: Whether there is more to do with what has come.
    func readHead() -> Bool {
        let wasWithinHead = request.decoder.isWithinHead
        if configuration.isReplaced, !wasWithinHead { takeConfiguration() }
        switch reader.readHead() {
        case .needMore:
            if request.decoder.isWithinHead { countHead() }
            if clientHasClosedOutput {
                closeAfterWrites(lingering: false)
            } else if request.decoder.isWithinHead, !wasWithinHead {
                setDeadline(timeouts.header)
            }
            return false
        case .refused(.versionNotSupported) where beginsHTTP2():
            becomeHTTP2()
            return false
        case .refused(let reason):
            releaseHead()
            refuse(reason.problem("The request was", under: configuration.limits))
            return false
        case .head:
            releaseHead()
            reader.takeHead()
            timer.clear()
            // A head is judged by what is served when it is complete, whenever its first bytes came.
            if configuration.isReplaced { takeConfiguration() }
            // The client has left, or the request lacks a part.
            guard !clientHasClosedOutput || !reader.clientHasLeft() else {
                closeAfterWrites(lingering: false)
                return false
            }
            authorize()
            return true
        }
    }

    func releaseHead() { unfinishedHead.release(in: configuration.worker) }

    private func countHead() {
        unfinishedHead.count(reader.shrink(), of: self, in: configuration.worker)
        configuration.worker.endOldHeads()
    }

    /// Newer heads need the memory of this one (`limits.head_memory`).
    func endHeadForItsMemory() {
        unfinishedHead.forget()
        refuse(shared.state.headMemory.problem)
    }

    func authorize() {
        isFirst = false
        if let engine = identity.engine { return answerEngine(engine) }
        if request.decoder.head.form == .authority { return connect() }
        keepsAlive = request.decoder.head.clientKeepsAlive && !isEnding && !shared.isDraining
        let bytes = request.bytes
        let id = configuration.nextRequestID()
        var trace: AuthorizationTrace?
        let decision = shared.authorizer.decide(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            on: identity,
            cache: &clientCache,
            trace: &trace
        )
        switch consume decision {
        case .refused(let refusal): refuse(refusal.problem, id: id, refusal)
        case .admitted(let admitted): begin(id, admitted)
        case .unrouted(let unrouted): forward(unrouted, id: id)
        case .preflight(let preflight): answer(preflight, id: id)
        }
    }

    /// - Parameter route: nil for the one that was matched.
    func begin(_ id: RequestID, _ admitted: consuming RequestAuthorizer.Admitted, by route: CredentialedRoute? = nil) {
        let now = shared.clock.monotonic()
        let bytes = request.bytes
        let exchange = ExchangeDriver(
            id,
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted: admitted,
            by: route,
            client: self,
            configuration: configuration,
            at: now
        )
        self.exchange = exchange
        phase = .exchange
        exchange.begin(at: now)
    }
}
