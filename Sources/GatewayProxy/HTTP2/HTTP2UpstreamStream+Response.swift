import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// From the upstream to the exchange.
extension HTTP2UpstreamStream {
    // MARK: Response

    func receive(_ arrival: Arrival) {
        guard phase != .over, !hasArrived else { return }
        hasArrived = arrival.isLast
        guard arrivals.isEmpty, takes(arrival) else {
            append(arrival)
            guard phase == .inspecting else { return }
            inspection.receive(arrival)
            return inspect()
        }
        handle(arrival)
    }

    /// Content that waits is joined: a byte in each frame would take a hundred times its size.
    private func append(_ arrival: Arrival) {
        guard case .content(let bytes, let size, let isLast) = arrival,
            case .content(var waiting, let waitingSize, _)? = arrivals.last
        else { return arrivals.append(arrival.copied) }
        arrivals.removeLast()
        waiting.writeImmutableBuffer(bytes)
        arrivals.append(.content(waiting, size: waitingSize + size, isLast: isLast))
    }

    private func takes(_ arrival: Arrival) -> Bool {
        switch (phase, arrival) {
        case (.held, _), (.inspecting, _): false
        case (_, .fields): true
        case (_, .content): exchange?.clientIsWritable ?? true
        }
    }

    func resumeReading() {
        guard !arrivals.isEmpty else { return }
        process()
    }

    private func process() {
        while phase != .over, let first = arrivals.first, takes(first) {
            arrivals.removeFirst()
            handle(first)
        }
        flushResponse()
        if isLost, phase != .held, phase != .over, arrivals.isEmpty { lose(isRefused: false) }
    }

    private func handle(_ arrival: Arrival) {
        guard phase != .over else { return }
        do throws(HTTP2ResponseOrder.Fault) {
            switch arrival {
            case .fields(let fields, let isLast):
                switch try order.receiveFields(isLast: isLast) {
                case .head: try receiveHead(fields, isLast: isLast)
                case .trailers: receiveTrailers(fields)
                }
            case .content(let bytes, let size, let isLast):
                try order.receiveContent(bytes.readableBytes, isLast: isLast)
                if phase == .tunnel {
                    receive(tunnelled: bytes, size: size, isLast: isLast)
                } else {
                    receiveContent(bytes, size: size, isLast: isLast)
                }
            }
        } catch {
            fail(error.detail)
        }
    }

    private func receiveHead(_ fields: HPACKHeaders, isLast: Bool) throws(HTTP2ResponseOrder.Fault) {
        guard let exchange else { return }
        let bytes: [UInt8]
        do throws(HTTP2Malformation) {
            var head = HTTP2ResponseHead(webSocketAccept: webSocketAccept)
            for (name, value, _) in fields {
                if let reason = head.add(name, value) { throw reason }
            }
            bytes = try head.head(isLast: isLast, answersHead: answersHead)
        } catch {
            return fail("It sent a response that is not valid HTTP: \(error.rawValue).")
        }
        let head = ByteBuffer(bytes: bytes)
        decoder.reset()
        switch decoder.decode(head.readableBytesUInt8Span, answersHead: answersHead) {
        case .head: break
        case .needMore: return fail("It sent a response that is not valid HTTP.")
        case .refused(let reason): return fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
        }
        let isInformational = decoder.head.isInformational && decoder.head.status != 101
        try order.receiveHead(decoder.head.framing, isInformational: isInformational, isLast: isLast)
        guard !isInformational else {
            // They are only advice, and nothing bounds what would wait of them.
            guard exchange.clientIsWritable else { return }
            exchange.receiveInformational(decoder.head, head)
            return connection.flushLater(self)
        }
        endsAsChunks = if case .untilClose = decoder.head.framing { true } else { false }
        follow(exchange.receive(decoder.head, head), head, exchange)
    }

    private func follow(_ decision: ExchangeDriver.ResponseDecision, _ head: ByteBuffer, _ exchange: ExchangeDriver) {
        // Passing the head on may have found out that the client has left.
        guard self.exchange === exchange, phase != .over else { return }
        switch decision {
        case .pass:
            phase = .body
            connection.flushLater(self)
            if hasArrived, arrivals.isEmpty { complete(with: nil) }
        case .inspect:
            phase = .inspecting
            heldHead = head
            inspection = Self.newInspection
            for arrival in arrivals { inspection.receive(arrival) }
            flushResponse()
            inspect()
        case .hold:
            phase = .held
            heldHead = head
            flushResponse()
            exchange.sendAgain()
        case .tunnel: beginTunnel(exchange)
        case .over: break
        }
    }

    private func receiveContent(_ bytes: ByteBuffer, size: Int, isLast: Bool) {
        guard let exchange else { return }
        pass(bytes, size: size, to: exchange)
        if isLast, phase != .over { complete(with: nil) }
    }

    /// Hands content to the exchange. The upstream may then send as much again.
    func pass(_ bytes: ByteBuffer, size: Int, to exchange: ExchangeDriver) {
        connection.flushLater(self)
        var content = bytes
        let count = content.readableBytes
        if count > 0, !exchange.stage(count, of: &content) { exchange.receive(content: content) }
        connection.credit(size, of: self)
    }

    private func receiveTrailers(_ fields: HPACKHeaders) {
        guard let exchange else { return }
        var trailers = HTTP2Trailers()
        for (name, value, _) in fields {
            if let reason = trailers.add(name, value) {
                return fail("It sent trailers that are not valid: \(reason.rawValue).")
            }
        }
        let bytes = trailers.section()
        var section = TrailerSection(maxBytes: connection.limits.headerBytes, maxFields: connection.limits.headerFields)
        let forbidden = decoder.head.options.nominatedAsOwned + exchange.namesKeptFromClient
        guard case .complete(let output, _) = section.read(bytes.span, forbidden: forbidden) else {
            return fail("It sent trailers that are not valid.")
        }
        complete(with: ByteBuffer(bytes: output))
    }

    /// - Parameter trailers: With the empty line that ends them.
    private func complete(with trailers: ByteBuffer?) {
        guard let exchange else { return }
        connection.flushLater(self)
        // Where the length is known the client knows the end, and HTTP/1 has no place for trailers.
        if endsAsChunks { exchange.receive(responseTrailers: trailers) }
        exchange.responseCompleted()
    }

    func flushResponse() { exchange?.flushResponse() }

    // MARK: Held responses

    /// Padding takes from the window too, and what is held back is not credited: the limit has to be reached before the window is used up.
    static var newInspection: BodyInspection { BodyInspection(waitingLimit: HTTP2UpstreamConnection.streamWindow / 2) }

    func endInspection() {
        inspection.end()
        inspect()
    }

    /// Lets the exchange see the beginning of the body.
    private func inspect() {
        guard phase == .inspecting, hasArrived || inspection.isEnough, let exchange else { return }
        let content = inspection.content
        inspection = Self.newInspection
        let head = heldHead
        heldHead = ByteBuffer()
        phase = .head
        follow(exchange.receive(decoder.head, head, content: content), head, exchange)
        process()
    }

    func passHeldResponse() {
        guard phase == .held, let exchange else { return }
        // What `follow` compares: the rest of the response may wait behind the head.
        let head = heldHead
        heldHead = ByteBuffer()
        phase = .head
        follow(exchange.passHeld(decoder.head, head), head, exchange)
        process()
    }

    func dropHeldResponse(requestWasSent: Bool) {
        guard phase == .held else { return }
        heldHead = ByteBuffer()
        exchange = nil
        connection.end(self, hasArrived && outgoing.isEnded ? nil : .cancel)
    }
}

extension HTTP2UpstreamStream.Arrival {
    var isLast: Bool {
        switch self {
        case .fields(_, let isLast), .content(_, _, let isLast): isLast
        }
    }

    /// What waits does not keep the buffer that was read into.
    fileprivate var copied: Self {
        guard case .content(let bytes, let size, let isLast) = self else { return self }
        return .content(ByteBuffer(buffer: bytes), size: size, isLast: isLast)
    }
}

extension BodyInspection {
    fileprivate mutating func receive(_ arrival: HTTP2UpstreamStream.Arrival) {
        guard case .content(let bytes, let size, _) = arrival else { return }
        receive(content: bytes.readableBytesView)
        receive(bytes: size)
    }
}
