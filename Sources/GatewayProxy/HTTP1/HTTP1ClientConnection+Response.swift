import GatewayCore
import Logging
import NIOCore

extension HTTP1ClientConnection: ClientStream {
    var clientAddress: String? { context?.channel.remoteAddress?.ipAddress }
    var isTLS: Bool { !hasDirectSocket }
    var hasUnreadContent: Bool { !reader.isEmpty }
    var unreadBytes: Int { reader.bytes.readableBytes }
    var untakenBytes: Int { writer.untakenBytes() }

    func resumeRequest() { process() }

    // MARK: Response

    func sendInformational(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID
    ) {
        // One that does not fit is dropped: it is only advice.
        _ = stage.append { staged in
            route.responseWriter.write(
                head,
                bytes,
                id: id,
                persistence: .implied,
                knowsChunks: true,
                rules: route.responseFields,
                options: options,
                tokenNote: nil,
                date: nil,
                into: &staged
            )
        }
    }

    func sendHead(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        requestIsComplete: Bool
    ) throws(HeadFault) -> ContentForm {
        // HTTP/1.0 clients know no chunks: they get the content, and the end of the connection as its end.
        let isHTTP10 = request.decoder.head.isHTTP10
        let (isUntilClose, isChunked) =
            switch head.framing {
            case .untilClose: (true, false)
            case .chunked: (false, true)
            default: (false, false)
            }
        let endsWithConnection = isHTTP10 && (isUntilClose || isChunked)
        if endsWithConnection || !requestIsComplete || shared.isDraining { keepsAlive = false }
        let persistence: ResponseWriter.Persistence =
            if head.status == 101 { .upgrade } else if keepsAlive { isHTTP10 ? .keepAlive : .implied } else { .close }
        let date = head.hasDate || head.status == 101 ? nil : shared.clock.now().wall
        let outcome = stage.append { staged in
            route.responseWriter.write(
                head,
                bytes,
                id: id,
                persistence: persistence,
                knowsChunks: !isHTTP10,
                rules: route.responseFields,
                options: options,
                tokenNote: tokenNote,
                date: date,
                into: &staged
            )
        }
        switch outcome {
        case .tooLong: throw .unwritable
        case .written: break
        case .writtenWithoutCookies: warnOfCookies(route.state.route)
        }
        sendsChunks = !isHTTP10 && isUntilClose
        return sendsChunks || endsWithConnection ? .content : .wire
    }

    private func warnOfCookies(_ route: CompiledRoute) {
        guard route.isFirstDroppedCookie() else { return }
        shared.logger.warning("\(CookiePolicy.warning(route: route.plan.name))")
    }

    func stageContent(_ count: Int, of buffer: inout ByteBuffer) -> Bool {
        guard sendsChunks else { return stage.take(count, of: &buffer) }
        stage.appendChunk(count, of: &buffer)
        return true
    }

    func sendContent(_ bytes: ByteBuffer) { stage.send(bytes) }

    func sendEnd(trailers: ByteBuffer?) {
        if sendsChunks {
            stage.appendLastChunk(trailers)
        } else if let trailers, !request.decoder.head.isHTTP10 {
            stage.send(trailers)
        }
    }

    func flush() { stage.flush() }

    func finish(requestIsComplete: Bool) {
        let isTunnel = phase == .tunnel
        endExchange()
        flush()
        guard isTunnel || !keepsAlive || !requestIsComplete else { return becomeReady() }
        // Requests that were or are still sent ahead: closing on them would reset the connection and take this answer away.
        let sendsMore = !requestIsComplete || !reader.isEmpty || request.decoder.head.clientKeepsAlive
        closeAfterWrites(lingering: sendsMore)
    }

    func becomeReady() {
        phase = .head
        reader.nextRequest()
        setDeadline(timeouts.idle)
        process()
    }

    func endExchange() {
        if exchange != nil { exchange = nil }
        sendsChunks = false
    }

    // MARK: Tunnel

    func beginTunnel() {
        keepsAlive = false
        phase = .tunnel
        process()
    }

    func closeOutput() {
        // It will be closed when the last bytes of the client are with the upstream.
        guard !clientHasClosedOutput else { return }
        writer.closeOutput()
    }

    // MARK: Problems

    /// Answers a request that no exchange has begun for.
    func refuse(_ problem: GatewayProblem, id: RequestID? = nil, _ refusal: RequestAuthorizer.Refusal? = nil) {
        let id = id ?? configuration.nextRequestID()
        let hasHead = request.bytes.readableBytes > 0
        let route = refusal?.route.map { shared.routes[$0] }
        configuration.observe(problem, refusal, of: request, id: id, from: peer, isTLS: isTLS)
        let disclosesNames =
            refusal?.disclosesNames ?? shared.authorizer.disclosesNames(to: nil, on: identity)
        let subject = ProblemSubject(requestID: id, route: route, disclosesNames: disclosesNames)
        respond(with: problem, as: subject, requestIsComplete: hasHead && request.decoder.head.framing == .none)
    }

    func respond(with problem: GatewayProblem, as subject: ProblemSubject, requestIsComplete: Bool) {
        endExchange()
        let hasHead = request.bytes.readableBytes > 0
        let isDubious = problem.kind.leavesConnectionDubious
        let closes = isDubious || !keepsAlive || !requestIsComplete || !hasHead || request.decoder.head.isHTTP10
        send(shared.answer(problem, to: subject, of: request, on: identity), closes: closes)
    }

    /// Answers the browser of a page without an exchange.
    func answer(_ preflight: Preflight, id: RequestID) {
        let framing = request.decoder.head.framing
        let answer = configuration.answer(preflight, of: request, id: id, isTLS: isTLS)
        send(answer, closes: !keepsAlive || framing != .none || request.decoder.head.isHTTP10)
    }

    func send(_ answer: ProblemAnswer, closes: Bool) {
        let response = ProblemResponse(answer: answer, closes: closes)
        stage.append { response.write(at: shared.clock.now().wall, into: &$0) }
        flush()
        if closes { closeAfterWrites(lingering: true) } else { becomeReady() }
    }
}
