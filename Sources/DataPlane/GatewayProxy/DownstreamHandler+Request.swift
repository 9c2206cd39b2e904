import GatewayCore
import NIOCore

extension DownstreamHandler {
    // MARK: Head

    /// - Returns: Whether there is more to do with what is in ``inbound``.
    func readHead() -> Bool {
        let wasWithinHead = decoder.isWithinHead
        if lane.isReplaced, !wasWithinHead { followReload() }
        let bytes = inbound
        switch decoder.decode(bytes.readableBytesUInt8Span) {
        case .needMore:
            inbound.moveReaderIndex(forwardBy: decoder.takeEmptyLine())
            if clientHasClosedOutput {
                closeAfterWrites(lingering: false)
            } else if decoder.isWithinHead, !wasWithinHead {
                setDeadline(timeouts.header)
            }
            return false
        case .refused(let reason):
            refuse(reason.problem("The request was", under: lane.limits))
            return false
        case .head:
            guard let head = inbound.readSlice(length: decoder.head.end) else { return false }
            timer.clear()
            guard !isOfClientThatLeft else {
                closeAfterWrites(lingering: false)
                return false
            }
            admit(head)
            return phase == .forwarding || phase == .head
        }
    }

    private func admit(_ head: consuming ByteBuffer) {
        keepsAlive = decoder.head.clientKeepsAlive && !isEnding && !shared.isDraining
        let id = requestID(head)
        var trace: AuthorizationTrace?
        let decision = shared.authorizer.decide(
            decoder.head,
            head.readableBytesUInt8Span,
            on: listener,
            cache: &clientCache,
            trace: &trace
        )
        switch consume decision {
        case .refused(let refusal):
            observeDenial(refusal, id: id)
            let route = refusal.route.map { shared.routes[$0] }
            refuse(refusal.problem, head: head, id: id, route: route, client: refusal.client)
        case .admitted(let admitted):
            let prepared = lane.routes[admitted.match.route]
            begin(head, id: id, admitted, prepared)
        }
    }

    private func begin(
        _ head: consuming ByteBuffer,
        id: consuming RequestID,
        _ admitted: consuming RequestAuthorizer.Admitted,
        _ prepared: consuming PreparedRoute
    ) {
        let now = shared.clock.monotonic()
        let rules = Exchange(
            RequestFacts(
                isIdempotent: decoder.head.isIdempotent,
                hasContent: decoder.head.framing != .none,
                expectsContinue: decoder.head.expectsContinue,
                isHTTP10: decoder.head.isHTTP10
            ),
            isRenewable: (admitted.chosen ?? prepared.state.route.source)?.isRenewable ?? false
        )
        let record = ExchangeRecord(
            requestID: id,
            lane: lane.slot.number,
            route: Int(prepared.number),
            client: admitted.client,
            method: decoder.head.methodName(head.readableBytesUInt8Span),
            startedAt: now
        )
        let exchange = ActiveExchange(
            record,
            head: head,
            admitted: admitted,
            prepared: prepared,
            rules: rules,
            body: MessageBody(decoder.head.framing)
        )
        self.exchange = exchange
        phase = .waiting
        if case .length(let length) = decoder.head.framing, let problem = tooLong(length) {
            return end(with: .requestInvalid, problem)
        }
        authorize(exchange, at: now)
    }

    /// The client's own id when it is harmless: letters, digits, `-`, `_`, `.`, at most 64 of them.
    private func requestID(_ head: ByteBuffer) -> RequestID {
        guard decoder.head.present.contains(.requestID), let field = decoder.head.first(.xRequestID) else {
            return lane.nextRequestID()
        }
        let bytes = head.readableBytesUInt8Span
        guard (1...64).contains(field.value.count) else { return lane.nextRequestID() }
        for index in field.value {
            let byte = bytes[index]
            guard byte.isTokenByte, byte.isHexDigit || (byte | 0x20) &- 0x61 < 26 || [0x2D, 0x2E, 0x5F].contains(byte)
            else { return lane.nextRequestID() }
        }
        return .given(bytes.string(field.value))
    }

    private func observeDenial(_ refusal: RequestAuthorizer.Refusal, id: RequestID) {
        switch refusal.problem.kind {
        case .clientAuthRequired, .proxyAuthRequired, .routeForbidden:
            let demand = refusal.route.map {
                CredentialDemand(
                    route: shared.routes[$0].plan.name,
                    client: refusal.client,
                    requestID: id.description
                )
            }
            shared.observer.denied(demand, requestID: id.description, reason: refusal.problem.kind)
        default: break
        }
    }

    // MARK: Credential

    /// Takes the credential that is at hand, or waits for one.
    func authorize(_ exchange: ActiveExchange, at now: MonotonicTime) {
        // One that is sent again has to be noted first.
        if exchange.parked == nil, exchange.chosen == nil, exchange.prepared.isOffered(at: now) {
            return connect(with: exchange.prepared, for: exchange)
        }
        guard let source = exchange.source else { return connect(with: nil, for: exchange) }
        switch source.current(at: now) {
        case .ready(let credential): connect(with: credential, for: exchange)
        case .wait: waitForCredential(source)
        case .unavailable(let problem): credentialUnavailable(problem)
        }
    }

    private func waitForCredential(_ source: any CredentialSource) {
        guard let exchange else { return }
        guard exchange.state.beginWaiting(limit: shared.pendingPerRoute) else {
            let detail = "Too many requests already wait for a credential of this route."
            return credentialUnavailable(GatewayProblem(.overloaded, detail, retryAfter: .seconds(1)))
        }
        exchange.isWaiting = true
        _ = exchange.rules.handle(.credentialAwaited)
        step &+= 1
        let step = step
        let demand = exchange.demand
        setDeadline(timeouts.credential)
        let bound = NIOLoopBound(self, eventLoop: lane.loop)
        let loop = lane.loop
        let ticket = source.wait(for: demand) { result in
            loop.execute { bound.value.credentialCame(result, step: step) }
        }
        self.exchange?.ticket = ticket
    }

    private func credentialCame(_ result: Result<Credential, GatewayProblem>, step: UInt64) {
        guard phase == .waiting, let exchange, exchange.isWaiting, self.step == step else { return }
        stopWaiting()
        switch result {
        case .success(let credential): connect(with: credential, for: exchange)
        case .failure(let problem): credentialUnavailable(problem)
        }
        process()
    }

    func stopWaiting() {
        guard let exchange, exchange.isWaiting else { return }
        exchange.isWaiting = false
        exchange.ticket = nil
        exchange.state.endWaiting()
        timer.clear()
    }

    func credentialTimedOut() {
        guard let exchange else { return closeNow() }
        if let ticket = exchange.ticket { exchange.source?.cancel(ticket) }
        stopWaiting()
        let detail = "No token came within \(ConfigUnits.text(limits.credentialTimeout))."
        credentialUnavailable(GatewayProblem(.tokenEndpointTimeout, detail, retryAfter: .seconds(1)))
        process()
    }

    /// Fails closed; a request whose first answer was kept back gets that answer instead.
    private func credentialUnavailable(_ problem: GatewayProblem) {
        guard let exchange else { return }
        guard case .passHeldResponse(let note) = exchange.rules.handle(.credentialUnavailable(problem.kind)),
            let parked = exchange.parked.take()
        else {
            exchange.source?.note(.withheld, generation: 0, by: exchange.demand)
            return refuse(problem)
        }
        exchange.upstream = parked
        exchange.note = note
        followRules()
        parked.resumeParked()
    }

    /// Takes the phase and the deadline from the exchange.
    func followRules() {
        guard let exchange else { return }
        switch exchange.rules.phase {
        case .authorizing, .connecting, .replaying: phase = .waiting
        case .forwarding: phase = .forwarding
        case .responding: phase = .responding
        case .tunnelling: phase = .tunnel
        case .done: break
        }
        switch exchange.rules.deadline {
        case .none: timer.clear()
        case .credential: setDeadline(timeouts.credential)
        case .bodyIdle: setDeadline(timeouts.bodyIdle)
        case .response: setDeadline(timeouts.response)
        }
    }

    /// Ends the exchange with a problem that the event brings.
    func end(with event: ExchangeEvent, _ problem: GatewayProblem) {
        _ = exchange?.rules.handle(event)
        refuse(problem)
    }

    // MARK: Connection

    private func connect(with credential: Credential?, for exchange: ActiveExchange) {
        if let parked = exchange.parked {
            let rejected = exchange.credential?.generation ?? 0
            exchange.source?.note(.replayed, generation: rejected, by: exchange.demand)
            exchange.parked = nil
            parked.discardParked()
        }
        connect(with: lane.prepare(exchange, with: credential), for: exchange)
    }

    private func connect(with prepared: PreparedRoute, for exchange: ActiveExchange) {
        exchange.authorize(with: prepared)
        let passesAuthorization = prepared.keepsAuthorization && !exchange.stripsAuthorization
        if passesAuthorization, decoder.head.present.contains(.secondAuthorization) {
            end(with: .requestInvalid, GatewayProblem(.requestRefused, "The request has more than one Authorization."))
            return
        }
        guard !hasLookAlike(exchange) else {
            let detail = "A field's name could be read as one that the gateway sets."
            return end(with: .requestInvalid, GatewayProblem(.requestRefused, detail))
        }
        guard case .connect(let isFresh) = exchange.rules.handle(.authorized) else { return }
        connect(exchange, by: prepared, isFresh: isFresh)
    }

    private func hasLookAlike(_ exchange: ActiveExchange) -> Bool {
        guard decoder.head.section.hasUnderscore else { return false }
        let head = exchange.head
        return requestWriter(exchange, exchange.prepared).hasLookAlike(decoder.head, head.readableBytesUInt8Span)
    }

    /// - Parameter isFresh: Never a pooled connection: the last one died under this request.
    func connect(_ exchange: ActiveExchange, by prepared: PreparedRoute, isFresh: Bool) {
        let pool = prepared.pool
        phase = .waiting
        let mayRepeat = exchange.rules.mayRepeat
        guard mayRepeat || isFresh || !pool.isBusyReading else { return connectNextTurn() }
        if !isFresh, let connection = pool.takeIdle(mayRepeat: mayRepeat) {
            send(exchange, by: prepared, on: connection, isReused: true)
            return
        }
        step &+= 1
        let step = step
        exchange.place = pool.connect(isFresh: isFresh) { [self] result in connected(result, step: step, pool) }
    }

    /// By then it is known whether a connection that has just brought an answer has ended with it.
    private func connectNextTurn() {
        step &+= 1
        let step = step
        context?.eventLoop.assumeIsolated()
            .execute { [self] in
                guard phase == .waiting, self.step == step, let exchange else { return }
                connect(exchange, by: exchange.prepared, isFresh: false)
                process()
            }
    }

    private func connected(_ result: Result<UpstreamHandler, GatewayProblem>, step: UInt64, _ pool: UpstreamPool) {
        guard phase == .waiting, let exchange, self.step == step else {
            if case .success(let connection) = result {
                connection.becameIdle()
                pool.putBack(connection)
            }
            return
        }
        exchange.place = nil
        switch result {
        case .success(let connection): send(exchange, onceConnected: connection, pool)
        case .failure(let problem): end(with: .connectionFailed, problem)
        }
        process()
    }

    /// The credential may have been taken away, or have expired, while the connection was waited for.
    private func send(_ exchange: ActiveExchange, onceConnected connection: UpstreamHandler, _ pool: UpstreamPool) {
        let now = shared.clock.monotonic()
        if let credential = exchange.credential, !credential.isOffered(at: now) {
            connection.becameIdle()
            pool.putBack(connection)
            _ = exchange.rules.handle(.withdrawn)
            return reauthorize(exchange)
        }
        send(exchange, by: exchange.prepared, on: connection, isReused: connection.hasBeenIdle)
    }

    private func requestWriter(_ exchange: ActiveExchange, _ prepared: PreparedRoute) -> RequestWriter {
        RequestWriter(route: prepared, match: exchange.match, stripsAuthorization: exchange.stripsAuthorization)
    }

    private func write(_ exchange: ActiveExchange, by prepared: PreparedRoute, into out: inout ByteBuffer) -> Bool {
        var writer = requestWriter(exchange, prepared)
        if prepared.addsForwarded {
            let head = exchange.head
            let bytes = head.readableBytesUInt8Span
            let host = bytes.string(decoder.head.host)
            writer.forwarded = exchange.route.forwarded.lines(
                client: context?.channel.remoteAddress?.ipAddress,
                host: host,
                isTLS: !isAlone
            )
        }
        let end = shared.requestEnd.line(isHTTP10: decoder.head.isHTTP10)
        return writer.write(decoder.head, exchange.head, end: end, into: &out)
    }

    private func send(
        _ exchange: ActiveExchange,
        by prepared: PreparedRoute,
        on connection: UpstreamHandler,
        isReused: Bool
    ) {
        guard exchange.rules.handle(.connected(isReused: isReused)) == .sendRequest else { return connection.close() }
        connection.begin(self, answersHead: decoder.head.isHead)
        exchange.upstream = connection
        exchange.record.wasSent = true
        var out = buffers.take()
        if let unsent = exchange.unsent.take() {
            out = unsent
        } else {
            guard exchange.isAuthorized, write(exchange, by: prepared, into: &out) else {
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The head could not be rewritten."))
            }
            if let held = exchange.held { out.writeImmutableBuffer(held) }
        }
        followRules()
        if exchange.rules.awaitsContinue, !awaitsContinue { setDeadline(timeouts.bodyIdle) }
        // What has come of a body goes in the same write.
        guard phase == .responding || inbound.readableBytes == 0 else {
            requestOut = consume out
            return
        }
        connection.send(out)
        buffers.giveBack(consume out)
    }

    func flushRequest() {
        guard requestOut.readableBytes > 0, let upstream = exchange?.upstream else { return }
        // Taken out: sending can lead back to here.
        var out = buffers.empty
        swap(&out, &requestOut)
        upstream.send(out)
        buffers.giveBack(out)
    }
}
