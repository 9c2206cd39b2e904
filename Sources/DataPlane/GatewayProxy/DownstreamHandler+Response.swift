import GatewayCore
import Logging
import NIOCore

/// What becomes of a response head.
enum ResponseDecision {
    /// It is written for the client.
    case forward
    /// The same; what follows it is no HTTP.
    case tunnel
    /// Keep it back: the token was rejected and the request can be sent again.
    case park
    case refuse(String, as: ProblemKind = .upstreamInvalidResponse)
}

extension DownstreamHandler {
    /// HTTP/1.0 clients know none: they get the content, and the end of the connection as its end.
    var knowsChunks: Bool { !decoder.head.isHTTP10 }

    /// Decides about the head of a final response, and forwards it unless it is kept back.
    func respond(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        guard let exchange else { return .refuse("Its exchange is over.") }
        let decision = decide(about: head, bytes, to: exchange)
        switch decision {
        case .forward, .tunnel: return forwardHead(head, bytes, of: exchange) ? decision : .refuse(Self.notRewritten)
        case .park, .refuse: return decision
        }
    }

    private static let notRewritten = "Its head could not be rewritten."

    private func decide(
        about head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        to exchange: ActiveExchange
    ) -> ResponseDecision {
        if head.status == 403 { explainAsUser(head, bytes, exchange.route) }
        let rejection = rejection(by: head, bytes, exchange)
        let switchesAsOffered = head.status == 101 && offered(decoder.head, exchange.head, covers: head, bytes)
        let facts = ResponseFacts(status: head.status, rejection: rejection, switchesAsOffered: switchesAsOffered)
        switch exchange.rules.handle(.responseHead(facts)) {
        case .passResponse(let note):
            exchange.note = note
            if note.tellsSource { tellRejected(exchange) }
            return .forward
        case .holdResponse:
            if case .token = rejection { tellRejected(exchange) }
            return .park
        case .tunnel: return .tunnel
        default: return .refuse("It switched to a protocol that was not asked for.", as: .upgradeFailed)
        }
    }

    /// What the response says of the credential that was injected.
    private func rejection(
        by head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        _ exchange: ActiveExchange
    ) -> ResponseFacts.Rejection {
        guard head.status >= 400, exchange.route.policy.retryOn.contains(head.status),
            let credential = exchange.credential, let source = exchange.source
        else { return .none }
        if let answering = source as? any ChallengeAnswering {
            let challenges = AuthChallenge.all(in: head, bytes.readableBytesUInt8Span)
            return .challenge(isAnswered: answering.answers(challenges, to: credential.generation))
        }
        guard TokenRejection.isRejection(head, bytes.readableBytesUInt8Span) else { return .none }
        return .token(isRenewable: source.isRenewable)
    }

    /// Also of one that only a person can replace: it is dead, and the next request is told so.
    private func tellRejected(_ exchange: ActiveExchange) {
        guard let credential = exchange.credential else { return }
        exchange.source?.rejected(generation: credential.generation, by: exchange.demand)
    }

    /// Whether the client asked for what the upstream switches to (RFC 9110 §7.8).
    private func offered(
        _ request: borrowing RequestHead,
        _ requestBytes: ByteBuffer,
        covers response: borrowing ResponseHead,
        _ responseBytes: ByteBuffer
    ) -> Bool {
        guard request.wantsUpgrade else { return false }
        let offered = Self.protocols(request.fields, requestBytes)
        let chosen = Self.protocols(response.fields, responseBytes)
        return !chosen.isEmpty && chosen.allSatisfy { offered.contains($0) }
    }

    private static func protocols(_ fields: [HeadField], _ head: ByteBuffer) -> [String] {
        let bytes = head.readableBytesUInt8Span
        var protocols: [String] = []
        for field in fields where field.kind == .upgrade {
            protocols += bytes.string(field.value).lowercased().split { ", \t".contains($0) }.map(String.init)
        }
        return protocols
    }

    /// What `as_user` takes is set up in Box's console, which the answer does not say. It is passed on as it is; the log tells
    /// whoever wrote the configuration.
    private func explainAsUser(_ head: borrowing ResponseHead, _ bytes: ByteBuffer, _ route: ServedRoute) {
        guard !route.asUserLine.isEmpty else { return }
        let challenges = AuthChallenge.all(in: head, bytes.readableBytesUInt8Span)
        guard challenges.contains(where: { $0.parameters["error"] == "insufficient_scope" }),
            route.mayExplain(at: shared.clock.monotonic())
        else { return }
        shared.logger.warning(
            "Upstream refused as_user (403, insufficient_scope)",
            metadata: [
                "gateway.route": "\(route.plan.name)", "gateway.credential": "\(route.credentialName ?? "")",
                "gateway.reason": "\(Self.asUserAdvice)",
            ]
        )
    }

    private static let asUserAdvice =
        "as_user needs the token of a service account or an administrator, and \"Make API calls using the as-user header\""
        + " among the app's settings in Box's developer console, authorized again after the change; or this call needs a"
        + " scope that the app lacks"

    /// Sends the request again with a newer token; the rejected answer waits in `upstream` until one is there.
    func replay() {
        guard let exchange, let upstream = exchange.upstream else { return }
        exchange.parked = upstream
        exchange.upstream = nil
        requestOut = buffers.empty
        phase = .waiting
        timer.clear()
        authorize(exchange, at: shared.clock.monotonic())
        process()
    }

    func forwardInformational(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard let exchange else { return }
        // An upstream that says that it is still busy is not silent (RFC 9110 §15.2).
        let isWaitedFor = phase == .responding || awaitsContinue
        let step = exchange.rules.handle(.informational(status: head.status))
        if isWaitedFor { followRules() }
        guard step == .passInformational else { return }
        // One that does not fit is dropped: it is only advice.
        _ = exchange.prepared.responseWriter.write(
            head,
            bytes,
            persistence: .implied,
            knowsChunks: true,
            credentialNames: exchange.prepared.credentialNames,
            tokenNote: nil,
            date: nil,
            into: &responseOut
        )
    }

    /// Forwards a head that was kept back.
    ///
    /// - Returns: What is wrong with it; nil when it was written.
    func forwardParked(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> String? {
        guard let exchange, forwardHead(head, bytes, of: exchange) else { return Self.notRewritten }
        return nil
    }

    /// - Returns: Whether it was written.
    private func forwardHead(_ head: borrowing ResponseHead, _ bytes: ByteBuffer, of exchange: ActiveExchange) -> Bool {
        let isHTTP10 = decoder.head.isHTTP10
        let endsWithConnection = isHTTP10 && (head.framing == .untilClose || head.framing == .chunked)
        if endsWithConnection || !exchange.rules.requestIsComplete { keepsAlive = false }
        if shared.isDraining { keepsAlive = false }
        let persistence: ResponseWriter.Persistence =
            if head.status == 101 { .upgrade } else if keepsAlive { isHTTP10 ? .keepAlive : .implied } else { .close }
        exchange.record.status = head.status
        if exchange.held != nil { exchange.held = nil }
        if responseOut.readableBytes == 0 { responseOut = buffers.take() }
        let isWritten = exchange.prepared.responseWriter.write(
            head,
            bytes,
            persistence: persistence,
            knowsChunks: !isHTTP10,
            credentialNames: exchange.prepared.credentialNames,
            tokenNote: exchange.note.fieldValue(generation: exchange.credential?.generation ?? 0),
            date: head.hasDate || head.status == 101 ? nil : shared.clock.now().wall,
            into: &responseOut
        )
        if phase == .responding { setDeadline(timeouts.response) }
        return isWritten
    }

    func forward(_ bytes: ByteBuffer) {
        var rest = bytes
        guard !stage(rest.readableBytes, of: &rest) else { return }
        sent(bytes.readableBytes)
        // Taken out: sending can lead back to here.
        var out = buffers.empty
        swap(&out, &responseOut)
        outlet.send(out, bytes)
        if out.readableBytes > 0 { buffers.giveBack(out) }
    }

    /// Takes content that the upstream sends without chunks for a client that gets it in some.
    func stageChunk(_ content: ByteBuffer) {
        sent(content.readableBytes)
        if responseOut.readableBytes == 0 { responseOut = buffers.take() }
        responseOut.writeString(String(content.readableBytes, radix: 16) + "\r\n")
        responseOut.writeImmutableBuffer(content)
        responseOut.writeString("\r\n")
    }

    func stageLastChunk() {
        if responseOut.readableBytes == 0 { responseOut = buffers.take() }
        responseOut.writeString("0\r\n\r\n")
    }

    /// Takes the first bytes of `source`, unless they are so many that they are better sent from where they are.
    ///
    /// - Returns: Whether they were taken.
    func stage(_ count: Int, of source: inout ByteBuffer) -> Bool {
        let isFirst = responseOut.readableBytes == 0
        guard count <= (isFirst ? Self.stagedBytes : Self.joinedBytes) else { return false }
        sent(count)
        if isFirst { responseOut = buffers.take() }
        unsafe source.withUnsafeReadableBytes { bytes in
            _ = unsafe responseOut.writeBytes(UnsafeRawBufferPointer(rebasing: bytes.prefix(count)))
        }
        source.moveReaderIndex(forwardBy: count)
        return true
    }

    /// Up to here copying behind what is staged is cheaper than writing from two places.
    private static let joinedBytes = 16_384
    /// Up to here what comes next is waited for until the read is dealt with.
    private static let stagedBytes = 1024

    private func sent(_ count: Int) {
        exchange?.record.bytesSent += count
        if phase == .responding || phase == .tunnel { setDeadline(timeouts.response) }
    }

    func flushResponse() {
        guard responseOut.readableBytes > 0 else { return }
        var out = buffers.empty
        swap(&out, &responseOut)
        outlet.send(out)
        buffers.giveBack(out)
    }

    func beginTunnel() {
        if let exchange { exchange.timesWithdrawn = exchange.source?.timesWithdrawn ?? 0 }
        keepsAlive = false
        phase = .tunnel
        setDeadline(timeouts.response)
        process()
    }

    /// The upstream of a tunnel sends no more, and may still read.
    func upstreamClosedOutput() {
        flushResponse()
        // It will be closed when the last bytes of the client are with the upstream.
        guard !clientHasClosedOutput else { return }
        outlet.closeOutput()
    }

    /// Whether a tunnel may go on: not with a credential that an operator has taken away since.
    func maySendOn() -> Bool {
        guard let exchange, let source = exchange.source else { return true }
        return source.timesWithdrawn == exchange.timesWithdrawn
    }

    /// The response is complete; what follows it on the client's side is for ``responseEnded()``.
    ///
    /// - Parameter isDrained: The upstream has taken all that was sent to it.
    /// - Returns: Whether the upstream connection can carry another request.
    func completeResponse(isDrained: @autoclosure () -> Bool) -> Bool {
        guard let exchange else { return false }
        let isReusable = hasSentAll(isDrained: isDrained())
        return exchange.rules.handle(.responseEnded(isReusable: isReusable)) == .finish(reusesConnection: true)
    }

    /// Nothing of the request can be mistaken for the next one on its upstream connection.
    func hasSentAll(isDrained: @autoclosure () -> Bool) -> Bool {
        guard let exchange, exchange.rules.requestIsComplete else { return false }
        return !exchange.rules.contentHasBegun || isDrained()
    }

    /// The response is written whole; the connection goes on with the next request or ends.
    func responseEnded() {
        let isComplete = requestIsComplete
        _ = exchange?.rules.handle(phase == .tunnel ? .tunnelEnded : .responseEnded(isReusable: false))
        finishExchange()
        flushResponse()
        if phase == .tunnel || !keepsAlive || !isComplete {
            // Requests that were or are still sent ahead: closing on them would reset the connection and take this answer away.
            let sendsMore = !isComplete || inbound.readableBytes > 0 || decoder.head.clientKeepsAlive
            closeAfterWrites(lingering: sendsMore)
        } else {
            becomeReady()
        }
    }

    private func becomeReady() {
        phase = .head
        decoder.reset()
        setDeadline(timeouts.idle)
        process()
    }

    // MARK: Failures of the upstream

    /// The connection ended before the response did.
    ///
    /// - Parameters:
    ///   - beforeAnyByte: Of the response.
    ///   - unsent: The request as far as it was to be sent, when nothing of it has left.
    func upstreamLost(beforeAnyByte: Bool, unsent: ByteBuffer?) {
        guard let exchange else { return }
        exchange.upstream = nil
        let loss = ConnectionLoss(hasAnswered: !beforeAnyByte, isUnprocessed: unsent != nil)
        if case .connect(let isFresh) = exchange.rules.handle(.upstreamLost(loss)) {
            exchange.unsent = unsent
            exchange.unsent?.writeImmutableBuffer(requestOut)
            requestOut = buffers.empty
            timer.clear()
            connect(exchange, by: exchange.prepared, isFresh: isFresh)
            process()
            return
        }
        let detail = "\(exchange.route.plan.upstream) closed the connection early."
        refuse(GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated))
    }

    func upstreamBroke(_ detail: String, as kind: ProblemKind) {
        guard let exchange else { return }
        exchange.upstream = nil
        end(with: .responseInvalid, GatewayProblem(kind, "\(exchange.route.plan.upstream): \(detail)"))
    }
}
