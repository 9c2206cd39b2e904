import GatewayCore
import NIOCore

extension UpstreamHandler {
    func process() {
        while buffer.readableBytes > 0 {
            switch phase {
            case .head: guard readHead() else { return }
            case .body: guard readBody() else { return }
            case .trailers: guard readTrailers() else { return }
            case .tunnel:
                guard let client else { return }
                guard client.maySendOn() else { return client.reset() }
                pass(buffer.readableBytes, to: client, isDone: false)
            case .parked, .opening: return
            case .idle:
                // Bytes nobody asked for: the end of the last response was not where we thought, or it was a lie.
                pool.remove(self)
                close()
                return
            case .closed:
                buffer = buffers.empty
                return
            }
        }
    }

    private func readHead() -> Bool {
        // The request has not left: these bytes came before it.
        guard outlet.unsent == nil else {
            buffer = buffers.empty
            return false
        }
        hasReceivedBytes = true
        guard let client else { return false }
        let bytes = buffer
        switch decoder.decode(bytes.readableBytesUInt8Span, answersHead: answersHead) {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent a response that is not valid HTTP: \(reason.rawValue).")
            return false
        case .head: break
        }
        guard let head = buffer.readSlice(length: decoder.head.end) else { return false }
        if decoder.head.isInformational, decoder.head.status != 101 {
            client.forwardInformational(decoder.head, head)
            hasUnflushedResponse = true
            decoder.reset()
            return true
        }
        body = MessageBody(decoder.head.framing)
        switch client.respond(decoder.head, head) {
        case .forward:
            afterHead()
            return true
        case .tunnel:
            phase = .tunnel
            hasUnflushedResponse = true
            client.beginTunnel()
            return true
        case .park:
            phase = .parked
            isBehindInReading = true
            // A copy: a slice would keep the whole of the buffer that the event loop reads into.
            parkedHead = ByteBuffer(buffer: head)
            // An informational response that came with it; the client may wait for it.
            flushClient()
            client.replay()
            return false
        case .refuse(let detail, let kind):
            fail(detail, as: kind)
            return false
        }
    }

    private func afterHead() {
        hasUnflushedResponse = true
        if body.isComplete { finish() } else { phase = .body }
    }

    private func readBody() -> Bool {
        guard let client else { return false }
        guard !getsChunks(client) else {
            passAsChunk(to: client)
            return true
        }
        let knowsChunks = client.knowsChunks
        switch knowsChunks ? bodyProgress() : forwardContent(to: client) {
        case .forward(let count):
            pass(count, to: client, isDone: !knowsChunks)
        case .last(let count):
            pass(count, to: client, isDone: !knowsChunks)
            finish()
        case .trailers(let count):
            phase = .trailers
            trailers.reset()
            pass(count, to: client, isDone: !knowsChunks)
        case .broken:
            fail("It sent a chunked body that is not valid.")
            return false
        }
        return true
    }

    /// For the end of the connection, which is the end of this content: any client that knows chunks gets it in some.
    private func getsChunks(_ client: DownstreamHandler) -> Bool { body.endsWithConnection && client.knowsChunks }

    private func passAsChunk(to client: DownstreamHandler) {
        _ = bodyProgress()
        client.stageChunk(buffer)
        buffer.moveReaderIndex(forwardBy: buffer.readableBytes)
        hasUnflushedResponse = true
    }

    private func bodyProgress() -> MessageBody.Progress {
        let bytes = buffer
        return body.receive(bytes.readableBytesUInt8Span)
    }

    /// Sends on what is between the framing of the chunks.
    private func forwardContent(to client: DownstreamHandler) -> MessageBody.Progress {
        let bytes = buffer
        var runs: [Range<Int>] = []
        let progress = body.receive(bytes.readableBytesUInt8Span) { runs.append($0) }
        for run in runs {
            if let slice = bytes.getSlice(at: bytes.readerIndex + run.lowerBound, length: run.count) {
                client.forward(slice)
            }
        }
        return progress
    }

    private func pass(_ count: Int, to client: DownstreamHandler, isDone: Bool) {
        hasUnflushedResponse = true
        if isDone {
            buffer.moveReaderIndex(forwardBy: count)
        } else if !client.stage(count, of: &buffer), let part = buffer.readSlice(length: count) {
            // Taken out: sending can lead back to here, with more in the buffer.
            client.forward(part)
        }
    }

    private func readTrailers() -> Bool {
        guard let client else { return false }
        let bytes = buffer
        let forbidden = decoder.head.options.nominatedAsOwned + (client.exchange?.prepared.credentialNames ?? [])
        switch trailers.read(bytes.readableBytesUInt8Span, forbidden: forbidden) {
        case .needMore: return false
        case .refused(let reason):
            fail("It sent trailers that are not valid: \(reason.rawValue).")
            return false
        case .complete(let output, let consumed):
            buffer.moveReaderIndex(forwardBy: consumed)
            if client.knowsChunks { client.forward(ByteBuffer(bytes: output)) }
            hasUnflushedResponse = true
            body.trailersReceived()
            finish()
            return true
        }
    }

    private func finish() {
        guard let client else { return }
        self.client = nil
        release(canReuse: client.completeResponse(isDrained: untakenBytes == 0))
        hasUnflushedResponse = false
        client.responseEnded()
    }

    private func fail(_ detail: String, as kind: ProblemKind = .upstreamInvalidResponse) {
        let client = client
        self.client = nil
        close()
        client?.upstreamBroke(detail, as: kind)
    }

    func flushClient() {
        guard hasUnflushedResponse else { return }
        hasUnflushedResponse = false
        client?.flushResponse()
    }

    // MARK: Rejected answers

    /// Sends the answer that was kept back on to the client after all.
    func resumeParked() {
        guard phase == .parked, let client else { return }
        let head = parkedHead
        parkedHead = buffers.empty
        if let reason = client.forwardParked(decoder.head, head) { return fail(reason) }
        afterHead()
        process()
        flushClient()
        if endedWhileParked { connectionEnded() } else { resumeReading() }
    }

    /// Drops the answer that was kept back; the connection is used again if nothing of it is still to come.
    func discardParked() {
        guard phase == .parked else { return }
        // What is still missing of the first request's body would be taken out of the next request.
        let isSentWhole = client?.hasSentAll(isDrained: untakenBytes == 0) ?? false
        client = nil
        parkedHead = buffers.empty
        if !body.isComplete, buffer.readableBytes > 0 {
            let bytes = buffer
            switch body.receive(bytes.readableBytesUInt8Span) {
            case .last(let count): buffer.moveReaderIndex(forwardBy: count)
            case .forward, .trailers, .broken: break
            }
        }
        release(canReuse: body.isComplete && isSentWhole)
    }

    private func release(canReuse: Bool) {
        if canReuse, !endedWhileParked, buffer.readableBytes == 0, decoder.head.upstreamKeepsAlive {
            becameIdle()
            pool.putBack(self)
        } else {
            close()
        }
    }
}
