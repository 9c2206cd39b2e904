import GatewayCore
import NIOCore

extension DownstreamHandler {
    /// - Returns: Whether there is more to do with what is in ``inbound``.
    func readBody() -> Bool {
        guard let upstream = exchange?.upstream, upstream.isWritable else { return false }
        setDeadline(timeouts.bodyIdle)
        if exchange?.body.awaitsTrailers == true { return readTrailers() }
        let bytes = inbound
        var length = 0
        let progress = exchange?.body.receive(bytes.readableBytesUInt8Span) { length += $0.count }
        exchange?.contentReceived += length
        if let problem = tooLong(exchange?.contentReceived ?? 0) {
            refuse(problem)
            return false
        }
        switch progress {
        case .forward(let count):
            sendBody(count)
        case .last(let count):
            requestCompleted()
            sendBody(count)
            flushRequest()
        case .trailers(let count):
            trailers.reset()
            sendBody(count)
        case .broken, nil:
            refuse(GatewayProblem(.requestRefused, "The chunked body is not valid."))
            return false
        }
        return true
    }

    /// - Parameter length: Of the content, so far as it is known.
    func tooLong(_ length: Int) -> GatewayProblem? {
        guard let most = limits.requestBodyBytes, length > most else { return nil }
        let limit = "limits.request_body_bytes: \(ConfigUnits.text(bytes: most))"
        return GatewayProblem(.contentTooLarge, "The request was refused: body too long (\(limit)).")
    }

    private func sendBody(_ count: Int) {
        guard var slice = inbound.readSlice(length: count) else { return }
        exchange?.record.bytesReceived += count
        hold(slice)
        if requestOut.readableBytes > 0, count <= 16_384 {
            requestOut.writeBuffer(&slice)
            return
        }
        var out = buffers.empty
        swap(&out, &requestOut)
        exchange?.upstream?.send(out, slice)
    }

    private func hold(_ bytes: ByteBuffer) {
        guard let exchange, exchange.isHolding else { return }
        let count = exchange.held?.readableBytes ?? 0
        guard count + bytes.readableBytes <= limits.replayBodyBytes else {
            exchange.isHolding = false
            exchange.held = nil
            return
        }
        // A copy: a slice would keep the whole of the buffer that it came in.
        if exchange.held == nil { exchange.held = ByteBuffer() }
        exchange.held?.writeImmutableBuffer(bytes)
    }

    private func readTrailers() -> Bool {
        guard let exchange else { return false }
        let forwarded = exchange.route.forwarded == .pass ? [] : ForwardedPolicy.names.map { Array($0.utf8) }
        let owned = exchange.prepared.ownedNames + decoder.head.options.nominatedAsOwned + forwarded
        let bytes = inbound
        switch trailers.read(bytes.readableBytesUInt8Span, forbidden: owned) {
        case .needMore:
            return false
        case .refused(let reason):
            refuse(reason.problem("The trailers were", under: lane.limits))
            return false
        case .complete(let output, let consumed):
            inbound.moveReaderIndex(forwardBy: consumed)
            let bytes = ByteBuffer(bytes: output)
            hold(bytes)
            requestOut.writeImmutableBuffer(bytes)
            self.exchange?.body.trailersReceived()
            requestCompleted()
            flushRequest()
            return true
        }
    }

    /// Before its last bytes are sent, which can lead to the answer, or to another connection and a phase of its own.
    private func requestCompleted() {
        phase = .responding
        setDeadline(timeouts.response)
    }

    var requestIsComplete: Bool { exchange?.body.isComplete ?? false }
    var requestHasBody: Bool { (exchange?.record.bytesReceived ?? 0) > 0 }

    /// The client rightly waits for the upstream before it sends its body (RFC 9110 §10.1.1).
    var awaitsContinue: Bool {
        guard phase == .forwarding, decoder.head.expectsContinue, let exchange else { return false }
        return !exchange.hasContinued && exchange.record.bytesReceived == 0 && inbound.readableBytes == 0
    }
}
