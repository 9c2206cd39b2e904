import GatewayCore
import NIOCore
import NIOHPACK
import NIOHTTP2

/// One stream of an HTTP/2 connection: brings one request to its exchange, and takes the response.
final class HTTP2ClientStream: DeadlineKeeper {
    let id: HTTP2StreamID
    let connection: HTTP2ClientConnection
    let request: RequestMessage
    var exchange: ExchangeDriver?
    /// For a request of an engine.
    var authorization: AuthorizationExchange?
    /// Content of a call of an engine, as far as it has come; nil where none is awaited.
    var question: ByteBuffer?
    let timer: DeadlineTimer
    var watch = TransferWatch()
    var isClosed = false

    /// It asks for a WebSocket.
    var isWebSocket = false
    /// What follows in both directions is no HTTP.
    var isTunnel = false
    var input: Input
    var output: Output
    /// For routes with `connection_auth: true`, which are refused before they use it.
    var privateConnection: PrivateConnection?

    /// The request on its way to the exchange.
    struct Input {
        /// Counts content that waits for the exchange as held.
        var window: ReceiveWindow
        /// Content that waits for the exchange.
        var bytes: ByteBuffer
        /// As lines of HTTP/1, with the empty line that ends them.
        var trailers: [UInt8]?
        var declared = DeclaredLength(.none)
        /// The content has no declared length, so an HTTP/1 upstream gets it in chunks.
        var isChunked = false
        /// The client has ended its side.
        var hasEnded = false
        /// The exchange has got the end of the request.
        var isDelivered = false
        var isProcessing = false
    }

    /// The response on its way to the client.
    struct Output {
        var window: SendWindow
        /// Leaves with the first content.
        var head: HPACKHeaders?
        /// Content that waits for the windows.
        var bytes: ByteBuffer
        var trailers: HPACKHeaders?
        /// The exchange has ended it.
        var isComplete = false
        var hasSentEnd = false
        /// The response is broken: the stream is reset once what has come of it was sent.
        var isCutting = false
        /// Too much waits: the upstream is read no further.
        var isFull = false
        /// The stream is in the queue of the connection.
        var isWaiting = false
        var isSending = false
    }

    init(_ id: HTTP2StreamID, on connection: HTTP2ClientConnection) {
        self.id = id
        self.connection = connection
        let configuration = connection.configuration
        let limits = configuration.limits
        let empty = configuration.buffers.empty
        timer = DeadlineTimer(queue: configuration.worker.deadlines)
        request = RequestMessage(
            RequestHeadDecoder(maxBytes: limits.headerBytes, maxFields: limits.headerFields),
            empty,
            isHTTP2: true
        )
        output = Output(window: SendWindow(connection.flow.initialSending), bytes: empty)
        input = Input(
            window: ReceiveWindow(target: HTTP2Configuration.streamWindow, size: connection.flow.initialReceiving),
            bytes: empty
        )
    }

    /// That of the exchange, which keeps what it began with.
    var configuration: WorkerConfiguration { exchange?.configuration ?? connection.configuration }

    // MARK: End

    /// The client has broken a rule that concerns this stream alone.
    func resetForFault() {
        reset(.protocolError)
        connection.countFault()
    }

    /// Ends the stream with an error, whatever is under way.
    func reset(_ code: HTTP2ErrorCode) {
        guard !isClosed else { return }
        connection.flushNow()
        connection.write(.rstStream(code), on: id)
        connection.flush()
        // The library tells of the end, unless the connection is lost.
        connection.streamClosed(id, isCut: true)
    }

    /// Both sides have ended, the stream was reset, or the connection is lost.
    ///
    /// - Parameter isCut: Not because both sides have ended.
    func closed(isCut: Bool) {
        guard !isClosed else { return }
        isClosed = true
        timer.cancel()
        let exchange = exchange.take()
        authorization.take()?.cancel()
        // What the client of a tunnel sent last may not have left yet.
        let isFinished = isTunnel && !isCut && exchange?.finishTunnel(input.bytes) ?? false
        dropIncoming()
        output.bytes = connection.configuration.buffers.empty
        privateConnection.take()?.close()
        exchange?.clientLeft(isCut: isCut && !isFinished)
    }

    func dropIncoming() {
        connection.flow.receiving.take(input.bytes.readableBytes)
        input.window.take(input.bytes.readableBytes)
        input.bytes = connection.configuration.buffers.empty
    }

    // MARK: Deadline

    func setDeadline(_ amount: TimeAmount) {
        watch.reset()
        timer.set(connection.clock.now + amount, for: self)
    }

    func clearDeadline() { timer.clear() }

    func deadlinePassed() {
        if let exchange { return exchange.deadlinePassed() }
        if engineIsLate() { return }
        // The rest of the response waits for the client.
        let now = TransferProgress(untakenByClient: untakenBytes, untakenByUpstream: 0, responseSent: nil)
        if watch.hasMoved(now, by: { last, now in now.clientTakes(since: last) }) {
            timer.set(connection.clock.now + connection.timeouts.response, for: self)
        } else {
            reset(output.isCutting ? .internalError : .cancel)
        }
    }
}
