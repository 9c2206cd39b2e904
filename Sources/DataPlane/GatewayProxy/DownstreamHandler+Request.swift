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
        switch shared.admission.judge(decoder.head, head.readableBytesUInt8Span, on: listener, last: &lastClient) {
        case .refused(let refusal):
            observeDenial(refusal, id: id)
            let route = refusal.route.map { shared.routes[$0] }
            refuse(refusal.problem, head: head, id: id, route: route, client: refusal.client)
        case .admitted(let admitted):
            let prepared = lane.routes[admitted.match.route]
            if decoder.head.present.contains(.via), hasComeBack(head) {
                let problem = GatewayProblem(.loop, "The request has already passed this gateway.")
                refuse(problem, head: head, id: id, route: prepared.state.route, client: admitted.client)
                return
            }
            begin(head, id: id, admitted, prepared)
        }
    }

    private func begin(
        _ head: consuming ByteBuffer,
        id: consuming RequestID,
        _ admitted: consuming Admission.Admitted,
        _ prepared: consuming PreparedRoute
    ) {
        var chosen: (any CredentialSource)?
        if prepared.isChoosing, let selection = prepared.state.route.selection {
            let route = prepared.state.route
            switch chosenSource(selection, route.subjectField, head) {
            case .success(let source): chosen = source
            case .failure(let problem): return refuseSubject(problem, head, id: id, admitted, route)
            }
        }
        let now = shared.clock.monotonic()
        let isHolding = decoder.head.isIdempotent || (chosen ?? prepared.state.route.source)?.isRenewable ?? false
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
            chosen: chosen,
            body: MessageBody(decoder.head.framing),
            isHolding: isHolding
        )
        self.exchange = exchange
        phase = .waiting
        if case .length(let length) = decoder.head.framing, let problem = tooLong(length) { return refuse(problem) }
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

    private func hasComeBack(_ head: ByteBuffer) -> Bool {
        let bytes = head.readableBytesUInt8Span
        for field in decoder.head.fields where field.kind == .via {
            // `1.1 name (comment), …`: another gateway's name may begin as ours does.
            let words = bytes.string(field.value).split { " \t,".contains($0) }
            if words.contains(where: { $0 == shared.viaName }) { return true }
        }
        return false
    }

    private func observeDenial(_ refusal: Admission.Refusal, id: RequestID) {
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
        if let parked = exchange.parked {
            self.exchange?.parked = nil
            self.exchange?.upstream = parked
            self.exchange?.tokenNote = "rejected; not retried: \(problem.kind.rawValue)"
            phase = exchange.body.isComplete ? .responding : .forwarding
            setDeadline(phase == .responding ? timeouts.response : timeouts.bodyIdle)
            parked.resumeParked()
            return
        }
        exchange.source?.note(.withheld, generation: 0, by: exchange.demand)
        refuse(problem)
    }

    // MARK: Connection

    private func connect(with credential: Credential?, for exchange: ActiveExchange) {
        if let parked = exchange.parked {
            let rejected = exchange.credential?.generation ?? 0
            exchange.source?.note(.replayed, generation: rejected, by: exchange.demand)
            exchange.record.wasReplayed = true
            exchange.parked = nil
            parked.discardParked()
        }
        connect(with: lane.prepare(exchange, with: credential), for: exchange)
    }

    private func connect(with prepared: PreparedRoute, for exchange: ActiveExchange) {
        exchange.authorize(with: prepared)
        let passesAuthorization = prepared.keepsAuthorization && !exchange.stripsAuthorization
        if passesAuthorization, decoder.head.present.contains(.secondAuthorization) {
            refuse(GatewayProblem(.requestRefused, "The request has more than one Authorization."))
            return
        }
        guard !hasLookAlike(exchange) else {
            refuse(GatewayProblem(.requestRefused, "A field's name could be read as one that the gateway sets."))
            return
        }
        connect(exchange, by: prepared)
    }

    private func hasLookAlike(_ exchange: ActiveExchange) -> Bool {
        guard decoder.head.section.hasUnderscore else { return false }
        let head = exchange.head
        return requestWriter(exchange, exchange.prepared).hasLookAlike(decoder.head, head.readableBytesUInt8Span)
    }

    /// - Parameter isFresh: Never a pooled connection: the last one died under this request.
    func connect(_ exchange: ActiveExchange, by prepared: PreparedRoute, isFresh: Bool = false) {
        let pool = prepared.pool
        phase = .waiting
        // A body may turn out to be longer than what is held of it.
        let mayRepeat = decoder.head.isIdempotent && exchange.body.isComplete
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
                connect(exchange, by: exchange.prepared)
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
        case .success(let connection):
            send(exchange, by: exchange.prepared, on: connection, isReused: connection.hasBeenIdle)
        case .failure(let problem): refuse(problem)
        }
        process()
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
        connection.begin(self, answersHead: decoder.head.isHead)
        exchange.upstream = connection
        exchange.record.wasSent = true
        exchange.isOnReusedConnection = isReused
        var out = buffers.take()
        if let unsent = exchange.unsent.take() {
            out = unsent
        } else {
            guard exchange.isAuthorized, write(exchange, by: prepared, into: &out) else {
                return refuse(GatewayProblem(.requestRefused, "The head could not be rewritten."))
            }
            if let held = exchange.held { out.writeImmutableBuffer(held) }
        }
        let isComplete = exchange.body.isComplete
        phase = isComplete ? .responding : .forwarding
        setDeadline(isComplete || awaitsContinue ? timeouts.response : timeouts.bodyIdle)
        // What has come of a body goes in the same write.
        guard isComplete || inbound.readableBytes == 0 else {
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
