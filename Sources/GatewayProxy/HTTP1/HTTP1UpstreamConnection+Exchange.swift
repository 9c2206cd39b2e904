import GatewayCore
import NIOCore

extension HTTP1UpstreamConnection: UpstreamStream {
    var requestForm: ContentForm { .wire }
    var canRefuse: Bool { false }
    var takesUpgrade: Bool { true }
    var untakenBytes: Int { writer.untakenBytes() }
    var heldBytes: Int { staged.readableBytes + writer.heldBytes }

    func begin(for exchange: ExchangeDriver, answersHead: Bool) {
        assert(self.exchange == nil, "A connection carries two requests.")
        self.exchange = exchange
        hasReceivedBytes = false
        writer.beginMessage()
        clearDeadline()
        phase = .head
        reader.begin(answersHead: answersHead)
        resumeReading()
    }

    // MARK: Request

    func sendHead(
        _ head: borrowing RequestHead,
        _ bytes: ByteBuffer,
        by writer: RequestWriter,
        end: [UInt8]
    ) throws(HeadFault) {
        sendsChunks = if case .chunked = head.framing { true } else { false }
        if staged.readableBytes == 0 { staged = buffers.take() }
        guard writer.write(head, bytes, end: end, into: &staged) else { throw .unwritable }
    }

    func sendAgain(_ unsent: ByteBuffer, isChunked: Bool) {
        sendsChunks = isChunked
        staged = unsent
    }

    func sendContent(_ bytes: ByteBuffer, as form: ContentForm) {
        switch form {
        case .content where sendsChunks: stageChunk(bytes)
        case .content, .wire: sendWire(bytes)
        }
    }

    private func stageChunk(_ content: ByteBuffer) {
        // An empty chunk would be the last one.
        guard content.readableBytes > 0 else { return }
        if staged.readableBytes == 0 { staged = buffers.take() }
        staged.writeString(String(content.readableBytes, radix: 16) + "\r\n")
        staged.writeImmutableBuffer(content)
        staged.writeString("\r\n")
    }

    /// Up to here copying behind what is staged is cheaper than writing from two places.
    private static let maximumJoined = 16_384

    private func sendWire(_ bytes: ByteBuffer) {
        let isJoined = staged.readableBytes > 0 && bytes.readableBytes <= Self.maximumJoined
        guard !isJoined, phase != .closed else {
            staged.writeImmutableBuffer(bytes)
            return
        }
        writer.send(takeStaged(), bytes)
    }

    func sendEnd(trailers: ByteBuffer) {
        guard sendsChunks else { return }
        if staged.readableBytes == 0 { staged = buffers.take() }
        staged.writeString("0\r\n")
        staged.writeImmutableBuffer(trailers)
    }

    func flush() {
        guard staged.readableBytes > 0, phase != .closed else { return }
        let out = takeStaged()
        writer.send(out)
        buffers.giveBack(out)
    }

    func whenSent(_ done: @escaping () -> Void) {
        flush()
        guard phase != .closed, writer.unsent == nil else { return }
        guard !hasDirectSocket || writer.isHoldingBytes() else { return done() }
        writer.afterWrites { [writer] in
            if writer.unsent == nil { done() }
        }
    }

    private func takeStaged() -> ByteBuffer {
        var out = buffers.empty
        swap(&out, &staged)
        return out
    }

    func takeUnsent() -> ByteBuffer? {
        guard var unsent = writer.unsent else { return nil }
        unsent.writeImmutableBuffer(takeStaged())
        return unsent
    }

    // MARK: End

    func release(isReusable: Bool) {
        exchange = nil
        hasUnflushedResponse = false
        guard isReusable, endWhileHeld == .none, reader.isEmpty, reader.head.upstreamKeepsAlive else { return close() }
        returnUnused()
    }

    func returnUnused() {
        guard let id else { return close() }
        becameIdle()
        let keepAliveSeconds = reader.head.keepAliveSeconds
        guard let owner else { return pool.putBack(self, id, keepAliveSeconds: keepAliveSeconds) }
        owner.putBack(self, id, keepAliveSeconds: keepAliveSeconds)
    }

    func abandon(isCut: Bool) {
        exchange = nil
        staged = buffers.empty
        guard phase != .closed else { return }
        // The end of a connection would wait behind what the upstream does not take.
        if phase == .tunnel ? isCut : writer.untakenBytes() > 0 {
            phase = .closed
            writer.reset()
        } else {
            close()
        }
    }

    func finishTunnel(_ whenEnded: @escaping () -> Void) {
        exchange = nil
        tunnelEnded = whenEnded
        setDeadline(responseTimeout)
        closeOutput()
    }

    // MARK: Response

    func process() {
        while !reader.isEmpty {
            switch phase {
            case .head: guard readHead() else { return }
            case .body: guard readContent() else { return }
            case .tunnel: pass(reader.bytes.readableBytes)
            case .inspecting: guard inspect(isLast: false) else { return }
            case .held, .opening: return
            case .idle:
                // Bytes without a request: the last response did not end where its framing said.
                return closeIdle()
            case .closed: reader.bytes = buffers.empty
            }
        }
    }

    private func readHead() -> Bool {
        // The request has not left: these bytes came before it.
        guard writer.unsent == nil else {
            reader.bytes = buffers.empty
            return false
        }
        hasReceivedBytes = true
        guard let exchange else { return false }
        switch reader.readHead() {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
            return false
        case .head: break
        }
        guard let head = reader.takeHead() else { return false }
        if reader.head.isInformational, reader.head.status != 101 {
            exchange.receiveInformational(reader.head, head)
            hasUnflushedResponse = true
            reader.nextHead()
            return true
        }
        reader.beginContent()
        return follow(exchange.receive(reader.head, head), head, exchange)
    }

    /// - Returns: Whether there is more to do with what has come.
    private func follow(
        _ decision: ExchangeDriver.ResponseDecision,
        _ head: ByteBuffer,
        _ exchange: ExchangeDriver
    ) -> Bool {
        // Passing the head on may have found out that the client has left.
        guard self.exchange === exchange else { return false }
        switch decision {
        case .pass(let form):
            self.form = form
            hasUnflushedResponse = true
            if reader.isComplete { exchange.responseCompleted() } else { phase = .body }
            return true
        case .tunnel:
            phase = .tunnel
            hasUnflushedResponse = true
            exchange.tunnelBegan()
            return true
        case .inspect:
            phase = .inspecting
            heldHead = ByteBuffer(buffer: head)
            flushResponse()
            reader.beginInspection()
            return true
        case .hold:
            phase = .held
            isBehindInReading = true
            // A copy: a slice would keep the whole of the buffer that the event loop reads into.
            heldHead = ByteBuffer(buffer: head)
            // An informational response that came with it; the client may wait for it.
            flushResponse()
            exchange.sendAgain()
            return false
        case .over: return false
        }
    }

    private func readContent() -> Bool {
        guard let exchange else { return false }
        // Content that ends with the connection has no framing.
        let isBare = form == .content && !reader.endsWithConnection
        var runs: [Range<Int>] = []
        let forbidden = forbiddenTrailers(exchange)
        let part = isBare ? reader.nextPart(forbidden: forbidden, runs: &runs) : reader.nextPart(forbidden: forbidden)
        switch part {
        case .content(let count, let isLast):
            if isBare { passRuns(runs, of: count) } else { pass(count) }
            if isLast { self.exchange?.responseCompleted() }
        case .trailers(let bytes):
            hasUnflushedResponse = true
            exchange.receive(responseTrailers: bytes)
            exchange.responseCompleted()
        case .needMore: return false
        case .broken:
            fail("It sent a chunked body that is not valid.")
            return false
        case .refusedTrailers(let reason):
            fail("It sent trailers that are not valid: \(reason.rawValue).")
            return false
        }
        return true
    }

    private func forbiddenTrailers(_ exchange: ExchangeDriver) -> [[UInt8]] {
        guard reader.awaitsTrailers else { return [] }
        return reader.head.options.nominatedAsOwned + exchange.namesKeptFromClient
    }

    private func pass(_ count: Int) {
        guard let exchange, count > 0 else { return }
        hasUnflushedResponse = true
        guard !exchange.stage(count, of: &reader.bytes) else { return }
        if let part = reader.bytes.readSlice(length: count) { exchange.receive(content: part) }
    }

    /// Passes on what is between the framing of the chunks.
    private func passRuns(_ runs: [Range<Int>], of count: Int) {
        guard let exchange, let bytes = reader.bytes.readSlice(length: count) else { return }
        hasUnflushedResponse = true
        for run in runs {
            if let content = bytes.getSlice(at: bytes.readerIndex + run.lowerBound, length: run.count) {
                exchange.receive(content: content)
            }
        }
    }

    func fail(_ detail: String) {
        let exchange = exchange.take()
        close()
        exchange?.upstreamBroke(detail)
    }

    func flushResponse() {
        guard hasUnflushedResponse else { return }
        hasUnflushedResponse = false
        exchange?.flushResponse()
    }

    // MARK: Held responses

    /// - Parameter isLast: No more of the body will come.
    /// - Returns: Whether there is more to do with what has come.
    private func inspect(isLast: Bool) -> Bool {
        guard phase == .inspecting, let exchange else { return false }
        let content = reader.inspectedContent(isLast: isLast)
        guard let content else { return false }
        let head = heldHead
        heldHead = buffers.empty
        return follow(exchange.receive(reader.head, head, content: content), head, exchange)
    }

    func endInspection() {
        guard inspect(isLast: true) else { return }
        process()
        flushResponse()
    }

    /// The body that is looked at has ended with the connection.
    func inspectLast() {
        endWhileHeld = .ended
        endInspection()
        if phase != .held { connectionEnded() }
    }

    func passHeldResponse() {
        guard phase == .held, let exchange else { return }
        let head = heldHead
        heldHead = buffers.empty
        guard follow(exchange.passHeld(reader.head, head), head, exchange) else { return }
        process()
        flushResponse()
        if endWhileHeld == .none { resumeReading() } else { connectionEnded() }
    }

    func dropHeldResponse(requestWasSent: Bool) {
        guard phase == .held else { return }
        heldHead = buffers.empty
        reader.dropContent()
        release(isReusable: reader.isComplete && requestWasSent)
    }
}
