import GatewayCore
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP2

/// From the exchange to the client.
extension HTTP2ClientStream: ClientStream {
    var clientAddress: String? { connection.context?.channel.remoteAddress?.ipAddress }
    var identity: ConnectionContext { connection.identity }
    var isTLS: Bool { connection.isTLS }
    var hasUnreadContent: Bool { input.bytes.readableBytes > 0 || input.hasEnded && !input.isDelivered }
    var unreadBytes: Int { input.bytes.readableBytes }
    var isWritable: Bool { !output.isFull && !isClosed }
    /// What the client's windows, or its connection, have no room for.
    var untakenBytes: Int { output.bytes.readableBytes }

    func resumeRequest() { process() }

    // MARK: Head

    func sendInformational(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID
    ) {
        // One that does not fit is dropped: it is only advice.
        let written = try? write(head, bytes, by: route, options, id: id, tokenNote: nil, date: nil)
        guard let (fields, _) = written else { return }
        connection.write(.headers(.init(headers: fields)), on: self.id)
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
        guard !isWebSocket || !(200..<300).contains(head.status) else { throw .opensNothing }
        let date = head.hasDate ? nil : configuration.shared.clock.now().wall
        let (fields, outcome) = try write(head, bytes, by: route, options, id: id, tokenNote: tokenNote, date: date)
        if case .writtenWithoutCookies = outcome, route.state.route.isFirstDroppedCookie() {
            configuration.shared.logger.warning("\(CookiePolicy.warning(route: route.state.route.plan.name))")
        }
        output.head = fields
        return .content
    }

    private func write(
        _ head: borrowing ResponseHead,
        _ bytes: ByteBuffer,
        by route: CredentialedRoute,
        _ options: ResponseFieldRules.Options,
        id: RequestID,
        tokenNote: String?,
        date: UnixTime?
    ) throws(HeadFault) -> (HPACKHeaders, ResponseWriter.Outcome) {
        var text = configuration.buffers.take()
        defer { configuration.buffers.giveBack(text) }
        let outcome = route.responseWriter.write(
            head,
            bytes,
            id: id,
            persistence: .implied,
            knowsChunks: true,
            rules: route.responseFields,
            options: options,
            tokenNote: tokenNote,
            date: date,
            into: &text
        )
        if case .tooLong = outcome { throw .unwritable }
        let opensWebSocket = isWebSocket && head.status == 101
        let limit = connection.maximumFrame
        guard let fields = HTTP2Messages.response(text, opensWebSocket: opensWebSocket, within: limit) else {
            throw .exceedsFrame
        }
        return (fields, outcome)
    }

    // MARK: Content

    func stageContent(_ count: Int, of buffer: inout ByteBuffer) -> Bool { false }

    func sendContent(_ bytes: ByteBuffer) {
        guard !isClosed, bytes.readableBytes > 0 else { return }
        if output.bytes.readableBytes == 0 {
            // Few bytes must not keep a large buffer while the client takes nothing.
            let isWasteful = bytes.readableBytes < bytes.storageCapacity / 4
            output.bytes = isWasteful ? ByteBuffer(buffer: bytes) : bytes
        } else {
            output.bytes.discardReadBytes()
            output.bytes.writeImmutableBuffer(bytes)
        }
        if output.bytes.readableBytes >= Self.maximumStaged { send() }
        output.isFull = output.bytes.readableBytes >= Self.highWaterMark
    }

    func sendEnd(trailers: ByteBuffer?) {
        output.trailers = trailers.flatMap { HTTP2Messages.trailers($0, within: connection.maximumFrame) }
        output.isComplete = true
    }

    func flush() {
        send()
        connection.flush()
    }

    func finish(requestIsComplete: Bool) { end() }

    func respond(with problem: GatewayProblem, as subject: ProblemSubject, requestIsComplete: Bool) {
        send(configuration.shared.answer(problem, to: subject, of: request, on: connection.identity, isHTTP2: true))
    }

    /// Answers without an exchange, or in its place.
    func send(_ answer: ProblemAnswer) {
        output.head = HTTP2Messages.response(answer, at: configuration.shared.clock.now().wall)
        output.bytes = ByteBuffer(bytes: answer.body)
        end()
    }

    /// The exchange is over, and what waits to be sent is the rest of the response.
    func end() {
        let wasTunnel = isTunnel
        output.isComplete = true
        leaveExchange()
        send()
        connection.flush()
        guard !isClosed else { return }
        // Of a tunnel whose client has not ended its side.
        guard !wasTunnel || !output.hasSentEnd || input.hasEnded else { return reset(.noError) }
        setDeadline(connection.timeouts.response)
    }

    func cut(within limit: TimeAmount?) {
        leaveExchange()
        guard !isClosed else { return }
        output.isCutting = true
        send()
        guard !isClosed else { return }
        setDeadline(limit ?? connection.timeouts.response)
    }

    private func leaveExchange() {
        exchange = nil
        input.isDelivered = true
        (isTunnel, isWebSocket) = (false, false)
        timer.clear()
        dropIncoming()
    }

    private static let maximumStaged = 32_768
    private static let highWaterMark = 65_536
    private static let lowWaterMark = 32_768

    // MARK: Sending

    /// The client lets this stream send more, or less.
    func windowGrew(by increment: Int) {
        // The library has refused windows that are too large.
        _ = output.window.grow(by: increment)
        send()
    }

    /// Sends what the windows allow.
    ///
    /// - Parameter frames: How many with content are sent at most.
    func send(frames: Int = .max) {
        guard !isClosed, !output.isSending else { return }
        output.isSending = true
        sendHead()
        var rest = frames
        while output.bytes.readableBytes > 0, output.window.available > 0, rest > 0, connection.maySend() {
            sendContentFrame()
            rest -= 1
        }
        if output.bytes.readableBytes == 0 { sendEndOrReset() } else { waitForConnection() }
        output.isSending = false
        guard output.isFull, output.bytes.readableBytes < Self.lowWaterMark else { return }
        output.isFull = false
        exchange?.clientBecameWritable()
    }

    private func sendHead() {
        guard let head = output.head.take() else { return }
        let isLast = output.isComplete && output.bytes.readableBytes == 0 && output.trailers == nil
        let promise = isLast ? promiseOfEnd() : nil
        connection.write(.headers(.init(headers: head, endStream: isLast)), on: id, promise: promise)
    }

    private func sendContentFrame() {
        let count = min(
            output.bytes.readableBytes,
            HTTP2Configuration.frameSize,
            output.window.available,
            connection.flow.sending.available
        )
        guard let part = output.bytes.readSlice(length: count) else { return }
        let isLast = output.isComplete && output.bytes.readableBytes == 0 && output.trailers == nil
        let promise = isLast ? promiseOfEnd() : nil
        output.window.spend(count)
        connection.write(.data(.init(data: .byteBuffer(part), endStream: isLast)), on: id, promise: promise)
        connection.spend(count)
    }

    private func sendEndOrReset() {
        if output.isCutting { return reset(.internalError) }
        guard output.isComplete, !output.hasSentEnd, !isClosed else { return }
        let promise = promiseOfEnd()
        if let fields = output.trailers.take() {
            connection.write(.headers(.init(headers: fields, endStream: true)), on: id, promise: promise)
        } else {
            let empty = ByteBuffer()
            connection.write(.data(.init(data: .byteBuffer(empty), endStream: true)), on: id, promise: promise)
        }
    }

    /// The end of the response is about to be written. A client that still sends its request is told to stop, once the response
    /// has left (RFC 9113 section 8.1).
    private func promiseOfEnd() -> EventLoopPromise<Void>? {
        output.hasSentEnd = true
        // For what the library still holds of it.
        setDeadline(connection.timeouts.response)
        guard !input.hasEnded, !isTunnel, let loop = connection.context?.eventLoop else { return nil }
        let promise = loop.makePromise(of: Void.self)
        promise.futureResult.assumeIsolated().whenComplete { [self] _ in
            if !input.hasEnded { reset(.noError) }
        }
        return promise
    }

    private func waitForConnection() {
        guard output.window.available > 0, !output.isWaiting else { return }
        output.isWaiting = true
        connection.flow.waiting.append(self)
    }

    // MARK: Tunnel

    func beginTunnel() {
        isTunnel = true
        input.isDelivered = false
        process()
    }

    func closeOutput() {
        output.isComplete = true
        flush()
    }
}
