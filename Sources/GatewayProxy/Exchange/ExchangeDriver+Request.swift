import GatewayCore
import NIOCore

/// From the client to the upstream.
extension ExchangeDriver {
    // MARK: Request

    func send(on stream: any UpstreamStream) {
        guard !client.request.decoder.head.wantsUpgrade || stream.takesUpgrade else { return sendByHTTP1(not: stream) }
        guard case .sendRequest = rules.handle(.connected(isReused: stream.isReused, mayRefuse: stream.canRefuse))
        else {
            return stream.abandon(isCut: false)
        }
        assert(upstream == nil, "A request has two connections.")
        stream.begin(for: self, answersHead: client.request.decoder.head.isHead)
        upstream = stream
        reached(.connection)
        if case .content = stream.requestForm {
            // What an HTTP/1 connection could not send is in its framing, and is the request if nothing else is kept.
            guard unsent.take() == nil || rules.isHolding || !rules.contentHasBegun else {
                let loss = ConnectionLoss(hasAnswered: true, isUnprocessed: false)
                return end(by: rules.handle(.upstreamLost(loss)))
            }
            content.sendUnframed()
        }
        if let unsent = unsent.take() {
            record.trace?.sendUnsent(at: shared.clock.monotonic())
            stream.sendAgain(unsent, isChunked: content.isChunked)
        } else {
            let trace = record.trace
            record.trace?.send(at: shared.clock.monotonic())
            guard isAuthorized else {
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The request is not authorized."))
            }
            do throws(HeadFault) {
                if let problem = try writeHead(on: stream) { return end(with: .requestInvalid, problem) }
            } catch {
                record.trace = trace
                if case .exceedsFrame = error { return sendByHTTP1(insteadOfFrameOn: stream) }
                return end(with: .requestInvalid, GatewayProblem(.requestRefused, "The head could not be rewritten."))
            }
            sendCopy(on: stream)
        }
        record.wasSent = true
        followDeadline()
        if rules.awaitsContinue, client.hasUnreadContent { setDeadline(configuration.timeouts.bodyIdle) }
        // What has come of the content goes in the same write.
        if rules.requestIsComplete || !client.hasUnreadContent { stream.flush() }
        if !route.isUseNoted, let credential { noteFirstUse(of: credential, on: stream) }
    }

    /// The source is told of the first use of a generation when the head has left. It drops repeats from other loops.
    private func noteFirstUse(of credential: Credential, on stream: any UpstreamStream) {
        let (route, source, request) = (route, source, credentialRequest)
        stream.whenSent {
            guard !route.isUseNoted else { return }
            route.isUseNoted = true
            source?.note(.injected, generation: credential.generation, by: request)
        }
    }

    func requestWriter() -> RequestWriter {
        RequestWriter(
            route: route,
            match: admitted.match,
            stripsAuthorization: admitted.stripsAuthorization,
            // A second try has the content at hand.
            sendsExpect: !rules.contentHasBegun
        )
    }

    /// - Returns: Why it may not be sent.
    private func writeHead(on stream: any UpstreamStream) throws(HeadFault) -> GatewayProblem? {
        var writer = requestWriter()
        writer.trace = route.requestFields.ownsTraceParent ? nil : record.trace
        let bytes = client.request.bytes
        if client.request.decoder.head.present.contains(.destination) {
            let problem = writer.takeDestination(
                of: client.request.decoder.head,
                bytes,
                linkRewriter(),
                client: record.client,
                in: shared
            )
            if let problem { return problem }
        }
        if route.addsForwarded {
            writer.forwarded = compiled.forwarded.lines(
                client: client.clientAddress,
                host: bytes.readableBytesUInt8Span.string(client.request.decoder.head.host),
                isTLS: client.isTLS
            )
        }
        let request = client.request
        let end = shared.requestEnd(of: compiled)
            .line(isHTTP10: request.decoder.head.isHTTP10, isHTTP2: request.isHTTP2)
        try stream.sendHead(client.request.decoder.head, bytes, by: writer, end: end)
        return nil
    }

    func sendCopy(on stream: any UpstreamStream) {
        guard let held = content.held else { return }
        content.resumeBehindCopy()
        stream.sendContent(held, as: content.form)
        if let trailers = content.heldTrailers { stream.sendEnd(trailers: trailers) }
    }

    /// Takes content of the request, framing included.
    ///
    /// - Parameter length: Without framing.
    func receive(_ wire: ByteBuffer, length: Int, isLast: Bool) {
        enter()
        defer { leave() }
        setDeadline(configuration.timeouts.bodyIdle)
        content.count(length)
        if let problem = configuration.limits.refusal(ofContent: content.received) {
            return end(with: .requestInvalid, problem)
        }
        record.bytesReceived += wire.readableBytes
        guard let isHeld = contentCame(length, isLast: isLast) else { return }
        let form = content.form
        upstream?.sendContent(content.take(wire, isHeld: isHeld), as: form)
        if isLast {
            requestCompleted()
        } else if let upstream, !upstream.isWritable {
            upstreamIsFull()
        }
    }

    /// - Parameter trailers: With the empty line that ends them.
    func receive(trailers: ByteBuffer) {
        enter()
        defer { leave() }
        guard let isHeld = contentCame(trailers.readableBytes, isLast: true) else { return }
        content.takeTrailers(trailers, isHeld: isHeld)
        switch content.form {
        case .wire: upstream?.sendContent(trailers, as: .wire)
        case .content: upstream?.sendEnd(trailers: trailers)
        }
        requestCompleted()
    }

    /// - Returns: Whether a copy of it is kept; nil when it is not sent.
    func contentCame(_ count: Int, isLast: Bool) -> Bool? {
        let fits = HoldPolicy.fits(count, behind: content.heldBytes, limit: configuration.limits.replayBodyBytes)
        guard case .sendContent(let isHeld) = rules.handle(.requestContent(isHeld: fits, isLast: isLast)) else {
            return nil
        }
        return isHeld
    }

    func requestCompleted() {
        followDeadline()
        upstream?.flush()
    }

    /// The client has sent all that has come so far.
    func flushRequest() {
        enter()
        upstream?.flush()
        countUpload()
        leave()
    }

    /// The rest of the request breaks a rule of its protocol.
    ///
    /// - Parameter length: Of the content before that.
    func requestBroke(_ problem: GatewayProblem, behind length: Int = 0) {
        enter()
        content.count(length)
        end(with: .requestInvalid, configuration.limits.refusal(ofContent: content.received) ?? problem)
        leave()
    }

    /// Nothing of the request can be mistaken for the next one on its upstream connection.
    func hasSentAll(to stream: any UpstreamStream) -> Bool {
        rules.requestIsComplete && (!rules.contentHasBegun || stream.untakenBytes == 0)
    }
}
