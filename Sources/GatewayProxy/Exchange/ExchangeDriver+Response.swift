import GatewayCore
import NIOCore

/// From the upstream to the client, and both ways in a tunnel.
extension ExchangeDriver {
    // MARK: Response

    /// What becomes of the head of a final response.
    enum ResponseDecision {
        case pass(ContentForm)
        /// What follows it is no HTTP: ``tunnelBegan()`` comes next.
        case tunnel
        /// Keep the response back until so much of its body has come as ``RejectionRule`` looks at, or all of it.
        /// ``receive(_:_:content:)`` comes next.
        case inspect
        /// Keep the response back: the token was rejected and the request can be sent again. ``sendAgain()`` comes next.
        case hold
        /// The exchange is over, and so is the lease of the stream.
        case over
    }

    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        reached(.response)
        if head.status == 403 { AsUserAdvice.log(head, bytes, of: compiled, to: shared) }
        if let rule = rejectionRule, rule.readsBody(of: head, bytes.readableBytesUInt8Span) {
            setDeadline(TimeAmount(RejectionRule.patience))
            isInspecting = true
            return .inspect
        }
        return follow(head, bytes, responseFacts(head, bytes))
    }

    /// - Parameter content: The beginning of the body, which was asked for with ``ResponseDecision/inspect``.
    func receive(_ head: borrowing ResponseHead, _ bytes: ByteBuffer, content: [UInt8]) -> ResponseDecision {
        enter()
        defer { leave() }
        setDeadline(route.state.responsePause)
        return follow(head, bytes, responseFacts(head, bytes, content: content))
    }

    private func follow(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        _ facts: ResponseFacts
    ) -> ResponseDecision {
        let step = rules.handle(.responseHead(facts))
        switch step {
        case .passResponse(let note):
            self.note = note
            if note.tellsSource { tellRejected() }
            return pass(head, bytes)
        case .holdResponse:
            record.trace?.reject(status: head.status, at: shared.clock.monotonic())
            if case .token = facts.rejection { tellRejected() }
            return .hold
        case .tunnel:
            guard case .pass = pass(head, bytes) else { return .over }
            return .tunnel
        default:
            end(by: step)
            return .over
        }
    }

    /// nil also where nothing is injected that could be over.
    private var rejectionRule: RejectionRule? {
        guard let rule = compiled.policy.rejectedWhen, credential != nil else { return nil }
        return rule
    }

    func responseFacts(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        content: [UInt8]? = nil
    ) -> ResponseFacts {
        let sign = rejectionRule?.sign(
            in: head,
            bytes.readableBytesUInt8Span,
            from: (compiled.plan.upstream, upstreamPath),
            content: content
        )
        if sign == nil, (200..<300).contains(head.status), head.grpcStatus != GRPCStatus.unauthenticated.rawValue {
            confirm()
            return ResponseFacts(status: head.status)
        }
        noteRefusal(head, bytes)
        let rejection = TokenRejection.judge(
            head,
            bytes.readableBytesUInt8Span,
            retryOn: compiled.policy.retryOn,
            sign: sign,
            method: record.method,
            credential: credential,
            of: source
        )
        guard head.status == 101 else {
            return ResponseFacts(status: head.status, rejection: counted(rejection))
        }
        let request = client.request.bytes
        let isOffered = UpgradeRule.isOffered(
            by: client.request.decoder.head,
            request.readableBytesUInt8Span,
            head,
            bytes.readableBytesUInt8Span
        )
        return ResponseFacts(status: head.status, rejection: rejection, switchesAsOffered: isOffered)
    }

    /// That the upstream was asked for.
    private var upstreamPath: [UInt8] {
        let bytes = client.request.bytes
        let rest = client.request.decoder.head.forwardedPath(admitted.match, without: route.prefix)
        return compiled.basePath
            + (bytes.getBytes(at: bytes.readerIndex + rest.lowerBound, length: rest.count) ?? [])
    }

    func confirm() {
        guard isAuthorized, route.fixed != nil || route.rejections != nil else { return }
        let request = client.request.bytes
        route.accepted(
            client.request.decoder.head,
            request.readableBytesUInt8Span,
            by: record.client,
            at: shared.clock.monotonic()
        )
        guard rules.wasReplayed, route.fixed == nil, let rejections = route.rejections, let credential else { return }
        let key = rejections.key(Int(route.number), client.request.decoder.head, request.readableBytesUInt8Span)
        rejections.accepted(key, generation: credential.generation, at: shared.clock.monotonic())
    }

    /// Notes what the upstream says of a static credential. It is only reported, since nothing can be renewed.
    private func noteRefusal(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        guard let fixed = route.fixed, isAuthorized else { return }
        if head.status == 101 { return confirm() }
        guard let status = TokenRejection.refusal(head, bytes.readableBytesUInt8Span) else { return }
        let request = client.request.bytes
        let span = request.readableBytesUInt8Span
        let template = fixed.template(Int(route.number), client.request.decoder.head, span)
        fixed.rejected(by: record.client, template, status: status, at: shared.clock.monotonic())
    }

    /// A path that rejects every token must not cause a renewal with each request.
    func counted(_ rejection: ResponseFacts.Rejection) -> ResponseFacts.Rejection {
        let isRenewable: Bool
        switch rejection {
        case .none, .challenge, .tokenWithoutRenewal, .tokenOverBudget: return rejection
        case .token(let canBeRenewed): isRenewable = canBeRenewed
        case .tokenNotSentAgain: isRenewable = true
        }
        guard let rejections = route.rejections, let credential else { return rejection }
        let request = client.request.bytes
        let key = rejections.key(Int(route.number), client.request.decoder.head, request.readableBytesUInt8Span)
        let (now, generation) = (shared.clock.monotonic(), credential.generation)
        guard isRenewable else {
            return rejections.endsToken(key, generation: generation) ? rejection : .tokenWithoutRenewal
        }
        guard !rules.wasReplayed else {
            rejections.rejectedAgain(key, generation: generation, at: now)
            return rejection
        }
        return switch rejections.decision(for: key, generation: generation, client: record.client, at: now) {
        case .counts: rejection
        case .suppressed: .tokenWithoutRenewal
        case .overBudget(let until): .tokenOverBudget(fillsAfter: until - now)
        }
    }

    /// Also of one that only a person can replace: it is dead, and the next request is told so.
    func tellRejected() {
        guard let credential else { return }
        source?.rejected(generation: credential.generation, by: credentialRequest)
    }

    func pass(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        record.status = head.status
        if head.status >= 400 || note != .none {
            record.failure = RequestFailure(
                status: head.status,
                note: note,
                wasReplayed: rules.wasReplayed,
                credential: credential?.name,
                place: requestPlace
            )
        }
        content.stopHolding()
        let tokenNote = note.fieldValue(generation: credential?.generation ?? 0)
        do throws(HeadFault) {
            let form = try client.sendHead(
                head,
                bytes,
                by: route,
                responseOptions(head, bytes),
                id: record.requestID,
                tokenNote: tokenNote,
                requestIsComplete: rules.requestIsComplete
            )
            if case .responding = rules.phase { setDeadline(route.state.responsePause) }
            return .pass(form)
        } catch {
            end(with: .responseUnsendable, problem(error, status: head.status))
            return .over
        }
    }

    private func problem(_ fault: HeadFault, status: Int) -> GatewayProblem {
        switch fault {
        case .unwritable: upstreamProblem(.upstreamInvalidResponse, "Its head could not be rewritten.")
        case .exceedsFrame: upstreamProblem(.upstreamInvalidResponse, UpstreamVersionRule.responseHeadTooLong)
        case .opensNothing: upstreamProblem(.upgradeFailed, UpstreamVersionRule.opensNoWebSocket(status: status))
        }
    }

    /// Passes the head on that was held back.
    func passHeld(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) -> ResponseDecision {
        enter()
        defer { leave() }
        return pass(head, bytes)
    }

    func receiveInformational(_ head: borrowing ResponseHead, _ bytes: ByteBuffer) {
        enter()
        defer { leave() }
        // An upstream that says that it is still busy is not silent (RFC 9110 section 15.2).
        let isWaitedFor = rules.phase == .responding || rules.awaitsContinue && !client.hasUnreadContent
        let step = rules.handle(.informational(status: head.status))
        if isWaitedFor { followDeadline() }
        guard step == .passInformational else { return }
        client.sendInformational(head, bytes, by: route, responseOptions(head, bytes), id: record.requestID)
    }

    /// Takes the first `count` bytes of `buffer`, unless they are so many that ``receive(content:)`` is better.
    ///
    /// - Returns: Whether they were taken.
    @inline(__always)
    func stage(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard client.stageContent(count, of: &buffer) else { return false }
        passed(count)
        return true
    }

    /// Passes content of the response on to the client.
    func receive(content: ByteBuffer) {
        enter()
        passed(content.readableBytes)
        client.sendContent(content)
        leave()
    }

    /// - Parameter trailers: With the empty line that ends them; nil where there are none.
    func receive(responseTrailers trailers: ByteBuffer?) {
        enter()
        defer { leave() }
        passed(trailers?.readableBytes ?? 0)
        client.sendEnd(trailers: trailers)
    }

    func passed(_ count: Int) {
        record.bytesSent += count
        switch rules.phase {
        case .responding, .tunnelling: setDeadline(route.state.responsePause)
        default: break
        }
    }

    func flushResponse() {
        enter()
        client.flush()
        leave()
    }

    /// The response is complete; its connection may go on.
    func responseCompleted() {
        guard let upstream = upstream.take() else { return }
        enter()
        let step = rules.handle(.responseEnded(isReusable: hasSentAll(to: upstream)))
        let isReusable = if case .finish(reusesConnection: true) = step { true } else { false }
        upstream.release(isReusable: isReusable)
        finish()
        leave()
    }

    /// Sends the request again with a newer token. The response that was held back waits until one is there.
    func sendAgain() {
        enter()
        client.clearDeadline()
        authorize(at: shared.clock.monotonic())
        leave()
        client.resumeRequest()
    }

    // MARK: Tunnel

    func tunnelBegan() {
        enter()
        followDeadline()
        client.beginTunnel()
        leave()
    }

    /// Takes what the client of a tunnel sends.
    func receive(tunnelled bytes: ByteBuffer) {
        enter()
        setDeadline(route.state.responsePause)
        record.bytesReceived += bytes.readableBytes
        upstream?.sendContent(bytes, as: .wire)
        upstream?.flush()
        leave()
    }

    /// The client of a tunnel sends no more, and may still read.
    func clientClosedOutput() { upstream?.closeOutput() }

    /// The upstream of a tunnel sends no more, and may still read.
    func upstreamClosedOutput() {
        enter()
        client.flush()
        client.closeOutput()
        leave()
    }

    /// Both ends of a tunnel have ended in good order: what the client sent last may not have left yet.
    ///
    /// - Returns: Whether it is so.
    func finishTunnel(_ rest: ByteBuffer) -> Bool {
        guard rules.phase == .tunnelling, let upstream, upstream.inputHasEnded else { return false }
        if rest.readableBytes > 0 {
            record.bytesReceived += rest.readableBytes
            upstream.sendContent(rest, as: .wire)
            upstream.flush()
        }
        self.upstream = nil
        configuration.worker.finish(EndingTunnel(upstream: upstream, exchange: self))
        return true
    }
}
