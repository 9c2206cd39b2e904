import GatewayCore
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2

/// From the client to the exchange.
extension HTTP2ClientStream {
    // MARK: Head

    func begin(_ fields: HPACKHeaders, hasContent: Bool) {
        input.hasEnded = !hasContent
        let bytes: [UInt8]
        do throws(HTTP2Malformation) {
            let mustBeTLS = connection.identity.intercepted?.scheme == .https
            (bytes, isWebSocket) = try HTTP2Messages.requestHead(fields, hasContent: hasContent, mustBeTLS: mustBeTLS)
        } catch {
            return refuse(malformed: error)
        }
        switch request.decoder.decode(bytes.span) {
        case .head where request.decoder.head.end == bytes.count: break
        case .refused(let reason):
            return refuse(reason.problem("The request was", under: connection.configuration.limits))
        case .head, .needMore: return refuse(malformed: .invalidValue)
        }
        request.bytes = ByteBuffer(bytes: bytes)
        let framing = request.decoder.head.framing
        input.isChunked = if case .chunked = framing { true } else { false }
        input.declared = DeclaredLength(isWebSocket ? .untilClose : framing)
        if case .none = framing { input.isDelivered = true }
        authorize()
    }

    func authorize() {
        if let engine = connection.identity.engine { return answerEngine(engine) }
        guard request.decoder.head.form != .authority else {
            return refuse(GatewayProblem(.methodRefused, "CONNECT is taken on connections of HTTP/1.1 alone."))
        }
        let configuration = connection.configuration
        let bytes = request.bytes
        let id = configuration.nextRequestID()
        var trace: AuthorizationTrace?
        let decision = configuration.shared.authorizer.decide(
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            on: connection.identity,
            cache: &connection.clientCache,
            trace: &trace
        )
        switch consume decision {
        case .refused(let refusal): refuse(refusal.problem, id: id, refusal)
        case .unrouted(let unrouted):
            let refusal = unrouted.refusalInHTTP2
            refuse(refusal.problem, id: id, refusal)
        case .preflight(let preflight): send(configuration.answer(preflight, of: request, id: id, isTLS: isTLS))
        case .admitted(let admitted):
            // What authenticates a connection cannot share it with other streams. Clients then come back with HTTP/1.1.
            guard !configuration.route(admitted.match.route).usesPrivateConnection else {
                return reset(.http11Required)
            }
            begin(id, admitted, configuration)
        }
    }

    private func begin(
        _ id: RequestID,
        _ admitted: consuming RequestAuthorizer.Admitted,
        _ configuration: WorkerConfiguration
    ) {
        let now = configuration.shared.clock.monotonic()
        let bytes = request.bytes
        let exchange = ExchangeDriver(
            id,
            request.decoder.head,
            bytes.readableBytesUInt8Span,
            admitted: admitted,
            client: self,
            configuration: configuration,
            contentIsFramed: false,
            at: now
        )
        self.exchange = exchange
        exchange.begin(at: now)
        process()
    }

    // MARK: Content

    func receive(_ data: ByteBuffer, padding: Int, isLast: Bool) {
        _ = input.window.receive(data.readableBytes + padding)
        input.window.take(padding)
        input.hasEnded = isLast
        guard input.declared.take(data.readableBytes, isLast: isLast) else {
            return broke(.contentLengthMismatch, data)
        }
        guard exchange != nil, !input.isDelivered || isWebSocket else {
            let isQuestion = collect(data)
            drop(data.readableBytes)
            if isQuestion, isLast { ask() }
            return
        }
        if input.bytes.readableBytes == 0, exchange?.intake == .content {
            input.bytes = data
        } else {
            // A slice would keep the whole of the buffer that it came in.
            input.bytes.writeImmutableBuffer(data)
        }
        process()
    }

    func receive(trailers fields: HPACKHeaders, isLast: Bool) {
        input.hasEnded = isLast
        do throws(HTTP2Malformation) {
            guard isLast else { throw .unfinishedTrailers }
            guard input.declared.take(0, isLast: true) else { throw .contentLengthMismatch }
            input.trailers = try HTTP2Messages.trailers(fields)
        } catch {
            return broke(error, nil)
        }
        if exchange != nil, !input.isDelivered { process() } else { ask() }
    }

    /// Throws away content of a request that is over. The client may send as much again.
    private func drop(_ count: Int) {
        connection.flow.receiving.take(count)
        input.window.take(count)
        creditStream()
    }

    private func broke(_ reason: HTTP2Malformation, _ data: ByteBuffer?) {
        if let data { drop(data.readableBytes) }
        connection.shared.logger.debug("HTTP/2 stream reset", metadata: ["gateway.error": "\(reason.rawValue)"])
        resetForFault()
    }

    /// Gives the exchange what it takes; called whenever either has changed.
    func process() {
        guard !input.isProcessing else { return }
        input.isProcessing = true
        while let exchange, !input.isDelivered, exchange.intake == .content {
            if input.bytes.readableBytes > 0 {
                deliver(to: exchange)
            } else if input.hasEnded {
                deliverEnd(to: exchange)
            } else {
                break
            }
        }
        input.isProcessing = false
        creditStream()
        connection.touch(self)
    }

    private func deliver(to exchange: ExchangeDriver) {
        let bytes = input.bytes
        input.bytes = connection.configuration.buffers.empty
        connection.flow.receiving.take(bytes.readableBytes)
        input.window.take(bytes.readableBytes)
        guard !isTunnel else { return exchange.receive(tunnelled: bytes) }
        input.isDelivered = input.hasEnded && !input.isChunked
        exchange.receive(bytes, length: bytes.readableBytes, isLast: input.isDelivered)
    }

    private func deliverEnd(to exchange: ExchangeDriver) {
        input.isDelivered = true
        guard !isTunnel else { return exchange.clientClosedOutput() }
        guard input.isChunked else {
            // A body of known length has no trailers in HTTP/1.
            return exchange.receive(connection.configuration.buffers.empty, length: 0, isLast: true)
        }
        guard let trailers = input.trailers else { return exchange.receive(trailers: Self.noTrailers) }
        let limits = exchange.configuration.limits
        var section = TrailerSection(maxBytes: limits.headerBytes, maxFields: limits.headerFields)
        switch section.read(trailers.span, forbidden: exchange.namesKeptFromUpstream) {
        case .complete(let output, _): exchange.receive(trailers: ByteBuffer(bytes: output))
        case .refused(let reason): exchange.requestBroke(reason.problem("The trailers were", under: limits))
        case .needMore: exchange.requestBroke(GatewayProblem(.requestRefused, "The trailers are not valid."))
        }
    }

    private static let noTrailers = ByteBuffer(string: "\r\n")

    func flushRequest() { exchange?.flushRequest() }

    private func creditStream() {
        guard !input.hasEnded, !isClosed, let increment = input.window.credit() else { return }
        connection.write(.windowUpdate(windowSizeIncrement: increment), on: id)
        connection.flush()
    }

    // MARK: Reload

    func followReload(_ withdrawal: (ProxyShared) -> ReloadWithdrawal) {
        guard let exchange else { return engineFollowsReload() }
        let verdict = connection.configuration.worker.verdict(on: exchange, request, from: connection.identity)
        guard exchange.followReload(withdrawal(exchange.shared), verdict) else { return }
        self.exchange = nil
        connection.takeConfiguration()
        authorize()
    }

    // MARK: Refusal

    /// A malformed request gets no answer: a client that sends it does not know what HTTP is (RFC 9113 section 8.1.1).
    private func refuse(malformed reason: HTTP2Malformation) {
        observe(GatewayProblem(.requestRefused, "The HTTP/2 request is malformed: \(reason.rawValue)."), nil, nil)
        resetForFault()
    }

    /// Answers a request that no exchange has begun for.
    func refuse(_ problem: GatewayProblem, id: RequestID? = nil, _ refusal: RequestAuthorizer.Refusal? = nil) {
        let shared = connection.shared
        let id = observe(problem, id, refusal)
        let subject = ProblemSubject(
            requestID: id,
            route: refusal?.route.map { shared.routes[$0] },
            disclosesNames: refusal?.disclosesNames
                ?? shared.authorizer.disclosesNames(to: nil, on: connection.identity)
        )
        respond(with: problem, as: subject, requestIsComplete: input.hasEnded)
    }

    @discardableResult
    private func observe(
        _ problem: GatewayProblem,
        _ id: RequestID?,
        _ refusal: RequestAuthorizer.Refusal?
    ) -> RequestID {
        let id = id ?? connection.configuration.nextRequestID()
        connection.configuration.observe(problem, refusal, of: request, id: id, from: peer, isTLS: isTLS)
        return id
    }
}
