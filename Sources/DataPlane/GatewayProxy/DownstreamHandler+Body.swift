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
            end(with: .requestInvalid, problem)
            return false
        }
        switch progress {
        case .forward(let count):
            sendBody(count)
        case .last(let count):
            sendBody(count, isLast: true)
            flushRequest()
        case .trailers(let count):
            trailers.reset()
            sendBody(count)
        case .broken, nil:
            end(with: .requestInvalid, GatewayProblem(.requestRefused, "The chunked body is not valid."))
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

    private func sendBody(_ count: Int, isLast: Bool = false) {
        guard var slice = inbound.readSlice(length: count) else { return }
        exchange?.record.bytesReceived += count
        take(slice, isLast: isLast)
        if requestOut.readableBytes > 0, count <= 16_384 {
            requestOut.writeBuffer(&slice)
            return
        }
        var out = buffers.empty
        swap(&out, &requestOut)
        exchange?.upstream?.send(out, slice)
    }

    /// Tells the exchange of content, before it is sent: sending can lead to the answer, or to another connection.
    private func take(_ bytes: ByteBuffer, isLast: Bool) {
        guard let exchange else { return }
        let count = exchange.held?.readableBytes ?? 0
        let fits = HoldPolicy.fits(bytes.readableBytes, behind: count, limit: limits.replayBodyBytes)
        if case .sendContent(isHeld: true) = exchange.rules.handle(.requestContent(isHeld: fits, isLast: isLast)) {
            // A copy: a slice would keep the whole of the buffer that it came in.
            if exchange.held == nil { exchange.held = ByteBuffer() }
            exchange.held?.writeImmutableBuffer(bytes)
        } else if exchange.held != nil {
            exchange.held = nil
        }
        if isLast { followRules() }
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
            end(with: .requestInvalid, reason.problem("The trailers were", under: lane.limits))
            return false
        case .complete(let output, let consumed):
            inbound.moveReaderIndex(forwardBy: consumed)
            let bytes = ByteBuffer(bytes: output)
            exchange.body.trailersReceived()
            take(bytes, isLast: true)
            requestOut.writeImmutableBuffer(bytes)
            flushRequest()
            return true
        }
    }

    var requestIsComplete: Bool { exchange?.rules.requestIsComplete ?? false }

    /// The client rightly waits for the upstream before it sends its body (RFC 9110 §10.1.1).
    var awaitsContinue: Bool { inbound.readableBytes == 0 && exchange?.rules.awaitsContinue ?? false }
}
