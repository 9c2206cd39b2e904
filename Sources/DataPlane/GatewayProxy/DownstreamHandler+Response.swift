import GatewayCore
import NIOCore

/// What becomes of a response head.
enum ResponseDecision {
    case forward
    case tunnel
    /// Keep it back: the token was rejected and the request can be sent again.
    case park
    case refuse(String)
}

extension DownstreamHandler {
    /// HTTP/1.0 clients know no chunks: they get the content, and the end of the connection as its end.
    var removesChunking: Bool { decoder.head.isHTTP10 }

    /// Decides about the head of a final response.
    func respond(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        guard let exchange else { return .refuse("Its exchange is over.") }
        if head.status == 101 {
            return decoder.head.wantsUpgrade ? .tunnel : .refuse("It switched protocols without being asked to.")
        }
        guard exchange.route.policy.retryOn.contains(head.status), let credential = exchange.credential,
            let source = exchange.route.source, TokenRejection.isRejection(head, bytes.readableBytesUInt8Span)
        else { return .forward }
        guard !exchange.hasReplayed else {
            // Renewing for this one too would never end where the upstream refuses every token.
            self.exchange?.tokenNote = "generation=\(credential.generation); fresh; retried=1"
            return .forward
        }
        // Also one that only a person can replace: it is dead, and the next request is told so.
        source.rejected(generation: credential.generation, by: exchange.demand)
        guard source.isRenewable else { return .forward }
        if exchange.canBeSentAgain { return .park }
        self.exchange?.tokenNote = "generation=\(credential.generation); retried=0; reason=\"request body not held\""
        return .forward
    }

    /// Sends the request again with a newer token; the rejected answer waits in `upstream` until one is there.
    func replay() {
        guard let exchange, let upstream = exchange.upstream else { return }
        self.exchange?.hasReplayed = true
        self.exchange?.parked = upstream
        self.exchange?.upstream = nil
        requestOut.clear()
        phase = .waiting
        timer.clear()
        authorize()
        process()
    }

    func forwardInformational(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard !decoder.head.isHTTP10 else { return }
        shared.responseWriter.write(
            head,
            bytes,
            persistence: .implied,
            removesChunking: false,
            tokenNote: nil,
            into: &responseOut
        )
    }

    func forwardHead(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        let isHTTP10 = decoder.head.isHTTP10
        if head.framing == .untilClose || (isHTTP10 && head.framing == .chunked) || !requestIsComplete {
            keepsAlive = false
        }
        if shared.isDraining { keepsAlive = false }
        let persistence: ResponseWriter.Persistence =
            if head.status == 101 { .upgrade } else if keepsAlive { isHTTP10 ? .keepAlive : .implied } else { .close }
        exchange?.responseHasBegun = true
        exchange?.status = head.status
        exchange?.held = ByteBuffer()
        exchange?.isHolding = false
        shared.responseWriter.write(
            head,
            bytes,
            persistence: persistence,
            removesChunking: isHTTP10,
            tokenNote: exchange?.tokenNote,
            into: &responseOut
        )
        if phase == .responding { setDeadline(limits.responseTimeout) }
    }

    func forward(_ bytes: ByteBuffer) {
        exchange?.bytesSent += bytes.readableBytes
        if phase == .responding || phase == .tunnel { setDeadline(limits.responseTimeout) }
        if responseOut.readableBytes > 0, bytes.readableBytes <= 16_384 {
            responseOut.writeImmutableBuffer(bytes)
            return
        }
        writeStaged()
        context?.write(wrapOutboundOut(bytes), promise: nil)
    }

    private func writeStaged() {
        guard responseOut.readableBytes > 0 else { return }
        context?.write(wrapOutboundOut(responseOut), promise: nil)
        responseOut.clear()
    }

    func flushResponse() {
        writeStaged()
        context?.flush()
    }

    func beginTunnel() {
        keepsAlive = false
        phase = .tunnel
        setDeadline(limits.responseTimeout)
        process()
    }

    /// The response is written whole; the connection goes on with the next request or ends.
    func responseEnded() {
        let isComplete = requestIsComplete
        finishExchange()
        flushResponse()
        if phase == .tunnel || !keepsAlive || !isComplete {
            closeAfterWrites(lingering: !isComplete)
        } else {
            becomeReady()
        }
    }

    private func becomeReady() {
        phase = .head
        decoder.reset()
        setDeadline(limits.idleTimeout)
        if clientHasClosedOutput, inbound.readableBytes == 0 { return closeAfterWrites(lingering: false) }
        process()
    }

    // MARK: Failures of the upstream

    /// The connection ended before the response did.
    func upstreamLost(beforeAnyByte: Bool) {
        guard let exchange else { return }
        self.exchange?.upstream = nil
        let head = exchange.head
        if beforeAnyByte, exchange.isOnReusedConnection, !exchange.hasReconnected, exchange.canBeSentAgain,
            IdempotentMethod.contains(head.readableBytesUInt8Span, decoder.head.method)
        {
            self.exchange?.hasReconnected = true
            timer.clear()
            connect(fresh: true)
            process()
            return
        }
        let detail = "\(exchange.route.plan.upstream) closed the connection early."
        refuse(GatewayProblem(.upstreamUnreachable, detail, hopError: .connectionTerminated))
    }

    func upstreamBroke(_ detail: String) {
        guard let exchange else { return }
        self.exchange?.upstream = nil
        refuse(GatewayProblem(.upstreamInvalidResponse, "\(exchange.route.plan.upstream): \(detail)"))
    }
}
