import GatewayCore
import NIOCore

extension DownstreamHandler {
    /// Answers with a problem document, or cuts the connection when an answer has already begun.
    ///
    /// A cut is what a client can see; a short body that looks complete is not.
    func refuse(
        _ problem: GatewayProblem,
        head: ByteBuffer? = nil,
        id: RequestID? = nil,
        route: ServedRoute? = nil,
        client: String? = nil
    ) {
        let hadBegun = exchange?.rules.responseHasBegun ?? false
        let id = id ?? exchange?.record.requestID ?? lane.nextRequestID()
        let route = route ?? exchange?.route
        let chosen = exchange?.chosen
        let exchangeHead = exchange?.head
        let isComplete = exchange.map { $0.rules.requestIsComplete } ?? (head != nil && decoder.head.framing == .none)
        exchange?.record.problem = problem.kind
        if !hadBegun { exchange?.record.status = problem.kind.status }
        if exchange == nil { recordRefusal(problem, id, route, client, head) }
        leaveUpstream()
        finishExchange()
        guard !hadBegun else {
            cut()
            return
        }
        let hasHead = head != nil || phase != .head
        // After a request that could be read in two ways nothing on its connection is to be trusted.
        let isDubious = problem.kind == .requestRefused
        let closes =
            isDubious || !keepsAlive || !isComplete || !hasHead || decoder.head.isHTTP10
        ProblemResponse(
            problem: problem,
            requestID: id.description,
            route: route?.plan.name,
            credential: chosen?.name ?? route?.credentialName,
            strategy: route?.strategy,
            proxyStatus: proxyStatus(problem, route),
            omitsBody: decoder.head.isHead,
            prefersText: hasHead && prefersText(head ?? exchangeHead),
            closes: closes
        )
        .write(name: ProxyShared.name, at: shared.clock.now().wall, into: &responseOut)
        flushResponse()
        if closes {
            closeAfterWrites(lingering: true)
        } else {
            phase = .head
            decoder.reset()
            setDeadline(timeouts.idle)
            process()
        }
    }

    private func proxyStatus(_ problem: GatewayProblem, _ route: ServedRoute?) -> String? {
        guard shared.sendsProxyStatus else { return nil }
        let upstream = problem.kind.concernsUpstream ? route?.plan.upstream.authority : nil
        return ProxyStatus.member(nextHop: problem.nextHop ?? upstream)
    }

    /// The client accepts `text/plain` and says nothing of JSON or of anything at all.
    private func prefersText(_ head: ByteBuffer?) -> Bool {
        guard let bytes = head?.readableBytesUInt8Span else { return false }
        for field in decoder.head.fields where bytes.equalsLowercased(field.name, "accept") {
            let accepted = bytes.string(field.value).lowercased()
            return accepted.contains("text/plain") && !accepted.contains("json") && !accepted.contains("*/*")
        }
        return false
    }

    private func recordRefusal(
        _ problem: GatewayProblem,
        _ id: RequestID,
        _ route: ServedRoute?,
        _ client: String?,
        _ head: ByteBuffer?
    ) {
        shared.observer.finished(
            ExchangeRecord(
                requestID: id,
                lane: lane.slot.number,
                route: route?.number,
                client: client,
                method: head.map { decoder.head.methodName($0.readableBytesUInt8Span) } ?? "",
                status: problem.kind.status,
                problem: problem.kind,
                startedAt: shared.clock.monotonic()
            )
        )
    }

    /// Reports the exchange and forgets it.
    func finishExchange() {
        stopWaiting()
        guard let exchange = self.exchange.take() else { return }
        exchange.record.credential = exchange.credential
        exchange.record.wasReplayed = exchange.rules.wasReplayed
        exchange.record.finishedAt = shared.clock.monotonic()
        shared.observer.finished(exchange.record)
    }

    private func leaveUpstream() {
        guard let exchange else { return }
        if let ticket = exchange.ticket { exchange.source?.cancel(ticket) }
        if let place = exchange.place { exchange.prepared.pool.leave(place) }
        exchange.upstream?.abandon(isCut: wasCut)
        exchange.parked?.abandon(isCut: wasCut)
        self.exchange?.upstream = nil
        self.exchange?.parked = nil
        requestOut = buffers.empty
    }

    // MARK: Client

    /// Both ends of a tunnel have ended: what the client sent last may not have left yet.
    func passOnRest() {
        guard phase == .tunnel, !wasCut, let upstream = exchange?.upstream, upstream.inputHasEnded else { return }
        exchange?.upstream = nil
        if inbound.readableBytes > 0, maySendOn() {
            exchange?.record.bytesReceived += inbound.readableBytes
            upstream.send(inbound)
        }
        upstream.finishTunnel()
    }

    func clientLeft() {
        _ = exchange?.rules.handle(.clientLeft)
        leaveUpstream()
        finishExchange()
    }

    /// The client has sent all it will send.
    ///
    /// A client that asked for the connection to be closed may do so and still read; any other has left, and its upstream
    /// must not work on for nobody.
    func clientClosedOutput() {
        clientHasClosedOutput = true
        switch phase {
        // Nothing more can come, so that nothing is waited for: with TLS, a close_notify.
        case .lingering, .closed:
            phase = .closed
            outlet.closeAtOnce()
        // What waits here may be more requests, the last of which says whether the client still reads.
        case .head, .waiting, .forwarding, .responding, .tunnel: process()
        case .finishing, .cutting: break
        }
    }

    /// The client sends no more; what it sent may still wait here.
    func allInputCame() {
        guard inbound.readableBytes > 0 else { return allInputTaken() }
        guard phase == .waiting || phase == .forwarding || phase == .responding, let exchange else { return }
        // After an early answer a client stops sending and reads on (RFC 9112 §9.5).
        guard requestIsComplete || !exchange.rules.responseHasBegun else { return }
        if hasLeft(behind: exchange.body) { leaveClient() }
    }

    /// Whether the request whose head was just read is of a client that has left: nobody would read its answer, or it lacks a part.
    var isOfClientThatLeft: Bool { clientHasClosedOutput && hasLeft(behind: MessageBody(decoder.head.framing)) }

    /// Whether a client that sends no more has left: a request of it lacks a part, or the last one was not said to be the last.
    ///
    /// - Parameter body: What is still to come of the request at hand; ``inbound`` goes on with it.
    private func hasLeft(behind body: MessageBody) -> Bool {
        if let isGone { return isGone }
        let answer = looksGone(behind: body)
        isGone = answer
        return answer
    }

    /// So many requests are looked through: a client may have sent more than the loop has time for.
    private static let mostLookedThrough = 1000

    private func looksGone(behind first: MessageBody) -> Bool {
        var (body, isLast, mayChange) = (first, !decoder.head.clientKeepsAlive, decoder.head.wantsUpgrade)
        var next = RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        var rest = inbound
        for _ in 0..<Self.mostLookedThrough {
            switch body.extent(of: rest.readableBytesUInt8Span) {
            case .part: return true
            case .rest: return !isLast
            case .broken: return false
            case .more(let start):
                // What follows an Upgrade may be no request.
                guard !isLast, !mayChange else { return false }
                rest.moveReaderIndex(forwardBy: start)
            }
            switch next.decode(rest.readableBytesUInt8Span) {
            case .needMore: return true
            case .refused: return false
            case .head: rest.moveReaderIndex(forwardBy: next.head.end)
            }
            (body, isLast, mayChange) =
                (MessageBody(next.head.framing), !next.head.clientKeepsAlive, next.head.wantsUpgrade)
            next.reset()
        }
        return false
    }

    private func allInputTaken() {
        switch phase {
        case .waiting, .forwarding, .responding:
            // After an early answer a client stops sending and reads on (RFC 9112 §9.5).
            if !requestIsComplete, exchange?.rules.responseHasBegun ?? false { return }
            if !requestIsComplete || decoder.head.clientKeepsAlive { leaveClient() }
        case .tunnel: exchange?.upstream?.closeOutput()
        case .head: closeAfterWrites(lingering: false)
        case .finishing, .lingering, .cutting, .closed: break
        }
    }

    // MARK: Closing

    func drain() {
        isEnding = true
        keepsAlive = false
        guard phase == .head, !decoder.isWithinHead, isWritable || inbound.readableBytes == 0 else { return }
        if isOpening || outlet.hasInput || inbound.readableBytes > 0 {
            // A request, most likely, that is about to come or waits for its turn; or half of an empty line.
            setDeadline(timeouts.linger)
        } else {
            // The last answer may still be on its way to a slow client.
            closeAfterWrites(lingering: false)
        }
    }

    /// Ends the connection of a client that has left, or is broken, and what the upstream does for it. Answers that were written
    /// before may still be read.
    func leaveClient() {
        let hasPart = exchange?.rules.responseHasBegun ?? false
        _ = exchange?.rules.handle(.clientLeft)
        guard hasPart || outlet.isHoldingBytes() else { return closeNow() }
        leaveUpstream()
        finishExchange()
        if hasPart { cut() } else { closeAfterWrites(lingering: false) }
    }

    func closeNow() {
        phase = .closed
        outlet.closeConnection()
        if clientHasClosedOutput { outlet.closeAtOnce() }
    }

    /// The gateway ends, whatever is under way: nobody may take a part of an answer for the whole.
    func stop() {
        let hasPart = exchange?.rules.responseHasBegun ?? false
        if hasPart || phase == .cutting || outlet.isHoldingBytes() { reset() } else { closeNow() }
    }

    /// Ends the connection in a way that no client takes for a good end; what it has not taken yet is lost.
    func reset() {
        phase = .closed
        wasCut = true
        timer.cancel()
        outlet.reset()
    }

    /// - Parameter lingering: The client may still be sending: closing at once would reset the connection and take the
    ///   answer away before it is read.
    func closeAfterWrites(lingering: Bool) {
        guard context != nil else { return }
        phase = .finishing
        // A slow client has as long for the rest of its answer as for any other part of it.
        setDeadline(timeouts.response)
        outlet.afterWrites { [self] in writesDone(lingering: lingering) }
        inbound = buffers.empty
        resumeReading()
    }

    private func writesDone(lingering: Bool) {
        guard phase == .finishing else { return }
        phase = .lingering
        lingersUntil = .now() + (mayLingerOn ? timeouts.lingerInAll : timeouts.linger)
        setDeadline(timeouts.linger)
        if lingering, !clientHasClosedOutput {
            outlet.closeOutput()
        } else {
            context?.channel.close(promise: nil)
        }
        if clientHasClosedOutput { outlet.closeAtOnce() }
    }
}
